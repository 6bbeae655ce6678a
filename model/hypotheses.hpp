// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/index_function.hpp"
#include "model/line_decoder.hpp"
#include "model/line_table.hpp"
#include "model/replacement.hpp"

namespace gpuinfer::model {

// What is supposed of a cache whose lines and sectors are known. The replacement is deterministic, a miss brings its
// sector.
struct Hypothesis {
  IndexFunction index;
  std::vector<std::uint32_t> ways;  // one entry for each set
  Replacement replacement;
};

// How an access was measured.
enum class Measured : std::uint8_t { hit, miss, unclear };

// Sequences that were played from a clean cache, with what was measured, and how many of their accesses hypotheses get
// wrong: the same numbers as from simulating each hypothesis alone, but what several have in common is done once. That
// is the decoding of the sequences; the split into sets, for all that split alike; and each set that several fill with
// the same lines under the same policy.
class HypothesisTester {
 public:
  HypothesisTester(std::uint64_t line_bytes, std::uint64_t sector_bytes) : decoder_(line_bytes, sector_bytes) {}

  // Addresses as played, and what was measured at each.
  void add(std::span<const std::uint64_t> addresses, std::span<const Measured> measured);

  // For each hypothesis the measured accesses, not the unclear ones, that it predicts otherwise. At most `jobs` threads
  // (none given: one for each core); the result does not depend on it. Throws InputError when an index does not cover
  // an address, when the policy leaves something to chance, or when it does not fit the ways.
  [[nodiscard]] std::vector<std::size_t> wrong(std::span<const Hypothesis> hypotheses,
                                               std::optional<std::size_t> jobs) const;

 private:
  friend class HypothesisSearch;

  // The first of several accesses to a line in succession, or any access when lines have sectors. What was measured is
  // of the first one; those after it can only hit. Kept small, because all of them pass through memory for each
  // partition.
  struct Step {
    std::uint32_t line = 0;  // an id of table_
    std::uint16_t repeats = 0;
    std::uint8_t sector = 0;
    Measured measured = Measured::unclear;

    [[nodiscard]] std::size_t wrong_if_hit() const { return measured == Measured::miss ? 1 : 0; }
    [[nodiscard]] std::size_t wrong_if_miss() const { return measured == Measured::hit ? 1 : 0; }
  };

  LineDecoder decoder_;
  LineTable table_;
  std::vector<std::vector<Step>> sequences_;
  std::size_t always_wrong_ = 0;  // misses where nothing but a hit is possible
};

}  // namespace gpuinfer::model
