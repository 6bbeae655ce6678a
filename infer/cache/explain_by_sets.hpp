// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "infer/asking/cache_claims.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/cache/conclude.hpp"
#include "infer/cache/conflicts.hpp"

namespace gpuinfer::infer {

// One strategy: sets, each with the lines that the index sends there and with one policy. Needs sector, onset and line.
// `device`: what may have touched its answers is looked up there.
void explain_by_sets(Interrogator& asker, const model::Answerer& device, Conflicts& conflicts, CacheClaims& claims,
                     Doubts& doubts);

}  // namespace gpuinfer::infer
