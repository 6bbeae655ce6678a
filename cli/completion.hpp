// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "cli/verbs.hpp"

// Scripts that teach a shell the verbs, their options, and what may stand for a value. The names of published devices
// are those that are there when the script is written.
namespace gpuinfer::cli {

[[nodiscard]] std::string bash_completion(std::span<const Verb> verbs);
[[nodiscard]] std::string zsh_completion(std::span<const Verb> verbs);
[[nodiscard]] std::string fish_completion(std::span<const Verb> verbs);

}  // namespace gpuinfer::cli
