// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "infer/asking/cache_claims.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/asking/warning.hpp"

namespace gpuinfer::infer {

// Claims what the circumstances of a question change about the cache: `partitions`, `resident_bytes`, `shared_by_sms`,
// `carveouts`, `shared_with` and `sms`, each only where the device heeds what it takes, and of L1 where others lead to
// it. Where what is far stays far, `latency_cycles` becomes that of a near hit. A refusal of one says nothing of the
// rest. Throws what the interrogator throws, but for QuestionRefused.
void claim_circumstances(Interrogator& asker, CacheClaims& claims, std::vector<Warning>& warnings);

}  // namespace gpuinfer::infer
