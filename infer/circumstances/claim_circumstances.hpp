// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "infer/asking/cache_claims.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/asking/warning.hpp"

namespace gpuinfer::infer {

// What the circumstances of a question change about a cache, each only where the device heeds what it takes. A refusal
// of one leaf says nothing of the rest. Both throw what the interrogator throws, but for QuestionRefused.

// Claims `partitions` of the cache of all SMs. Where what is far stays far, `latency_cycles` becomes that of a near
// hit. `done`: the part of the run that is behind it, in [0, 1].
void claim_partitions(Interrogator& asker, CacheClaims& claims, double done);

// Claims `resident_bytes`, `shared_by_sms`, `carveouts`, `shared_with` and `sms`, of L1 where others lead to it.
void claim_circumstances(Interrogator& asker, CacheClaims& claims, std::vector<Warning>& warnings);

}  // namespace gpuinfer::infer
