// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/whole_lines.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/cache/granularity.hpp"

namespace gpuinfer::infer {

namespace {

// A load of one part of a line, or of two, the first of which is the same for a line each time.
struct LineVisit {
  std::size_t first = 0;  // place of its first load in the sequence
  std::size_t line = 0;
  bool is_of_two = false;
};

}  // namespace

WholenessCheck check_whole_lines(Interrogator& device, const Offsets& lines, std::uint64_t line_bytes,
                                 std::uint64_t sector_bytes) {
  constexpr std::size_t visits_wanted = 4000;
  model::Random random = stream(device.settings(), "whole lines");
  const std::uint64_t words = sector_bytes / model::load_bytes;
  WholenessCheck check;
  if (line_bytes == model::load_bytes || lines.empty()) {
    return check;
  }
  // Halves that lie far apart are the likeliest to part.
  const std::uint64_t sectors = line_bytes / sector_bytes;
  std::vector<LineVisit> visits;
  AccessSequence record;
  for (std::size_t number = 0; number < visits_wanted; ++number) {
    const std::size_t line = random.below(lines.size());
    const bool is_of_two = random.below(2) == 0;
    visits.push_back({.first = record.size(), .line = line, .is_of_two = is_of_two});
    const bool in_upper_half = line % 2 == 0;
    const std::uint64_t half = line_bytes / 2;
    const std::uint64_t near = sectors > 1 ? half / sector_bytes * sector_bytes : words / 2 * model::load_bytes;
    const std::uint64_t low = lines[line];
    const std::uint64_t high = lines[line] + near;
    record.push_back(in_upper_half ? high : low);
    if (is_of_two) {
      record.push_back(in_upper_half ? low : high);
    }
  }
  const model::Question question = device.question({}, record);
  const std::vector<float> cycles = device.latencies({&question, 1}).front();
  const std::vector<Reading> readings = device.classifier().readings(cycles);
  std::vector<std::optional<Reading>> expected(lines.size());  // of the second part, as the first has been since
  for (const auto& [first, line, is_of_two] : visits) {
    std::optional<Reading>& second = expected[line];
    if (readings[first] == Reading::unclear) {
      second.reset();
    } else if (second && readings[first] == Reading::miss) {
      second = Reading::miss;
    }
    if (!is_of_two) {
      continue;
    }
    const Reading reading = readings[first + 1];
    const std::optional<Reading> due = sectors > 1 ? second : std::optional(Reading::hit);
    if (due && reading != Reading::unclear) {
      ++check.loads;
      check.torn += reading != *due ? 1U : 0U;
    }
    second = Reading::hit;
  }
  const double misread = std::max(device.classifier().hit_misread_bound(), device.classifier().miss_misread_bound());
  check.holds =
      check.loads == 0 || binomial_upper_tail(check.torn, check.loads, std::min(1.0, 2 * misread)) > wrong_verdict;
  return check;
}

namespace {

// Neighbours, both of which are loaded at a time, or one each time the same.
enum class Of : std::uint8_t { one, both };

struct HitsAndMisses {
  std::size_t hits = 0;
  std::size_t misses = 0;
};

// Adds so many random loads of so many pairs.
void load_pairs(Interrogator& device, std::uint64_t sector_bytes, std::uint64_t pairs, Of of, std::size_t recorded,
                model::Random& random, HitsAndMisses& seen) {
  constexpr std::uint64_t laps_before = 4;
  const std::uint64_t start = aligned_start(device);
  std::vector<bool> is_upper(pairs);
  std::generate(is_upper.begin(), is_upper.end(), [&] { return random.below(2) == 1; });
  const auto load = [&](AccessSequence& sequence) {
    const std::uint64_t pair = random.below(pairs);
    const std::uint64_t first = start + 2 * pair * sector_bytes + (is_upper[pair] ? sector_bytes : 0);
    sequence.push_back(first);
    if (of == Of::both) {
      sequence.push_back(is_upper[pair] ? first - sector_bytes : first + sector_bytes);
    }
  };
  AccessSequence warm;
  AccessSequence record;
  while (warm.size() < laps_before * pairs * (of == Of::both ? 2 : 1)) {
    load(warm);
  }
  while (record.size() < recorded) {
    load(record);
  }
  const model::Question question = device.question(std::move(warm), std::move(record));
  for (const Reading reading : device.classifier().readings(device.latencies({&question, 1}).front())) {
    seen.hits += reading == Reading::hit ? 1U : 0U;
    seen.misses += reading == Reading::miss ? 1U : 0U;
  }
}

// The share of hits, with a certainty of all but `wrong_verdict`.
std::pair<double, double> share_of_hits(const HitsAndMisses& seen, Of of) {
  // Two loads of a pair may say the same.
  const std::size_t independent = of == Of::both ? 2 : 1;
  return wilson_interval(seen.hits / independent, (seen.hits + seen.misses) / independent, 1 - wrong_verdict);
}

// Takes turns so often with the loads of either kind: a cache that changes does so under both.
SectorRoom find_sector_room(Interrogator& device, std::uint64_t sector_bytes, std::uint64_t likely_lines,
                            std::size_t turns, model::Random& random) {
  // A pool of which more is present says little: all of it may fit.
  constexpr double most_present = 0.6;
  constexpr double least_present = 0.02;
  constexpr double most_unlike = 1.25;
  constexpr std::uint64_t most_pairs = 1U << 16U;
  constexpr std::size_t loads = 1U << 15U;
  const std::uint64_t pairs_of_buffer = (device.buffer().bytes - aligned_start(device)) / sector_bytes / 2;
  SectorRoom room;
  for (std::uint64_t pairs = std::min(pairs_of_buffer, 4 * likely_lines); pairs > 1 && pairs <= most_pairs;
       pairs *= 2) {
    if (pairs > pairs_of_buffer) {
      break;
    }
    const std::size_t before = device.accesses_asked();
    HitsAndMisses of_ones;
    HitsAndMisses of_both;
    for (std::size_t turn = 0; turn < turns; ++turn) {
      load_pairs(device, sector_bytes, pairs, Of::one, loads / turns, random, of_ones);
      if (share_of_hits(of_ones, Of::one).second > most_present) {
        break;
      }
      load_pairs(device, sector_bytes, pairs / 2, Of::both, loads / turns, random, of_both);
    }
    const auto [ones_low, ones_high] = share_of_hits(of_ones, Of::one);
    if (ones_high > most_present) {
      continue;
    }
    const auto [both_low, both_high] = share_of_hits(of_both, Of::both);
    room.loads = device.accesses_asked() - before;
    room.present = static_cast<std::uint64_t>((ones_low + ones_high) / 2 * static_cast<double>(pairs));
    room.is_alone =
        both_low > least_present && both_high <= most_unlike * ones_low && ones_high <= most_unlike * both_low;
    return room;
  }
  return room;
}

}  // namespace

SectorRoom find_sector_room(Interrogator& device, std::uint64_t sector_bytes, std::uint64_t likely_lines) {
  constexpr std::size_t turns_where_unlike = 16;
  model::Random random = stream(device.settings(), "room of sectors");
  const SectorRoom room = find_sector_room(device, sector_bytes, likely_lines, 1, random);
  if (room.is_alone || room.present == 0 || device.buffer().nearer_bytes) {
    return room;
  }
  try {
    return find_sector_room(device, sector_bytes, likely_lines, turns_where_unlike, random);
  } catch (const QuestionRefused&) {
    return room;
  }
}

}  // namespace gpuinfer::infer
