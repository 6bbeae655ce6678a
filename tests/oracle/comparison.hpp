// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/cache_simulator.hpp"
#include "model/device_description.hpp"
#include "model/trace.hpp"

namespace gpuinfer::oracle {

// What the simulator is asked for: nothing, as in a warm-up, CacheSimulator::play() or CacheSimulator::step().
enum class Answers { none, outcomes, events };

// Both caches are put into the state and then play the addresses.
struct Step {
  model::StartState state = model::StartState::keep;
  std::vector<std::uint64_t> addresses;
  Answers answers = Answers::outcomes;
  std::vector<model::AccessKind> kinds = {};  // of the addresses, where some are stores; then the answers are events
};

struct Difference {
  std::size_t step = 0;
  std::size_t access = 0;  // in this step
  model::AccessEvent oracle;
  model::AccessEvent simulator;
};

// The first access on which model::CacheSimulator, made from one description, and the oracle, made from the other (most
// often the same one), do not agree.
[[nodiscard]] std::optional<Difference> first_difference(const model::CacheDescription& of_simulator,
                                                         const model::CacheDescription& of_oracle,
                                                         const std::vector<Step>& steps);

// Steps that still end in a difference when nothing can be left out: a smaller example for people.
[[nodiscard]] std::vector<Step> shortened(const model::CacheDescription& of_simulator,
                                          const model::CacheDescription& of_oracle, std::vector<Step> steps);

// `clean 0x80 0x100; invalidated 0x80`, then who said what about the last access.
[[nodiscard]] std::string to_text(const std::vector<Step>& steps, const Difference& difference);

}  // namespace gpuinfer::oracle
