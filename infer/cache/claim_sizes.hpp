// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "infer/asking/cache_claims.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/asking/warning.hpp"
#include "infer/cache/conclude.hpp"
#include "infer/cache/conflicts.hpp"
#include "infer/cache/granularity.hpp"
#include "infer/cache/known_outcomes.hpp"

// Claims that need neither sets nor policy. Each stage needs the values of those before it.
namespace gpuinfer::infer {

// None: hits cannot be told from misses, and nothing more can be asked.
[[nodiscard]] std::optional<LevelClassifier> claim_latency(Asker& asker, Spans spans, CacheClaims& claims,
                                                           std::vector<Warning>& warnings);

// As it was found.
FillGranularity claim_sector(Interrogator& asker, CacheClaims& claims, Doubts& doubts);

void claim_onset(Interrogator& asker, Conflicts& conflicts, CacheClaims& claims);

// By another array, where no set is looked into.
void confirm_onset_elsewhere(Interrogator& asker, Conflicts& conflicts, const CacheClaims& claims, Doubts& doubts);

// Line, ways, capacity, index and policy of a level behind a nearer one, in which lines of one set, and whoever follows
// a single line, would be found; and the onset that follows from them.
void claim_outer_sets(Interrogator& asker, CacheClaims& claims);

void claim_line(Interrogator& asker, Conflicts& conflicts, CacheClaims& claims, Doubts& doubts);

// All ways of all sets, if they are claimed.
void claim_capacity(CacheClaims& claims);

// Where nothing has proven the line: whether each sector takes room of its own, by random loads. Needs sector_bytes.
void claim_line_of_one_sector(Interrogator& asker, CacheClaims& claims);

// Where nothing has explained the cache: doubts a line of several sectors some of which go without the others. Needs
// line_bytes, sector_bytes and onset_bytes.
void doubt_long_line(Interrogator& asker, const CacheClaims& claims, Doubts& doubts);

// Where nothing has explained the cache, and lines are told: how many there is room for, by random loads.
void claim_room(Interrogator& asker, CacheClaims& claims);

}  // namespace gpuinfer::infer
