// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "model/access_sequence.hpp"
#include "model/answerer.hpp"
#include "model/cache_simulator.hpp"
#include "model/device_description.hpp"
#include "model/hierarchy.hpp"
#include "model/random.hpp"
#include "model/trace.hpp"

namespace gpuinfer::infer {

// How long ago the page and the line of an access were loaded: logarithms of numbers of accesses; none: never before.
struct Recency {
  std::optional<unsigned> page;
  std::optional<unsigned> line;

  auto operator<=>(const Recency&) const = default;
};

// One sequence of loads that meets the access patterns of a path (Mei & Chu 2014, section 4.2, table 3).
struct Chase {
  model::AccessSequence offsets;
  std::vector<std::optional<model::AccessPattern>> patterns;  // of each access; none: of no pattern, or not sure
  // Accesses of no pattern whose data lies behind the first cache, as that of P2 and P3, and whose translation lies in
  // the first TLB: what P2 and P3 are slower than.
  std::vector<char> controls;
  std::vector<Recency> recencies;
  // Accesses with one number loaded the same page in the same lap, so they found its translation in the same place.
  std::vector<std::uint32_t> visits;
};

// Designs such sequences for a described device (cf. Pattern_design_kepler_Maxwell.txt in the supplement of Mei & Chu
// 2016, which is one made by hand). Their parts are laps over lines in pages, so many of each as the simulator of the
// hierarchy says to be good for what is still missing.
//
// An access has a pattern if all ways to complete the description agree: what chance in a policy decides is played with
// several seeds, and a cache or TLB of which the line, the ways, the index or the policy is null is played both as one
// that hardly holds anything and as one from which nothing goes that was loaded lately.
class ChaseDesigner {
 public:
  // Calls `check_limits` every few milliseconds, which throws when it takes too long. Throws InputError when the path
  // is not described or cannot be simulated.
  ChaseDesigner(const model::DeviceDescription& known, const std::string& path, const model::BufferFacts& buffer,
                model::Random random, const std::function<void()>& check_limits);

  // One sentence why a device of this description has no such pattern; none: it has.
  [[nodiscard]] std::optional<std::string> why_absent(model::AccessPattern pattern) const;
  // Whether sequences were found that meet it.
  [[nodiscard]] bool meets(model::AccessPattern pattern) const;
  // Whether P1 is no control of P2 and P3, since its data lies in another cache; see Chase::controls.
  [[nodiscard]] bool needs_controls() const;
  // Whether it includes a walk of page tables to data that no cache has.
  [[nodiscard]] static bool walks_to_memory(model::AccessPattern pattern);
  [[nodiscard]] std::string said_of(model::AccessPattern pattern) const;  // data in L2, translation in L1TLB

  // Offsets of the pages that sequences are made of, ascending.
  [[nodiscard]] const std::vector<std::uint64_t>& pages() const { return pages_; }
  [[nodiscard]] std::uint64_t page_bytes() const { return page_bytes_; }
  // One of the page, that was not loaded yet as far as there is one.
  [[nodiscard]] std::uint64_t new_line(std::uint64_t page);
  // The patterns that these loads meet, to be asked from this start and before the next sequence; none: of no pattern,
  // or not sure.
  [[nodiscard]] std::vector<std::optional<model::AccessPattern>> patterns_of(const model::AccessSequence& offsets,
                                                                             model::StartState start);

  // A sequence that was never designed before, to be asked from this start, and before the next one is designed. Each
  // pattern that can be met is met `times` times, or as often as fits a sequence of tolerable length.
  [[nodiscard]] Chase next(model::StartState start, std::size_t times);

 private:
  static constexpr std::size_t patterns_count = model::pattern_names.size();

  enum class Pages {
    neighbours,
    from_everywhere,
    of_few_sets,  // of the last TLB, which then has no room for them while a data cache still does
  };

  // Laps over `pages` pages with `lines` new lines in each: there, there again, and to other new lines of the pages.
  struct Laps {
    unsigned log_pages = 0;
    unsigned log_lines = 0;
    bool page_by_page = true;
    Pages pages = Pages::neighbours;
    std::array<double, patterns_count> yields{};  // per access
  };

  struct Known {
    model::AccessClass access;
    std::optional<model::AccessPattern> pattern;
  };

  void complete(const model::DeviceDescription& known);
  void find_pages(const model::BufferFacts& buffer);
  void try_laps(const std::function<void()>& check_limits);
  struct Part {
    model::AccessSequence offsets;
    std::size_t lap_accesses = 0;
  };

  [[nodiscard]] Part laps(const Laps& laps);
  [[nodiscard]] std::vector<std::uint64_t> choose_pages(Pages kind, std::size_t count);
  [[nodiscard]] const Laps& laps_for(std::size_t pattern);
  void put_into(model::StartState start);
  // On every `step`-th simulator.
  [[nodiscard]] std::vector<std::optional<model::AccessClass>> play(const model::AccessSequence& offsets,
                                                                    std::size_t step);
  [[nodiscard]] std::optional<model::AccessPattern> pattern_of(const model::AccessClass& access);
  [[nodiscard]] bool is_control(const model::AccessClass& access) const;
  void expect_recent_pages(std::uint64_t nearer_bytes);

  std::string path_name_;
  model::PathDescription path_;
  model::DeviceDescription named_;  // with latencies, so that classes have patterns
  std::optional<model::PathLatencies> patterns_;
  std::vector<model::DeviceDescription> completed_;
  // From the description with the least of everything that is not known to the one with the most of it.
  std::vector<model::HierarchySimulator> simulators_;
  std::unique_ptr<model::CacheSimulator> recent_pages_;  // null: none may be kept but by the TLBs
  std::vector<Known> known_classes_;
  model::Address address_ = {};
  std::uint64_t page_bytes_ = 0;
  std::uint64_t line_bytes_ = 0;
  std::vector<std::uint64_t> pages_;                      // offsets
  std::vector<std::vector<std::uint64_t>> pages_of_set_;  // of the last TLB; none where its index is not known
  std::unordered_set<std::uint64_t> loaded_lines_;
  std::vector<Laps> laps_;
  std::array<bool, patterns_count> meets_{};
  std::array<std::optional<model::AccessClass>, patterns_count> class_of_pattern_;
  model::Random random_;
};

}  // namespace gpuinfer::infer
