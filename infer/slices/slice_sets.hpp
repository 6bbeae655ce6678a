// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/slices/slice_player.hpp"
#include "model/random.hpp"

// How a slice of an outer cache is built, of which nothing is known but lines that lie in it. No index is assumed, and
// the cache is never emptied: a line is loaded, others after it, and then it is seen whether it is still there.
namespace gpuinfer::infer {

struct SliceSets {
  std::uint32_t ways = 0;  // of each set
  std::uint64_t line_bytes = 0;
  std::vector<std::vector<std::uint64_t>> sets = {};  // offsets of the lines of each that were used to find it
  std::size_t lines_placed = 0;
  std::size_t lines_left = 0;   // that no set was found for
  std::size_t fresh_lines = 0;  // that took no part in finding sets, and were then placed
  std::size_t fresh_in_one_set = 0;
  std::vector<std::vector<std::uint64_t>> fresh_of_sets = {};  // these, as `sets`
};

// Who asks about a slice, and what is known of its lines.
struct SortedSlice {
  SliceView view = {};
  SliceSets sets = {};
  SliceLines lines = {};  // said to be of the slice: one offset of each, those of `sets` too
};

struct FoundSliceSets {
  std::optional<SliceSets> sets = {};
  std::string reason = {};  // why there are none
};

// `sectors`: offsets of sectors of one slice, in any order, at least a few times as many as it keeps. A set is the
// fewest lines that drive one out, found by the shortest beginning of a random order of lines that does so, again and
// again; many lines are asked about at once, each in a set of its own. All sets have to have as many ways, nearly all
// lines have to lie in one of them, and fresh lines in exactly one. What others load meanwhile lets sets be missed, so
// where that fails all is asked once more. Throws AskingEnded, QuestionRefused, DeviceError.
[[nodiscard]] FoundSliceSets find_slice_sets(Asker& device, const SliceView& view, std::vector<std::uint64_t> sectors,
                                             std::uint64_t sector_bytes);

// Of each line its first sector there.
[[nodiscard]] SliceLines one_of_each_line(const Asker& device, const SliceLines& sectors, std::uint64_t line_bytes);

// Which of these lines lie in these sets, at most 32, of each of which more lines are known than it has ways; by set.
[[nodiscard]] std::vector<SliceLines> members_among(Asker& device, const SliceView& view,
                                                    std::span<const SliceLines> sets, std::uint32_t ways,
                                                    const SliceLines& lines);

// Random loads of lines of a few sets at a time, held against LRU.
struct LruPrediction {
  std::size_t sets = 0;
  std::size_t accesses = 0;
  std::size_t misses = 0;
  std::size_t wrong = 0;
  std::size_t wrong_in_other_sets = 0;  // where lines are dealt by chance to as many sets

  LruPrediction& operator+=(const LruPrediction& other);
};

// `sets`: more than so many ways of lines of each, at most 256 sets.
[[nodiscard]] LruPrediction predict_lru(Asker& device, const SliceView& view, std::span<const SliceLines> sets,
                                        std::uint32_t ways, model::Random random);

// How many of these lines are there once all were loaded, the last ones loaded again first: under LRU as many as the
// ways of their sets, and no load of one that is gone drives out another that is still to be counted.
[[nodiscard]] std::size_t count_present(Asker& device, const SliceView& view, const std::vector<std::uint64_t>& lines);

}  // namespace gpuinfer::infer
