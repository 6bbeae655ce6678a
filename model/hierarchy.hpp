// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/address.hpp"
#include "model/cache_simulator.hpp"
#include "model/device_description.hpp"

// A path of memory, played access by access: data caches one behind the other, the TLBs beside them, and what each
// access costs by where its data and its translation were found (Mei & Chu 2014, section 4.2 and table 3).
namespace gpuinfer::model {

// Where the translation of an access was found.
enum class Translation : std::uint8_t {
  not_needed,  // the path has no TLB, or the data lay in a cache before the first that is looked up translated
  first_tlb,
  second_tlb,
  walk,              // in no TLB, so in the page tables
  walk_with_switch,  // the same, and the page tables had to be made active first
};

struct AccessClass {
  std::optional<std::uint8_t> cache;  // position in PathDescription::caches of the one that had the data; none: memory
  Translation translation = Translation::not_needed;
  // The data lay in another partition of that cache than the near one. Where copies are kept, no second load of the one
  // SM that loads is far.
  bool far = false;

  bool operator==(const AccessClass&) const = default;
};

// The caches and TLBs of a path.
//
// A data cache is looked up when the one before it missed. Every access looks up the first TLB, whether its data is in
// a data cache or not; only PathDescription::translated_from makes an exception, for hits in a cache before that one.
// The second TLB is looked up when the first one missed, and the page tables when both did. Whatever missed is filled,
// and what was not looked up keeps its state: a hit in the first TLB does not make the entry of the second one younger.
// Lines that a cache prefetches come out of nowhere: the levels behind it do not see them.
//
// Of the page tables one window is active, page_window_bytes long and aligned to that. Only a walk needs it, so a hit
// in a TLB never switches. The first walk after a clean start finds its window active, as the launch of a kernel leaves
// it; StartState::invalidated empties caches and TLBs, and the window stays.
class HierarchySimulator {
 public:
  // The path of that name. `seed` drives the chance in replacement policies. Throws InputError that names the path when
  // it is not there, and the leaf that is null when a cache cannot be simulated.
  HierarchySimulator(const DeviceDescription& device, const std::string& path, std::uint64_t seed);

  void put_into(StartState state);

  // Loads from the addresses (not offsets) in order. `classes` is either empty or as long as `addresses`. Throws
  // InputError when an address lies outside the range of a table index.
  void play(std::span<const std::uint64_t> addresses, std::span<AccessClass> classes);

 private:
  struct Level {
    std::string name;
    std::unique_ptr<CacheSimulator> cache;
    std::optional<Partitions> partitions;
    std::uint64_t sector_bytes = 0;
  };

  // Positions of accesses in a block of addresses, in order.
  using Positions = std::vector<std::uint32_t>;

  void play_block(std::span<const std::uint64_t> addresses);
  void look_up_data(std::uint8_t cache, std::span<const std::uint64_t> addresses, Positions& missing);
  void translate(std::span<const std::uint64_t> addresses, Positions missing);
  void walk(std::span<const std::uint64_t> addresses, const Positions& walking);
  void look_up(const Level& level, std::span<const std::uint64_t> addresses, const Positions& positions);

  std::vector<Level> caches_;
  std::vector<Level> tlbs_;
  std::size_t translated_from_ = 0;  // in caches_
  std::optional<std::uint64_t> page_window_bytes_;
  std::optional<std::uint64_t> active_window_;
  std::vector<AccessClass> classes_;  // of the block that is played
  std::vector<std::uint64_t> looked_up_;
  std::vector<Outcome> outcomes_;
};

// The classes of the recorded part of a question on a path: put into its state, warmed, recorded.
[[nodiscard]] std::vector<AccessClass> classes_of(HierarchySimulator& path, const Question& question,
                                                  Address address_of_buffer);

struct ClassLatency {
  double cycles = 0;
  std::optional<AccessPattern> pattern;  // none: no pattern speaks of the class
  bool derived = false;                  // not itself one of the latencies of the patterns
};

// Latencies of the classes of a path, from those of the access patterns, the path's own or else the device's.
//
// The patterns speak of one cache that hits. Where the path has two, P1 is a hit in the first one and the other
// patterns are of the second: on Fermi with its L1 on, P2 to P5 are paths of the L2, and P2 - P1 is no cost of a TLB.
// Let C be the last cache. Classes without a pattern are derived:
//
//   C, first TLB, behind another cache A   P2 - (P2' - P1'), with P1' and P2' from the path of the same device that has
//                                          the same TLBs and C alone (A switched off); without such a path
//                                          latency_cycles.miss of A, which is a hit in the next level
//   memory, second TLB                     P4 + (what the second TLB costs on a hit in C)
//   C, walk with a switch                  P3 + (P6 - P5)
//   far partition                          far_cycles more
//
// A translation that is not needed costs what a hit in the first TLB does. For a hit in A with a miss in the first TLB
// there is nothing to derive from: either it does not happen (translated_from) or it is refused.
class PathLatencies {
 public:
  // Throws InputError that names the path when it is not there or when no latencies are.
  PathLatencies(const DeviceDescription& device, const std::string& path);

  // Throws InputError that names the path, the class, and what is null or missing.
  [[nodiscard]] ClassLatency of(const AccessClass& access) const;

 private:
  [[nodiscard]] ClassLatency of_near(const AccessClass& access) const;
  [[nodiscard]] double cycles_of(AccessPattern pattern, const AccessClass& needed_for) const;
  [[nodiscard]] double second_cache_hit_cycles(const AccessClass& needed_for) const;
  [[nodiscard]] std::string said_of(const AccessClass& access) const;

  std::string name_;
  PathDescription path_;
  PatternLatencyCycles patterns_;
  std::optional<PatternLatencyCycles> patterns_without_first_cache_;
  std::optional<double> first_cache_miss_cycles_;
  std::vector<double> far_cycles_;  // by cache
};

// As it stands in messages and files: the name of the cache or `memory`; the name of the TLB, `walk` or `none`.
[[nodiscard]] std::string data_name(const PathDescription& path, const AccessClass& access);
[[nodiscard]] std::string translation_name(const PathDescription& path, const AccessClass& access);

}  // namespace gpuinfer::model
