// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/named_slices.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <utility>

#include "infer/asking/gf2.hpp"
#include "infer/slices/counted_rows.hpp"

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
    if (together[2 * i] == together[2 * i + 1] && (!together[2 * i] || 2 * structure.weights[i] != structure.modulo)) {
      return std::nullopt;
    }
    digit_flips |= (together[2 * i] ? 0U : 1U) << i;
  }
  return SlicedBlock{.offset = offset, .constants = constants_of(structure, *first, digit_flips)};
}

// Of any block, the lines at these places and more of any place. None where a line is in no known slice.
std::optional<std::vector<LabelledLine>> label_lines_of_any_block(PairAsker& asker, BlockLines& lines,
                                                                  const LabelledBlock& block,
                                                                  std::vector<std::uint64_t> places) {
  constexpr std::size_t more_lines = 24;
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

using SeenBlocks = std::vector<std::vector<LabelledLine>>;

// By what so many blocks tell at these places, or as many others. None where it never chooses any.
template <class Choose>
std::optional<NamedSlices> chosen_by_blocks(PairAsker& asker, BlockLines& lines, const LabelledBlock& block,
                                            const std::vector<std::uint64_t>& places, std::size_t blocks_asked,
                                            const Choose& choose) {
  std::optional<NamedSlices> found;
  for (int attempt = 0; attempt < attempts_asked && !found; ++attempt) {
    SeenBlocks seen;
    while (seen.size() < blocks_asked) {
      auto labelled = label_lines_of_any_block(asker, lines, block, places);
      if (!labelled) {
        break;
      }
      seen.push_back(*std::move(labelled));
    }
    if (seen.size() == blocks_asked) {
      found = choose(seen);
    }
  }
  return found;
}

// The same slices of one block with the parity of their number, and those rows, in each digit. That may turn the parity
// into the sum of the rows: the lowest of these is what it was then. None of a number modulo an odd number.
std::optional<SliceStructure> with_own_parity(SliceStructure structure, std::uint32_t rows) {
  const auto is_odd = [](std::uint32_t weight) { return weight % 2 != 0; };
  const bool flips_itself = std::ranges::count_if(structure.weights, is_odd) % 2 != 0;
  if (structure.modulo % 2 != 0 || (flips_itself && rows == 0)) {
    return std::nullopt;
  }
  const std::uint64_t own = parities_of_slices(structure).back();
  const std::uint64_t added = own ^ sum_of(structure.row_masks, rows);
  std::uint64_t step = sum_of(structure.digit_steps, ~std::uint64_t{0});
  if (flips_itself) {
    const auto taker = static_cast<std::size_t>(std::countr_zero(rows));
    const std::uint64_t row_step = structure.row_steps[taker];
    structure.row_masks[taker] = own;
    structure.row_steps[taker] = step;
    step ^= row_step ^ sum_of(structure.digit_steps, masked_parities(row_step, structure.digit_masks));
  }
  for (std::size_t i = 0; i < structure.weights.size(); ++i) {
    structure.digit_masks[i] ^= added;
    structure.digit_steps[i] ^= is_odd(structure.weights[i]) ? step : 0;
  }
  return structure;
}

std::vector<std::uint64_t> with_steps_of_digits(std::vector<std::uint64_t> places,
                                                const std::vector<SliceStructure>& structures) {
  for (const SliceStructure& structure : structures) {
    std::ranges::copy_if(structure.digit_steps, std::back_inserter(places),
                         [&](std::uint64_t step) { return std::ranges::find(places, step) == places.end(); });
  }
  return places;
}

std::optional<NamedSlices> first_that_explains(const std::vector<SliceStructure>& structures,
                                               const BlockConstants& constants, const LabelledBlock& block,
                                               const SeenBlocks& seen) {
  for (const SliceStructure& structure : structures) {
    NamedSlices slices = named(structure, constants, block);
    if (std::ranges::all_of(seen, [&](const auto& labelled) { return explains(slices, labelled); })) {
      return slices;
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

std::vector<SliceStructure> with_any_rows(const SliceStructure& structure) {
  std::vector<SliceStructure> structures;
  for (std::uint32_t rows = 0; rows < std::uint32_t{1} << structure.row_masks.size(); ++rows) {
    structures.push_back(with_rows(structure, rows));
    if (auto other = with_own_parity(structure, rows)) {
      structures.push_back(*std::move(other));
    }
  }
  return structures;
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
  constexpr std::size_t blocks_asked = 4;
  const std::vector<SliceStructure> structures = with_any_rows(structure);
  return chosen_by_blocks(
      asker, lines, block, with_steps_of_digits({0}, structures), blocks_asked,
      [&](const SeenBlocks& seen) { return first_that_explains(structures, constants, block, seen); });
}

std::optional<NamedSlices> choose_by_more_blocks(PairAsker& asker, BlockLines& lines, const LabelledBlock& block,
                                                 const SliceStructure& structure, const BlockConstants& constants) {
  // Where a digit flips, half of the blocks count up, so few slices are seen to be led to one other only.
  constexpr std::size_t blocks_asked = 24;
  const std::vector<SliceStructure> structures = with_any_rows(structure);
  if (structures.size() == 1) {
    return std::nullopt;
  }
  return chosen_by_blocks(asker, lines, block, with_steps_of_digits(places_that_tell_carries(structure), structures),
                          blocks_asked, [&](const SeenBlocks& seen) {
                            auto found = first_that_explains(structures, constants, block, seen);
                            return found ? std::move(found) : count_rows(structure, constants, block, seen);
                          });
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
