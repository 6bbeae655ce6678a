// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/gpu/refusals.hpp"

namespace gpuinfer::probe::gpu {

using model::StartState;

std::string not_offered(const std::string& target, const std::string& source) {
  return "target " + target + " is not known to " + source +
         " or was not asked for when it was opened; ask for one that it offers";
}

std::map<StartState, std::string> refused_states(const std::set<StartState>& reached, const std::string& target,
                                                 const std::string& source) {
  std::string offered;
  for (const StartState state : reached) {
    offered += (offered.empty() ? "`" : ", `") + std::string(to_string(state)) + "`";
  }
  std::map<StartState, std::string> refusals;
  for (const StartState state : {StartState::clean, StartState::invalidated, StartState::flooded, StartState::keep}) {
    if (!reached.contains(state)) {
      refusals[state] = target + " on " + source + " does not support start state `" + std::string(to_string(state)) +
                        "`; ask with " + (offered.empty() ? "another target" : offered);
    }
  }
  return refusals;
}

std::optional<std::string> refusal_of_offsets(const model::Question& question, std::uint64_t load_bytes,
                                              std::uint64_t buffer_bytes) {
  for (const auto* sequence : {&question.warm, &question.record}) {
    for (const std::uint64_t offset : *sequence) {
      if (offset % load_bytes != 0 || offset >= buffer_bytes) {
        return "offset " + std::to_string(offset) + " is not that of a load of " + question.target +
               " in the buffer of " + std::to_string(buffer_bytes) + " bytes; ask for multiples of " +
               std::to_string(load_bytes) + " below that";
      }
    }
  }
  return std::nullopt;
}

}  // namespace gpuinfer::probe::gpu
