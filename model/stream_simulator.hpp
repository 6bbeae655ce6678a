// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/device_description.hpp"
#include "model/workload.hpp"

namespace gpuinfer::model {

struct StreamTime {
  double cycles = 0;
  double seconds = 0;
};

// How long a run takes on a device whose memories give what its bandwidths say at most, and less than that while too
// few bytes are outstanding to hide a latency (Little's law). A dataset comes out of the first cache on its path that
// holds all of it, that of an SM if it holds what the SM loads; going round in a larger one, nothing is found again,
// nor anything in an L2 that is dropped before. Throws InputError that names the bandwidth that is null and needed, or
// that is not known for elements of this size.
[[nodiscard]] StreamTime time_of(const DeviceDescription& device, const Stream& stream);

// What a run moves on such a device: all that is loaded or stored comes out of the same memory.
[[nodiscard]] CacheTraffic traffic_of(const DeviceDescription& device, const Stream& stream);

}  // namespace gpuinfer::model
