// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/answerer.hpp"

namespace gpuinfer::probe {

// What two runs must have in common for one to go on with the other, as texts by name.
using RunFacts = std::map<std::string, std::string>;

// What a device is, without what may change between two runs on the same one, such as its clock at the moment.
[[nodiscard]] RunFacts run_facts_of(const model::DeviceFacts& facts);

// Throws InputError when `now` has another value, or lacks one, for a name in `begun`, unless all that differs is the
// address of a buffer. `file`: where that stands.
void check_same_run(const std::filesystem::path& file, const RunFacts& begun, const RunFacts& now);

// Of these targets those whose buffer has another address by now: what was answered of them does not count.
[[nodiscard]] std::vector<std::string> targets_elsewhere(std::span<const std::string> targets, const RunFacts& begun,
                                                         const RunFacts& now);

}  // namespace gpuinfer::probe
