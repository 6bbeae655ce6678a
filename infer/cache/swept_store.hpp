// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

#include "infer/asking/interrogator.hpp"
#include "infer/cache/prediction.hpp"
#include "model/device_description.hpp"

// Caches with more tags than lines of data: hashed sets that choose their victims by a policy, in banks, each with a
// store of its own; when that is full, a pointer sweeps the sets and takes several lines at a time (docs/method.md). To
// whoever looks for sets it shows sets that are none: the banks, with as many ways as fit.
namespace gpuinfer::infer {

struct SweptStoreFit {
  // `known` with capacity_bytes, ways, index, exercised_bits, replacement, store_lines, sweep, and of each carve-out
  // what it leaves of the store; none: `reason` says what speaks against it, or what could not be found.
  std::optional<model::CacheDescription> cache;
  std::string reason;
  // Loads evict several lines at once, and lines that evict each other while there is room are those of sets that are a
  // hash. Then there are no sets alone, whatever else was found. Answers of chance do not look like that.
  bool shows_store = false;
  model::EvidenceDetails policy_details;
  Verification verification;  // on fresh sequences, at each size
  // What these would have shown.
  model::DepartureBound bound_of_policy;
  model::DepartureBound bound_of_index;
};

// `known`: line_bytes, sector_bytes and onset_bytes are. Needs a clean start. Where the device offers
// carve-outs, sets are looked for at the largest size, where some of them overflow before the store is full, and the
// sweep at the smallest.
//   1. Some load evicts several lines at once, or it is no such cache (infer/cache/full_store.hpp).
//   2. Lines that go one by one while the store is not full, and the lines that drove them out, are in one set: the
//      differences of their addresses span the kernel of the index. So many more pairs than were needed must agree
//      (infer/cache/hashed_sets.hpp).
//   3. Ways and policy of single sets (infer/cache/tag_store.hpp).
//   4. Banks, places and room from lines that go from a full store (infer/cache/sweep_order.hpp).
//   5. How many lines the pointer takes, and the store has at each size, as random loads decide
//      (infer/cache/sweep_rule.hpp).
//   6. Fresh random loads at every size, all of which must be predicted.
[[nodiscard]] SweptStoreFit find_swept_store(Interrogator& device, const model::CacheDescription& known);

}  // namespace gpuinfer::infer
