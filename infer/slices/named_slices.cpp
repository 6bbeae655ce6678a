// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/named_slices.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "infer/asking/gf2.hpp"

namespace gpuinfer::infer {

namespace {

// The first line of a block tells the parities and the number; one line for each digit, which way it counts.
std::optional<SlicedBlock> block_at(PairAsker& asker, const NamedSlices& slices, std::uint64_t offset) {
  const SliceStructure& structure = slices.structure;
  const auto rows = structure.row_masks.size();
  const auto first = asker.slice_among(slices.member_of_slice, offset);
  if (!first) {
    return std::nullopt;
  }
  const std::uint32_t row_flips = *first & ((1U << rows) - 1);
  const std::uint32_t number = *first >> rows;
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < structure.weights.size(); ++i) {
    const std::uint64_t line = offset + structure.digit_steps[i];
    const std::uint64_t rows_there = row_flips ^ masked_parities(structure.digit_steps[i], structure.row_masks);
    const auto numbered = [&](std::uint32_t other) {
      return slices.member_of_slice[(other % structure.modulo) << rows | rows_there];
    };
    pairs.push_back({numbered(number + structure.weights[i]), line});
    pairs.push_back({numbered(number + structure.modulo - structure.weights[i]), line});
  }
  const std::vector<bool> together = asker.surely_together(pairs, sure);
  std::uint32_t digit_flips = 0;
  for (std::size_t i = 0; i < structure.weights.size(); ++i) {
    if (together[2 * i] == together[2 * i + 1]) {
      return std::nullopt;
    }
    digit_flips |= (together[2 * i + 1] ? 1U : 0U) << i;
  }
  return SlicedBlock{.offset = offset, .constants = constants_of(structure, *first, digit_flips)};
}

// The first line of any block, one for each digit, and more of any place. None where a line is in no known slice.
std::optional<std::vector<LabelledLine>> label_lines_of_any_block(PairAsker& asker, BlockLines& lines,
                                                                  const LabelledBlock& block,
                                                                  const SliceStructure& structure) {
  constexpr std::size_t more_lines = 24;
  std::vector<std::uint64_t> places{0};
  places.insert(places.end(), structure.digit_steps.begin(), structure.digit_steps.end());
  for (std::size_t i = 0; i < more_lines; ++i) {
    places.push_back(lines.any_place());
  }
  const std::uint64_t other = lines.any_block();
  std::vector<LabelledLine> labelled;
  for (const std::uint64_t place : places) {
    const auto label = asker.slice_among(block.members, other + place);
    if (!label) {
      return std::nullopt;
    }
    labelled.push_back({.place = place, .label = *label});
  }
  return labelled;
}

std::optional<NamedSlices> choose_senses_once(PairAsker& asker, BlockLines& lines, const LabelledBlock& block,
                                              const SliceStructure& structure, const BlockConstants& constants) {
  constexpr std::size_t blocks_asked = 4;
  std::vector<std::vector<LabelledLine>> seen;
  while (seen.size() < blocks_asked) {
    auto labelled = label_lines_of_any_block(asker, lines, block, structure);
    if (!labelled) {
      return std::nullopt;
    }
    seen.push_back(std::move(*labelled));
  }
  std::optional<NamedSlices> found;
  const auto is_found = [&](SliceStructure candidate) {
    NamedSlices slices = named(std::move(candidate), constants, block);
    if (std::ranges::all_of(seen, [&](const auto& labelled) { return explains(slices, labelled); })) {
      found = std::move(slices);
    }
    return found.has_value();
  };
  const std::uint32_t choices = std::uint32_t{1} << structure.row_masks.size();
  for (std::uint32_t rows = 0; rows < choices; ++rows) {
    if (is_found(with_rows(structure, rows))) {
      return found;
    }
  }
  for (std::uint32_t rows = 0; rows < choices; ++rows) {
    for (std::uint32_t counted = 1; counted < choices; ++counted) {
      for (std::uint32_t weight = 1; weight < structure.modulo; ++weight) {
        if (is_found(with_counted_rows(with_rows(structure, rows), counted, weight))) {
          return found;
        }
      }
    }
  }
  return std::nullopt;
}

// As far as the lines at the steps of digits tell, in a block whose first line has that number.
std::vector<std::uint32_t> possible_flips(const NamedSlices& slices, std::span<const LabelledLine> lines,
                                          std::uint32_t number) {
  const SliceStructure& structure = slices.structure;
  std::vector<std::uint32_t> possible{0};
  for (std::size_t i = 0; i < structure.weights.size(); ++i) {
    const auto line = std::ranges::find(lines, structure.digit_steps[i], &LabelledLine::place);
    const std::uint32_t flip = std::uint32_t{1} << i;
    if (line == lines.end()) {
      const std::size_t count = possible.size();
      for (std::size_t j = 0; j < count; ++j) {
        possible.push_back(possible[j] | flip);
      }
    } else if (slices.slice_of_label[line->label] >> structure.row_masks.size() !=
               (number + structure.weights[i]) % structure.modulo) {
      for (std::uint32_t& flips : possible) {
        flips |= flip;
      }
    }
  }
  return possible;
}

}  // namespace

NamedSlices named(SliceStructure structure, const BlockConstants& constants, const LabelledBlock& block) {
  NamedSlices slices{.structure = std::move(structure),
                     .slice_of_label = {},
                     .member_of_slice = std::vector<std::uint64_t>(block.members.size())};
  for (const std::uint64_t member : block.members) {
    slices.slice_of_label.push_back(slice_of(slices.structure, constants, member - block.offset));
    slices.member_of_slice[slices.slice_of_label.back()] = member;
  }
  return slices;
}

SliceStructure with_rows(SliceStructure structure, std::uint32_t rows) {
  for (std::uint64_t& mask : structure.digit_masks) {
    mask ^= sum_of(structure.row_masks, rows);
  }
  return structure;
}

SliceStructure with_counted_rows(SliceStructure structure, std::uint32_t rows, std::uint32_t weight) {
  std::uint64_t step = structure.row_steps[static_cast<std::size_t>(std::countr_zero(rows))];
  for (std::size_t i = 0; i < structure.weights.size(); ++i) {
    step ^= parity(step & structure.digit_masks[i]) != 0 ? structure.digit_steps[i] : 0;
  }
  structure.weights.push_back(weight);
  structure.digit_masks.push_back(sum_of(structure.row_masks, rows));
  structure.digit_steps.push_back(step);
  return structure;
}

bool explains(const NamedSlices& slices, std::span<const LabelledLine> lines) {
  const SliceStructure& structure = slices.structure;
  const std::uint32_t first = slices.slice_of_label[lines.front().label];
  const std::vector<std::uint32_t> possible = possible_flips(slices, lines, first >> structure.row_masks.size());
  return std::ranges::any_of(possible, [&](std::uint32_t digit_flips) {
    const BlockConstants constants = constants_of(structure, first, digit_flips);
    return std::ranges::all_of(lines, [&](const LabelledLine& line) {
      return slice_of(structure, constants, line.place) == slices.slice_of_label[line.label];
    });
  });
}

std::optional<NamedSlices> choose_senses(PairAsker& asker, BlockLines& lines, const LabelledBlock& block,
                                         const SliceStructure& structure, const BlockConstants& constants) {
  std::optional<NamedSlices> slices;
  for (int attempt = 0; attempt < attempts_asked && !slices; ++attempt) {
    slices = choose_senses_once(asker, lines, block, structure, constants);
  }
  return slices;
}

std::vector<SlicedBlock> find_neighbours(PairAsker& asker, BlockLines& lines, const NamedSlices& slices) {
  constexpr std::uint64_t most_pairs = 24;
  std::vector<SlicedBlock> blocks;
  for (std::uint64_t i = 0; i < std::min(most_pairs, lines.blocks() / 2); ++i) {
    const std::uint64_t even = lines.random().below(lines.blocks() / 2) * 2;
    for (const std::uint64_t number : {even, even + 1}) {
      std::optional<SlicedBlock> block;
      for (int attempt = 0; attempt < attempts_asked && !block; ++attempt) {
        block = block_at(asker, slices, lines.block(number));
      }
      if (!block) {
        return {};
      }
      blocks.push_back(*block);
    }
  }
  return blocks;
}

std::optional<SlicedBlock> confirmed_block_at(PairAsker& asker, BlockLines& lines, const NamedSlices& slices,
                                              std::uint64_t offset) {
  constexpr std::size_t lines_asked = 12;
  for (int attempt = 0; attempt < attempts_asked; ++attempt) {
    const std::optional<SlicedBlock> block = block_at(asker, slices, offset);
    if (!block) {
      continue;
    }
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < lines_asked; ++i) {
      const std::uint64_t place = lines.any_place();
      pairs.push_back({slices.member_of_slice[slice_of(slices.structure, block->constants, place)], offset + place});
    }
    if (std::ranges::all_of(asker.surely_together(pairs, sure), std::identity{})) {
      return block;
    }
  }
  return std::nullopt;
}

}  // namespace gpuinfer::infer
