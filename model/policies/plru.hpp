// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

#include "model/policies/policy.hpp"

namespace gpuinfer::model {

// Tree pseudo-LRU: the ways are the leaves of a binary tree. An access makes every node above the way point to its
// other side; the victim is where the nodes point, left everywhere after power-on (So & Rechtschaffen, IEEE
// Transactions on Computers 1988; Al-Zoubi et al., ACM Southeast Conference 2004, "PLRUt").
//
// `split` says how many leaves of n a node has on its left: `balanced` half of them, rounded up; `power_of_two` the
// largest power of two below n. `order: reversed` makes way 0 the last leaf.
class Plru {
 public:
  static constexpr std::string_view name = "plru";
  static constexpr bool deterministic = true;
  static constexpr bool repeats_are_idle = true;

  static constexpr WordParameter<2> order{.name = "order", .words = {"forward", "reversed"}};
  static constexpr WordParameter<2> split{.name = "split", .words = {"balanced", "power_of_two"}};
  static constexpr std::tuple parameters{order, split};

  // Whether they are the same tree, whose leaves are counted from the other end.
  static bool are_mirrored(Replacement a, Replacement b) {
    const bool one_is_reversed = a.parameters.erase("order") != b.parameters.erase("order");
    return one_is_reversed && a.policy == name && b.policy == name && a.parameters == b.parameters;
  }

  // The two splits are the same for a power of two.
  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& ways) {
    const auto reversed = std::pair{std::string("order"), std::string("reversed")};
    const auto power_of_two = std::pair{std::string("split"), std::string("power_of_two")};
    const std::string plru(name);
    std::vector<Replacement> guesses{{.policy = plru, .parameters = {}, .equivalent = {}},
                                     {.policy = plru, .parameters = {reversed}, .equivalent = {}}};
    if (!std::all_of(ways.begin(), ways.end(), [](std::uint32_t count) { return std::has_single_bit(count); })) {
      guesses.push_back({.policy = plru, .parameters = {power_of_two}, .equivalent = {}});
      guesses.push_back({.policy = plru, .parameters = {reversed, power_of_two}, .equivalent = {}});
    }
    return guesses;
  }

  Plru(const SetLayout& layout, const Replacement& replacement, Random& /*random*/)
      : layout_(&layout), nodes_(layout.slots()), reversed_(reversed(replacement)), split_(split_of(replacement)) {}

  void reset() { nodes_.assign(nodes_.size(), 0); }
  void hit(std::uint32_t set, std::uint32_t slot) { point_away(set, slot); }
  void fill(std::uint32_t set, std::uint32_t slot) { point_away(set, slot); }

  [[nodiscard]] std::uint32_t victim(std::uint32_t set) {
    std::uint32_t first = layout_->first_slot[set];
    std::uint32_t leaves = layout_->ways(set);
    while (leaves > small_leaves) {
      const std::uint32_t left = left_of(leaves, split_);
      const bool right = (nodes_[first + left] & 1U) != 0;
      first += right ? left : 0;
      leaves = right ? leaves - left : left;
    }
    const std::uint32_t slot = first + small_trees[split_][leaves].victim(nodes_[first], leaves);
    return reversed_ ? mirrored(set, slot) : slot;
  }

  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const {
    const std::uint32_t* const first = nodes_.data() + layout_->first_slot[set];
    const std::uint32_t ways = layout_->ways(set);
    state.insert(state.end(), first, first + (ways > small_leaves ? ways : 1));
  }

 private:
  enum Split : std::uint8_t { balanced, power_of_two };

  [[nodiscard]] static bool reversed(const Replacement& replacement) { return order.of(replacement) == "reversed"; }
  [[nodiscard]] static Split split_of(const Replacement& replacement) {
    return split.of(replacement) == "balanced" ? balanced : power_of_two;
  }

  [[nodiscard]] static constexpr std::uint32_t left_of(std::uint32_t leaves, Split split) {
    return split == balanced ? leaves - leaves / 2 : std::bit_floor(leaves - 1);
  }

  // A tree of few leaves is one number, bit k of which is 1 where the node that has leaf k first on its right points
  // right. An access of a leaf replaces the bits above it.
  static constexpr std::uint32_t small_leaves = 32;
  struct SmallTree {
    std::array<std::uint32_t, small_leaves> above{};  // by leaf: the nodes above it
    std::array<std::uint32_t, small_leaves> away{};   // by leaf: those of them that point right to point away from it

    [[nodiscard]] std::uint32_t victim(std::uint32_t nodes, std::uint32_t leaves) const {
      std::uint32_t victim = 0;
      for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
        victim |= ((nodes ^ away[leaf]) & above[leaf]) == above[leaf] ? leaf : 0;
      }
      return victim;
    }
  };

  // By the number of leaves.
  [[nodiscard]] static constexpr std::array<SmallTree, small_leaves + 1> small_trees_of(Split split) {
    std::array<SmallTree, small_leaves + 1> trees;
    for (std::uint32_t leaves = 2; leaves <= small_leaves; ++leaves) {
      const std::uint32_t left = left_of(leaves, split);
      const std::uint32_t root = 1U << left;
      for (std::uint32_t leaf = 0; leaf < left; ++leaf) {
        trees[leaves].above[leaf] = trees[left].above[leaf] | root;
        trees[leaves].away[leaf] = trees[left].away[leaf] | root;
      }
      for (std::uint32_t leaf = left; leaf < leaves; ++leaf) {
        trees[leaves].above[leaf] = trees[leaves - left].above[leaf - left] << left | root;
        trees[leaves].away[leaf] = trees[leaves - left].away[leaf - left] << left;
      }
    }
    return trees;
  }
  static const std::array<std::array<SmallTree, small_leaves + 1>, 2> small_trees;  // by split

  [[nodiscard]] std::uint32_t mirrored(std::uint32_t set, std::uint32_t slot) const {
    return layout_->first_slot[set] + layout_->first_slot[set + 1] - 1 - slot;
  }

  void point_away(std::uint32_t set, std::uint32_t slot) {
    std::uint32_t first = layout_->first_slot[set];
    std::uint32_t leaf = (reversed_ ? mirrored(set, slot) : slot) - first;
    std::uint32_t leaves = layout_->ways(set);
    while (leaves > small_leaves) {
      const std::uint32_t left = left_of(leaves, split_);
      const bool right = leaf >= left;
      nodes_[first + left] = (nodes_[first + left] & ~1U) | (right ? 0U : 1U);
      first += right ? left : 0;
      leaf -= right ? left : 0;
      leaves = right ? leaves - left : left;
    }
    const SmallTree& tree = small_trees[split_][leaves];
    nodes_[first] = (nodes_[first] & ~tree.above[leaf]) | tree.away[leaf];
  }

  const SetLayout* layout_;
  // By slot: at the first leaf of a small tree, that tree. Its bit 0, which no node in it has, is the node of the
  // larger tree around it that has this leaf first on its right.
  std::vector<std::uint32_t> nodes_;
  bool reversed_;
  Split split_;
};

inline constexpr std::array<std::array<Plru::SmallTree, Plru::small_leaves + 1>, 2> Plru::small_trees{
    small_trees_of(balanced), small_trees_of(power_of_two)};

}  // namespace gpuinfer::model
