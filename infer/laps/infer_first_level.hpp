// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"

namespace gpuinfer::infer {

// The nearest cache or TLB of a device that averages laps. Noise only adds to what a lap takes, so whatever was quick
// once fits; how many units (lines, pages) are too many must be the same each time, for units at all distances and for
// such as are chosen at random. Sets are told where the lowest bits of the number of a unit choose them.
//
// All of these throw DeviceError only when the device failed before anything was learned.

// How many translations of pages a TLB holds, and in which sets. As a cache, it has lines of one page. One line of each
// page is loaded, lines of neighbouring pages at neighbouring places in the page, so that the data caches hold them
// all.
[[nodiscard]] CacheFinding infer_first_tlb(model::Answerer& device, const std::string& target,
                                           const Settings& settings);

// Line, sets, ways and capacity of a cache that is asked in laps; what single loads tell (see infer_cache.hpp) is added
// to it where the device answers such questions, too: sector and policy. They are asked for `most_seconds` at most.
// What both tell must be the same.
[[nodiscard]] CacheFinding infer_first_cache(model::Answerer& device, const std::string& target,
                                             const Settings& settings, double most_seconds = 15);

}  // namespace gpuinfer::infer
