// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "cli/exit_status.hpp"
#include "cli/output.hpp"
#include "infer/finding.hpp"
#include "infer/settings.hpp"
#include "model/answerer.hpp"

// What `run` and `infer` have in common: one target after another is found out, the findings become a profile.
namespace gpuinfer::cli {

struct Inquiry {
  model::DeviceDescription profile;
  bool all_resolved = true;
  std::size_t questions = 0;
  std::size_t accesses = 0;
  std::chrono::duration<double> time{};
};

using AnyFinding = std::variant<infer::CacheFinding, infer::TextureFinding, infer::CodeFinding>;
using FindOut = std::function<AnyFinding(const std::string& target, const infer::Settings& settings)>;

// Asks the device, which outlives it.
[[nodiscard]] FindOut asking(model::Answerer& device);

// Budget and deadline in `settings` are for all targets together. Shows progress on stderr unless `quiet`, and warns.
[[nodiscard]] Inquiry inquire(const model::DeviceFacts& facts, std::span<const std::string> targets,
                              infer::Settings settings, bool quiet, const FindOut& find_out);

// What is told on stderr besides warnings.
struct Verbosity {
  bool quiet = false;    // no progress, no summary
  bool explain = false;  // what was asked, and why
};

// Writes the profile, and on stderr a summary and the explanation.
[[nodiscard]] ExitStatus conclude(const Inquiry& inquiry, Output& output, Format format, Verbosity verbosity);

}  // namespace gpuinfer::cli
