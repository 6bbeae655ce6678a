// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/set_machine.hpp"

#include <algorithm>
#include <typeinfo>
#include <utility>

#include "model/policies/next_line.hpp"
#include "model/policies/table.hpp"

namespace gpuinfer::model {

// A policy of the table at work on one set.
class SetMachine::AnyPolicy {
 public:
  virtual ~AnyPolicy() = default;
  AnyPolicy(AnyPolicy&&) = delete;
  AnyPolicy& operator=(const AnyPolicy&) = delete;
  AnyPolicy& operator=(AnyPolicy&&) = delete;

  [[nodiscard]] virtual std::unique_ptr<AnyPolicy> clone() const = 0;
  // False when `other` is another policy or of another set, and nothing was done.
  virtual bool assign(const AnyPolicy& other) = 0;

  [[nodiscard]] virtual std::uint32_t ways() const = 0;
  virtual void hit(std::uint32_t way) = 0;
  virtual void fill(std::uint32_t way) = 0;
  [[nodiscard]] virtual std::uint32_t victim() = 0;
  [[nodiscard]] virtual std::uint32_t next() const = 0;
  virtual void remove(std::uint32_t way) = 0;
  virtual void append_state(std::vector<std::uint32_t>& state) const = 0;

 protected:
  AnyPolicy() = default;
  AnyPolicy(const AnyPolicy&) = default;
};

namespace {

// What policies refer to. Copies of a policy share it, which they can because nothing is drawn.
struct Surroundings {
  SetLayout layout;
  Random random{0};
};

template <class Policy>
class PolicyOfOneSet final : public SetMachine::AnyPolicy {
 public:
  PolicyOfOneSet(const Replacement& replacement, std::uint32_t ways)
      : surroundings_(std::make_shared<Surroundings>(Surroundings{.layout = SetLayout({ways})})),
        policy_(surroundings_->layout, replacement, surroundings_->random) {}

  [[nodiscard]] std::unique_ptr<AnyPolicy> clone() const override { return std::make_unique<PolicyOfOneSet>(*this); }

  bool assign(const AnyPolicy& other) override {
    if (typeid(other) != typeid(PolicyOfOneSet)) {
      return false;
    }
    const auto& same = static_cast<const PolicyOfOneSet&>(other);
    if (same.surroundings_ != surroundings_) {
      return false;
    }
    policy_ = same.policy_;
    return true;
  }

  [[nodiscard]] std::uint32_t ways() const override { return surroundings_->layout.slots(); }
  void hit(std::uint32_t way) override { policy_.hit(0, way); }
  void fill(std::uint32_t way) override { policy_.fill(0, way); }
  [[nodiscard]] std::uint32_t victim() override { return policy_.victim(0); }
  [[nodiscard]] std::uint32_t next() const override {
    if constexpr (names_next_line<Policy>) {
      return policy_.next(0);
    } else {
      throw_next_line_unknown(Policy::name);
    }
  }
  void remove([[maybe_unused]] std::uint32_t way) override {
    if constexpr (names_next_line<Policy>) {
      policy_.remove(0, way);
    } else {
      throw_next_line_unknown(Policy::name);
    }
  }
  void append_state(std::vector<std::uint32_t>& state) const override { policy_.append_state(0, state); }

 private:
  std::shared_ptr<Surroundings> surroundings_;
  Policy policy_;
};

std::unique_ptr<SetMachine::AnyPolicy> policy_of_one_set(const Replacement& replacement, std::uint32_t ways) {
  check(replacement, {ways});
  std::unique_ptr<SetMachine::AnyPolicy> made;
  for_each_policy([&]<class Policy>() {
    if constexpr (Policy::deterministic) {
      if (Policy::name == replacement.policy) {
        made = std::make_unique<PolicyOfOneSet<Policy>>(replacement, ways);
      }
    }
  });
  if (!made) {
    throw LeafError("policy", "" + replacement.policy + " is random; name a deterministic one");
  }
  return made;
}

std::size_t width_of_state(const SetMachine& machine) {
  std::vector<std::uint32_t> state;
  machine.append_state(state);
  return state.size();
}

}  // namespace

SetMachine::SetMachine(const Replacement& replacement, std::uint32_t ways)
    : policy_(policy_of_one_set(replacement, ways)) {}

SetMachine::~SetMachine() = default;
SetMachine::SetMachine(const SetMachine& other) : policy_(other.policy_->clone()), filled_(other.filled_) {}
SetMachine::SetMachine(SetMachine&& other) noexcept = default;
SetMachine& SetMachine::operator=(SetMachine&& other) noexcept = default;

SetMachine& SetMachine::operator=(const SetMachine& other) {
  if (this != &other) {
    if (!policy_ || !policy_->assign(*other.policy_)) {
      policy_ = other.policy_->clone();
    }
    filled_ = other.filled_;
  }
  return *this;
}

std::uint32_t SetMachine::ways() const { return policy_->ways(); }

void SetMachine::hit(std::uint32_t way) { policy_->hit(way); }

std::uint32_t SetMachine::miss() {
  const std::uint32_t way = filled_ < ways() ? filled_++ : policy_->victim();
  policy_->fill(way);
  return way;
}

void SetMachine::append_state(std::vector<std::uint32_t>& state) const {
  state.push_back(filled_);
  policy_->append_state(state);
}

SweptSetMachine::SweptSetMachine(const Replacement& replacement, std::uint32_t ways)
    : policy_(policy_of_one_set(replacement, ways)), is_filled_(ways) {}

SweptSetMachine::~SweptSetMachine() = default;
SweptSetMachine::SweptSetMachine(const SweptSetMachine& other)
    : policy_(other.policy_->clone()), is_filled_(other.is_filled_) {}
SweptSetMachine::SweptSetMachine(SweptSetMachine&& other) noexcept = default;

void SweptSetMachine::hit(std::uint32_t way) { policy_->hit(way); }

std::uint32_t SweptSetMachine::miss() {
  const auto free = std::ranges::find(is_filled_, false);
  const auto way = free != is_filled_.end() ? static_cast<std::uint32_t>(free - is_filled_.begin()) : policy_->victim();
  is_filled_[way] = true;
  policy_->fill(way);
  return way;
}

std::uint32_t SweptSetMachine::sweep() {
  const std::uint32_t way = policy_->next();
  is_filled_[way] = false;
  policy_->remove(way);
  return way;
}

void SweptSetMachine::append_state(std::vector<std::uint32_t>& state) const {
  state.insert(state.end(), is_filled_.begin(), is_filled_.end());
  policy_->append_state(state);
}

SetAutomaton::SetAutomaton(const SetMachine& machine, Inputs inputs)
    : ways_(machine.ways()), inputs_(ways_ + (inputs == Inputs::accesses ? 1 : 2)), keys_(width_of_state(machine)) {
  add(machine);
}

bool SetAutomaton::complete(std::size_t most_states) {
  for (State state = 0; state < size(); ++state) {
    if (size() > most_states) {
      return false;
    }
    if (!is_expanded_[state]) {
      expand(state);
    }
  }
  return size() <= most_states;
}

void SetAutomaton::expand(State state) {
  const SetMachine from = std::move(machines_[state]);
  SetMachine machine = from;
  const std::size_t row = std::size_t{state} * inputs_;
  for (std::uint32_t way = 0; way < from.filled(); ++way) {
    machine = from;
    machine.hit(way);
    next_[row + way] = add(machine);
  }
  machine = from;
  placed_in_[state] = machine.miss();
  next_[row + ways_] = add(machine);
  if (inputs_ > ways_ + 1) {
    machine = from;
    machine.invalidate();
    next_[row + ways_ + 1] = add(machine);
  }
  is_expanded_[state] = true;
}

SetAutomaton::State SetAutomaton::add(const SetMachine& machine) {
  key_.clear();
  machine.append_state(key_);
  const State state = keys_.add(key_);
  if (state == machines_.size()) {
    machines_.push_back(machine);
    is_expanded_.push_back(false);
    filled_.push_back(machine.filled());
    placed_in_.push_back(0);
    next_.resize(next_.size() + inputs_);
  }
  return state;
}

}  // namespace gpuinfer::model
