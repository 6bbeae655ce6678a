// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "infer/recordings/trace_fit.hpp"

namespace gpuinfer::infer {

// Why the accesses that a fit predicts wrong are not misreads; empty: they may be. Misreads lie evenly over sets, over
// lines, and over the time since a line was loaded last, and one does not bring the next; predicted hits and predicted
// misses may be misread at rates of their own.
[[nodiscard]] std::string doubt_in_errors(const TraceFit& fit, const SetSimulation& simulation);

}  // namespace gpuinfer::infer
