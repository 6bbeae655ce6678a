// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "model/answerer.hpp"
#include "model/disturbance.hpp"
#include "probe/hdf5.hpp"

// The attributes of an archive: what its device said of itself. All throw hdf5::Failure.
namespace gpuinfer::probe::archive {

void write_facts(const hdf5::Handle& file, const model::DeviceFacts& facts);

// Throws also for a file of another schema, and for facts that contradict each other.
[[nodiscard]] model::DeviceFacts read_facts(const hdf5::Handle& file);
[[nodiscard]] std::vector<model::Disturbance> read_disturbances(const hdf5::Handle& file);

// Whether the file is of the schema before this one.
[[nodiscard]] bool is_earlier(const hdf5::Handle& file);

}  // namespace gpuinfer::probe::archive
