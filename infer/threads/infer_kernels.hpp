// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

// Asks `device` for each kernel in each variant (model/kernels.hpp), and holds the bytes that it moves through each
// level, as simulated, against the bandwidths in `known` (Konstantinidis & Cotronis 2016, section V and table IV):
// which level has the largest share of its peak, the higher of load and copy peak, in the best of several runs. `known`
// is what was found out before: bandwidths, and how much L1tex (and L1D) and L2 hold; without them nothing is asked.
// Where nothing is known of L2, it holds what the provenance of the device has as `l2_bytes`. A row is resolved when a
// second round repeats its time, and when the level and its share stay the same for caches that hold half or twice as
// much, wherever their lines had to be assumed to be replaced in some order. A share of more than 100 % says that a
// peak is wrong: a warning, and a row that is ambiguous. Throws DeviceError only when the device failed before anything
// was learned.
[[nodiscard]] KernelFinding infer_kernels(model::Answerer& device, const std::string& target,
                                          const model::DeviceDescription& known, const Settings& settings);

}  // namespace gpuinfer::infer
