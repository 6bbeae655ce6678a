// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <limits>

#include "model/policies/policy.hpp"

namespace gpuinfer::model {

// Not recently used: an access marks its way, and an unmarked way goes.
//
// `clear` says when the marks go: `on_miss`, once a victim is wanted and every way is marked (the L2 of UltraSPARC T1
// and T2), or `on_access`, once an access has marked the last way. `keep_last: true` then leaves the mark of the way
// accessed last; with `clear: on_access` this is bit-PLRU, also known as MRU (Malamy et al., US patent 5353425, filed
// 1992; "MRU" of nanoBench: Abel & Reineke, ISPASS 2020, section VI-B.2).
//
// `victim` says which unmarked way goes: the `first`, the first from a pointer on that then stands behind the victim
// (`rotating`), or the first in the list `order`, which has every way once.
class Nru {
 public:
  static constexpr std::string_view name = "nru";
  static constexpr bool deterministic = true;
  static constexpr bool repeats_are_idle = false;

  static constexpr WordParameter<3> victim_rule{.name = "victim", .words = {"first", "rotating", "order"}};
  static constexpr WholeListParameter order{.name = "order",
                                            .where = WholeListParameter::Condition{.name = "victim", .word = "order"}};
  static constexpr WordParameter<2> clear_rule{.name = "clear", .words = {"on_miss", "on_access"}};
  static constexpr WordParameter<2> keep_last{.name = "keep_last", .words = {"false", "true"}};
  static constexpr std::tuple parameters{victim_rule, order, clear_rule, keep_last};

  static void check(const Replacement& replacement, const std::vector<std::uint32_t>& ways) {
    if (order.is_in(replacement)) {
      const std::vector<std::uint32_t> numbers = order.of(replacement);
      require_permutation(numbers, order.name);
      require_ways(ways, numbers.size(), order.name);
    }
  }

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) {
    std::vector<Replacement> guesses;
    for (const bool rotating : {false, true}) {
      for (const bool on_access : {false, true}) {
        for (const bool keep_last : {false, true}) {
          Replacement guess{.policy = std::string(name), .parameters = {}, .equivalent = {}};
          if (rotating) {
            guess.parameters["victim"] = std::string("rotating");
          }
          if (on_access) {
            guess.parameters["clear"] = std::string("on_access");
          }
          if (keep_last) {
            guess.parameters["keep_last"] = std::string("true");
          }
          guesses.push_back(std::move(guess));
        }
      }
    }
    return guesses;
  }

  // With `victim: order`.
  static Replacement of_order(const std::vector<std::uint32_t>& order, bool clears_on_access, bool keeps_last) {
    Replacement policy = plain<Nru>();
    policy.parameters["victim"] = std::string("order");
    policy.parameters["order"] = std::vector<double>(order.begin(), order.end());
    if (clears_on_access) {
      policy.parameters["clear"] = std::string("on_access");
    }
    if (keeps_last) {
      policy.parameters["keep_last"] = std::string("true");
    }
    return policy;
  }

  Nru(const SetLayout& layout, const Replacement& replacement, Random& /*random*/)
      : layout_(&layout), rotating_(victim_rule.of(replacement) == "rotating"),
        clears_on_access_(clear_rule.of(replacement) == "on_access"), keeps_last_(keep_last.of(replacement) == "true"),
        marked_(layout.slots()), sets_(layout.sets()) {
    if (victim_rule.of(replacement) == "order") {
      order_ = order.of(replacement);
    }
  }

  void reset() {
    marked_.assign(marked_.size(), 0);
    sets_.assign(sets_.size(), {});
  }

  void hit(std::uint32_t set, std::uint32_t slot) { mark(set, slot); }
  void fill(std::uint32_t set, std::uint32_t slot) { mark(set, slot); }

  [[nodiscard]] std::uint32_t victim(std::uint32_t set) {
    const std::uint32_t first = layout_->first_slot[set];
    const std::uint32_t ways = layout_->ways(set);
    if (ways == 1) {
      return first;
    }
    SetState& state = sets_[set];
    if (state.marks == ways) {
      clear(set);
    }
    // A mark never goes alone, so a place that was passed need not be looked at again before the marks go: on average
    // the search takes a step or two, however many ways there are.
    std::uint32_t slot = first + way_at(state.next);
    while (marked_[slot] != 0) {
      state.next = state.next + 1 == ways ? 0 : state.next + 1;
      slot = first + way_at(state.next);
    }
    if (rotating_) {
      state.next = state.next + 1 == ways ? 0 : state.next + 1;
    }
    return slot;
  }

  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const {
    const auto* const marked = marked_.data() + layout_->first_slot[set];
    state.insert(state.end(), marked, marked + layout_->ways(set));
    if (rotating_) {
      state.push_back(sets_[set].next);
    }
    if (keeps_last_ && !clears_on_access_) {
      state.push_back(sets_[set].last_way);
    }
  }

 private:
  struct SetState {
    std::uint32_t marks = 0;     // how many
    std::uint32_t next = 0;      // place where the next search begins
    std::uint32_t last_way = 0;  // accessed last
  };

  [[nodiscard]] std::uint32_t way_at(std::uint32_t place) const { return order_.empty() ? place : order_[place]; }

  void mark(std::uint32_t set, std::uint32_t slot) {
    SetState& state = sets_[set];
    state.last_way = slot - layout_->first_slot[set];
    if (marked_[slot] == 0) {
      marked_[slot] = 1;
      ++state.marks;
      if (clears_on_access_ && state.marks == layout_->ways(set)) {
        clear(set);
      }
    }
  }

  void clear(std::uint32_t set) {
    auto* const marked = marked_.data() + layout_->first_slot[set];
    std::fill_n(marked, layout_->ways(set), std::uint8_t{0});
    SetState& state = sets_[set];
    state.marks = 0;
    if (keeps_last_) {
      marked[state.last_way] = 1;
      state.marks = 1;
    }
    if (!rotating_) {
      state.next = 0;
    }
  }

  const SetLayout* layout_;
  bool rotating_;
  bool clears_on_access_;
  bool keeps_last_;
  std::vector<std::uint32_t> order_;  // empty: way 0, 1, ...
  std::vector<std::uint8_t> marked_;  // by slot
  std::vector<SetState> sets_;
};

}  // namespace gpuinfer::model
