// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"

namespace gpuinfer::infer {

// Asks `device` for thread-latency plots (Lashgar et al. 2015): 1 to 1,024 threads with one to eight independent loads
// each and 1 to 32 of them on one line, from L2 and, where that does not decide it, from beyond. What is resolved is
// the one table (infer/threads/outstanding_fit.hpp) that every point of every plot allows, that at least two knees at
// different numbers of threads demand, and whose knees are then found where it predicts them on points that took no
// part: other numbers of loads and threads, and lines that are not in L2, so that no cache is taken for a table. Where
// nothing jumps, the details of `entries` say how much was outstanding at least.
//
// Throws DeviceError only when the device failed before anything was learned.
[[nodiscard]] OutstandingFinding infer_outstanding(model::Answerer& device, const std::string& target,
                                                   const Settings& settings);

}  // namespace gpuinfer::infer
