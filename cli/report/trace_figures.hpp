// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/recordings.hpp"
#include "cli/report/drawing.hpp"
#include "cli/report/figure.hpp"
#include "model/device_description.hpp"
#include "model/trace.hpp"

// Figures of single loads, one after another.
namespace gpuinfer::cli::report {

// Laps over every stride_bytes-th place of an array: the array has places * stride_bytes.
struct Chase {
  std::uint64_t first = 0;
  std::uint64_t stride_bytes = 0;
  std::size_t places = 0;
};
// No value where the sequence is none, or has but one place.
[[nodiscard]] std::optional<Chase> chase_of(const model::AccessSequence& sequence);

// A chase of which every place was loaded before it was recorded.
[[nodiscard]] std::optional<Chase> warmed_chase(const model::Trace& trace);

// What figures show of traces, which is far shorter than these.
class Traces {
 public:
  struct Loads {
    std::optional<Chase> chase;     // a warmed one
    std::size_t warm = 0;           // loads before those that were recorded
    std::uint64_t last_offset = 0;  // the largest that was recorded
    std::size_t begin = 0;          // in latency_cycles
    std::size_t end = 0;
  };

  // `trace` has a latency.
  void add(const model::Trace& trace);

  [[nodiscard]] const std::vector<Loads>& each() const { return loads_; }
  [[nodiscard]] std::span<const float> latency_cycles() const { return latency_cycles_; }  // of all of them
  [[nodiscard]] std::span<const float> latency_cycles(const Loads& loads) const {
    return latency_cycles().subspan(loads.begin, loads.end - loads.begin);
  }

 private:
  std::vector<Loads> loads_;
  std::vector<float> latency_cycles_;
};

// What recordings show beside a profile.
struct Measurements {
  std::vector<std::string> files;
  std::map<std::string, Traces, std::less<>> traces;  // by target
  std::vector<probe::TimedWorkload> timed;

  // Adds the traces of `targets` in the circumstances of the profile; what was asked with another carve-out, on another
  // SM or after loads of another path is left out. Throws as for_each_trace() does.
  void add(const Recording& recording, const std::vector<std::string>& targets);
  [[nodiscard]] const Traces& traces_of(std::string_view target) const;
};

// How long the recorded loads took, told apart into hits and misses as `validate` does, each as shares of its kind; the
// table has the counts. `guide`: where the description has hits and misses. None without traces.
[[nodiscard]] std::optional<Figure> latency_histogram(const Traces& traces, const model::LatencyCycles& guide);

// Over an array.
struct Laps {
  std::size_t before = 0;  // as warm-up
  std::size_t counted = 1;

  auto operator<=>(const Laps&) const = default;  // NOLINT(*-implicit-bool-conversion)
};

// Share of the loads that miss in a chase, by stride and array.
struct MissCurve {
  std::uint64_t stride_bytes = 0;
  Laps laps;                                  // measured: of most chases
  std::vector<std::array<double, 2>> points;  // array_bytes, misses of 100 loads
};

// Of the stride of which most arrays were recorded, warm-up included. No value where there is none.
[[nodiscard]] std::optional<MissCurve> measured_misses(const Traces& traces, const model::LatencyCycles& guide);

// In the reference simulator, laps over arrays of these sizes. Throws InputError when a leaf is null.
[[nodiscard]] MissCurve simulated_misses(const model::CacheDescription& cache, std::uint64_t stride_bytes,
                                         const std::vector<std::uint64_t>& array_bytes, Laps laps);

// Both in one figure (Mei et al. 2014, figure 9), simulated in as many laps as were recorded; the one that is there
// where the other is not, unless it has but one or two arrays.
[[nodiscard]] std::optional<Figure> miss_curve_figure(const model::CacheDescription& cache, const Traces& traces,
                                                      const model::LatencyCycles& guide);

// Which lines miss in a lap over an array that is a little too large (Mei et al. 2014, figure 3), simulated. None where
// the description does not suffice, where chance is in the policy, and of large caches.
[[nodiscard]] std::optional<Figure> miss_pattern_figure(const model::CacheDescription& cache);

// Largest array and what is present, by carve-out.
[[nodiscard]] std::optional<Figure> carveout_figure(const model::CacheDescription& cache);

// Cycles for a piece of straight-line code, by the length of the code, or of the constants in it.
[[nodiscard]] std::optional<Figure> code_figure(const std::string& target, const model::CodeDescription& code,
                                                const Traces& traces);

}  // namespace gpuinfer::cli::report
