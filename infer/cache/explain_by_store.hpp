// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "infer/asking/cache_claims.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/cache/conclude.hpp"

namespace gpuinfer::infer {

// What speaks for a store of lines apart from the tags.
enum class StoreEvidence : std::uint8_t { none, seen, proven };

// Whether the claims so far leave room for one, and questions can be asked that show it.
[[nodiscard]] bool may_have_store(const Interrogator& asker, const CacheClaims& claims, const Doubts& doubts);

// The other strategy: more tags than lines of data, if loads evict several lines at once. `claims`: of its
// sizes; if it is proven, all of it. `device`: what may have touched its answers is looked up there.
[[nodiscard]] StoreEvidence explain_by_store(Interrogator& asker, const model::Answerer& device, CacheClaims& claims);

}  // namespace gpuinfer::infer
