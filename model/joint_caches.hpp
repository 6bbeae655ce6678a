// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "model/cache_simulator.hpp"

// Two caches behind one latency: an access that finds its line in either of them is a hit.
namespace gpuinfer::model {

// Plays one access after the other.
class SteppedSimulator : public CacheSimulator {
 public:
  void play(std::span<const std::uint64_t> addresses, std::span<Outcome> outcomes) final {
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const Outcome outcome = step(Address{addresses[i]}, AccessKind::load).outcome;
      if (!outcomes.empty()) {
        outcomes[i] = outcome;
      }
    }
  }
};

// `cache` is made from `description`, and so is what stands beside it. Way, set and victim of an event are those of
// `cache`. Throw InputError where the two cannot be simulated together.
[[nodiscard]] std::unique_ptr<CacheSimulator> with_victim_lines(std::unique_ptr<CacheSimulator> cache,
                                                                const CacheDescription& description);
[[nodiscard]] std::unique_ptr<CacheSimulator> with_twin(std::unique_ptr<CacheSimulator> cache,
                                                        const CacheDescription& description, std::uint64_t seed);

}  // namespace gpuinfer::model
