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

  // The event tells nothing of the lines that a prefetch brings.
  model::AccessEvent access(std::uint64_t address, model::AccessKind kind);

 private:
  struct Line {
    std::uint64_t number;                // address / line_bytes
    std::set<std::uint64_t> sectors;     // those that are present
    std::set<std::uint64_t> words = {};  // those that stores wrote
    bool is_dirty = false;
    std::uint64_t used = 0;  // when it came, was found or was completed last
  };
  struct Set {
    std::vector<std::optional<Line>> ways;
    std::size_t ghosts = 0;  // lines that are invalid and still have room
    std::unique_ptr<NaivePolicy> policy;
  };

  model::AccessEvent touch(std::uint64_t address, model::AccessKind kind);
  model::AccessEvent touch_and_clean(std::uint64_t address, model::AccessKind kind);
  [[nodiscard]] bool is_partial(const Line& line) const;
  [[nodiscard]] std::optional<std::uint64_t> step_of_prefetch(std::uint64_t line, model::Outcome outcome) const;
  bool came_back(const model::AccessEvent& event, std::uint64_t line);
  [[nodiscard]] std::size_t lines_in_bank(std::size_t bank) const;
  void sweep(std::size_t bank, std::uint64_t lines, const model::AccessEvent& event, std::uint64_t line,
             bool counts_itself_first);

  // Whether a load of that byte of the line needs nothing from below.
  [[nodiscard]] bool has(const Line& line, std::uint64_t byte) const;
  // What comes from below with an access to that byte, so many bytes at a time.
  void fetch(Line& line, std::uint64_t byte, std::uint64_t bytes) const;
  void write(Line& line, std::uint64_t byte) const;

  const model::CacheDescription& cache_;
  Dice dice_;
  Community community_;
  std::vector<Set> sets_;
  std::uint64_t now_ = 0;
  std::vector<std::size_t> pointers_;  // by bank
  std::vector<std::uint64_t> recent_;  // lines, in the order in which they were accessed
  std::list<std::uint64_t> victims_;   // lines, the last one at the end
  std::unique_ptr<model::CacheDescription> described_twin_;
  std::unique_ptr<NaiveCache> twin_;
};

}  // namespace gpuinfer::oracle
