// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/slice_naming.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace gpuinfer::infer {

namespace {

// What the number goes up by from most blocks to the next, flips aside, if numbers can be counted in it; else 1.
std::uint32_t common_step(std::uint32_t modulo, std::span<const BlockConstants> neighbours) {
  std::map<std::uint32_t, std::size_t> steps;
  for (std::size_t i = 0; i + 1 < neighbours.size(); i += 2) {
    ++steps[(neighbours[i + 1].shift + modulo - neighbours[i].shift) % modulo];
  }
  for (const auto& [step, times] : steps) {
    if (2 * times > neighbours.size() / 2 && std::gcd(step, modulo) == 1) {
      return step;
    }
  }
  return 1;
}

void count_in(std::uint32_t step, SliceStructure& structure) {
  const std::uint64_t inverse = inverse_of(step, structure.modulo);
  for (std::uint32_t& weight : structure.weights) {
    weight = static_cast<std::uint32_t>(weight * inverse % structure.modulo);
  }
}

}  // namespace

SliceStructure named_as_blocks_do(SliceStructure structure, std::span<const BlockConstants> neighbours) {
  constexpr std::size_t few_one_in = 8;
  std::vector<std::size_t> either_way;
  for (std::size_t i = 0; i < structure.weights.size(); ++i) {
    const auto flipped = static_cast<std::size_t>(std::ranges::count_if(
        neighbours, [i](const BlockConstants& block) { return ((block.digit_flips >> i) & 1U) != 0; }));
    if (few_one_in * std::min(flipped, neighbours.size() - flipped) > neighbours.size()) {
      either_way.push_back(i);
    } else if (2 * flipped > neighbours.size()) {
      structure.weights[i] = structure.modulo - structure.weights[i];
    }
  }
  count_in(common_step(structure.modulo, neighbours), structure);
  for (const std::size_t i : either_way) {
    structure.weights[i] = std::min(structure.weights[i], structure.modulo - structure.weights[i]);
  }
  return structure;
}

std::vector<std::uint32_t> in_order_of_names(const SliceStructure& structure,
                                             std::span<const BlockConstants> neighbours) {
  const std::uint64_t step = common_step(structure.modulo, neighbours);
  const std::size_t rows = structure.row_masks.size();
  std::vector<std::uint32_t> slices;
  for (std::uint64_t named = 0; named < structure.modulo; ++named) {
    const auto number = static_cast<std::uint32_t>(named * step % structure.modulo);
    for (std::uint32_t row = 0; row < 1U << rows; ++row) {
      slices.push_back(number << rows | row);
    }
  }
  return slices;
}

}  // namespace gpuinfer::infer
