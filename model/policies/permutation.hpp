// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <utility>

#include "model/policies/policy.hpp"

namespace gpuinfer::model {

// Permutation policies (Abel & Reineke, RTAS 2013): the W ways of a set stand in an order, positions 0 to W-1, after
// power-on way w at position W-1-w. The way at position W-1 goes. `hits` has W lists: a hit of the way at position i
// moves the way at position j to position hits[i][j]. A fill first exchanges the filled way with the one at position
// W-1, which it is where it was the victim, and then moves the way at position j to position miss[j]. LRU and FIFO, and
// PLRU for a power of two, are such policies; LRU with three ways is
// `hits: [[0, 1, 2], [1, 0, 2], [1, 2, 0]], miss: [1, 2, 0]`.
class Permutation {
 public:
  static constexpr std::string_view name = "permutation";
  static constexpr bool deterministic = true;
  static constexpr bool repeats_are_idle = false;

  static constexpr WholeListsParameter hits{.name = "hits"};
  static constexpr WholeListParameter miss{.name = "miss"};
  static constexpr std::tuple parameters{hits, miss};

  static void check(const Replacement& replacement, const std::vector<std::uint32_t>& ways) {
    const auto after_hit = hits.of(replacement);
    for (const std::vector<std::uint32_t>& moves : after_hit) {
      if (moves.size() != after_hit.size()) {
        throw LeafError("hits", "has " + std::to_string(after_hit.size()) + " lists, and one of them has " +
                                    std::to_string(moves.size()) + " entries; give as many lists as each has entries");
      }
      require_permutation(moves, hits.name);
    }
    const auto after_miss = miss.of(replacement);
    if (after_miss.size() != after_hit.size()) {
      throw LeafError("miss", "has " + std::to_string(after_miss.size()) + " entries, and hits has " +
                                  std::to_string(after_hit.size()) + " lists; give as many");
    }
    require_permutation(after_miss, miss.name);
    require_ways(ways, after_miss.size(), miss.name);
  }

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) { return {}; }

  static Replacement of(std::vector<std::vector<double>> hits, std::vector<double> miss) {
    return {.policy = std::string(name),
            .parameters = {{"hits", std::move(hits)}, {"miss", std::move(miss)}},
            .equivalent = {}};
  }

  Permutation(const SetLayout& layout, const Replacement& replacement, Random& /*random*/)
      : layout_(&layout), hits_(hits.of(replacement)), miss_(miss.of(replacement)), positions_(layout.slots()) {
    reset();
  }

  void reset() {
    for (std::uint32_t set = 0; set < layout_->sets(); ++set) {
      for (std::uint32_t slot = layout_->first_slot[set]; slot < layout_->first_slot[set + 1]; ++slot) {
        positions_[slot] = layout_->first_slot[set + 1] - 1 - slot;
      }
    }
  }

  void hit(std::uint32_t set, std::uint32_t slot) { move(set, hits_[positions_[slot]]); }

  void fill(std::uint32_t set, std::uint32_t slot) {
    if (positions_[slot] + 1 != miss_.size()) {
      std::swap(positions_[slot], positions_[victim(set)]);
    }
    move(set, miss_);
  }

  [[nodiscard]] std::uint32_t victim(std::uint32_t set) {
    const auto last = static_cast<std::uint32_t>(miss_.size() - 1);
    std::uint32_t victim = 0;
    for (std::uint32_t slot = layout_->first_slot[set]; slot < layout_->first_slot[set + 1]; ++slot) {
      victim |= positions_[slot] == last ? slot : 0;
    }
    return victim;
  }

  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const {
    const std::uint32_t* const first = positions_.data() + layout_->first_slot[set];
    state.insert(state.end(), first, first + layout_->ways(set));
  }

 private:
  void move(std::uint32_t set, const std::vector<std::uint32_t>& moves) {
    std::uint32_t* const positions = positions_.data() + layout_->first_slot[set];
    const std::uint32_t* const position_after = moves.data();
    const std::size_t ways = moves.size();
#pragma GCC unroll 8
    for (std::size_t way = 0; way < ways; ++way) {
      positions[way] = position_after[positions[way]];
    }
  }

  const SetLayout* layout_;
  std::vector<std::vector<std::uint32_t>> hits_;  // by position of the way that is hit, then by position
  std::vector<std::uint32_t> miss_;               // by position
  std::vector<std::uint32_t> positions_;          // by slot
};

}  // namespace gpuinfer::model
