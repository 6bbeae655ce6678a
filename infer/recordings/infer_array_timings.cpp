// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/infer_array_timings.hpp"

#include <algorithm>
#include <cmath>

#include "infer/recordings/model_free.hpp"
#include "infer/recordings/recorded.hpp"
#include "infer/recordings/trace_levels.hpp"

namespace gpuinfer::infer {

namespace {

// A few misses among many hits hardly move their mean, so it must be that of the hits.
bool is_mean_of_hits(float mean, double hit_cycles) {
  constexpr double cycles = 1;
  constexpr double share = 0.02;
  return mean <= hit_cycles + std::max(cycles, share * hit_cycles);
}

ArrayMisses misses_of(const model::ArrayTiming& timing, const TraceLevels& levels) {
  ArrayMisses array{.array_bytes = timing.array_bytes};
  for (const float latency : timing.latency_cycles) {
    const Reading reading = levels.read(latency);
    if (reading != Reading::unclear) {
      ++array.judged;
      array.misses += reading == Reading::miss ? 1U : 0U;
    }
  }
  if (timing.latency_cycles.size() == 1 && array.misses == 0 &&
      !is_mean_of_hits(timing.latency_cycles.front(), levels.hit_median_cycles().value_or(0))) {
    array.judged = 0;
  }
  return array;
}

}  // namespace

CacheFinding infer_array_timings(std::span<const model::ArrayTiming> timings) {
  std::vector<float> latencies;
  for (const model::ArrayTiming& timing : timings) {
    latencies.insert(latencies.end(), timing.latency_cycles.begin(), timing.latency_cycles.end());
  }
  CacheFinding finding;
  finding.questions = timings.size();
  finding.accesses = latencies.size();
  const RecordedLeaves leaves(finding, timings.size());
  leaves.open_description_and_fill(model::EvidenceStatus::unknown,
                                   "the recording does not say in which steps the arrays were chased",
                                   "write a line `# stride BYTES` before its rows");
  const TraceLevels levels(latencies, {});
  if (state_levels(levels, leaves)) {
    std::vector<ArrayMisses> arrays;
    std::ranges::transform(timings, std::back_inserter(arrays),
                           [&](const model::ArrayTiming& timing) { return misses_of(timing, levels); });
    const Footprints footprints = footprints_of(arrays);
    state_sizes(footprints, leaves);
    state_onset_between(footprints, leaves);
  }
  return finding;
}

}  // namespace gpuinfer::infer
