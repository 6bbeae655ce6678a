// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "infer/cache/random_lines.hpp"
#include "infer/cache/store_sizes.hpp"
#include "infer/cache/sweep_order.hpp"
#include "infer/cache/tag_store.hpp"
#include "model/device_description.hpp"

// What random loads decide about a store that a pointer sweeps: each number that is possible is simulated, and those
// that mispredict are out.
namespace gpuinfer::infer {

// A sequence from a clean start as it was answered.
struct RandomRun {
  model::Question question;
  std::vector<Reading> readings;
};

// Whether `cache` predicts the readings, but for what votes may have let pass. `address`: of the buffer.
[[nodiscard]] bool explains(const model::CacheDescription& cache, const RandomRun& run, model::Address address);

// Which line of a set goes, and how many lines the pointer takes.
struct SweepRule {
  model::Replacement policy;
  model::Sweep sweep;
};

[[nodiscard]] std::vector<SweepRule> possible_rules(std::span<const model::Replacement> policies,
                                                    const SweepOrder& order);

// Rules that do the same whenever the pointer comes by are one, of which the others are named as equivalent: of the
// first ones, as many as are like the very first.
[[nodiscard]] std::vector<SweepRule> joined_alike(std::vector<SweepRule> rules, std::uint32_t ways);

// `cache`: all but the rule is known. Throws NoSweptStore where not exactly one explains random loads.
[[nodiscard]] SweepRule find_sweep_rule(Interrogator& device, RandomLines& lines, const StoreSize& smallest,
                                        const TagStore& tags, const SweepOrder& order,
                                        const model::CacheDescription& cache);

// `cache`: all but the lines of the stores, and what follows from them, is known; returns it with these. Throws
// NoSweptStore where not exactly one number of lines explains random loads at each size.
[[nodiscard]] model::CacheDescription with_store_lines(Interrogator& device, RandomLines& lines,
                                                       const StoreSizes& sizes, const TagStore& tags,
                                                       model::CacheDescription cache);

}  // namespace gpuinfer::infer
