// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policies/permutation.hpp"

#include <gtest/gtest.h>

#include "model/policies/fifo.hpp"
#include "model/policies/lru.hpp"
#include "model/policies/plru.hpp"
#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

Parameters permutation(Rows hits, std::vector<double> miss) {
  return {{"hits", std::move(hits)}, {"miss", std::move(miss)}};
}

// The way at this position moves to position 0, and those before it one up.
std::vector<double> to_front(std::size_t position, std::size_t ways) {
  std::vector<double> moves(ways);
  for (std::size_t from = 0; from < ways; ++from) {
    moves[from] = static_cast<double>(from < position ? from + 1 : (from == position ? 0 : from));
  }
  return moves;
}

constexpr std::uint64_t permutation_seed = 2013;

TEST(Permutation, CanBeLru) {
  SCOPED_TRACE("seed " + std::to_string(permutation_seed));
  for (const std::uint32_t ways : {1U, 2U, 3U, 4U, 7U, 16U}) {
    Rows hits;
    for (std::size_t position = 0; position < ways; ++position) {
      hits.push_back(to_front(position, ways));
    }
    const std::string lines = random_lines(5000, ways + 3, permutation_seed);
    EXPECT_EQ(OneSet<Permutation>(ways, permutation(hits, hits.back())).play(lines), OneSet<Lru>(ways).play(lines));
  }
}

TEST(Permutation, CanBeFifo) {
  SCOPED_TRACE("seed " + std::to_string(permutation_seed));
  for (const std::uint32_t ways : {1U, 2U, 3U, 4U, 7U, 16U}) {
    const Rows hits(ways, to_front(0, ways));
    const std::string lines = random_lines(5000, ways + 3, permutation_seed);
    EXPECT_EQ(OneSet<Permutation>(ways, permutation(hits, to_front(ways - 1, ways))).play(lines),
              OneSet<Fifo>(ways).play(lines));
  }
}

// Positions 3 and 1 are the ways of one half, 2 and 0 those of the other. A permutation policy fills the ways in the
// order in which they would go; in the tree that is 0, 2, 1, 3, so it is given c second for way 1.
TEST(Permutation, CanBePlruOfFourWays) {
  SCOPED_TRACE("seed " + std::to_string(permutation_seed));
  OneSet<Permutation> set(4, permutation({{0, 1, 2, 3}, {1, 0, 3, 2}, {2, 1, 0, 3}, {1, 2, 3, 0}}, {1, 2, 3, 0}));
  OneSet<Plru> plru(4);
  set.play("ABCD");
  plru.play("ACBD");
  const std::string lines = random_lines(20000, 7, permutation_seed);
  EXPECT_EQ(set.play(lines), plru.play(lines));
}

TEST(Permutation, AFilledWayThatIsNotLastChangesPlacesWithTheLast) {
  OneSet<Permutation> set(3, permutation(Rows(3, {0, 1, 2}), {0, 1, 2}));
  EXPECT_EQ(set.state(), (std::vector<std::uint32_t>{2, 1, 0}));
  set.play("a");
  EXPECT_EQ(set.state(), (std::vector<std::uint32_t>{2, 1, 0}));
  set.play("b");
  EXPECT_EQ(set.state(), (std::vector<std::uint32_t>{1, 2, 0}));
  set.play("c");
  EXPECT_EQ(set.state(), (std::vector<std::uint32_t>{1, 0, 2}));
  EXPECT_EQ(set.play("d e a"), "c d +");
}

TEST(Permutation, ChecksItsParameters) {
  const Rows fifo(2, {0, 1});
  EXPECT_EQ(policy_refusal<Permutation>(permutation(fifo, {1, 0})), "");
  EXPECT_EQ(policy_refusal<Permutation>(permutation(fifo, {1, 0}), {2, 2}), "");
  EXPECT_TRUE(policy_refusal<Permutation>(permutation(fifo, {1, 0}), {2, 3}).starts_with("miss: has 2 entries"));
  EXPECT_TRUE(policy_refusal<Permutation>(permutation(fifo, {1, 1})).starts_with("miss: must name each"));
  EXPECT_TRUE(policy_refusal<Permutation>(permutation(fifo, {1, 2, 0})).starts_with("miss: has 3 entries"));
  EXPECT_TRUE(policy_refusal<Permutation>(permutation(fifo, {1, -1})).starts_with("miss: "));
  EXPECT_TRUE(policy_refusal<Permutation>(permutation({{0, 1}, {0, 2}}, {1, 0})).starts_with("hits: must name each"));
  EXPECT_TRUE(policy_refusal<Permutation>(permutation({{0, 1}, {0, 0.5}}, {1, 0})).starts_with("hits: "));
  EXPECT_TRUE(policy_refusal<Permutation>(permutation({{0, 1}, {0}}, {1, 0})).starts_with("hits: has 2 lists"));
  EXPECT_TRUE(policy_refusal<Permutation>(permutation({{}}, {})).starts_with("hits: has 1 lists"));
  EXPECT_TRUE(policy_refusal<Permutation>({{"hits", fifo}}).starts_with("miss: is missing"));
  EXPECT_TRUE(policy_refusal<Permutation>({{"hits", std::vector<double>{0, 1}}}).starts_with("hits: "));
  EXPECT_TRUE(policy_refusal<Permutation>({{"misses", fifo}}).starts_with("misses: "));
}

}  // namespace
}  // namespace gpuinfer::model
