// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "infer/policy/learned_automaton.hpp"
#include "model/set_machine.hpp"

namespace gpuinfer::infer {

// Answers as a set of this policy does, which is deterministic.
inline SetOracle oracle_of(const std::string& policy, std::uint32_t ways) {
  const model::SetMachine empty({.policy = policy, .parameters = {}, .equivalent = {}}, ways);
  return [empty](const std::vector<std::vector<std::uint32_t>>& sequences) {
    std::vector<std::vector<bool>> missed;
    for (const std::vector<std::uint32_t>& lines : sequences) {
      model::SetMachine machine = empty;
      std::vector<std::optional<std::uint32_t>> line_in(machine.ways());
      std::vector<bool>& answer = missed.emplace_back();
      for (const std::uint32_t line : lines) {
        std::uint32_t way = 0;
        while (way < machine.ways() && line_in[way] != line) {
          ++way;
        }
        answer.push_back(way == machine.ways());
        if (answer.back()) {
          line_in[machine.miss()] = line;
        } else {
          machine.hit(way);
        }
      }
    }
    return missed;
  };
}

}  // namespace gpuinfer::infer
