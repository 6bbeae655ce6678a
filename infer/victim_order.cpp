// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/victim_order.hpp"

#include <algorithm>
#include <string>

#include "infer/set_explorer.hpp"

namespace gpuinfer::infer {

namespace {

using model::Replacement;

// The ways but one, as they go; none where one of them goes again.
Victims victims_but_the_last(SetExplorer& explorer) {
  SetWord word(explorer.ways(), explorer.miss());
  Victims victims;
  while (victims.size() + 1 < explorer.ways()) {
    word.push_back(explorer.miss());
    const Victims longer = explorer.victims(word, victims);
    if (std::find(victims.begin(), victims.end(), longer.back()) != victims.end()) {
      return {};
    }
    victims = longer;
  }
  return victims;
}

Replacement nru(const Victims& order, bool clears_on_access, bool keeps_last) {
  Replacement policy{.policy = "nru", .parameters = {{"victim", std::string("order")}}, .equivalent = {}};
  policy.parameters["order"] = std::vector<double>(order.begin(), order.end());
  if (clears_on_access) {
    policy.parameters["clear"] = std::string("on_access");
  }
  if (keeps_last) {
    policy.parameters["keep_last"] = std::string("true");
  }
  return policy;
}

}  // namespace

std::vector<Replacement> ordered_policies(const SetOracle& oracle, std::uint32_t ways, std::size_t lines_available,
                                          std::size_t most_accesses) {
  Victims victims;
  try {
    Learning cost;
    SetExplorer explorer(oracle, ways, lines_available, most_accesses, cost);
    victims = victims_but_the_last(explorer);
  } catch (const NothingLearned&) {
    return {};
  }
  if (victims.empty()) {
    return {};
  }
  std::uint32_t left = 0;
  while (std::find(victims.begin(), victims.end(), left) != victims.end()) {
    ++left;
  }
  std::vector<Replacement> policies;
  for (std::size_t place = 0; place <= victims.size(); ++place) {
    Victims order = victims;
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), left);
    for (const bool clears_on_access : {false, true}) {
      if (left + 1 == ways) {
        policies.push_back(nru(order, clears_on_access, true));
      }
      if (place == victims.size()) {
        policies.push_back(nru(order, clears_on_access, false));
      }
    }
  }
  return policies;
}

}  // namespace gpuinfer::infer
