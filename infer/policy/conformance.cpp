// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/conformance.hpp"

#include "infer/asking/stream.hpp"
#include "infer/policy/mealy_machine.hpp"

namespace gpuinfer::infer {

SetOracle oracle_of(Interrogator& device, const ConflictClass& set) {
  return [&device, &set](const std::vector<std::vector<std::uint32_t>>& sequences) {
    std::vector<model::Question> questions;
    for (const std::vector<std::uint32_t>& sequence : sequences) {
      AccessSequence record;
      for (const std::uint32_t line : sequence) {
        record.push_back(set.lines[line]);
      }
      questions.push_back(device.question({}, std::move(record)));
    }
    std::vector<std::vector<bool>> missed;
    for (const std::vector<Reading>& readings : device.ask_voted(questions, device.votes_needed())) {
      std::vector<bool>& of_one = missed.emplace_back();
      for (const Reading reading : readings) {
        of_one.push_back(reading == Reading::miss);
      }
    }
    return missed;
  };
}

Conformance check_conformance(Interrogator& device, const ConflictClass& set, const model::Replacement& policy) {
  constexpr std::size_t most_states = 1000;
  constexpr std::size_t most_accesses = 5000;
  const std::optional<MealyMachine> known = as_machine(policy, set.ways, most_states);
  if (!known) {
    return {};
  }
  const MealyMachine machine = minimized(*known);
  const unsigned inputs = inputs_to_conform(machine, most_accesses);
  Learning cost;
  const SetOracle oracle = oracle_of(device, set);
  try {
    SetExplorer explorer(oracle, set.ways, set.lines.size(), 2 * most_accesses, cost);
    if (inputs == 0) {
      model::Random random = stream(device.settings(), "conformance");
      return {.holds = conforms_beyond(explorer, machine, most_accesses, random), .extra_states = {}};
    }
    return {.holds = conforms(explorer, machine, inputs), .extra_states = inputs - 1};
  } catch (const NothingLearned&) {
    return {.holds = false, .extra_states = {}};
  }
}

}  // namespace gpuinfer::infer
