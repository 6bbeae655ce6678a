// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "infer/asking/asker.hpp"
#include "infer/asking/stream.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

// Of the CPUs that are asked so.
inline constexpr std::uint64_t page_bytes = 4096;
inline constexpr std::uint64_t line_bytes = 64;

inline constexpr std::array cache_leaf_names{"capacity_bytes", "onset_bytes", "line_bytes",  "sector_bytes",
                                             "ways",           "index",       "replacement", "latency_cycles"};

// Asks a device that averages laps (model::BufferFacts::averages_laps).
class LapMeter {
 public:
  explicit LapMeter(Asker& device) : device_(&device), random_(stream(device.settings(), "lap meter")) {}

  // Cycles of a load on average, in laps in this order after two that bring everything in; all places differ.
  [[nodiscard]] double cycles(AccessSequence lap);
  // The same in random order, of which no prefetcher knows the next place.
  [[nodiscard]] double cycles_in_random_order(AccessSequence lap);

  [[nodiscard]] model::Random& random() { return random_; }

 private:
  Asker* device_;
  model::Random random_;
};

// To a hundredth of a cycle: shorter than what a clock with coarse ticks makes of a stretch.
[[nodiscard]] double rounded(double cycles);

[[nodiscard]] std::string cycles_text(double cycles);  // rounded
[[nodiscard]] std::string kilobytes(std::uint64_t bytes);

}  // namespace gpuinfer::infer
