// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policies/plru.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <tuple>

#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

Parameters tree(const std::string& order, const std::string& split) { return {{"order", order}, {"split", split}}; }

// Bit 2 is the root, bits 1 and 3 are the nodes above ways 0, 1 and 2, 3; a bit is 1 where its node points right.
TEST(Plru, EachAccessPointsTheNodesAboveItAway) {
  OneSet<Plru> plru(4);
  const auto bits_after = [&](std::string_view line) {
    plru.play(line);
    return plru.state();
  };
  EXPECT_EQ(bits_after("a"), (std::vector<std::uint32_t>{0b0110}));
  EXPECT_EQ(bits_after("b"), (std::vector<std::uint32_t>{0b0100}));
  EXPECT_EQ(bits_after("c"), (std::vector<std::uint32_t>{0b1000}));
  EXPECT_EQ(bits_after("d"), (std::vector<std::uint32_t>{0b0000}));
  EXPECT_EQ(bits_after("b"), (std::vector<std::uint32_t>{0b0100}));
}

TEST(Plru, TheVictimIsWhereTheNodesPoint) {
  EXPECT_EQ(OneSet<Plru>(4).play("abcd efgh"), "---- acbd");
  EXPECT_EQ(OneSet<Plru>(4).play("abcd a e"), "---- + c");  // LRU would give up b
}

TEST(Plru, OrderSaysAtWhichEndTheTreeIsDeeper) {
  EXPECT_EQ(OneSet<Plru>(3).play("abc def"), "--- acb");
  EXPECT_EQ(OneSet<Plru>(3, tree("reversed", "balanced")).play("abc def"), "--- abd");
}

TEST(Plru, SplitSaysWhereATreeOfFiveIsCut) {
  EXPECT_EQ(OneSet<Plru>(5).play("abcde fgh"), "----- adc");
  EXPECT_EQ(OneSet<Plru>(5, tree("forward", "power_of_two")).play("abcde fgh"), "----- aec");
}

// A tree as the definition has it, node by node.
struct Node {
  Node(std::uint32_t leaves, bool balanced) : left_leaves(balanced ? (leaves + 1) / 2 : 1) {
    while (!balanced && left_leaves * 2 < leaves) {
      left_leaves *= 2;
    }
    if (leaves > 1) {
      left = std::make_unique<Node>(left_leaves, balanced);
      right = std::make_unique<Node>(leaves - left_leaves, balanced);
    }
  }

  void access(std::uint32_t leaf) {
    if (left != nullptr) {
      points_right = leaf < left_leaves;
      points_right ? left->access(leaf) : right->access(leaf - left_leaves);
    }
  }

  [[nodiscard]] std::uint32_t victim() const {
    return left == nullptr ? 0 : (points_right ? left_leaves + right->victim() : left->victim());
  }

  std::uint32_t left_leaves;
  bool points_right = false;
  std::unique_ptr<Node> left;
  std::unique_ptr<Node> right;
};

TEST(Plru, AgreesWithATreeOfNodesForAnyNumberOfWays) {
  const std::vector<std::uint32_t> ways{1, 2, 3, 5, 6, 12, 31, 32, 33, 48, 64, 65, 70, 97, 128, 200, 1000};
  const SetLayout layout(ways);
  for (const std::string order : {"forward", "reversed"}) {
    for (const std::string split : {"balanced", "power_of_two"}) {
      const std::uint64_t seed = 1988;
      SCOPED_TRACE(order + " " + split + ", seed " + std::to_string(seed));
      Random random(seed);
      Plru plru(layout, {.policy = "plru", .parameters = tree(order, split), .equivalent = {}}, random);
      std::vector<Node> trees;
      for (const std::uint32_t count : ways) {
        trees.emplace_back(count, split == "balanced");
      }
      for (int access = 0; access < 50000; ++access) {
        const auto set = static_cast<std::uint32_t>(random.below(ways.size()));
        const auto leaf = static_cast<std::uint32_t>(random.below(ways[set]));
        const auto slot_of = [&](std::uint32_t of) {
          return layout.first_slot[set] + (order == "forward" ? of : ways[set] - 1 - of);
        };
        ASSERT_EQ(plru.victim(set), slot_of(trees[set].victim())) << ways[set] << " ways, access " << access;
        plru.hit(set, slot_of(leaf));
        trees[set].access(leaf);
      }
    }
  }
}

TEST(Plru, TriesBothSplitsOnlyWhereTheyDiffer) {
  EXPECT_EQ(Plru::guesses({4, 8}).size(), 2U);
  EXPECT_EQ(Plru::guesses({4, 6}).size(), 4U);
}

TEST(Plru, ChecksItsParameters) {
  EXPECT_EQ(policy_refusal<Plru>({}), "");
  EXPECT_EQ(policy_refusal<Plru>(tree("reversed", "power_of_two")), "");
  EXPECT_TRUE(policy_refusal<Plru>(tree("backward", "balanced")).starts_with("order: `backward` is not known"));
  EXPECT_TRUE(policy_refusal<Plru>(tree("forward", "half")).starts_with("split: `half` is not known"));
  EXPECT_TRUE(policy_refusal<Plru>({{"split", std::int64_t{2}}}).starts_with("split: "));
  EXPECT_TRUE(policy_refusal<Plru>({{"bits", std::int64_t{2}}}).starts_with("bits: "));
}

}  // namespace
}  // namespace gpuinfer::model
