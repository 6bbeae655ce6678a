// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "infer/cache/conflicts.hpp"
#include "infer/cache/partition.hpp"
#include "model/index_function.hpp"
#include "model/random.hpp"

// An index function put to the test without knowing the replacement policy: lines that it spreads over the sets so that
// each just has room must fit, and where a set gets one more, that set must overflow and no other.
namespace gpuinfer::infer {

// All whole lines of the buffer, as an index function deals them out to sets; of a table those from aligned_start() on.
class LinesOfSets {
 public:
  LinesOfSets(const Interrogator& device, const model::IndexFunction& index, std::uint64_t line_bytes);

  // For each set so many lines as are wanted of it, fewer only where the buffer has no more: half of them from near the
  // start, where a table was found line by line, half from everywhere, where a function is used.
  [[nodiscard]] std::vector<Offsets> draw(std::span<const std::uint32_t> wanted, model::Random& random) const;

  // The same from every 2^stride_exponent-th line, fewer where these do not meet all sets: anything beside sets and
  // ways (tags apart from the data, a coarser hash) shows under some stride first.
  [[nodiscard]] std::vector<Offsets> draw_strided(std::span<const std::uint32_t> wanted, unsigned stride_exponent,
                                                  model::Random& random) const;

 private:
  class Dealer;

  const Interrogator* device_;
  const model::IndexFunction* index_;
  std::uint64_t line_bytes_;
  std::uint64_t start_ = 0;
  std::uint64_t lines_ = 0;  // that the index covers
};

// How many lines each set holds, all sets at once. `likely_ways` is tried first. None: some set cannot be filled from
// the buffer, or does not even hold one line, so that these are not the sets.
[[nodiscard]] std::optional<std::vector<std::uint32_t>> find_ways(Interrogator& device, Conflicts& conflicts,
                                                                  const model::IndexFunction& index,
                                                                  std::uint64_t line_bytes, std::uint32_t likely_ways);

// In each packing a random half of the sets gets one line too many.
struct PackingCheck {
  std::size_t packings = 0;
  std::size_t full_that_missed = 0;     // packings with a set that has just room and missed
  std::size_t surplus_that_fitted = 0;  // packings with a set that has one line too many and did not miss

  [[nodiscard]] bool failed() const { return full_that_missed + surplus_that_fitted > 0; }
  PackingCheck& operator+=(const PackingCheck& more);
};

// Packings `first` to `last`, the last one not included; ends at the first one that fails when `stop_at_failure`.
[[nodiscard]] PackingCheck check_packings(Interrogator& device, Conflicts& conflicts, const model::IndexFunction& index,
                                          const std::vector<std::uint32_t>& ways, std::uint64_t line_bytes,
                                          std::size_t first, std::size_t last, bool stop_at_failure);

// Packings of the lines at these places alone: each of them is in one that just fills its sets, and in one with a line
// too many in each set that has so many of them. Such a packing fails if it does so each of a few times.
[[nodiscard]] PackingCheck check_packings_of(Interrogator& device, Conflicts& conflicts,
                                             const model::IndexFunction& index, const std::vector<std::uint32_t>& ways,
                                             std::uint64_t line_bytes, const Offsets& places);

// Walks over one line more of a set than it has ways. A few of them are loaded over and over while the others pass:
// where a nearer cache, as fast as this one, hides that from the one behind it, all of them stay, and these are not the
// sets.
struct CrowdCheck {
  std::size_t walks = 0;
  std::size_t all_stayed = 0;
};

// `sets`: as single_sets() gives them.
[[nodiscard]] CrowdCheck check_crowds(Interrogator& device, std::span<const ConflictClass> sets);

// Lines of so many sets at most, as experiments on single sets need them: sets that differ in ways come first. Each has
// more lines than ways.
[[nodiscard]] std::vector<ConflictClass> single_sets(const Interrogator& device, const model::IndexFunction& index,
                                                     const std::vector<std::uint32_t>& ways, std::uint64_t line_bytes,
                                                     std::size_t most);

}  // namespace gpuinfer::infer
