// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "model/policies/policy.hpp"

namespace gpuinfer::model {

// The way `favoured_way` is the victim of the first eviction of its set and of every second one after it. In between
// the other ways go first in, first out; `others` is their order after power-on. A hit on the line that is the next of
// these to go makes it change places with the newest of them. With favoured way 1 and others [2, 0, 3] this reproduces
// every access that Mei & Chu recorded of the L1 of a GTX 560 Ti (docs/papers.md has the evidence).
class FavouredFifo {
 public:
  static constexpr std::string_view name = "favoured_fifo";
  static constexpr bool deterministic = true;
  static constexpr bool repeats_are_idle = false;

  static constexpr WholeParameter favoured_way{.name = "favoured_way", .most = 1U << 26U};
  static constexpr WholeListParameter others{.name = "others", .most = 1U << 26U};
  static constexpr std::tuple parameters{favoured_way, others};

  static void check(const Replacement& replacement, const std::vector<std::uint32_t>& ways) {
    std::vector<std::uint32_t> all = others.of(replacement);
    if (all.empty()) {
      throw LeafError("others", "must name at least one way");
    }
    require_ways(ways, all.size() + 1, others.name);
    all.push_back(favoured_way.of(replacement));
    require_permutation(all, others.name);
  }

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& ways) {
    if (ways.empty() || std::any_of(ways.begin(), ways.end(), [](std::uint32_t count) { return count != 4; })) {
      return {};
    }
    return {{.policy = std::string(name),
             .parameters = {{"favoured_way", std::int64_t{1}}, {"others", std::vector<double>{2, 0, 3}}},
             .equivalent = {}}};
  }

  FavouredFifo(const SetLayout& layout, const Replacement& replacement, Random& /*random*/)
      : layout_(&layout), favoured_way_(favoured_way.of(replacement)), power_on_(others.of(replacement)) {
    reset();
  }

  void reset() { sets_.assign(layout_->sets(), {.favoured_is_next = true, .oldest_first = power_on_}); }
  void hit(std::uint32_t set, std::uint32_t slot) {
    auto& order = sets_[set].oldest_first;
    if (layout_->first_slot[set] + order.front() == slot) {
      std::swap(order.front(), order.back());
    }
  }
  void fill(std::uint32_t /*set*/, std::uint32_t /*slot*/) {}
  [[nodiscard]] std::uint32_t victim(std::uint32_t set) {
    auto& [favoured_is_next, order] = sets_[set];
    favoured_is_next = !favoured_is_next;
    if (!favoured_is_next) {
      return layout_->first_slot[set] + favoured_way_;
    }
    std::rotate(order.begin(), order.begin() + 1, order.end());
    return layout_->first_slot[set] + order.back();
  }
  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const {
    state.push_back(sets_[set].favoured_is_next ? 1 : 0);
    state.insert(state.end(), sets_[set].oldest_first.begin(), sets_[set].oldest_first.end());
  }

 private:
  struct Set {
    bool favoured_is_next;
    std::vector<std::uint32_t> oldest_first;  // the other ways
  };

  const SetLayout* layout_;
  std::uint32_t favoured_way_;
  std::vector<std::uint32_t> power_on_;
  std::vector<Set> sets_;
};

}  // namespace gpuinfer::model
