// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/answerer.hpp"

namespace gpuinfer::probe {

// The archives of a folder, sorted, the one with its name (h200/h200.h5) before all others.
[[nodiscard]] std::vector<std::filesystem::path> recordings_in(const std::filesystem::path& folder);

// All recordings of a folder as one device: the first of them that has answers of a target answers for it, from the
// buffer that it was recorded in. What the device says of itself and is not the same in all of them stands under
// `TARGET.KEY` in provenance. Archives are read when their first target is asked.
// `source` is what --device named. Throws InputError where the folder has no archive, and where archives are of devices
// with different names or were recorded with different seeds.
[[nodiscard]] std::unique_ptr<model::Answerer> open_recordings(const std::filesystem::path& folder,
                                                               const std::string& source);

}  // namespace gpuinfer::probe
