// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/leaves.hpp"
#include "infer/threads/bank_hypotheses.hpp"
#include "model/shared_memory.hpp"

// Decides what is said of shared memory from what was measured. Asks nothing.
namespace gpuinfer::infer {

// What is called another degree differs by so many standard errors.
inline constexpr double clearly_other_degree = 5;

// How exact a number of cycles is that was measured in several runs.
struct SharedNoise {
  double run_deviation = 0;     // of one run from the next
  double launch_deviation = 0;  // of all runs of a workload from those of the same one again

  // Standard error of the middle mean of so many runs.
  [[nodiscard]] double error_of(std::uint32_t runs) const;

  // How far loads of the same degree may be from one another, from so many runs.
  [[nodiscard]] double tolerance_of(double cycles, std::uint32_t runs) const;
};

// Without the sign of a zero.
[[nodiscard]] double rounded_to_thousandths(double cycles);

// What single words and strides take, before anything is known of banks.
struct StridesSeen {
  double one_word_cycles = 0;  // that all lanes load
  double fastest_cycles = 0;
  double slowest_cycles = 0;
  SharedNoise noise = {};
  std::uint32_t runs = 1;
};

// Why these have no banks that could be found; none: they may have.
[[nodiscard]] std::optional<std::string> doubt_of_conflicts(const StridesSeen& seen);

struct NumberVerdict {
  std::optional<std::uint32_t> value = {};
  LeafVerdict leaf = {};
};

struct BanksVerdict {
  NumberVerdict banks;
  NumberVerdict bank_width_bytes;
  NumberVerdict row_bytes;
};

// `left`: the layouts that explain every answer; not empty.
[[nodiscard]] BanksVerdict conclude_banks(const std::vector<Banks>& left);

// By least squares from degree 2 on.
struct WaySlope {
  double per_way = 0;  // cycles
  std::pair<double, double> interval_95_percent;
};

struct LatencyLaw {
  model::SharedMemoryLatency latency;
  std::optional<WaySlope> slope = {};  // none: there are too few points to tell how exact it is
};

// Straight from degree 2 on, or else by degree. `points`: each the cycles of one load of `runs` runs, ascending by
// degree, of 1 and 2 at least.
[[nodiscard]] LatencyLaw law_of(const std::vector<model::DegreeLatency>& points, const SharedNoise& noise,
                                std::uint32_t runs);

// Of a load that took no part in the law.
struct CheckedLoad {
  double predicted_cycles = 0;
  double cycles = 0;
};

struct LatencyVerdict {
  LeafVerdict leaf = {};
  std::size_t wrong = 0;  // loads
  std::pair<double, double> residuals = {0, 0};
};

[[nodiscard]] LatencyVerdict conclude_latency(std::span<const CheckedLoad> loads, const SharedNoise& noise,
                                              std::uint32_t runs);

}  // namespace gpuinfer::infer
