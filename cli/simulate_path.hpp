// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "model/device_description.hpp"
#include "model/trace.hpp"

namespace gpuinfer::cli {

// What simulate --path writes: rows
//   access,offset,data,translation,window_switch,pattern,latency_cycles,source,partition
// of the questions, one after the other on the same path. `data` is a cache or memory, `translation` a TLB, walk or
// none, `window_switch` 0 or 1, `pattern` P1 to P6 or empty, `source` published or derived (model/hierarchy.hpp),
// `partition` near, far or empty. Throws InputError that names `file`, also for an access that the path has no latency
// for.
void write_path_rows(std::ostream& out, const model::DeviceDescription& device, const std::string& file,
                     const std::string& path, const std::vector<model::Question>& questions, model::Address address,
                     std::uint64_t seed);

}  // namespace gpuinfer::cli
