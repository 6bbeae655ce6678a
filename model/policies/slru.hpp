// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "model/policies/policy.hpp"
#include "model/policies/segmented_order.hpp"

namespace gpuinfer::model {

// Segmented LRU (Karedla, Love and Wherry, "Caching strategies to improve disk system performance", IEEE Computer
// 27(3), 1994). A new line enters the probationary segment, and the least recently used line of that segment is the
// victim. A hit moves a line to the protected segment, as its most recently used one. That segment holds at most
// `protected_ways` lines: one more sends its least recently used line back, as the most recently used one of the
// probationary segment.
class Slru {
 public:
  static constexpr std::string_view name = "slru";
  static constexpr bool deterministic = true;
  static constexpr bool repeats_are_idle = false;

  static constexpr WholeParameter protected_ways{.name = "protected_ways", .least = 1, .most = 1U << 26U};
  static constexpr std::tuple parameters{protected_ways};

  static void check(const Replacement& replacement, const std::vector<std::uint32_t>& ways) {
    if (std::ranges::any_of(ways, [size = protected_ways.of(replacement)](auto count) { return count <= size; })) {
      throw LeafError("protected_ways", "must leave every set a way that is not protected; give fewer");
    }
  }

  // Every size in sets of few ways, half of the ways in others.
  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& ways) {
    constexpr std::uint32_t few_ways = 16;
    const std::uint32_t fewest = std::ranges::min(ways);
    const std::uint32_t step = fewest <= few_ways ? 1 : fewest / 2;
    std::vector<Replacement> guesses;
    for (std::uint32_t size = step; size + step <= fewest; size += step) {
      guesses.push_back(
          {.policy = std::string(name), .parameters = {{"protected_ways", std::int64_t{size}}}, .equivalent = {}});
    }
    return guesses;
  }

  Slru(const SetLayout& layout, const Replacement& replacement, Random& /*random*/)
      : order_(layout), protected_ways_(protected_ways.of(replacement)) {}

  void reset() { order_.reset(); }
  void hit(std::uint32_t set, std::uint32_t slot) {
    order_.promote(set, slot);
    order_.protect_last(set, std::min(order_.protected_lines(set), protected_ways_));
  }
  void fill(std::uint32_t set, std::uint32_t slot) { order_.insert(set, slot); }
  [[nodiscard]] std::uint32_t victim(std::uint32_t set) const { return order_.slot_at(set, 0); }
  [[nodiscard]] std::uint32_t next(std::uint32_t set) const { return order_.slot_at(set, 0); }
  void remove(std::uint32_t set, std::uint32_t slot) { order_.remove(set, slot); }
  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const { order_.append_state(set, state); }

 private:
  SegmentedOrder order_;
  std::uint32_t protected_ways_;
};

}  // namespace gpuinfer::model
