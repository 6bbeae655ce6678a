// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/infer_cluster.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "infer/threads/infer_fetch.hpp"
#include "probe/virtual_device.hpp"
#include "tests/infer/timed_device.hpp"

// What would prove the inference wrong: a value that is resolved and not that of the device; one that is resolved on a
// device whose answers change from round to round; a leaf that is lost because the device refuses another.
namespace gpuinfer::infer {
namespace {

using model::BlockFetch;
using model::ClusterExchange;
using model::EvidenceStatus;
using model::ExchangeWork;

// Ranks at places on a line, with a distance that counts, and a network that all of a cluster share.
class ForeignCluster : public foreign::TimedDevice<ClusterExchange> {
 public:
  std::uint32_t largest = 12;
  double growth = 0;  // of each answer, over the one before
  bool has_atomics = true;
  std::uint32_t asked = 0;

 protected:
  model::Timing timing_of(const ClusterExchange& exchange) override {
    if (exchange.blocks > largest) {
      return refused("so many blocks do not fit");
    }
    if (exchange.work == ExchangeWork::atomic && !has_atomics) {
      return refused("it has no atomics");
    }
    return {.cycles = std::vector<double>(exchange.runs, std::round(cycles(exchange) * std::exp(growth * asked++)))};
  }

 private:
  static double cycles(const ClusterExchange& exchange) {
    const double apart = exchange.from > exchange.to ? exchange.from - exchange.to : exchange.to - exchange.from;
    switch (exchange.work) {
      case ExchangeWork::load:
        return apart == 0 ? 40 : 200 + 2 * apart;
      case ExchangeWork::atomic:
        return apart == 0 ? 90 : 260 + 2 * apart;
      case ExchangeWork::hand_over:
        return 350;
      case ExchangeWork::signal:
        return 600;
      case ExchangeWork::copy:
        return 300 + exchange.bytes / 20.0;
      case ExchangeWork::stream_load:
        return ClusterExchange::stream_bytes / (exchange.by_all ? 16.0 : 20.0);
      case ExchangeWork::stream_store:
        return ClusterExchange::stream_bytes / (exchange.by_all ? 17.0 : 21.0);
      case ExchangeWork::barrier:
        return 350 + exchange.blocks;
      case ExchangeWork::block_barrier:
        break;
    }
    return 15 + exchange.threads / 16.0;
  }
};

const model::LeafEvidence& leaf(const Finding& finding, const std::string& name) {
  return finding.evidence.leaves.at(name);
}

TEST(InferCluster, FindsWhatLiesBetweenBlocks) {
  ForeignCluster device;
  const ClusterFinding finding = infer_cluster(device, "Cluster", Settings{});
  EXPECT_TRUE(finding.all_resolved());
  const model::ClusterDescription& found = finding.cluster;
  EXPECT_EQ(found.largest_blocks, 12U);
  ASSERT_TRUE(found.load_cycles);
  ASSERT_EQ(found.load_cycles->size(), 5U);  // 1, 2, 4, 8, 12
  EXPECT_EQ(found.load_cycles->front(), (model::RankCycles{.blocks = 1, .least = 40, .mean = 40, .most = 40}));
  EXPECT_EQ((*found.load_cycles)[1], (model::RankCycles{.blocks = 2, .least = 202, .mean = 202, .most = 202}));
  const model::RankCycles& most = found.load_cycles->back();
  EXPECT_EQ(most.blocks, 12U);
  EXPECT_EQ(most.least, 202);
  EXPECT_GE(most.most, 220);  // of ranks ten apart or eleven
  EXPECT_LE(most.most, 222);
  EXPECT_NEAR(most.mean, 200 + 2 * 13 / 3.0, 2);  // the mean distance of two of n is (n + 1) / 3
  EXPECT_EQ(leaf(finding, "load_cycles").details.cycles_by_rank[3][9], 212);
  EXPECT_NEAR(found.store_bytes_per_cycle->back().one, 21, 0.02);
  EXPECT_NEAR(found.store_bytes_per_cycle->back().all, 17, 0.02);
  EXPECT_NEAR(found.load_bytes_per_cycle->front().all, 16, 0.02);
  EXPECT_EQ(found.copy_cycles->back(), (model::CopyCycles{.bytes = 32768, .cycles = 1938}));
  EXPECT_EQ(found.block_barrier_cycles->back(), (model::BarrierCycles{.threads = 1024, .cycles = 79}));
  EXPECT_EQ(found.barrier_cycles->back().mean, 362);
}

TEST(InferCluster, WhatChangesBetweenRoundsIsLeftOpen) {
  ForeignCluster device;
  device.growth = 0.001;
  const ClusterFinding finding = infer_cluster(device, "Cluster", Settings{});
  for (const char* name : {"load_cycles", "atomic_cycles", "hand_over_cycles", "signal_cycles"}) {
    EXPECT_EQ(leaf(finding, name).status, EvidenceStatus::ambiguous) << name;
  }
  EXPECT_FALSE(finding.cluster.load_cycles);
}

TEST(InferCluster, ARefusedKindOfWorkCostsItsOwnLeafAlone) {
  ForeignCluster device;
  device.has_atomics = false;
  const ClusterFinding finding = infer_cluster(device, "Cluster", Settings{});
  EXPECT_EQ(leaf(finding, "atomic_cycles").status, EvidenceStatus::unknown);
  EXPECT_EQ(leaf(finding, "atomic_cycles").reason, "the device refused a question: it has no atomics");
  EXPECT_EQ(leaf(finding, "barrier_cycles").status, EvidenceStatus::resolved);
}

TEST(InferCluster, KeepsWhatItHasWhereTheDeviceFails) {
  ForeignCluster device;
  device.fail_after(600);
  const ClusterFinding finding = infer_cluster(device, "Cluster", Settings{});
  EXPECT_TRUE(finding.device_failure);
  EXPECT_EQ(leaf(finding, "largest_blocks").status, EvidenceStatus::resolved);
  EXPECT_EQ(leaf(finding, "block_barrier_cycles").status, EvidenceStatus::unknown);
}

TEST(InferCluster, FindsADescriptionAgain) {
  model::DeviceDescription description;
  const std::vector<model::RankCycles> cycles{{.blocks = 1, .least = 45, .mean = 45, .most = 45},
                                              {.blocks = 2, .least = 180, .mean = 190, .most = 215},
                                              {.blocks = 4, .least = 180, .mean = 195, .most = 216}};
  const std::vector<model::ClusterRate> rates{{.blocks = 2, .one = 21, .all = 17}, {.blocks = 4, .one = 21, .all = 16}};
  description.cluster = {.largest_blocks = 4,
                         .load_cycles = cycles,
                         .atomic_cycles = cycles,
                         .hand_over_cycles = cycles,
                         .signal_cycles = cycles,
                         .barrier_cycles = cycles,
                         .load_bytes_per_cycle = rates,
                         .store_bytes_per_cycle = rates,
                         .copy_cycles = {{{.bytes = 16, .cycles = 300}, {.bytes = 32768, .cycles = 1900}}},
                         .block_barrier_cycles = {{{32, 17}, {64, 19}, {128, 23}, {256, 31}, {512, 47}, {1024, 79}}}};
  description.noise = {.jitter_cycles = 0.5};
  const auto device = probe::open_virtual(description, "virtual:cluster", 1);
  const ClusterFinding finding = infer_cluster(*device, "Cluster", Settings{});
  EXPECT_TRUE(finding.all_resolved());
  for (std::size_t i = 0; i < cycles.size(); ++i) {
    EXPECT_NEAR((*finding.cluster.load_cycles)[i].mean, cycles[i].mean, 3) << i;
    EXPECT_NEAR((*finding.cluster.load_cycles)[i].least, cycles[i].least, 4) << i;
    EXPECT_NEAR((*finding.cluster.load_cycles)[i].most, cycles[i].most, 4) << i;
  }
  EXPECT_NEAR(finding.cluster.store_bytes_per_cycle->back().all, 16, 0.02);
  EXPECT_EQ(finding.cluster.largest_blocks, 4U);
}

// Loads hold more than they ask for at once; the copy engine begins late and draws more.
class ForeignFetch : public foreign::TimedDevice<BlockFetch> {
 public:
  bool has_bulk = true;
  bool has_room = true;
  double growth = 0;
  std::uint32_t asked = 0;

 protected:
  model::Timing timing_of(const BlockFetch& fetch) override {
    if (fetch.engine == model::FetchEngine::bulk && !has_bulk) {
      return refused("it has no copy engine");
    }
    if (fetch.bytes > (32U << 10U) && !has_room) {
      return refused("a block has no room for that");
    }
    const double rate = (fetch.engine == model::FetchEngine::bulk ? 64.0 : 32.0) / (fetch.by_all ? 2 : 1);
    return {.cycles = std::vector<double>(fetch.runs, (500 + fetch.bytes / rate) * std::exp(growth * asked++))};
  }
};

TEST(InferFetch, FindsLatencyAndRateOfEachEngine) {
  ForeignFetch device;
  const FetchFinding finding = infer_fetch(device, "Fetch", Settings{});
  EXPECT_TRUE(finding.all_resolved());
  ASSERT_EQ(finding.fetches.size(), 3U);
  EXPECT_EQ(finding.fetches.at("bulk").one_bytes_per_cycle, 64);
  EXPECT_EQ(finding.fetches.at("bulk").all_bytes_per_cycle, 32);
  EXPECT_EQ(finding.fetches.at("async").all_bytes_per_cycle, 16);
  EXPECT_EQ(finding.fetches.at("loads").cycles.front(), (model::FetchCycles{.bytes = 16, .one = 500.5, .all = 501}));
  EXPECT_EQ(finding.fetches.at("loads").cycles.back().bytes, 64U << 10U);
}

TEST(InferFetch, AnEngineThatIsNotThereIsNoOpenLeaf) {
  ForeignFetch device;
  device.has_bulk = false;
  device.has_room = false;
  const FetchFinding finding = infer_fetch(device, "Fetch", Settings{});
  EXPECT_TRUE(finding.all_resolved());
  EXPECT_EQ(finding.fetches.size(), 2U);
  EXPECT_EQ(finding.evidence.leaves.size(), 2U);
  EXPECT_EQ(finding.fetches.at("async").cycles.back().bytes, 32U << 10U);
}

TEST(InferFetch, WhatChangesBetweenRoundsIsLeftOpen) {
  ForeignFetch device;
  device.growth = 0.1;
  const FetchFinding finding = infer_fetch(device, "Fetch", Settings{});
  EXPECT_TRUE(finding.fetches.empty());
  EXPECT_EQ(leaf(finding, "loads").status, EvidenceStatus::ambiguous);
}

}  // namespace
}  // namespace gpuinfer::infer
