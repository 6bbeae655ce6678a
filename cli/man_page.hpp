// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "cli/verbs.hpp"

namespace gpuinfer::cli {

// The manual page gpuinfer(1) in the macros of man(7). `version`: as program_version() has it.
[[nodiscard]] std::string man_page(std::span<const Verb> verbs, const std::string& version);

}  // namespace gpuinfer::cli
