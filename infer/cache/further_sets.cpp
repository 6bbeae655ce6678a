// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/further_sets.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <unordered_set>
#include <vector>

#include "infer/asking/stream.hpp"
#include "infer/cache/granularity.hpp"
#include "infer/cache/set_map.hpp"
#include "model/cache_simulator.hpp"
#include "model/replacement.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::uint32_t most_fills_of_way = 16;

// How many fresh lines for each way drive a line out of a set, whatever else was loaded there first. None: it stays.
std::optional<std::uint32_t> fills_that_drive_out(const model::Replacement& policy, std::uint32_t ways) {
  if (!model::is_deterministic(policy)) {
    return most_fills_of_way;
  }
  const auto simulator = model::CacheSimulator::make(model::one_set(policy, ways), 0);
  for (std::uint32_t fills = 2; fills <= most_fills_of_way; fills *= 2) {
    bool always_goes = true;
    for (std::uint64_t before = 0; before < ways; ++before) {
      AccessSequence lines(before + 1 + std::uint64_t{fills} * ways);
      std::iota(lines.begin(), lines.end(), 0);
      simulator->put_into(model::StartState::clean);
      simulator->play(lines, {});
      always_goes = always_goes && !simulator->look_up(model::Address{before}).way;
    }
    if (always_goes) {
      return fills;
    }
  }
  return std::nullopt;
}

// Different lines of which the table says nothing.
Offsets lines_beyond(const Interrogator& device, const model::CacheDescription& cache, std::size_t count,
                     model::Random& random) {
  const std::uint64_t start = aligned_start(device);
  const std::uint64_t lines_of_buffer = (device.buffer().bytes - start) / *cache.line_bytes;
  std::unordered_set<std::uint64_t> drawn;
  Offsets lines;
  for (std::size_t draws = 0; lines.size() < count && draws < 8 * count; ++draws) {
    const std::uint64_t offset = start + random.below(lines_of_buffer) * *cache.line_bytes;
    if (!model::covers(*cache.index, device.address_of(offset)) && drawn.insert(offset).second) {
      lines.push_back(offset);
    }
  }
  return lines;
}

// Which of `lines` are there after `others`. Those that were loaded last are looked for first, as they may have driven
// out the others.
Offsets staying(Interrogator& device, Offsets lines, const Offsets& others) {
  AccessSequence warm(lines.begin(), lines.end());
  warm.insert(warm.end(), others.begin(), others.end());
  std::ranges::reverse(lines);
  const model::Question question = device.question(std::move(warm), AccessSequence(lines.begin(), lines.end()));
  const std::vector<Reading> readings = device.classifier().readings(device.latencies({&question, 1}).front());
  Offsets stay;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (readings[i] == Reading::hit) {
      stay.push_back(lines[i]);
    }
  }
  return stay;
}

}  // namespace

std::optional<std::string> why_further_sets(Interrogator& device, const model::CacheDescription& cache) {
  device.inquire("lines beyond the table, after more lines of each set than it holds",
                 "those that stay lie in sets of their own");
  const std::vector<std::uint32_t>& ways = *cache.ways;
  const auto fills = fills_that_drive_out(*cache.replacement, std::ranges::max(ways));
  if (!fills) {
    device.learned("the policy keeps lines of known sets, too");
    return "the table of sets ends before the buffer, and the policy may keep lines of any set, so it is not known "
           "whether there are further sets";
  }
  model::Random random = stream(device.settings(), "lines beyond a table");
  constexpr std::size_t lines_of_set = 8;
  constexpr std::size_t fewest_lines = 1024;
  const Offsets lines = lines_beyond(device, cache, std::max(fewest_lines, lines_of_set * ways.size()), random);
  std::vector<std::uint32_t> wanted(ways);
  std::ranges::transform(wanted, wanted.begin(), [&](std::uint32_t each) { return each * *fills; });
  const LinesOfSets known(device, *cache.index, *cache.line_bytes);
  const std::size_t at_once = std::max<std::size_t>(64, ways.size());
  std::size_t seen = 0;
  try {
    for (std::size_t begin = 0; begin < lines.size(); begin += at_once) {
      Offsets batch(lines.begin() + static_cast<std::ptrdiff_t>(begin),
                    lines.begin() + static_cast<std::ptrdiff_t>(std::min(begin + at_once, lines.size())));
      // Misreads do not come again.
      constexpr int times = 3;
      for (int time = 0; time < times && !batch.empty(); ++time) {
        Offsets others;
        for (const Offsets& of_set : known.draw(wanted, random)) {
          others.insert(others.end(), of_set.begin(), of_set.end());
        }
        random.shuffle(others);
        batch = staying(device, std::move(batch), others);
      }
      seen += batch.size();
    }
  } catch (const QuestionRefused&) {
    device.learned("not recorded");
    return "the table of sets ends before the buffer, and nothing that was recorded tells whether there are further "
           "sets";
  }
  if (seen == 0) {
    device.learned("of " + std::to_string(lines.size()) + " lines none stays");
    return std::nullopt;
  }
  const std::string sentence = std::to_string(seen) + " of " + std::to_string(lines.size()) +
                               " lines beyond the table of sets stay when all sets that it has overflow, so there are "
                               "further ones";
  device.learned(sentence);
  return sentence;
}

}  // namespace gpuinfer::infer
