// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/set_sequence.hpp"

namespace gpuinfer::infer {

// What sequences over one set say of its policy: those that are known here, at every number of ways, are simulated.
// Nothing is resolved: a policy that is not known here may do the same, and of sizes, lines and other sets such
// sequences say nothing. Those that are left are alternatives; `ways_of_the_set` beside them are their numbers of ways.
// `sequences` is not empty.
[[nodiscard]] CacheFinding infer_set_sequences(std::span<const model::SetSequence> sequences, const Settings& settings);

}  // namespace gpuinfer::infer
