// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "model/access_sequence.hpp"
#include "model/address.hpp"
#include "model/cache_simulator.hpp"
#include "model/device_description.hpp"
#include "model/line_decoder.hpp"
#include "model/set_finder.hpp"
#include "model/trace.hpp"

namespace gpuinfer::model {

// What the question has set aside protects so many ways; where it sets nothing aside, as `hints` says.
[[nodiscard]] std::uint32_t protected_ways(const CacheDescription& cache, const Question& question);

// Sets under LRU whose loads may carry hints (`hints`, model/device_description.hpp). It knows no stores.
class HintedCache {
 public:
  // Needs line_bytes, sector_bytes, ways, index, replacement and hints. Throws InputError for what cannot stand beside
  // hints.
  explicit HintedCache(const CacheDescription& cache);

  void put_into(StartState state);
  // From the next access on.
  void protect(std::uint32_t ways) { hints_.protected_ways = ways; }
  // `kind`: no store. Throws InputError where the index does not cover the address.
  Outcome access(Address address, AccessKind kind);

 private:
  enum class Mark : std::uint8_t { none, first, last };

  struct Line {
    std::uint64_t number = 0;
    std::uint64_t sectors = 0;  // that are there
    Mark mark = Mark::none;
  };

  using Lines = std::vector<Line>;  // of a set, the oldest first

  [[nodiscard]] Mark mark_after(Mark before, AccessKind kind) const;
  [[nodiscard]] static Lines::iterator victim_in(Lines& lines);  // not empty
  void unprotect_what_is_too_many(Lines& lines) const;

  LineDecoder decoder_;
  std::vector<std::uint64_t> fetched_with_;  // by sector: the sectors that come when it is missed
  std::vector<std::uint32_t> ways_;
  SetFinder finder_;
  Hints hints_;
  std::vector<Lines> sets_;
};

// Of the recorded part: put into its state, warmed, recorded.
[[nodiscard]] std::vector<Outcome> outcomes_of(HintedCache& cache, const Question& question, Address address_of_buffer);

}  // namespace gpuinfer::model
