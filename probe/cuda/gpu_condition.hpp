// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/answerer.hpp"
#include "model/disturbance.hpp"

// What else goes on in a GPU while it is measured. Without CUDA, so that all of it can be tested anywhere.
namespace gpuinfer::probe::cuda {

// What a GPU says of itself at one time, as far as it does.
struct GpuCondition {
  std::optional<std::uint32_t> sm_clock_mhz = {};
  std::optional<std::uint32_t> memory_clock_mhz = {};
  std::optional<std::set<std::string>> slowdowns = {};   // what holds its clocks down, besides idleness and limits
  std::optional<std::uint64_t> other_processes = {};     // that have a compute context on it
  std::optional<std::uint64_t> corrected_errors = {};    // of its memories (ECC), since the driver was loaded
  std::optional<std::uint64_t> uncorrected_errors = {};  // the same
  std::optional<std::uint64_t> replaced_rows = {};       // of its memory, ever; on older GPUs pages

  bool operator==(const GpuCondition&) const = default;
};

// For the provenance of a device: the clocks, and what of GpuCondition is known at all.
[[nodiscard]] std::map<std::string, std::string> provenance_of(const GpuCondition& condition);

// The clock of a GPU at work wanders by a step or two of 15 MHz. Up to this share of it, nothing is said.
inline constexpr double clock_tolerance = 0.02;

// `seen` is in order of time, the first from before the questions. What is not known is no disturbance.
[[nodiscard]] std::vector<model::Disturbance> disturbances(std::span<const GpuCondition> seen);

// Looks at a GPU now and then while it is asked.
class ConditionWatch {
 public:
  using Look = std::function<GpuCondition()>;

  // No `look`: nothing is ever seen.
  explicit ConditionWatch(Look look) : look_(std::move(look)) {}

  // What everything later is held against. Clocks rise for a while once there is work: calls `work`, which keeps the
  // GPU busy for some milliseconds, until two looks in a row see the same SM clock, or often enough.
  GpuCondition begin(const std::function<void()>& work);

  // To be called right after the GPU worked, as its clocks fall when it idles. Looks four times a second, and for at
  // most one per cent of the time.
  void look_if_due();

  // Of all that was seen, and of what is to be seen now, clocks and slowdowns left out, as the GPU may be idle.
  [[nodiscard]] std::vector<model::Disturbance> disturbances() const;

  // As model::Answerer. `work` as of begin().
  void begin_piece();
  [[nodiscard]] model::PieceState discard_piece(const std::function<void()>& work);

 private:
  [[nodiscard]] GpuCondition look_when_steady(const std::function<void()>& work) const;

  Look look_;
  std::vector<GpuCondition> seen_before_;  // while earlier pieces were asked
  std::vector<GpuCondition> seen_;         // since this one began, with what it began with; neighbours differ
  bool has_worked_ = false;                // since this one began
  bool has_discarded_ = false;
  std::chrono::steady_clock::time_point due_;
};

}  // namespace gpuinfer::probe::cuda
