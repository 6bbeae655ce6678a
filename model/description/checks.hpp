// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/device_description.hpp"
#include "model/yaml_place.hpp"

// How leaves of one part fit one another and what was read before. Throw InputError at the leaf that does not.
namespace gpuinfer::model {

void check(const Place& place, const CacheDescription& cache);
void check(const Place& place, const TextureDescription& texture, const DeviceDescription& description);
void check(const Place& place, const CodeDescription& code);

}  // namespace gpuinfer::model
