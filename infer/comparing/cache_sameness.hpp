// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "infer/comparing/judgement.hpp"
#include "model/device_description.hpp"

// Leaves of caches that are the same where they mean the same. Both caches know the leaf.
namespace gpuinfer::infer {

[[nodiscard]] Judgement judge_indices(const model::CacheDescription& first, const model::CacheDescription& second);

// Set numbers are only names: where both indices split the addresses alike, the sets of the same addresses are
// compared, else how many ways there are how often.
[[nodiscard]] Judgement judge_ways(const model::CacheDescription& first, const model::CacheDescription& second);

// The evidence of a random policy says how far its probabilities are known; null: there is none.
[[nodiscard]] Judgement judge_policies(const model::CacheDescription& first, const model::LeafEvidence* first_evidence,
                                       const model::CacheDescription& second,
                                       const model::LeafEvidence* second_evidence);

// The cache with what was found out of its sizes with so much set aside as shared memory; none: nothing was.
[[nodiscard]] std::optional<model::CacheDescription> sizes_at_carveout(const model::CacheDescription& cache,
                                                                       std::uint32_t carveout_kb);

}  // namespace gpuinfer::infer
