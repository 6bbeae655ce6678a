// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "infer/recordings/trace_fit.hpp"

namespace gpuinfer::infer {

// Why the accesses that a fit predicts wrong are not misreads; empty: they may be. Misreads lie evenly over sets, over
// lines, and over the time since a line was loaded last, and one does not bring the next; predicted hits and predicted
// misses may be misread at rates of their own. Calls at_times() now and then: what that throws ends the search.
[[nodiscard]] std::string doubt_in_errors(
    const TraceFit& fit, const SetSimulation& simulation, const std::function<void()>& at_times = [] {});

}  // namespace gpuinfer::infer
