// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "infer/asking/claim.hpp"
#include "infer/asking/conflict_class.hpp"
#include "infer/cache/conflicts.hpp"
#include "infer/cache/partition.hpp"
#include "infer/cache/set_map.hpp"
#include "infer/cache/whole_lines.hpp"
#include "model/index_function.hpp"

namespace gpuinfer::infer {

struct FoundSets {
  Claim<std::vector<std::uint32_t>> ways = {};
  Claim<model::IndexFunction> index = {};  // sets have the numbers that it gives them
  std::optional<std::vector<unsigned>> exercised_bits = {};
  std::vector<ConflictClass> single_sets = {};  // to experiment with
  PackingCheck packings = {};                   // with this index
  CrowdCheck crowds = {};
  WholenessCheck wholeness = {};

  [[nodiscard]] bool refuted() const { return packings.failed() || crowds.all_stayed > 0 || !wholeness.holds; }
};

// The sets of a cache one of whose sets is known: by index functions that this set suggests, else line by line. No
// value for `ways`: its `reason` says why.
[[nodiscard]] FoundSets find_sets(Interrogator& asker, Conflicts& conflicts, Partitioner& partitioner,
                                  ConflictClass first, std::uint64_t line_bytes, std::size_t onset_lines);

// Without a policy that predicts, only many packings and crowds, and lines that stay whole, can say whether the sets
// are what they seem. `contradicting`: places in lines that a policy in these sets did not predict, one of which may
// lie in another set.
void check_without_policy(Interrogator& asker, Conflicts& conflicts, std::uint64_t line_bytes,
                          std::uint64_t sector_bytes, const Offsets& contradicting, FoundSets& sets);

// Whether the index says of every line of the buffer to which set it goes.
[[nodiscard]] bool covers_buffer(const model::IndexFunction& index, const model::BufferFacts& buffer);

}  // namespace gpuinfer::infer
