// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/exit_status.hpp"
#include "cli/output.hpp"
#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"

// What `run` and `infer` have in common: one target after another is found out, the findings become a profile.
namespace gpuinfer::cli {

struct Inquiry {
  model::DeviceDescription profile;
  bool all_resolved = true;
  bool device_failed = false;  // and yet something is known
  bool ended_early = false;    // by a limit or the user, before all was found out
  std::size_t questions = 0;
  std::size_t accesses = 0;
  std::chrono::duration<double> time{};
};

// Finds out a target and puts it into the profile, which holds what was found out before.
using FindOut = std::function<infer::Finding(const std::string& target, const infer::Settings& settings,
                                             model::DeviceDescription& profile)>;

// Which targets take most of the time: a device of memory takes long where loads reach much of it.
enum class Pace : std::uint8_t { even, by_reach };

// What is found out, in this order, and what of it somebody asked for.
struct Plan {
  std::vector<std::string> targets;
  std::vector<std::string> asked;
  Pace pace = Pace::even;
};

// `all_resolved` is of those that were asked for. Budget and deadline in `settings` are for all targets together. Shows
// progress on stderr unless `quiet`, and warns. Throws DeviceError when the device failed and nothing is known of any
// target; else what it was not asked for any more is unknown.
[[nodiscard]] Inquiry inquire(const model::DeviceFacts& facts, const Plan& plan, infer::Settings settings, bool quiet,
                              const FindOut& find_out);

// Asks the device for these targets, by the table of studies, and before for what they need to know, as far as the
// device offers it. `facts`: of the device, with what the profile is to say of the run.
[[nodiscard]] Inquiry inquire(model::Answerer& device, const model::DeviceFacts& facts,
                              const std::vector<std::string>& targets, const infer::Settings& settings, bool quiet,
                              Pace pace = Pace::even);

// What is told on stderr besides warnings.
struct Verbosity {
  bool quiet = false;    // no progress, no summary
  bool explain = false;  // what was asked, and why
};

// Writes the profile, and on stderr a summary and the explanation.
[[nodiscard]] ExitStatus conclude(const Inquiry& inquiry, Output& output, Format format, Verbosity verbosity);

}  // namespace gpuinfer::cli
