// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "infer/asking/finding.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/asking/leaves.hpp"

namespace gpuinfer::infer {

// Settles what the circumstances of a question change about the cache of the finding: `partitions`, `carveouts`,
// `shared_with` and `sms`, each only where the device heeds what it takes, and of L1 where others lead to it. A refusal
// of one says nothing of the rest. Throws what the interrogator throws, but for QuestionRefused.
void settle_circumstances(Interrogator& device, CacheFinding& finding, Leaves& leaves);

// Leaves open what it settled, as no prediction of hits and misses proves that. `disturbance`: what may have touched
// it.
void withdraw_circumstances(CacheFinding& finding, Leaves& leaves, const std::string& disturbance);

}  // namespace gpuinfer::infer
