// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/labelled_block.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <utility>

namespace gpuinfer::infer {

namespace {

// Lines are compared with one of each slice that is known, in random order, slice by slice.
LabelledBlock label_once(PairAsker& asker, BlockLines& lines, const std::vector<unsigned>& bits) {
  std::vector<std::uint32_t> left(std::size_t{1} << bits.size());
  LabelledBlock block{.offset = lines.block(0),
                      .lines = {.bits = bits, .labels = std::vector<std::optional<std::uint32_t>>(left.size())},
                      .members = {}};
  std::iota(left.begin(), left.end(), 0U);
  lines.random().shuffle(left);
  while (!left.empty()) {
    const std::uint32_t first = left.back();
    left.pop_back();
    if (const auto known = asker.slice_among(block.members, block.line_at(first))) {
      block.lines.labels[first] = *known;
      continue;
    }
    const auto label = static_cast<std::uint32_t>(block.members.size());
    block.members.push_back(block.line_at(first));
    block.lines.labels[first] = label;
    std::vector<Pair> pairs;
    for (const std::uint32_t place : left) {
      pairs.push_back({block.members.back(), block.line_at(place)});
    }
    const std::vector<bool> together = asker.surely_together(pairs, sure);
    std::vector<std::uint32_t> others;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (together[i]) {
        block.lines.labels[left[i]] = label;
      } else {
        others.push_back(left[i]);
      }
    }
    left = std::move(others);
  }
  return block;
}

// Offsets of lines, by label.
using Slices = std::vector<std::vector<std::uint64_t>>;

Slices slices_of(const LabelledBlock& block) {
  Slices slices(block.members.size());
  for (std::uint32_t place = 0; place < block.lines.labels.size(); ++place) {
    slices[block.lines.labels[place].value()].push_back(block.line_at(place));
  }
  return slices;
}

std::uint64_t any_of(const std::vector<std::uint64_t>& slice, BlockLines& lines) {
  return slice[lines.random().below(slice.size())];
}

// Of the slices of which several lines are all together with it, the last.
std::optional<std::uint32_t> label_among_witnesses(PairAsker& asker, BlockLines& lines, const Slices& slices,
                                                   const LabelledBlock& block, std::uint64_t line) {
  constexpr std::size_t witnesses = 3;
  std::vector<Pair> pairs;
  for (const std::vector<std::uint64_t>& slice : slices) {
    for (std::size_t witness = 0; witness < witnesses; ++witness) {
      pairs.push_back({any_of(slice, lines), line});
    }
  }
  const std::vector<bool> together = asker.contention().voted(pairs);
  std::optional<std::uint32_t> label;
  for (std::uint32_t i = 0; i < slices.size(); ++i) {
    const auto first = together.begin() + static_cast<std::ptrdiff_t>(witnesses * i);
    if (asker.may_share(block.members[i], line) && std::all_of(first, first + witnesses, std::identity{})) {
      label = i;
    }
  }
  return label;
}

// Each line is asked again with another of its slice, and where that is apart, with several of each slice.
std::vector<std::optional<std::uint32_t>> confirmed_labels(PairAsker& asker, BlockLines& lines,
                                                           const LabelledBlock& block) {
  const Slices slices = slices_of(block);
  std::vector<std::optional<std::uint32_t>> labels = block.lines.labels;
  std::vector<Pair> pairs;
  for (std::uint32_t place = 0; place < labels.size(); ++place) {
    pairs.push_back({any_of(slices[labels[place].value()], lines), block.line_at(place)});
  }
  const std::vector<bool> confirmed = asker.surely_together(pairs, 2);
  for (std::uint32_t place = 0; place < labels.size(); ++place) {
    if (!confirmed[place]) {
      if (const auto label = label_among_witnesses(asker, lines, slices, block, block.line_at(place))) {
        labels[place] = label;
      }
    }
  }
  return labels;
}

}  // namespace

std::vector<unsigned> find_slice_bits(PairAsker& asker, BlockLines& lines) {
  constexpr std::size_t lines_of_bit = 24;
  const std::uint64_t block = lines.block(0);
  std::vector<unsigned> bits;
  for (std::uint64_t step = lines.sector_bytes(); step < BlockLines::block_bytes; step *= 2) {
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < lines_of_bit; ++i) {
      const std::uint64_t place = lines.any_place();
      pairs.push_back({block + place, block + (place ^ step)});
    }
    if (!std::ranges::all_of(asker.contention().voted(pairs), std::identity{})) {
      bits.push_back(static_cast<unsigned>(std::countr_zero(step)));
    }
  }
  return bits;
}

LabelledBlock label_block(PairAsker& asker, BlockLines& lines, const std::vector<unsigned>& bits) {
  LabelledBlock block = label_once(asker, lines, bits);
  block.lines.labels = confirmed_labels(asker, lines, block);
  return block;
}

}  // namespace gpuinfer::infer
