// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/workload.hpp"

struct CUpti_RangeProfiler_Object;  // of CUPTI

namespace gpuinfer::probe::cuda {

// Counters of the current GPU, through CUPTI (NVIDIA: CUPTI documentation, range profiling). The library is looked for
// when the program runs; where the driver lets only administrators count, nothing is counted.
class Counters {
 public:
  Counters();
  ~Counters();
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  // Why nothing can be counted; empty: it can.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }

  // Ends counting, which slows everything else down.
  void rest();

  // Counts from here on what `run` moves, which is carried out as often as it takes to count all of it, each time after
  // `prepare`. None when that fails: why_not() then tells.
  [[nodiscard]] std::optional<model::CacheTraffic> traffic_of(const std::function<void()>& prepare,
                                                              const std::function<void()>& run);

 private:
  // Throws Failure unless the function of this name succeeds.
  template <class Parameters>
  void call(const char* function, Parameters& parameters) const;

  void choose_metrics();
  // By metric.
  [[nodiscard]] std::vector<double> count(const std::function<void()>& prepare, const std::function<void()>& run);
  [[nodiscard]] std::vector<std::uint8_t> room_for_counts() const;
  void configure(std::vector<std::uint8_t>& data) const;
  // Whether all was counted; as long as it was not, there is more to count in another run.
  [[nodiscard]] bool count_once(const std::function<void()>& prepare, const std::function<void()>& run) const;
  [[nodiscard]] std::vector<double> values_of(const std::vector<std::uint8_t>& data) const;

  void* library_ = nullptr;
  void* metrics_ = nullptr;                         // of CUPTI
  CUpti_RangeProfiler_Object* profiler_ = nullptr;  // while it counts
  std::vector<std::uint8_t> configuration_;
  std::string why_not_;
};

}  // namespace gpuinfer::probe::cuda
