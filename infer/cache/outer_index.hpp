// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "infer/cache/index_fit.hpp"
#include "infer/cache/outer_laps.hpp"

namespace gpuinfer::infer {

struct OuterIndexFit {
  std::optional<IndexFit> fit;  // names are places in the sets that were given; none: `reason` says why
  std::size_t lines = 0;        // whose sets were found
  std::string reason;
  bool meets_other_sets = false;  // some lines behave as those of none of the sets, which are then not all there are
};

// The index of a level behind a nearer one, all `sets` of which are known. To which of them a line goes is told by
// random halves of them that overflow while the others are empty: there the line misses, or hits. Lines of a
// contiguous window and lines from everywhere are asked, as many as it takes to fit a function; then others, which it
// has to predict.
[[nodiscard]] OuterIndexFit find_outer_index(Interrogator& device, std::uint64_t granule_bytes,
                                             const std::vector<Overfull>& sets);

}  // namespace gpuinfer::infer
