// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace gpuinfer::infer {

struct Progress {
  std::string finding;      // what is being found out: "partition into sets"
  std::string detail = {};  // how far that is, or of what: "of 4 ways"
  double done = 0;          // share of the whole, in [0, 1]; never goes back
  std::size_t questions = 0;
  std::size_t accesses = 0;
};

struct Settings {
  std::uint64_t seed = 1;
  bool all_sms = false;  // ask every SM for itself whether it is as the others, where the device lets one choose
  // Departures from a deterministic policy are excluded that are more frequent than once in so many fills.
  std::size_t fills_to_test = 2000;
  // Asks what stores do to a cache with more tags than lines of data, too, of which no rule explains every load so far.
  bool asks_stores_of_sweeps = false;
  std::optional<std::size_t> budget_accesses;                     // stop asking after so many
  std::optional<std::chrono::steady_clock::time_point> deadline;  // stop asking then
  std::function<void(const Progress&)> on_progress = [](const Progress&) {};
  std::function<bool()> stop_requested = [] { return false; };  // Ctrl-C: report what is known
};

// False without a deadline.
[[nodiscard]] inline bool is_past(const std::optional<std::chrono::steady_clock::time_point>& deadline) {
  return deadline && std::chrono::steady_clock::now() >= *deadline;
}

}  // namespace gpuinfer::infer
