// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/trace.hpp"

namespace gpuinfer::model {

std::string_view to_string(StartState state) {
  switch (state) {
    case StartState::clean:
      return "clean";
    case StartState::invalidated:
      return "invalidated";
    case StartState::flooded:
      return "flooded";
    case StartState::keep:
      return "keep";
  }
  return "keep";
}

std::optional<StartState> start_state_from(std::string_view name) {
  for (const StartState state : {StartState::clean, StartState::invalidated, StartState::flooded, StartState::keep}) {
    if (to_string(state) == name) {
      return state;
    }
  }
  return std::nullopt;
}

std::vector<AccessKind> kinds_of(const Question& question) {
  std::vector<AccessKind> kinds(question.warm.size() + question.record.size(), AccessKind::load);
  for (const std::uint32_t store : question.circumstances.stores) {
    kinds.at(store) = AccessKind::store;
  }
  for (const auto& [hint, numbers] : question.circumstances.hints) {
    for (const std::uint32_t number : numbers) {
      kinds.at(number) = hint;
    }
  }
  return kinds;
}

}  // namespace gpuinfer::model
