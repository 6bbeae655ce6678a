// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <utility>

#include "model/policies/policy.hpp"

namespace gpuinfer::model {

// Any deterministic policy with finitely many states, written out as a Mealy machine, which is how policies are learned
// from hardware (Vila et al., "CacheQuery", PLDI 2020). States are numbered from 0 by their place in the lists, and
// every set begins in state `start` (0 where it is left out):
//   hits[state][way]   the state after a hit of the way
//   victims[state]     the way that goes when a full set misses,
//   misses[state]      and the state after that
//   fills[state]       the state after a free way was filled; where `fills` is left out, the state after a hit of it
// FIFO with two ways is `hits: [[0, 0], [1, 1]], victims: [0, 1], misses: [1, 0], fills: [0, 1]`.
class Automaton {
 public:
  static constexpr std::string_view name = "automaton";
  static constexpr bool deterministic = true;
  static constexpr bool repeats_are_idle = false;

  static constexpr std::uint32_t most_states = 1U << 20U;
  static constexpr WholeParameter start{.name = "start", .most = most_states, .usual = 0};
  static constexpr WholeListsParameter hits{.name = "hits", .most = most_states};
  static constexpr WholeListParameter victims{.name = "victims", .most = most_states};
  static constexpr WholeListParameter misses{.name = "misses", .most = most_states};
  static constexpr WholeListParameter fills{.name = "fills", .most = most_states, .may_be_left_out = true};
  static constexpr std::tuple parameters{start, hits, victims, misses, fills};

  static void check(const Replacement& replacement, const std::vector<std::uint32_t>& ways) {
    const std::size_t states = hits.of(replacement).size();
    if (states == 0 || states > most_states) {
      throw LeafError("hits", "has " + std::to_string(states) + " states; give 1 to " + std::to_string(most_states));
    }
    const auto last_state = static_cast<std::uint32_t>(states - 1);
    const auto after_hit = hits.of(replacement, last_state);
    const std::size_t ways_of_hits = after_hit.front().size();
    if (ways_of_hits == 0 || std::any_of(after_hit.begin(), after_hit.end(),
                                         [&](const auto& next) { return next.size() != ways_of_hits; })) {
      throw LeafError("hits", "must have one entry for each way in every state; correct it");
    }
    require_ways(ways, ways_of_hits, "hits");
    require_entries(replacement, victims, states, static_cast<std::uint32_t>(ways_of_hits - 1));
    require_entries(replacement, misses, states, last_state);
    if (fills.is_in(replacement)) {
      require_entries(replacement, fills, states, last_state);
    }
    static_cast<void>(start.of(replacement, last_state));
  }

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) { return {}; }

  static Replacement of(std::vector<std::vector<double>> hits, std::vector<double> victims, std::vector<double> misses,
                        std::vector<double> fills) {
    return {.policy = std::string(name),
            .parameters = {{"hits", std::move(hits)},
                           {"victims", std::move(victims)},
                           {"misses", std::move(misses)},
                           {"fills", std::move(fills)}},
            .equivalent = {}};
  }

  Automaton(const SetLayout& layout, const Replacement& replacement, Random& /*random*/)
      : layout_(&layout), start_(start.of(replacement)), victims_(victims.of(replacement)),
        misses_(misses.of(replacement)), sets_(layout.sets()) {
    const auto after_hit = hits.of(replacement);
    ways_ = after_hit.front().size();
    hits_.reserve(after_hit.size() * ways_);
    for (const std::vector<std::uint32_t>& next : after_hit) {
      hits_.insert(hits_.end(), next.begin(), next.end());
    }
    if (fills.is_in(replacement)) {
      fills_ = fills.of(replacement);
    }
    reset();
  }

  void reset() { sets_.assign(sets_.size(), {.state = start_, .replacing = false}); }

  void hit(std::uint32_t set, std::uint32_t slot) {
    std::uint32_t& state = sets_[set].state;
    state = hits_[state * ways_ + slot - layout_->first_slot[set]];
  }

  void fill(std::uint32_t set, std::uint32_t slot) {
    SetState& at = sets_[set];
    if (at.replacing) {
      at.replacing = false;
    } else if (fills_.empty()) {
      hit(set, slot);
    } else {
      at.state = fills_[at.state];
    }
  }

  [[nodiscard]] std::uint32_t victim(std::uint32_t set) {
    SetState& at = sets_[set];
    const std::uint32_t way = victims_[at.state];
    at = {.state = misses_[at.state], .replacing = true};
    return layout_->first_slot[set] + way;
  }

  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const { state.push_back(sets_[set].state); }

 private:
  struct SetState {
    std::uint32_t state = 0;
    bool replacing = false;  // the fill to come belongs to the miss that led here
  };

  static void require_entries(const Replacement& replacement, const WholeListParameter& list, std::size_t states,
                              std::uint32_t most) {
    const std::size_t entries = list.of(replacement, most).size();
    if (entries != states) {
      throw LeafError(std::string(list.name), "has " + std::to_string(entries) + " entries for " +
                                                  std::to_string(states) + " states; give one for each");
    }
  }

  const SetLayout* layout_;
  std::uint32_t start_;
  std::size_t ways_ = 0;
  std::vector<std::uint32_t> hits_;  // by state, then by way
  std::vector<std::uint32_t> victims_;
  std::vector<std::uint32_t> misses_;
  std::vector<std::uint32_t> fills_;  // empty: as hits
  std::vector<SetState> sets_;
};

}  // namespace gpuinfer::model
