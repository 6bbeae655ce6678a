// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "cli/exit_status.hpp"

namespace gpuinfer::cli {

// The whole program: `arguments` without the program's name. Errors end as one sentence on stderr and an exit status.
[[nodiscard]] ExitStatus run_program(std::span<const std::string> arguments);

// "gpuinfer 0.1.0"
[[nodiscard]] std::string program_version();

}  // namespace gpuinfer::cli
