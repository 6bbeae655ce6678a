// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/document.hpp"
#include "infer/laps/average_method.hpp"

namespace gpuinfer::cli {

// Leaves on which the methods contradict each other, by their names in the report.
[[nodiscard]] std::vector<std::string> contradictions(const std::vector<infer::AverageFinding>& findings);

// What each method concludes, the curve it saw, and where they part.
[[nodiscard]] Document average_report(const std::string& target, const std::vector<infer::AverageFinding>& findings);

// The same for people, without the curves.
[[nodiscard]] std::string average_table(const std::string& target, const std::vector<infer::AverageFinding>& findings);

}  // namespace gpuinfer::cli
