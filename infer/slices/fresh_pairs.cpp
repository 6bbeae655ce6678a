// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/fresh_pairs.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "infer/asking/gf2.hpp"

namespace gpuinfer::infer {

namespace {

// By the number of a slice, whether its lines have their homes in the second part; all in the first where there are
// no parts.
std::vector<bool> second_part(const NamedSlices& slices, std::uint64_t home_mask) {
  const std::vector<std::uint64_t> parities = parities_of_slices(slices.structure);
  std::vector<bool> is_second(slices.member_of_slice.size());
  // Of two slices, one in each part, no other pairs are apart.
  for (std::uint32_t some = 1; is_second.size() > 2 && some < std::uint32_t{1} << parities.size(); ++some) {
    if (sum_of(parities, some) == home_mask) {
      for (std::uint32_t slice = 0; slice < is_second.size(); ++slice) {
        is_second[slice] = parity(slice & some) != 0;
      }
    }
  }
  return is_second;
}

struct SlicedLine {
  std::uint64_t offset = 0;
  std::uint32_t slice = 0;
};

std::vector<SlicedLine> draw_lines(BlockLines& lines, const NamedSlices& slices, std::span<const SlicedBlock> blocks,
                                   std::size_t count) {
  std::vector<SlicedLine> drawn;
  while (drawn.size() < count) {
    const SlicedBlock& block = blocks[lines.random().below(blocks.size())];
    const std::uint64_t place = lines.any_place();
    drawn.push_back({.offset = block.offset + place, .slice = slice_of(slices.structure, block.constants, place)});
  }
  return drawn;
}

// Pairs, and whether each is said to share a slice: every other one is.
struct SaidPairs {
  std::vector<Pair> pairs;
  std::vector<bool> together;
};

SaidPairs draw_pairs(std::span<const SlicedLine> lines, const std::vector<bool>& is_second, std::size_t count,
                     model::Random& random) {
  std::map<std::uint32_t, std::vector<std::uint64_t>> of_slice;
  for (const SlicedLine& line : lines) {
    of_slice[line.slice].push_back(line.offset);
  }
  SaidPairs said;
  while (said.pairs.size() < count) {
    const SlicedLine& one = lines[random.below(lines.size())];
    const SlicedLine& other = lines[random.below(lines.size())];
    const std::vector<std::uint64_t>& alike = of_slice[one.slice];
    const std::uint64_t mate = alike[random.below(alike.size())];
    const bool together = said.pairs.size() % 2 == 0;
    if (together ? mate != one.offset : other.slice != one.slice && is_second[other.slice] == is_second[one.slice]) {
      said.pairs.push_back({one.offset, together ? mate : other.offset});
      said.together.push_back(together);
    }
  }
  return said;
}

// Of those that are read otherwise than said, how many most readings say so of.
std::size_t count_wrong(Contention& contention, const SaidPairs& said) {
  const std::vector<bool> seen = contention.read(said.pairs);
  SaidPairs doubtful;
  for (std::size_t i = 0; i < said.pairs.size(); ++i) {
    if (seen[i] != said.together[i]) {
      doubtful.pairs.push_back(said.pairs[i]);
      doubtful.together.push_back(said.together[i]);
    }
  }
  const std::vector<bool> again = contention.voted(doubtful.pairs);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < again.size(); ++i) {
    wrong += again[i] != doubtful.together[i] ? 1U : 0U;
  }
  return wrong;
}

}  // namespace

FreshPairs ask_fresh_pairs(PairAsker& asker, BlockLines& lines, const NamedSlices& slices,
                           std::span<const SlicedBlock> blocks, std::uint64_t home_mask) {
  constexpr std::size_t pairs_asked = 20000;
  const std::vector<SlicedLine> drawn = draw_lines(lines, slices, blocks, 2 * pairs_asked);
  const SaidPairs said = draw_pairs(drawn, second_part(slices, home_mask), pairs_asked, lines.random());
  return {.asked = pairs_asked,
          .together = static_cast<std::size_t>(std::ranges::count(said.together, true)),
          .wrong = count_wrong(asker.contention(), said)};
}

}  // namespace gpuinfer::infer
