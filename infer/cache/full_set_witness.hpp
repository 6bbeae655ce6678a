// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "infer/cache/conflicts.hpp"

namespace gpuinfer::infer {

// Tells the lines of one set under policies that let most of them stay for ever, where a lap shows a single miss among
// many misreads and some members never miss (LIP, BRRIP, QLRU that inserts next to the victim). Lines that fit are
// loaded in a certain order from an empty start, then one line too many, then what that line drove out. A set sees
// nothing of the others, so lines of other sets may be left out and the answer stays the same, whatever the policy;
// with any line of its own left out, the set holds the rest of them, and all hit. A few loads after a single lap thus
// say whether a group of lines has a member.
class FullSetWitness {
 public:
  // `overflowing`: of these lines all but the last one fit, and it makes one set overflow. None: what the last line
  // evicts differs too much from time to time. `device` and `conflicts` outlive the witness.
  [[nodiscard]] static std::optional<FullSetWitness> find(Interrogator& device, const Conflicts& conflicts,
                                                          const Offsets& overflowing);

  // All lines of the overflowing set, in the order of `overflowing`, given those that are `known` to be (by position).
  // Group testing: groups without which the set still overflows have no member. None: it would take too many accesses,
  // or an answer stayed open.
  [[nodiscard]] std::optional<Offsets> members(const std::vector<bool>& known) const;

 private:
  FullSetWitness(Interrogator& device, const Conflicts& conflicts, Offsets overflowing)
      : device_(&device), conflicts_(&conflicts), lines_(std::move(overflowing)) {}

  [[nodiscard]] std::optional<std::size_t> first_evicted() const;
  [[nodiscard]] bool learn_pattern();

  // Whether the set overflows when only these of the lines are loaded, by position. None: the answers do not tell.
  [[nodiscard]] std::optional<bool> overflows(const std::vector<bool>& loaded) const;

  [[nodiscard]] model::Question question(const std::vector<bool>& loaded, AccessSequence record) const;

  Interrogator* device_;
  const Conflicts* conflicts_;
  Offsets lines_;
  std::size_t evicted_ = 0;                // position of the line that goes first
  AccessSequence record_;                  // it and the last line, in turn
  std::vector<double> share_missed_;       // by place in `record_`; 0 where that is not seen well
  double share_of_answers_with_miss_ = 0;  // when all lines are loaded
};

}  // namespace gpuinfer::infer
