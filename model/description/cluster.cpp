// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/cluster.hpp"

#include "model/description/threads.hpp"

namespace gpuinfer::model {

namespace {

using codec::Ascending;
using codec::Count;
using codec::Cycles;
using codec::List;
using codec::Map;
using codec::Real;

constexpr double most_bytes_per_cycle = 1e6;
constexpr Count blocks{.least = 1, .most = ClusterExchange::most_blocks};
constexpr codec::Bytes copied_bytes{.least = 1, .most = codec::max_bytes};

// What people read of a list: its first and its last entry, as most lie between these.
template <class Entry, class Text>
auto ends(Text text) {
  return [text](const std::vector<Entry>& entries) {
    std::vector<std::string> texts;
    if (!entries.empty()) {
      texts.push_back(text(entries.front()));
    }
    if (entries.size() > 1) {
      texts.push_back(text(entries.back()));
    }
    return words::joined(texts, ", ");
  };
}

std::string cycles_text(double cycles) { return words::together({words::rounded(cycles, 4), " cycles"}); }

Ascending<RankCycles, std::uint32_t> rank_cycles() {
  return {
      .list = {.item = {.leaves = {leaf("blocks", &RankCycles::blocks, blocks, "of the cluster; 1: a block and itself")
                                       .needed(),
                                   leaf("least", &RankCycles::least, Cycles{}, "between any two blocks").needed(),
                                   leaf("mean", &RankCycles::mean, Cycles{}, "of all pairs of blocks").needed(),
                                   leaf("most", &RankCycles::most, Cycles{}, "between any two").needed()},
                        .check =
                            [](const Place& place, const RankCycles& cycles) {
                              if (cycles.least > cycles.mean || cycles.mean > cycles.most) {
                                place.need("mean").fail("is not between `least` and `most`; correct it");
                              }
                            },
                        .key = "blocks"}},
      .key = &RankCycles::blocks,
      .words = ends<RankCycles>([](const RankCycles& each) {
        return words::together({words::rounded(each.mean, 4), " cycles in ", to_text(each.blocks),
                                each.blocks == 1 ? " block" : " blocks"});
      })};
}

Ascending<ClusterRate, std::uint32_t> cluster_rates() {
  const Real<> rate{.most = most_bytes_per_cycle};
  return {.list = {.item = {.leaves = {leaf("blocks", &ClusterRate::blocks, blocks, "of the cluster").needed(),
                                       leaf("one", &ClusterRate::one, rate, "by one block alone").needed(),
                                       leaf("all", &ClusterRate::all, rate, "by each while all do").needed()},
                            .key = "blocks"}},
          .key = &ClusterRate::blocks,
          .words = ends<ClusterRate>([](const ClusterRate& each) {
            return words::together({words::rounded(each.one, 4), " B/cycle alone and ", words::rounded(each.all, 4),
                                    " all at once in ", to_text(each.blocks), " blocks"});
          })};
}

Ascending<CopyCycles, std::uint64_t> copy_cycles() {
  return {.list = {.item = {.leaves = {leaf("bytes", &CopyCycles::bytes, copied_bytes, "of the copy").needed(),
                                       leaf("cycles", &CopyCycles::cycles, Cycles{}, "until the other block has it")
                                           .needed()},
                            .key = "bytes"}},
          .key = &CopyCycles::bytes,
          .words = ends<CopyCycles>([](const CopyCycles& each) {
            return words::together({cycles_text(each.cycles), " for ", words::bytes(each.bytes)});
          })};
}

Ascending<BarrierCycles, std::uint32_t> barrier_cycles() {
  return {.list = {.item = {.leaves = {leaf("threads", &BarrierCycles::threads,
                                            Count{.least = 1, .most = most_block_threads}, "of the block")
                                           .needed(),
                                       leaf("cycles", &BarrierCycles::cycles, Cycles{}, "of one barrier").needed()},
                            .key = "threads"}},
          .key = &BarrierCycles::threads,
          .words = ends<BarrierCycles>([](const BarrierCycles& each) {
            return words::together({cycles_text(each.cycles), " of ", to_text(each.threads), " threads"});
          })};
}

Map<FetchDescription> fetch_result() {
  const Real<> rate{.most = most_bytes_per_cycle};
  const Ascending<FetchCycles, std::uint64_t> cycles{
      .list = {.item = {.leaves = {leaf("bytes", &FetchCycles::bytes, copied_bytes, "that are fetched").needed(),
                                   leaf("one", &FetchCycles::one, Cycles{}, "until one SM has them").needed(),
                                   leaf("all", &FetchCycles::all, Cycles{},
                                        "the same on an average while all SMs fetch as many")
                                       .needed()},
                        .key = "bytes"}},
      .key = &FetchCycles::bytes,
      .words = ends<FetchCycles>([](const FetchCycles& each) {
        return words::together({cycles_text(each.one), " for ", words::bytes(each.bytes)});
      })};
  return {.leaves = {leaf("cycles", &FetchDescription::cycles, cycles, "by size").needed(),
                     leaf("one_bytes_per_cycle", &FetchDescription::one_bytes_per_cycle, rate,
                          "what each further byte of a large one costs, as a rate, of one SM alone")
                         .needed(),
                     leaf("all_bytes_per_cycle", &FetchDescription::all_bytes_per_cycle, rate,
                          "the same of each SM while all fetch")
                         .needed()},
          .words = [cycles](const FetchDescription& fetch) {
            return words::together({cycles.text(fetch.cycles), "; ", words::rounded(fetch.one_bytes_per_cycle, 3),
                                    " B/cycle alone, ", words::rounded(fetch.all_bytes_per_cycle, 3),
                                    " while all SMs fetch"});
          }};
}

const std::vector<std::string_view>& engine_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const FetchEngine engine : fetch_engines) {
      all.push_back(to_string(engine));
    }
    return all;
  }();
  return names;
}

}  // namespace

const Leaves<ClusterDescription>& cluster_leaves() {
  using Cluster = ClusterDescription;
  static const Leaves<Cluster> leaves{
      leaf("largest_blocks", &Cluster::largest_blocks, blocks, "of a cluster that the device takes"),
      leaf("load_cycles", &Cluster::load_cycles, rank_cycles(),
           "of a load from the shared memory of another block, each with its address from the one before"),
      leaf("atomic_cycles", &Cluster::atomic_cycles, rank_cycles(), "of an addition there that returns what was there"),
      leaf("hand_over_cycles", &Cluster::hand_over_cycles, rank_cycles(),
           "until another block that waits for a word has it (st.async)"),
      leaf("signal_cycles", &Cluster::signal_cycles, rank_cycles(),
           "until another block that waits at a barrier of its own goes on (mbarrier.arrive)"),
      leaf("barrier_cycles", &Cluster::barrier_cycles, rank_cycles(),
           "of a barrier of the whole cluster, with one warp in each block; by clusters"),
      leaf("load_bytes_per_cycle", &Cluster::load_bytes_per_cycle, cluster_rates(),
           "that a block loads from the shared memory of another"),
      leaf("store_bytes_per_cycle", &Cluster::store_bytes_per_cycle, cluster_rates(), "the same of stores"),
      leaf("copy_cycles", &Cluster::copy_cycles, copy_cycles(),
           "until another block that waits for a copy has all of it (cp.async.bulk), in a cluster of two"),
      leaf("block_barrier_cycles", &Cluster::block_barrier_cycles, barrier_cycles(), "of a barrier of one block"),
  };
  return leaves;
}

Section<DeviceDescription> cluster_section() {
  return single_section("cluster", "Cluster", "cluster",
                        "what blocks of a cluster, each on an SM of its own, do with the shared memory of one another",
                        &DeviceDescription::cluster, Map<ClusterDescription>{.leaves = cluster_leaves()});
}

Section<DeviceDescription> fetches_section() {
  return table_section("fetches", "Fetch", "way to fetch",
                       "how a block brings what L2 holds to its shared memory: by loads and stores, by cp.async, by "
                       "cp.async.bulk",
                       &DeviceDescription::fetches, engine_names(), fetch_result());
}

}  // namespace gpuinfer::model
