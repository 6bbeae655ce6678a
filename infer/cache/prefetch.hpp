// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "infer/asking/cache_claims.hpp"
#include "infer/asking/interrogator.hpp"

namespace gpuinfer::infer {

// Claims of the lines that come along with what is loaded: none, the next ones, or those that go on in equal steps. By
// loads of places near to one another from an empty start, with the translations of their pages there before and not,
// against all rules of Fill at once. Asks in L2 and L3, and elsewhere where there may be one.
void claim_prefetch(Interrogator& device, CacheClaims& claims, bool may_prefetch);

}  // namespace gpuinfer::infer
