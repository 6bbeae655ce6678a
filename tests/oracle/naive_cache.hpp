// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "model/cache_simulator.hpp"
#include "model/device_description.hpp"
#include "model/trace.hpp"
#include "tests/oracle/dice.hpp"
#include "tests/oracle/naive_policies.hpp"

namespace gpuinfer::oracle {

// A cache as a textbook draws it: sets of lines of sectors, looked through one after another.
class NaiveCache {
 public:
  // `cache` has all leaves that a simulation needs, and outlives this. `seed` drives the policies with chance.
  NaiveCache(const model::CacheDescription& cache, std::uint64_t seed);

  void put_into(model::StartState state);

  // A load; the event tells nothing of the lines that a prefetch brings.
  model::AccessEvent load(std::uint64_t address);

 private:
  struct Line {
    std::uint64_t number;             // address / line_bytes
    std::set<std::uint64_t> sectors;  // those that are present
  };
  struct Set {
    std::vector<std::optional<Line>> ways;
    std::size_t ghosts = 0;  // lines that are invalid and still have room
    std::unique_ptr<NaivePolicy> policy;
  };

  model::AccessEvent touch(std::uint64_t address);
  [[nodiscard]] std::optional<std::uint64_t> step_of_prefetch(std::uint64_t line, model::Outcome outcome) const;
  bool came_back(const model::AccessEvent& event, std::uint64_t line);
  [[nodiscard]] std::size_t lines_in_bank(std::size_t bank) const;
  void sweep(std::size_t bank, std::uint64_t lines, const model::AccessEvent& event, std::uint64_t line,
             bool counts_itself_first);

  // True when the sector was there.
  bool fetch(Line& line, std::uint64_t sector) const;

  const model::CacheDescription& cache_;
  Dice dice_;
  Community community_;
  std::vector<Set> sets_;
  std::vector<std::size_t> pointers_;  // by bank
  std::vector<std::uint64_t> recent_;  // lines, in the order of their loads
  std::list<std::uint64_t> victims_;   // lines, the last one at the end
  std::unique_ptr<model::CacheDescription> described_twin_;
  std::unique_ptr<NaiveCache> twin_;
};

}  // namespace gpuinfer::oracle
