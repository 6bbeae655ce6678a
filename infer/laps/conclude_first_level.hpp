// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/asking/finding.hpp"
#include "infer/cache/latency_levels.hpp"
#include "model/device_description.hpp"

// Decides what laps say of a nearest cache or TLB. Asks nothing.
namespace gpuinfer::infer {

// How many units (lines, pages) at such a distance fit.
struct UnitFit {
  std::uint64_t distance = 1;
  std::size_t units = 0;
};

// S sets of W ways, chosen by the lowest bits of the number of the unit.
struct LowBitSets {
  std::uint64_t sets = 1;
  std::uint64_t ways = 0;

  [[nodiscard]] std::uint64_t units() const { return sets * ways; }
  // How many units at such a distance, a power of two, fit.
  [[nodiscard]] std::uint64_t fitting(std::uint64_t distance) const {
    return std::max<std::uint64_t>(1, sets / distance) * ways;
  }
};

// None: no such sets. `fits`: at distances of 1, 2, 4, ... units; at the longest ones all go to one set.
[[nodiscard]] std::optional<LowBitSets> sets_of_fits(std::span<const UnitFit> fits);

// What was measured of a first level, one after another, until something says no.
struct FirstLevelSeen {
  std::string units;  // what they are
  std::uint64_t unit_bytes = 0;
  std::uint64_t buffer_bytes = 0;

  // The quickest loads of 2, 4 and 8 units, which fit anywhere.
  struct Hits {
    double least_cycles = 0;
    double most_cycles = 0;
    bool are_alike = false;
  };
  std::optional<Hits> hits = {};

  // Whether more than this many units at a distance fit was not to be seen: there are no more, or the largest number
  // that fitted did not come up again.
  struct NoEnd {
    std::uint64_t distance = 1;
    std::optional<std::size_t> all_units = {};
  };
  std::optional<NoEnd> no_end = {};
  std::optional<std::vector<UnitFit>> fits = {};

  // How many of so many fillings of all sets fit, and with one unit more.
  struct Fillings {
    std::size_t draws = 0;
    std::size_t full_that_fitted = 0;
    std::size_t surplus_that_fitted = 0;

    [[nodiscard]] std::string text() const;
  };
  std::optional<Fillings> fillings = {};

  std::optional<bool> is_whole = {};  // no unit is made of smaller ones
};

struct FirstLevelVerdict {
  // With capacity, onset, line, ways and index. None: all of them are open.
  std::optional<model::CacheDescription> cache = {};
  std::string reason = {};                           // why
  std::optional<std::uint64_t> capacity_bytes = {};  // that it may have all the same
};

// None: what was seen leaves nothing open yet, and the next is to be measured.
[[nodiscard]] std::optional<FirstLevelVerdict> conclude_first_level(const FirstLevelSeen& seen);

// `beyond_cycles`: of loads of numbers of units more than fit.
[[nodiscard]] LatencyLevels conclude_latency(double hit_cycles, const std::vector<double>& beyond_cycles);

// Adds to what laps tell what single loads tell besides; the policy only with the sets for which it was proven. Values
// that both tell and that differ become alternatives of each other.
void add_single_loads(const CacheFinding& singles, CacheFinding& laps);

}  // namespace gpuinfer::infer
