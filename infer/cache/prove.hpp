// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "infer/asking/cache_claims.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/cache/conclude.hpp"
#include "infer/cache/find_sets.hpp"

namespace gpuinfer::infer {

// Puts a description with sets, index and policy to the test: fresh random sequences, packings, victims of a random
// policy, the size that contiguous lines showed. It adds `prediction`, and `predicted_trials` if all of it holds, else
// doubts. `device`: what may have touched its answers is looked up there. Returns a place in each line of a sequence in
// which a load does otherwise each time, none without one.
[[nodiscard]] Offsets prove(Interrogator& asker, const model::Answerer& device, const FoundSets& sets,
                            CacheClaims& claims, Doubts& doubts);

// Where the policy or the sets are not known, how far the plainest assumptions go: the sets as found, else a single
// one, with each deterministic policy that needs no parameters. It proves nothing; latencies that belong to no level
// are a doubt all the same. Needs `onset_bytes` and `line_bytes`.
void predict_as_well_as_possible(Interrogator& asker, CacheClaims& claims, Doubts& doubts);

}  // namespace gpuinfer::infer
