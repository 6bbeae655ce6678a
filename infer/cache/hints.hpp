// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "infer/asking/cache_claims.hpp"
#include "infer/asking/interrogator.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

// What hints may do in sets of so many ways.
[[nodiscard]] std::vector<model::Hints> rules_of_hints(std::uint32_t ways);

// What a question finds in sets: nothing, or lines that are none of its own, some of them protected perhaps.
enum class SetsAtStart { empty, full };

// Claims `hints` of a device whose loads take them, and `set_asides` where it sets something aside; nothing of another
// device. Of all rules those stay that predict which loads without a hint miss among loads with hints, drawn by chance
// from lines of a set, few or more than fit; what stays has to predict such loads of fresh sequences, by votes and by
// single answers. How many ways are protected by what is set aside shows where as many lines as fit are loaded to be
// evicted last and as many others pass: where the number changes is found by halving, and has to tell the number for
// fresh sizes. Needs line, sector, ways, index and an LRU.
void claim_hints(Interrogator& device, SetsAtStart start, CacheClaims& claims);

}  // namespace gpuinfer::infer
