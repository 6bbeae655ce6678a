// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "infer/asking/cache_claims.hpp"
#include "infer/asking/finding.hpp"

namespace gpuinfer::infer {

// What speaks against claims about a cache.
enum class Doubt {
  unproven,           // no prediction of the whole description holds, nor were sets counted: always, without a proof
  mispredicted,       // a complete description was put to the test and failed
  contradicted,       // by answers, and not for lack of them
  undescribed,        // beside sets and their policy something else is at work
  levels_unclear,     // hits and misses cannot be told apart well enough
  onset_unconfirmed,  // neither a set that overflows there nor another array showed the onset again
  line_uncertain,     // longer lines were ruled out only by answers that differed, which chance makes do, too
  started_flooded,    // no question began with an empty cache
  disturbed,          // something else may have touched the answers
  cut_short,          // the asking ended before the stages did
};

// Each with a sentence that says what was seen.
using Doubts = std::map<Doubt, std::string>;

// Decides which leaves are resolved, by one table. What is claimed and not resolved is left as an alternative, with
// the sentences of the doubts. Without a proof there must be a sentence for `unproven`. Confidence comes from
// the trials of the prediction, where that proves a leaf, else of the claim. Values that cannot hold together are left
// open, both of them. Fills `cache` and `evidence` but for the
// inquiries.
[[nodiscard]] CacheFinding conclude(const CacheClaims& claims, const Doubts& doubts);

// All values that are claimed, proven or not.
[[nodiscard]] model::CacheDescription claimed_cache(const CacheClaims& claims);

}  // namespace gpuinfer::infer
