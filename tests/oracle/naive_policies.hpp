// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "model/replacement.hpp"
#include "tests/oracle/dice.hpp"

// The replacement policies once more, from the papers that define them and with nothing in mind but to be seen to be
// right. They share the descriptions with model/, no code.
namespace gpuinfer::oracle {

using Way = std::uint32_t;

// One policy in one set, as after power-on when it is made. Ways are numbered from 0 in the order an empty set fills.
class NaivePolicy {
 public:
  virtual ~NaivePolicy() = default;

  virtual void hit(Way way) = 0;
  virtual void fill(Way way) = 0;  // a free way, or the victim of the call before
  virtual Way victim() = 0;        // asked of a full set; a fill of this way follows

 protected:
  NaivePolicy() = default;
};

// A policy that also says which line of a set that need not be full goes next, and bears that one goes out of turn.
class SweptPolicy : public NaivePolicy {
 public:
  [[nodiscard]] virtual Way next() const = 0;
  virtual void take(Way way) = 0;
};

// What all sets of one cache have in common.
struct Community {
  std::int64_t misses_of_first_above_second = 0;  // in leader sets, within bounds
  std::uint64_t accesses = 0;                     // hits and fills since the cache was built
};

// Names as in descriptions.
[[nodiscard]] std::vector<std::string_view> known_policies();

// Of the set of that number. `replacement`, `dice` and `community` outlive the policy. Throws std::out_of_range for a
// name that is not known.
[[nodiscard]] std::unique_ptr<NaivePolicy> make_policy(const model::Replacement& replacement, Way ways, Dice& dice,
                                                       std::size_t set, Community& community);

}  // namespace gpuinfer::oracle
