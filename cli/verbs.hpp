// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "cli/exit_status.hpp"

// One function for each verb, in the file verb_NAME.cpp; `arguments` without the verb. They throw what model/errors.hpp
// lists.
namespace gpuinfer::cli {

using Arguments = std::span<const std::string>;

[[nodiscard]] ExitStatus verb_run(Arguments arguments);
[[nodiscard]] ExitStatus verb_probe(Arguments arguments);
[[nodiscard]] ExitStatus verb_infer(Arguments arguments);
[[nodiscard]] ExitStatus verb_validate(Arguments arguments);
[[nodiscard]] ExitStatus verb_simulate(Arguments arguments);
[[nodiscard]] ExitStatus verb_list(Arguments arguments);
[[nodiscard]] ExitStatus verb_show(Arguments arguments);
[[nodiscard]] ExitStatus verb_export(Arguments arguments);
[[nodiscard]] ExitStatus verb_serve(Arguments arguments);

}  // namespace gpuinfer::cli
