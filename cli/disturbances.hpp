// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "model/answerer.hpp"
#include "probe/archive.hpp"

namespace gpuinfer::cli {

// Warns of what disturbed a device that has answered, and adds it to the archive, if there is one.
// Returns what belongs in the provenance of a profile: nothing when nothing happened.
std::map<std::string, std::string> tell_disturbances(const model::Answerer& device, probe::ArchiveWriter* archive);

}  // namespace gpuinfer::cli
