// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/one_set.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "infer/asking/stream.hpp"

namespace gpuinfer::infer {

namespace {

// So many lines from an offset on, which lies at a multiple of their size: all their bits of an address are free.
struct Block {
  std::uint64_t offset = 0;
  unsigned line_bits = 0;
};

std::optional<Block> largest_block(const Interrogator& device, std::uint64_t line_bytes) {
  for (std::uint64_t bytes = std::bit_floor(device.buffer().bytes / line_bytes) * line_bytes; bytes >= line_bytes;
       bytes /= 2) {
    const std::uint64_t offset = bytes_to_next(device.buffer().address, bytes);
    if (offset + bytes <= device.buffer().bytes) {
      return Block{.offset = offset, .line_bits = static_cast<unsigned>(std::countr_zero(bytes / line_bytes))};
    }
  }
  return std::nullopt;
}

// What lines have in common: bits of their addresses, parities of few bits, or of many.
enum class Common : std::uint8_t { bits, sparse_parities, dense_parities };

// The bits of most indices are parities of few.
Common common_in(std::size_t chase) {
  if (chase % 2 == 0) {
    return Common::bits;
  }
  return chase % 4 == 1 ? Common::sparse_parities : Common::dense_parities;
}

// So many lines of the block, which agree in as much as leaves room for them. A step to another one of them changes one
// bit, and with it some of those that count in parities.
Offsets lines_that_agree(const Block& block, std::uint64_t line_bytes, std::uint32_t lines, Common common,
                         model::Random& random) {
  std::vector<unsigned> bits(block.line_bits);
  std::iota(bits.begin(), bits.end(), 0U);
  random.shuffle(bits);
  const auto changing = static_cast<std::size_t>(std::bit_width(lines - 1));
  const std::size_t agreeing = bits.size() - changing;
  const auto goes_along = [&] {
    return common != Common::bits && random.below(common == Common::dense_parities ? 2 : agreeing) == 0;
  };
  std::vector<std::uint64_t> steps;
  for (std::size_t i = 0; i < changing; ++i) {
    std::uint64_t step = std::uint64_t{1} << bits[i];
    for (std::size_t other = changing; other < bits.size(); ++other) {
      step |= goes_along() ? std::uint64_t{1} << bits[other] : 0;
    }
    steps.push_back(step);
  }
  std::vector<std::uint64_t> numbers(std::size_t{1} << changing);
  std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
  random.shuffle(numbers);
  numbers.resize(lines);
  const std::uint64_t origin = random.below(std::uint64_t{1} << block.line_bits);
  Offsets agreed;
  for (const std::uint64_t number : numbers) {
    std::uint64_t line = origin;
    for (std::size_t i = 0; i < changing; ++i) {
      line ^= (number >> i & 1U) != 0 ? steps[i] : 0;
    }
    agreed.push_back(block.offset + line * line_bytes);
  }
  return agreed;
}

}  // namespace

OneSetCheck check_one_set(Interrogator& device, Conflicts& conflicts, std::uint32_t ways, std::uint64_t line_bytes) {
  constexpr std::size_t laps = 2;
  constexpr std::size_t chases_at_once = 16;
  // The more lines there are, the less they have in common, and the more seldom a bit of an index is among that: about
  // once in as many chases as there are lines. Of large caches, or after floods, fewer chases must do.
  const std::size_t fills = device.settings().fills_to_test;
  const std::size_t most_chases = ways * std::max<std::size_t>(1, fills / 125);
  const std::size_t most_accesses = 256 * fills;
  const std::optional<Block> block = largest_block(device, line_bytes);
  OneSetCheck check;
  if (ways < 2 || !block || static_cast<unsigned>(std::bit_width(ways - 1)) >= block->line_bits) {
    return check;
  }
  model::Random random = stream(device.settings(), "lines that agree");
  const std::size_t asked_before = device.accesses_asked();
  try {
    while (check.chases < most_chases && device.accesses_asked() - asked_before < most_accesses) {
      std::vector<Offsets> chased;
      std::vector<model::Question> questions;
      for (std::size_t i = 0; i < std::min(chases_at_once, most_chases - check.chases); ++i) {
        chased.push_back(lines_that_agree(*block, line_bytes, ways, common_in(check.chases + i), random));
        questions.push_back(device.question(conflicts.warm_up(chased.back()), model::repeated(chased.back(), laps)));
      }
      const std::vector<std::vector<float>> answers = device.latencies(questions);
      for (std::size_t i = 0; i < chased.size(); ++i) {
        ++check.chases;
        OverflowEvidence evidence(ways, std::numeric_limits<double>::infinity(),
                                  device.classifier().plausible_excesses());
        evidence.add(device.classifier().log_ratios(answers[i]), ways);
        // One verdict in a million is wrong, and a burst of misreads is over the second time.
        if (evidence.log_ratio() > 0 && conflicts.overflow(chased[i]) && conflicts.overflow(chased[i])) {
          check.overflowed = true;
          return check;
        }
      }
    }
  } catch (const QuestionRefused&) {
    // What was answered before holds.
  }
  return check;
}

}  // namespace gpuinfer::infer
