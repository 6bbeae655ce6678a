// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/infer_cluster.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "infer/threads/questioner.hpp"
#include "infer/threads/twice.hpp"
#include "model/number_text.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

using model::ClusterDescription;
using model::ClusterExchange;
using model::EvidenceStatus;
using model::ExchangeWork;
using model::RankCycles;

constexpr std::array cluster_leaves{
    "largest_blocks", "load_cycles",          "atomic_cycles",         "hand_over_cycles", "signal_cycles",
    "barrier_cycles", "load_bytes_per_cycle", "store_bytes_per_cycle", "copy_cycles",      "block_barrier_cycles"};
constexpr std::uint32_t asked_clusters = 64;  // counted round those that there are
constexpr std::uint32_t cluster_draws = 128;  // of two blocks, in a round
constexpr std::uint32_t few_draws = 16;       // where it hardly matters which
constexpr std::uint32_t cluster_runs = 3;

// Cycles of each, the middle one of its runs.
std::vector<double> cycles_of_all(Asker& device, std::vector<ClusterExchange> exchanges) {
  std::vector<model::Workload> workloads;
  for (ClusterExchange& exchange : exchanges) {
    exchange.runs = cluster_runs;
    workloads.emplace_back(exchange);
  }
  std::vector<double> cycles;
  for (const model::Timing& timing : device.time(workloads)) {
    cycles.push_back(model::rounded(median(timing.cycles)));
  }
  return cycles;
}

// Every size up to it is taken, and the next one is not.
std::uint32_t find_largest(Asker& device, Leaves& leaves, ClusterDescription& cluster) {
  leaves.begin("largest_blocks", "clusters of every size were not all asked for");
  device.inquire("a load in clusters of ever more blocks", "the device refuses what is too large");
  std::uint32_t largest = 1;
  std::size_t trials = 0;
  while (largest < ClusterExchange::most_blocks &&
         device.is_taken(ClusterExchange{.blocks = largest + 1, .from = 0, .to = largest})) {
    ++largest;
    ++trials;
  }
  device.learned("up to " + std::to_string(largest) + " blocks");
  if (largest == ClusterExchange::most_blocks) {
    leaves.leave_open("largest_blocks", EvidenceStatus::unknown, "clusters of all sizes that are asked for are taken");
  } else {
    cluster.largest_blocks = largest;
    leaves.resolve("largest_blocks", trials + 1);
  }
  return largest;
}

std::vector<std::uint32_t> sizes_up_to(std::uint32_t largest) {
  std::vector<std::uint32_t> sizes;
  for (std::uint32_t blocks = 2; blocks <= largest; blocks *= 2) {
    sizes.push_back(blocks);
  }
  if (largest > 1 && !std::has_single_bit(largest)) {
    sizes.push_back(largest);
  }
  return sizes;
}

std::string blocks_text(std::uint32_t blocks) { return model::to_text(blocks) + (blocks == 1 ? " block" : " blocks"); }

// Two blocks of some cluster; of clusters of one, and at barriers, a block and itself.
ClusterExchange drawn_exchange(ExchangeWork work, std::uint32_t blocks, model::Random& random) {
  ClusterExchange exchange{.work = work, .blocks = blocks};
  exchange.cluster = static_cast<std::uint32_t>(random.below(asked_clusters));
  if (work == ExchangeWork::barrier) {
    exchange.threads = model::warp_lanes;
  } else if (blocks > 1) {
    exchange.from = static_cast<std::uint32_t>(random.below(blocks));
    exchange.to = static_cast<std::uint32_t>((exchange.from + 1 + random.below(blocks - 1)) % blocks);
  }
  return exchange;
}

std::vector<double> drawn_round(Questioner asker, ExchangeWork work, std::uint32_t blocks, std::size_t count) {
  std::vector<ClusterExchange> exchanges;
  for (std::size_t i = 0; i < count; ++i) {
    exchanges.push_back(drawn_exchange(work, blocks, asker.random));
  }
  return cycles_of_all(asker.device, std::move(exchanges));
}

// What a leaf is worth: its value where nothing speaks against it.
template <class Value>
struct MeasuredLeaf {
  Value value;
  std::optional<std::string> doubt;
  std::size_t trials = 0;  // that could have refuted it
};

using MeasuredRanks = MeasuredLeaf<std::vector<RankCycles>>;

MeasuredRanks measure_ranks(Questioner asker, ExchangeWork work, const std::vector<std::uint32_t>& sizes) {
  MeasuredRanks measured;
  for (const std::uint32_t blocks : sizes) {
    const std::size_t count = blocks == 1 || work == ExchangeWork::barrier ? few_draws : cluster_draws;
    std::vector<double> cycles = drawn_round(asker, work, blocks, count);
    const Range first = range_of(cycles);
    const std::vector<double> again = drawn_round(asker, work, blocks, count);
    if (auto reason = why_not_again(blocks_text(blocks), first, again); reason && !measured.doubt) {
      measured.doubt = std::move(reason);
    }
    measured.trials += again.size();
    cycles.insert(cycles.end(), again.begin(), again.end());
    const Range both = range_of(cycles);
    measured.value.push_back(
        {.blocks = blocks,
         .least = model::rounded(both.least),
         .mean = std::clamp(model::rounded(both.mean), model::rounded(both.least), model::rounded(both.most)),
         .most = model::rounded(both.most)});
  }
  return measured;
}

// Bytes a cycle, the middle of some blocks.
double rate_of(Asker& device, ExchangeWork work, std::uint32_t blocks, bool by_all) {
  std::vector<ClusterExchange> exchanges;
  for (std::uint32_t i = 0; i < few_draws; ++i) {
    // Clusters differ, and distances may, so both rounds are of the same ones.
    exchanges.push_back({.work = work,
                         .blocks = blocks,
                         .cluster = i,
                         .from = i % blocks,
                         .to = (i + 1 + i % (blocks - 1)) % blocks,
                         .by_all = by_all});
  }
  return static_cast<double>(ClusterExchange::stream_bytes) / median(cycles_of_all(device, std::move(exchanges)));
}

MeasuredLeaf<std::vector<model::ClusterRate>> measure_rates(Questioner asker, ExchangeWork work,
                                                            const std::vector<std::uint32_t>& sizes) {
  MeasuredLeaf<std::vector<model::ClusterRate>> measured;
  std::vector<Twice> rounds;
  for (const std::uint32_t blocks : sizes) {
    model::ClusterRate rate{.blocks = blocks};
    for (const bool by_all : {false, true}) {
      const double first = rate_of(asker.device, work, blocks, by_all);
      const double again = rate_of(asker.device, work, blocks, by_all);
      rounds.push_back({.of_what = blocks_text(blocks), .first = first, .second = again});
      (by_all ? rate.all : rate.one) = model::rounded((first + again) / 2);
    }
    measured.value.push_back(rate);
  }
  measured.doubt = why_not_again(rounds, false);
  measured.trials = few_draws * rounds.size();
  return measured;
}

// The mean over some clusters, of one entry of a list by size.
template <class Entry, class Ask>
MeasuredLeaf<std::vector<Entry>> measure_sizes(Questioner asker, std::uint32_t least, std::uint32_t most,
                                               const char* unit, Ask ask) {
  MeasuredLeaf<std::vector<Entry>> measured;
  std::vector<Twice> rounds;
  for (std::uint32_t size = least; size <= most; size *= 2) {
    const auto round = [&] {
      std::vector<ClusterExchange> exchanges;
      for (std::uint32_t i = 0; i < few_draws; ++i) {
        exchanges.push_back(ask(size));
        exchanges.back().cluster = i;
      }
      return range_of(cycles_of_all(asker.device, std::move(exchanges))).mean;
    };
    const double first = round();
    const double again = round();
    rounds.push_back({.of_what = model::to_text(size) + unit, .first = first, .second = again});
    measured.value.push_back({size, model::rounded((first + again) / 2)});
  }
  measured.doubt = why_not_again(rounds, true);
  measured.trials = few_draws * rounds.size();
  return measured;
}

// Who asks, and what is written.
struct ClusterStage {
  Questioner asker;
  Leaves& leaves;
  ClusterDescription& cluster;
};

template <class Value>
void conclude(const ClusterStage& stage, const char* leaf, std::optional<Value> ClusterDescription::*member,
              MeasuredLeaf<Value> measured) {
  if (measured.doubt) {
    stage.leaves.leave_open(leaf, EvidenceStatus::ambiguous, *measured.doubt);
    return;
  }
  stage.cluster.*member = std::move(measured.value);
  stage.leaves.resolve(leaf, measured.trials);
}

// `measure` makes what the leaf is. What the device refuses stays open alone.
template <class Value, class Measure>
void find_leaf(const ClusterStage& stage, const char* leaf, std::optional<Value> ClusterDescription::*member,
               const char* asked, const char* why, Measure measure) {
  stage.leaves.begin(leaf, "the questions about it did not end");
  const auto begun = std::ranges::find(cluster_leaves, std::string_view(leaf)) - cluster_leaves.begin();
  stage.asker.device.report(leaf, static_cast<double>(begun) / static_cast<double>(cluster_leaves.size()));
  stage.asker.device.inquire(asked, why);
  try {
    MeasuredLeaf<Value> measured = measure();
    stage.asker.device.learned(measured.doubt.value_or("both rounds say the same"));
    conclude(stage, leaf, member, std::move(measured));
  } catch (const QuestionRefused& refused) {
    stage.leaves.leave_open(leaf, EvidenceStatus::unknown, refused.reason());
  }
}

// Of one cluster, as large as they come.
void state_ranks(const ClusterStage& stage, std::uint32_t blocks) {
  stage.asker.device.inquire("a load by each block of one cluster from each", "ranks may lie at different distances");
  std::vector<ClusterExchange> exchanges;
  for (std::uint32_t from = 0; from < blocks; ++from) {
    for (std::uint32_t to = 0; to < blocks; ++to) {
      exchanges.push_back({.blocks = blocks, .from = from, .to = to});
    }
  }
  const std::vector<double> cycles = cycles_of_all(stage.asker.device, std::move(exchanges));
  auto& rows = stage.leaves["load_cycles"].details.cycles_by_rank;
  for (std::size_t from = 0; from < blocks; ++from) {
    const auto begin = cycles.begin() + static_cast<std::ptrdiff_t>(from * blocks);
    rows.emplace_back(begin, begin + blocks);
  }
  stage.asker.device.learned("a table of " + blocks_text(blocks));
}

void find_all(const ClusterStage& stage) {
  const Questioner& asker = stage.asker;
  const std::uint32_t largest = find_largest(asker.device, stage.leaves, stage.cluster);
  const std::vector<std::uint32_t> sizes = sizes_up_to(largest);
  std::vector<std::uint32_t> with_own{1};
  with_own.insert(with_own.end(), sizes.begin(), sizes.end());
  const auto ranks = [&](ExchangeWork work, const std::vector<std::uint32_t>& of) {
    return [&asker, work, of] { return measure_ranks(asker, work, of); };
  };
  const auto rates = [&](ExchangeWork work) {
    return [&asker, &sizes, work] { return measure_rates(asker, work, sizes); };
  };
  constexpr const char* any_two = "blocks of one cluster lie on SMs at different places";
  find_leaf(stage, "load_cycles", &ClusterDescription::load_cycles, "chains of loads between blocks that are drawn",
            any_two, ranks(ExchangeWork::load, with_own));
  if (largest > 1) {
    state_ranks(stage, largest);
  }
  find_leaf(stage, "atomic_cycles", &ClusterDescription::atomic_cycles,
            "chains of atomics between blocks that are drawn", any_two, ranks(ExchangeWork::atomic, with_own));
  find_leaf(stage, "hand_over_cycles", &ClusterDescription::hand_over_cycles, "words that two blocks pass to and fro",
            "half of the way there and back is one way", ranks(ExchangeWork::hand_over, sizes));
  find_leaf(stage, "signal_cycles", &ClusterDescription::signal_cycles, "arrivals at barriers of one another",
            "half of the way there and back is one way", ranks(ExchangeWork::signal, sizes));
  find_leaf(stage, "barrier_cycles", &ClusterDescription::barrier_cycles, "barriers of clusters of every size",
            "all wait for the last one", ranks(ExchangeWork::barrier, with_own));
  find_leaf(stage, "load_bytes_per_cycle", &ClusterDescription::load_bytes_per_cycle,
            "streams of loads by one block, and by all of a cluster", "all share what lies between SMs",
            rates(ExchangeWork::stream_load));
  find_leaf(stage, "store_bytes_per_cycle", &ClusterDescription::store_bytes_per_cycle,
            "streams of stores by one block, and by all of a cluster", "all share what lies between SMs",
            rates(ExchangeWork::stream_store));
  find_leaf(stage, "copy_cycles", &ClusterDescription::copy_cycles, "copies of every size that two blocks pass on",
            "half of the way there and back is one way", [&] {
              return measure_sizes<model::CopyCycles>(
                  asker, 16, largest > 1 ? ClusterExchange::most_copied_bytes : 0, " bytes", [](std::uint32_t bytes) {
                    return ClusterExchange{.work = ExchangeWork::copy, .blocks = 2, .to = 1, .bytes = bytes};
                  });
            });
  find_leaf(stage, "block_barrier_cycles", &ClusterDescription::block_barrier_cycles, "barriers of one block",
            "all its warps wait for the last one", [&] {
              return measure_sizes<model::BarrierCycles>(
                  asker, model::warp_lanes, model::most_block_threads, " threads", [](std::uint32_t threads) {
                    return ClusterExchange{.work = ExchangeWork::block_barrier, .threads = threads};
                  });
            });
  asker.device.report("done", 1.0);
}

}  // namespace

ClusterFinding infer_cluster(model::Answerer& device, const std::string& target, const Settings& settings) {
  Asker interrogator(device, target, settings);
  model::Random random = stream(settings, "cluster");
  ClusterFinding finding;
  Leaves leaves(interrogator, finding, cluster_leaves);
  const ClusterStage stage{
      .asker = {.device = interrogator, .random = random}, .leaves = leaves, .cluster = finding.cluster};
  static_cast<void>(leaves.go_through([&] { find_all(stage); }));
  leaves.close();
  return finding;
}

}  // namespace gpuinfer::infer
