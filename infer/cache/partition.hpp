// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infer/asking/conflict_class.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/cache/conflicts.hpp"
#include "infer/cache/pushed_out.hpp"

namespace gpuinfer::infer {

// Which line goes to which set, found from conflicts alone: no assumption on policy, powers of two, equal sets, or
// index.
struct Partition {
  std::vector<ConflictClass> classes;
  Offsets window;         // contiguous lines, all assigned to a class when complete
  bool complete = false;  // every line that was tried belongs to a class
  std::string reason;     // when not complete
};

class Partitioner {
 public:
  // `onset_lines`: so many contiguous lines from aligned_start() fit, one more does not.
  Partitioner(Interrogator& device, Conflicts& conflicts, std::uint64_t line_bytes, std::size_t onset_lines);

  // The set that overflows first: of the first onset_lines + 1 lines those that map to it. None: `reason` says why.
  [[nodiscard]] std::optional<ConflictClass> first_set(std::string& reason);

  // Finds all sets that a window of several times the onset reaches, and to which of them single bits of the address
  // and lines drawn from all over the buffer go.
  [[nodiscard]] Partition find(ConflictClass first);

  // Assigns further contiguous lines to the classes, until the window has `lines` lines or the buffer ends. Sets of
  // which the window had too few lines are added, behind the others.
  void extend(Partition& partition, std::size_t lines);

 private:
  [[nodiscard]] std::vector<Offsets> in_fitting_chunks(Offsets lines);
  [[nodiscard]] std::vector<Offsets> unclaimed_chunks(std::vector<ConflictClass>& sets, Offsets lines);
  [[nodiscard]] std::optional<ConflictClass> set_of(Offsets lines);
  [[nodiscard]] std::optional<ConflictClass> extract(const Offsets& overflowing, std::string& reason);
  [[nodiscard]] std::optional<ConflictClass> extract_by_witness(const Offsets& overflowing,
                                                                const std::vector<bool>& known);
  [[nodiscard]] Offsets members_by_removal(const Offsets& overflowing);
  void claim(std::vector<ConflictClass>& sets, Offsets& chunk);
  void claim_members(ConflictClass& set, Offsets& chunk);
  void claim_by_laps(std::vector<ConflictClass>& sets, Offsets& lines);
  [[nodiscard]] bool claim_by_number(std::vector<ConflictClass>& sets, Offsets& lines);
  [[nodiscard]] Offsets wrongly_claimed(std::vector<ConflictClass>& sets);
  void find_thrashing_sets(std::vector<ConflictClass>& sets, Offsets& resident, Offsets& further);
  [[nodiscard]] std::optional<std::vector<ConflictClass>> complete(std::span<const SetOverflow> overflows,
                                                                   Offsets& further);
  void settle(Partition& partition, Offsets& resident, std::vector<Offsets> chunks);
  [[nodiscard]] bool assign(Partition& partition, Offsets& resident, std::vector<Offsets>& chunks);
  [[nodiscard]] std::size_t longest_fitting_prefix(const Offsets& resident, const Offsets& chunk);
  [[nodiscard]] std::vector<Offsets> further_chunks(Partition& partition, std::size_t lines, const Offsets& resident);
  // Gives the partition up when it has cost too much.
  [[nodiscard]] bool is_too_dear(Partition& partition);
  [[nodiscard]] Offsets lines_between(std::size_t first, std::size_t last) const;
  [[nodiscard]] Offsets lines_far_away(std::size_t window_lines);

  Interrogator* device_;
  Conflicts* conflicts_;
  std::uint64_t line_bytes_;
  std::size_t onset_lines_;
  std::uint64_t start_;
  std::size_t buffer_lines_;
  std::size_t most_chunk_lines_;
  std::size_t chunk_lines_;
  std::size_t accesses_before_ = 0;       // the partition
  std::size_t accesses_at_last_set_ = 0;  // that was found
  std::size_t sets_found_ = 0;
  bool neighbours_crowd_ = false;
  bool has_claimed_by_number_ = false;
  bool witness_helps_ = false;  // where the laps of Conflicts show too little, and are no cheaper
  model::Random random_;
};

}  // namespace gpuinfer::infer
