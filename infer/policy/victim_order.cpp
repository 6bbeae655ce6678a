// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/victim_order.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "infer/policy/set_explorer.hpp"
#include "model/policies/favoured_fifo.hpp"
#include "model/policies/nru.hpp"
#include "model/set_machine.hpp"

namespace gpuinfer::infer {

namespace {

using model::Replacement;

// Whether a run of all ways but one in which none goes twice may begin the victims, after one run of at most so many.
bool may_be_runs(const Victims& victims, std::size_t ways, std::size_t most_before) {
  const auto are_distinct = [&](std::size_t first, std::size_t last) {
    const auto begin = victims.begin() + static_cast<std::ptrdiff_t>(first);
    return std::set<std::uint32_t>(begin, victims.begin() + static_cast<std::ptrdiff_t>(last)).size() == last - first;
  };
  for (std::size_t first = 0; first <= std::min(most_before, victims.size()) && are_distinct(0, first); ++first) {
    if (are_distinct(first, std::min(first + ways - 1, victims.size()))) {
      return true;
    }
  }
  return false;
}

// Runs begin alike, and have all ways or all but the one that went last.
std::uint32_t likely_next(const Victims& victims, std::size_t ways) {
  const std::size_t before = victims.size();
  if (before < ways) {
    return 0;
  }
  const bool is_short = before > ways && victims[before - 1] == victims[before - ways];
  return victims[before - (is_short ? ways - 1 : ways)];
}

// Of misses alone on the full set, as many as two whole rounds of an order have. `may_be`: whether victims may be the
// first ones of such an order; none where they are not. `likely_next`: from the second round on, the victim after some.
template <class MayBe, class LikelyNext>
Victims victims_of_misses(SetExplorer& explorer, std::size_t round, const MayBe& may_be,
                          const LikelyNext& likely_next) {
  const std::size_t ways = explorer.ways();
  Victims victims;
  for (std::size_t at_once = 1; victims.size() < 4 * round;) {
    VictimClaim claim{.word = {}, .victims = victims};
    while (claim.victims.size() < victims.size() + at_once) {
      claim.victims.push_back(likely_next(claim.victims));
    }
    claim.word.assign(ways + claim.victims.size(), explorer.miss());
    const bool is_right = explorer.examine(
        {claim}, victims.size() < round ? SetExplorer::LastVictim::is_any : SetExplorer::LastVictim::is_as_claimed);
    at_once = is_right && victims.size() >= round ? std::min(2 * at_once, ways) : 1;
    victims = explorer.known_victims(claim.word);
    if (!may_be(victims)) {
      return {};
    }
  }
  return victims;
}

Victims victims_in_runs(SetExplorer& explorer, SetStart start) {
  const std::size_t ways = explorer.ways();
  return victims_of_misses(
      explorer, ways,
      [&](const Victims& victims) { return may_be_runs(victims, ways, start == SetStart::invalidated ? ways : 0); },
      [&](const Victims& before) { return likely_next(before, ways); });
}

// Every second victim is of one way, and those in between are the others, each once in a round.
bool may_be_favoured(const Victims& victims, std::size_t ways) {
  const std::size_t round = 2 * (ways - 1);
  std::set<std::uint32_t> others;
  for (std::size_t i = 0; i < victims.size(); ++i) {
    const bool is_favoured = victims[i] == victims.front();
    const bool is_in_order =
        i < round ? others.insert(victims[i]).second || i % 2 == 0 : victims[i] == victims[i - round];
    if (is_favoured != (i % 2 == 0) || !is_in_order) {
      return false;
    }
  }
  return true;
}

Victims victims_around_a_favoured_one(SetExplorer& explorer) {
  const std::size_t ways = explorer.ways();
  const std::size_t round = 2 * (ways - 1);
  return victims_of_misses(
      explorer, round, [&](const Victims& victims) { return may_be_favoured(victims, ways); },
      [&](const Victims& before) {
        return before.empty() ? 0 : before.size() < round ? before.front() : before[before.size() - round];
      });
}

Replacement favouring(const Victims& victims, std::uint32_t ways) {
  std::vector<double> others;
  for (std::size_t i = 1; i < 2 * (std::size_t{ways} - 1); i += 2) {
    others.push_back(victims[i]);
  }
  return {.policy = std::string(model::FavouredFifo::name),
          .parameters = {{std::string(model::FavouredFifo::favoured_way.name), std::int64_t{victims.front()}},
                         {std::string(model::FavouredFifo::others.name), std::move(others)}},
          .equivalent = {}};
}

// Each run of all ways but one may be the order without the way that kept its mark, which in the long run is its last
// or its last but one.
std::set<Victims> possible_orders(const Victims& victims, std::uint32_t ways) {
  std::set<Victims> orders;
  for (std::size_t first = 0; first + ways - 1 <= victims.size(); ++first) {
    const auto begin = victims.begin() + static_cast<std::ptrdiff_t>(first);
    const Victims run(begin, begin + ways - 1);
    std::set<std::uint32_t> left;
    for (std::uint32_t way = 0; way < ways; ++way) {
      left.insert(way);
    }
    for (const std::uint32_t way : run) {
      left.erase(way);
    }
    if (left.size() == 1) {
      for (const std::ptrdiff_t from_end : {0, 1}) {
        Victims order = run;
        order.insert(order.end() - from_end, *left.begin());
        orders.insert(std::move(order));
      }
    }
  }
  return orders;
}

// From power-on, or, where the set was only invalidated, from some marks that were left. What matters of those is which
// way is the last one without a mark: when it is filled, the marks go.
bool explains(const Replacement& policy, const Victims& victims, std::uint32_t ways, SetStart start) {
  const model::SetMachine begin(policy, ways);
  const auto goes_so = [&](model::SetMachine set) {
    while (set.filled() < ways) {
      set.miss();
    }
    return std::all_of(victims.begin(), victims.end(), [&](std::uint32_t victim) { return set.miss() == victim; });
  };
  bool found = goes_so(begin);
  for (std::uint32_t unmarked = 0; !found && start == SetStart::invalidated && unmarked < ways; ++unmarked) {
    model::SetMachine set = begin;
    while (set.filled() < ways) {
      set.miss();
    }
    for (std::uint32_t way = unmarked + 1; way < ways; ++way) {
      set.hit(way);
    }
    set.invalidate();
    found = goes_so(std::move(set));
  }
  return found;
}

}  // namespace

std::vector<Replacement> ordered_policies(const SetOracle& oracle, std::uint32_t ways, std::size_t lines_available,
                                          std::size_t most_accesses, SetStart start) {
  Victims victims;
  try {
    Learning cost;
    SetExplorer explorer(oracle, ways, lines_available, most_accesses, cost);
    victims = victims_in_runs(explorer, start);
    if (victims.empty() && ways > 2) {
      const Victims favoured = victims_around_a_favoured_one(explorer);
      return favoured.empty() ? std::vector<Replacement>{} : std::vector<Replacement>{favouring(favoured, ways)};
    }
  } catch (const NothingLearned&) {
    return {};
  }
  std::vector<Replacement> policies;
  for (const Victims& order : possible_orders(victims, ways)) {
    for (const bool clears_on_access : {false, true}) {
      for (const bool keeps_last : {false, true}) {
        Replacement policy = model::Nru::of_order(order, clears_on_access, keeps_last);
        if (explains(policy, victims, ways, start)) {
          policies.push_back(std::move(policy));
        }
      }
    }
  }
  return policies;
}

}  // namespace gpuinfer::infer
