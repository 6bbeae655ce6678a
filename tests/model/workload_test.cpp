// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/workload.hpp"

#include <gtest/gtest.h>

#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/stream_simulator.hpp"

namespace gpuinfer::model {
namespace {

TEST(Workload, SaysWhatIsOutOfRange) {
  EXPECT_FALSE(why_malformed(SharedLoads{}));
  EXPECT_FALSE(why_malformed(strided(128 * 4, 16, 3)));
  EXPECT_TRUE(why_malformed(strided(4, 8, 1)));
  EXPECT_TRUE(why_malformed(strided(2048, 4, 1)));
  EXPECT_TRUE(why_malformed(SharedLoads{.element_bytes = 2}));
  EXPECT_TRUE(why_malformed(SharedLoads{.runs = 0}));

  EXPECT_FALSE(why_malformed(ConcurrentLoads{.threads = 1024, .loads_per_thread = 8, .threads_per_line = 32}));
  EXPECT_TRUE(why_malformed(ConcurrentLoads{.threads = 1025}));
  EXPECT_TRUE(why_malformed(ConcurrentLoads{.threads = 0}));
  EXPECT_TRUE(why_malformed(ConcurrentLoads{.loads_per_thread = 9}));
  EXPECT_TRUE(why_malformed(ConcurrentLoads{.threads_per_line = 3}));

  EXPECT_FALSE(why_malformed(Stream{.dataset_bytes = 128}));
  EXPECT_TRUE(why_malformed(Stream{.dataset_bytes = 64}));
  EXPECT_TRUE(why_malformed(Stream{.dataset_bytes = 384}));
  EXPECT_TRUE(why_malformed(Stream{.element_bits = 96, .dataset_bytes = 1024}));
  EXPECT_TRUE(why_malformed(Stream{.elements_in_flight = 4, .dataset_bytes = 1024, .elements_per_thread = 6}));
  EXPECT_FALSE(why_malformed(Stream{.dataset_bytes = 384, .part_bytes = 128, .blocks = 3}));
  EXPECT_TRUE(why_malformed(Stream{.dataset_bytes = 512, .part_bytes = 128, .blocks = 3}));
  EXPECT_TRUE(why_malformed(Stream{.path = StreamPath::shared, .work = StreamWork::load}));
  EXPECT_FALSE(why_malformed(Stream{.path = StreamPath::shared, .work = StreamWork::swap}));
  EXPECT_TRUE(why_malformed(Stream{.path = StreamPath::constant, .work = StreamWork::copy}));
  EXPECT_TRUE(why_malformed(Stream{.path = StreamPath::constant, .dataset_bytes = 128}));
  EXPECT_TRUE(why_malformed(Stream{.work = StreamWork::swap, .dataset_bytes = 128}));
  EXPECT_FALSE(why_malformed(Stream{.work = StreamWork::store, .dataset_bytes = 128}));
  EXPECT_FALSE(why_malformed(Stream{.path = StreamPath::shared, .work = StreamWork::store}));
  EXPECT_TRUE(why_malformed(Stream{.path = StreamPath::texture, .work = StreamWork::store, .dataset_bytes = 128}));

  EXPECT_FALSE(why_malformed(ClusterExchange{}));
  EXPECT_TRUE(why_malformed(ClusterExchange{.blocks = 0}));
  EXPECT_TRUE(why_malformed(ClusterExchange{.blocks = 65}));
  EXPECT_TRUE(why_malformed(ClusterExchange{.blocks = 2, .from = 2}));
  EXPECT_TRUE(why_malformed(ClusterExchange{.blocks = 2, .to = 1, .by_all = true}));
  EXPECT_FALSE(why_malformed(ClusterExchange{.work = ExchangeWork::stream_load, .blocks = 2, .to = 1, .by_all = true}));
  EXPECT_TRUE(why_malformed(ClusterExchange{.work = ExchangeWork::hand_over, .blocks = 2}));
  EXPECT_FALSE(why_malformed(ClusterExchange{.work = ExchangeWork::copy, .blocks = 2, .to = 1, .bytes = 48}));
  EXPECT_TRUE(why_malformed(ClusterExchange{.work = ExchangeWork::copy, .blocks = 2, .to = 1, .bytes = 8}));
  EXPECT_TRUE(why_malformed(ClusterExchange{.work = ExchangeWork::copy, .blocks = 2, .to = 1, .bytes = 65536}));
  EXPECT_TRUE(why_malformed(ClusterExchange{.bytes = 16}));
  EXPECT_TRUE(why_malformed(ClusterExchange{.work = ExchangeWork::barrier, .blocks = 2}));
  EXPECT_FALSE(why_malformed(ClusterExchange{.work = ExchangeWork::barrier, .blocks = 2, .threads = 64}));
  EXPECT_TRUE(why_malformed(ClusterExchange{.work = ExchangeWork::block_barrier, .blocks = 2, .threads = 64}));

  EXPECT_FALSE(why_malformed(BlockFetch{.bytes = 65536}));
  EXPECT_TRUE(why_malformed(BlockFetch{.bytes = 48}));
  EXPECT_TRUE(why_malformed(BlockFetch{.bytes = 131072}));
}

TEST(Workload, CountsWhatIsMoved) {
  const Stream stream{
      .element_bits = 64, .dataset_bytes = 1024, .block_threads = 64, .blocks = 3, .elements_per_thread = 5};
  EXPECT_EQ(bytes_moved(stream), 8U * 5 * 64 * 3);
  Stream copy = stream;
  copy.work = StreamWork::copy;
  EXPECT_EQ(bytes_moved(copy), 2 * bytes_moved(stream));
  Stream store = stream;
  store.work = StreamWork::store;
  EXPECT_EQ(bytes_moved(store), bytes_moved(stream));
  Stream swap = stream;
  swap.work = StreamWork::swap;
  EXPECT_EQ(bytes_moved(swap), 4 * bytes_moved(stream));
}

TEST(Workload, NamesReadBack) {
  for (const StreamPath path :
       {StreamPath::global_ca, StreamPath::global_cg, StreamPath::texture, StreamPath::shared, StreamPath::constant}) {
    EXPECT_EQ(stream_path_from(to_string(path)), path);
  }
  for (const StreamWork work : {StreamWork::load, StreamWork::copy, StreamWork::swap, StreamWork::store}) {
    EXPECT_EQ(stream_work_from(to_string(work)), work);
  }
  for (const ExchangeWork work : exchange_works) {
    EXPECT_EQ(exchange_work_from(to_string(work)), work);
  }
  for (const FetchEngine engine : fetch_engines) {
    EXPECT_EQ(fetch_engine_from(to_string(engine)), engine);
  }
  EXPECT_FALSE(stream_path_from("dram"));
}

DeviceDescription two_levels() {
  return parse_description(R"(
schema: gpuinfer/1
device: {sm_count: 10}
caches: {L1tex: {capacity_bytes: 16384}, L2: {capacity_bytes: 1048576}}
bandwidth:
  L1: {bytes_per_second: 1.0e12, elements_per_sm_clock: 25, element_bits: 32}
  shared: {bytes_per_second: 1.0e12, elements_per_sm_clock: 25, element_bits: 32,
           by_element_bits: [{bytes_per_second: 5.0e11, elements_per_sm_clock: 12.5, element_bits: 32}]}
  L2_load: {bytes_per_second: 4.0e11, elements_per_sm_clock: 10, element_bits: 32}
  DRAM_load: {bytes_per_second: 1.0e11, elements_per_sm_clock: 2.5, element_bits: 32}
)",
                           "d.yaml");
}

double bytes_per_second(const Stream& stream) {
  return static_cast<double>(bytes_moved(stream)) / time_of(two_levels(), stream).seconds;
}

TEST(StreamSimulator, ADatasetComesFromTheFirstCacheThatHoldsIt) {
  Stream stream{
      .elements_in_flight = 8, .dataset_bytes = 16384, .block_threads = 1024, .blocks = 20, .elements_per_thread = 800};
  EXPECT_DOUBLE_EQ(bytes_per_second(stream), 1e12);
  stream.dataset_bytes = 32768;
  EXPECT_DOUBLE_EQ(bytes_per_second(stream), 4e11);
  stream.dataset_bytes = 1U << 21U;
  EXPECT_DOUBLE_EQ(bytes_per_second(stream), 1e11);
  stream.dataset_bytes = 16384;
  stream.path = StreamPath::global_cg;
  EXPECT_DOUBLE_EQ(bytes_per_second(stream), 4e11);
  const StreamTime time = time_of(two_levels(), stream);
  EXPECT_DOUBLE_EQ(time.cycles, time.seconds * 1e9);
}

TEST(StreamSimulator, FewBytesUnderWayDoNotHideALatency) {
  const Stream stream{.path = StreamPath::global_cg, .dataset_bytes = 16384, .block_threads = 32, .blocks = 1};
  EXPECT_DOUBLE_EQ(bytes_per_second(stream), 32 * 4 * 1e9 / 250);
}

// A copy brings twice as much in the time of a load: it stores as well.
TEST(StreamSimulator, LatenciesAreThoseOfTheDescription) {
  DeviceDescription device = two_levels();
  device.shared_memory.emplace().latency_cycles.broadcast = 40;
  device.caches["L1tex"].latency_cycles.hit = 100;
  device.caches["L2"].latency_cycles = {.hit = 200, .miss = 500};
  const auto cycles_of_round = [&](StreamPath path, StreamWork work, std::uint64_t dataset_bytes) {
    return time_of(device, Stream{.path = path,
                                  .work = work,
                                  .dataset_bytes = dataset_bytes,
                                  .block_threads = 32,
                                  .blocks = 1,
                                  .elements_per_thread = 10})
               .cycles /
           10;
  };
  EXPECT_DOUBLE_EQ(cycles_of_round(StreamPath::global_ca, StreamWork::load, 16384), 100);
  EXPECT_DOUBLE_EQ(cycles_of_round(StreamPath::global_cg, StreamWork::load, 16384), 200);
  EXPECT_DOUBLE_EQ(cycles_of_round(StreamPath::global_cg, StreamWork::load, 1U << 24U), 500);
  EXPECT_DOUBLE_EQ(cycles_of_round(StreamPath::shared, StreamWork::copy, 0), 40);
  EXPECT_DOUBLE_EQ(cycles_of_round(StreamPath::shared, StreamWork::swap, 0), 40);
}

TEST(StreamSimulator, ElementsHaveBandwidthsOfTheirOwn) {
  Stream stream{.path = StreamPath::shared,
                .work = StreamWork::swap,
                .elements_in_flight = 8,
                .block_threads = 1024,
                .blocks = 20,
                .elements_per_thread = 800};
  EXPECT_DOUBLE_EQ(bytes_per_second(stream), 5e11);
  stream.element_bits = 64;
  EXPECT_THROW(static_cast<void>(bytes_per_second(stream)), InputError);
}

TEST(StreamSimulator, AnSmCachesThePartsOfItsBlocks) {
  Stream stream{.elements_in_flight = 8,
                .dataset_bytes = 20 * 8192,
                .part_bytes = 8192,
                .block_threads = 1024,
                .blocks = 20,
                .elements_per_thread = 800};
  EXPECT_DOUBLE_EQ(bytes_per_second(stream), 1e12);
  stream.part_bytes = 16384;
  stream.dataset_bytes = 20 * 16384;
  EXPECT_DOUBLE_EQ(bytes_per_second(stream), 4e11);
}

TEST(StreamSimulator, NamesTheBandwidthThatIsMissing) {
  try {
    static_cast<void>(time_of(two_levels(), Stream{.path = StreamPath::constant}));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "bandwidth.constant is null and a simulation needs it; give it a value");
  }
}

}  // namespace
}  // namespace gpuinfer::model
