// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/distinct_rows.hpp"
#include "model/replacement.hpp"

namespace gpuinfer::model {

// One set under a deterministic policy as a Mealy machine (Abel & Reineke, RTAS 2013, section 2): which way is hit, or
// that the line is not there, goes in; the way that a missed line is placed in comes out. Begins empty, as after
// power-on. A value that is cheap to copy, and cheaper to assign to one of the same policy.
class SetMachine {
 public:
  // ways > 0. Throws InputError as check() does, and for a policy with chance.
  SetMachine(const Replacement& replacement, std::uint32_t ways);
  ~SetMachine();
  SetMachine(const SetMachine& other);
  SetMachine& operator=(const SetMachine& other);
  SetMachine(SetMachine&& other) noexcept;
  SetMachine& operator=(SetMachine&& other) noexcept;

  [[nodiscard]] std::uint32_t ways() const;

  // Ways with a line in them, the lowest ones.
  [[nodiscard]] std::uint32_t filled() const { return filled_; }

  // way < filled().
  void hit(std::uint32_t way);

  // The way that the line is placed in: the lowest free one while there is one, else the victim's.
  std::uint32_t miss();

  // No line is present afterwards; the policy stays as it is.
  void invalidate() { filled_ = 0; }

  // Appends what decides the further behaviour: the same for two machines of one policy and number of ways if and only
  // if that is.
  void append_state(std::vector<std::uint32_t>& state) const;

  class AnyPolicy;

 private:
  std::unique_ptr<AnyPolicy> policy_;
  std::uint32_t filled_ = 0;
};

// The same of a set from which a pointer takes lines, too (`sweep` in descriptions), which leaves any ways free.
class SweptSetMachine {
 public:
  // ways > 0. Throws InputError as SetMachine does.
  SweptSetMachine(const Replacement& replacement, std::uint32_t ways);
  ~SweptSetMachine();
  SweptSetMachine(const SweptSetMachine& other);
  SweptSetMachine& operator=(const SweptSetMachine&) = delete;
  SweptSetMachine(SweptSetMachine&& other) noexcept;
  SweptSetMachine& operator=(SweptSetMachine&&) = delete;

  // By way.
  [[nodiscard]] const std::vector<bool>& is_filled() const { return is_filled_; }

  // Of a way with a line in it.
  void hit(std::uint32_t way);

  // The way that the line is placed in: the lowest free one while there is one, else the victim's.
  std::uint32_t miss();

  // The way that is freed of a set with lines. Throws InputError where the policy says only who goes from a full set.
  std::uint32_t sweep();

  // As SetMachine's.
  void append_state(std::vector<std::uint32_t>& state) const;

 private:
  std::unique_ptr<SetMachine::AnyPolicy> policy_;
  std::vector<bool> is_filled_;
};

// The states of a set machine, numbered as they are reached. Each transition is worked out once, when it is first asked
// for.
class SetAutomaton {
 public:
  using State = std::uint32_t;
  static constexpr State start = 0;

  enum class Inputs {
    accesses,
    accesses_and_invalidation,
  };

  struct Miss {
    State next = 0;
    std::uint32_t way = 0;  // where the line is placed
  };

  // `machine` is in the state `start`.
  explicit SetAutomaton(const SetMachine& machine, Inputs inputs = Inputs::accesses);

  [[nodiscard]] std::uint32_t ways() const { return ways_; }
  [[nodiscard]] std::uint32_t filled(State state) const { return filled_[state]; }

  // States met so far.
  [[nodiscard]] std::size_t size() const { return filled_.size(); }

  // way < filled(state).
  [[nodiscard]] State after_hit(State state, std::uint32_t way) { return transition(state, way); }
  [[nodiscard]] Miss after_miss(State state) { return {.next = transition(state, ways_), .way = placed_in_[state]}; }
  // Only with Inputs::accesses_and_invalidation.
  [[nodiscard]] State after_invalidation(State state) { return transition(state, ways_ + 1); }

  // Works out everything that can be reached. False, and with more left to do, once there are more than `most_states`.
  bool complete(std::size_t most_states);

 private:
  State transition(State state, std::uint32_t input) {
    if (!is_expanded_[state]) {
      expand(state);
    }
    return next_[std::size_t{state} * inputs_ + input];
  }

  void expand(State state);
  State add(const SetMachine& machine);

  std::uint32_t ways_;
  std::uint32_t inputs_;  // a hit of each way, a miss, invalidation
  DistinctRows keys_;
  std::vector<SetMachine> machines_;      // by state; given up once its transitions are known
  std::vector<bool> is_expanded_;         // by state
  std::vector<std::uint32_t> filled_;     // by state
  std::vector<std::uint32_t> placed_in_;  // by state: way, after a miss
  std::vector<State> next_;               // by state, then by input
  std::vector<std::uint32_t> key_;        // of add(), kept for its memory
};

}  // namespace gpuinfer::model
