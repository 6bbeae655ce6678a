// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/cluster.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "model/errors.hpp"

// What would prove the law wrong: cycles outside of those described, or of another mean; a rate that is not bytes over
// cycles; an answer where nothing is described.
namespace gpuinfer::model {
namespace {

ClusterDescription described() {
  return {.largest_blocks = 16,
          .load_cycles = {{{.blocks = 1, .least = 45, .mean = 45, .most = 45},
                           {.blocks = 16, .least = 180, .mean = 195, .most = 216}}},
          .load_bytes_per_cycle = {{{.blocks = 16, .one = 32, .all = 16}}},
          .copy_cycles = {{{.bytes = 16, .cycles = 300}, {.bytes = 32, .cycles = 310}, {.bytes = 64, .cycles = 350}}},
          .block_barrier_cycles = {{{.threads = 32, .cycles = 17}}}};
}

TEST(Cluster, PairsOfBlocksLieWithinWhatIsDescribedAndHaveItsMean) {
  double least = 1e9;
  double most = 0;
  double sum = 0;
  std::uint32_t count = 0;
  for (std::uint32_t cluster = 0; cluster < 7; ++cluster) {
    for (std::uint32_t from = 0; from < 16; ++from) {
      for (std::uint32_t to = 0; to < 16; ++to) {
        if (from != to) {
          const double cycles = cycles_of(described(), {.blocks = 16, .cluster = cluster, .from = from, .to = to});
          least = std::min(least, cycles);
          most = std::max(most, cycles);
          sum += cycles;
          ++count;
        }
      }
    }
  }
  EXPECT_GE(least, 180);
  EXPECT_LT(least, 181);
  EXPECT_LE(most, 216);
  EXPECT_GT(most, 215);
  EXPECT_NEAR(sum / count, 195, 0.5);
}

TEST(Cluster, ABlockReachesItselfAsInAClusterOfOne) {
  EXPECT_EQ(cycles_of(described(), ClusterExchange{.blocks = 16, .from = 3, .to = 3}), 45);
  EXPECT_EQ(cycles_of(described(), ClusterExchange{}), 45);
}

TEST(Cluster, StreamsTakeTheirBytesOverTheRate) {
  const ClusterExchange one{.work = ExchangeWork::stream_load, .blocks = 16, .to = 1};
  ClusterExchange all = one;
  all.by_all = true;
  EXPECT_EQ(cycles_of(described(), one), static_cast<double>(ClusterExchange::stream_bytes) / 32);
  EXPECT_EQ(cycles_of(described(), all), static_cast<double>(ClusterExchange::stream_bytes) / 16);
}

TEST(Cluster, SizesBetweenTwoLieOnALine) {
  const auto copied = [](std::uint32_t bytes) {
    return cycles_of(described(), ClusterExchange{.work = ExchangeWork::copy, .blocks = 2, .to = 1, .bytes = bytes});
  };
  EXPECT_EQ(copied(16), 300);
  EXPECT_EQ(copied(48), 330);
  EXPECT_EQ(copied(1024), 350);
}

TEST(Cluster, WhatIsNotDescribedIsRefused) {
  EXPECT_THROW(static_cast<void>(cycles_of(described(), ClusterExchange{.blocks = 32, .to = 1})), InputError);
  EXPECT_THROW(static_cast<void>(cycles_of(described(), ClusterExchange{.blocks = 2, .to = 1})), InputError);
  EXPECT_THROW(
      static_cast<void>(cycles_of(described(), ClusterExchange{.work = ExchangeWork::atomic, .blocks = 16, .to = 1})),
      InputError);
  EXPECT_THROW(
      static_cast<void>(cycles_of(described(), ClusterExchange{.work = ExchangeWork::block_barrier, .threads = 64})),
      InputError);
  EXPECT_THROW(static_cast<void>(cycles_of(FetchResults{}, BlockFetch{})), InputError);
}

TEST(Fetches, AreThoseOfTheEngine) {
  const FetchResults fetches{{"bulk", {.cycles = {{.bytes = 16, .one = 500, .all = 520}}}}};
  EXPECT_EQ(cycles_of(fetches, {.engine = FetchEngine::bulk}), 500);
  EXPECT_EQ(cycles_of(fetches, {.engine = FetchEngine::bulk, .by_all = true}), 520);
}

}  // namespace
}  // namespace gpuinfer::model
