// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"

// The classic methods that see only average latencies, for comparison: what they conclude, not what is true.
namespace gpuinfer::infer {

// Average latency of a warmed cyclic chase over array_bytes in steps of stride_bytes.
struct AveragePoint {
  std::uint64_t array_bytes = 0;
  std::uint64_t stride_bytes = 0;
  double latency_cycles = 0;
};

struct AverageFinding {
  std::string method;  // "saavedra" (N and s varied) or "wong" (footprint: s fixed, N varied)
  std::optional<std::uint64_t> capacity_bytes;
  std::optional<std::uint64_t> line_bytes;  // b
  std::optional<std::uint32_t> sets;        // T
  std::vector<AveragePoint> curve;
};

// Saavedra & Smith 1995 and Wong et al. 2010, as Mei & Chu 2014 (section 3.2) apply them.
[[nodiscard]] std::vector<AverageFinding> infer_by_average(model::Answerer& device, const std::string& target,
                                                           const Settings& settings);

}  // namespace gpuinfer::infer
