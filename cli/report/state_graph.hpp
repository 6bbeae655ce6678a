// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cli/report/figure.hpp"
#include "model/device_description.hpp"

// A deterministic policy as a machine: which states a full set has, and where hits and misses lead.
namespace gpuinfer::cli::report {

struct SetState {
  std::uint32_t victim = 0;  // the way that a miss replaces
  std::size_t after_miss = 0;
  std::vector<std::size_t> after_hit;  // by way
};

// Those that a set reaches that was filled without a hit: first the one that it is in then, and behind each the one
// after a miss where that is not in the list yet. None where there are more than `most`.
[[nodiscard]] std::optional<std::vector<SetState>> full_set_states(const model::Replacement& replacement,
                                                                   std::uint32_t ways, std::size_t most);

// The states as a graph, where they are few enough to be told apart, else as a table. None where the policy is not
// known, has chance in it, or has too many states for either, and where sets are not always full, as those with
// `sweep`.
[[nodiscard]] std::optional<Figure> state_figure(const model::CacheDescription& cache);

}  // namespace gpuinfer::cli::report
