// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "infer/asking/asker.hpp"

namespace gpuinfer::infer {

// Who asks about a slice, and how he tells that a line is there.
struct SliceView {
  std::optional<model::ComputeUnit> unit = {};  // that loads; near to the slice
  double most_present_cycles = 0;               // what a load of a line takes at most that is there
};

using SliceLine = std::uint64_t;  // an offset of it
using SliceLines = std::vector<SliceLine>;

// A line, and the fewest others that evict it.
struct EvictionSet {
  SliceLine line = 0;
  SliceLines others = {};
};

// Plays sequences one after the other, each of which begins by bringing what it needs, and tells of some loads whether
// the line was there.
class SlicePlayer {
 public:
  SlicePlayer(Asker& device, const SliceView& view) : device_(&device), view_(view) {}

  void load(SliceLine line);
  void load(const SliceLines& lines);
  void load_all_of(const EvictionSet& set);
  void load_all_but_last_of(const EvictionSet& set);
  // Loads the line, too; whether it was gone is the next answer.
  void is_gone(SliceLine line);
  // A sequence is complete; it is not divided. A long one is a question by itself, so that what it brings before it
  // asks is not recorded.
  void end_sequence();

  // Of each call of is_gone() since the last answers.
  [[nodiscard]] std::vector<bool> answers();

 private:
  struct Place {
    std::size_t question;
    std::size_t access;
  };

  void end_question();

  Asker* device_;
  SliceView view_;
  AccessSequence warm_;
  AccessSequence record_;
  std::size_t unasked_loads_ = 0;  // of the sequence that is being asked
  std::vector<model::Question> questions_;
  std::vector<Place> asked_;
};

}  // namespace gpuinfer::infer
