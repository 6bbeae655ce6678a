// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
// Accesses per second of the reference simulator on one thread; README.md beside it says what the rows are.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <vector>

#include "model/cache_simulator.hpp"

namespace gpuinfer::model {
namespace {

constexpr std::size_t accesses = 40'000'000;

// Played over and over, as the questions of an inference are: a chase, cut after whole laps.
constexpr std::size_t accesses_at_once = 100'000;

struct Geometry {
  std::string name;
  std::uint64_t line_bytes = 0;
  std::vector<std::uint32_t> ways;

  [[nodiscard]] std::uint64_t capacity_bytes() const {
    return line_bytes * std::accumulate(ways.begin(), ways.end(), std::uint64_t{0});
  }
};

const Geometry texture{.name = "12KB_4x96x32B", .line_bytes = 32, .ways = std::vector<std::uint32_t>(4, 96)};
const Geometry data{.name = "16KB_32x4x128B", .line_bytes = 128, .ways = std::vector<std::uint32_t>(32, 4)};
const Geometry sixteen_ways{.name = "16KB_8x16x128B", .line_bytes = 128, .ways = std::vector<std::uint32_t>(8, 16)};

CacheDescription described(const Geometry& geometry, Replacement replacement) {
  BitsIndex index;
  auto bit = static_cast<unsigned>(std::countr_zero(geometry.line_bytes));
  for (std::size_t sets = 1; sets < geometry.ways.size(); sets *= 2) {
    index.bits.push_back(bit++);
  }
  CacheDescription cache;
  cache.line_bytes = geometry.line_bytes;
  cache.sector_bytes = geometry.line_bytes;
  cache.ways = geometry.ways;
  cache.index = index;
  cache.replacement = std::move(replacement);
  return cache;
}

void play(benchmark::State& state, const CacheDescription& cache, const AccessSequence& sequence) {
  const auto simulator = CacheSimulator::make(cache, 1);
  std::vector<Outcome> outcomes(sequence.size());
  simulator->play(sequence, outcomes);
  for ([[maybe_unused]] auto _ : state) {
    for (std::size_t played = 0; played < accesses; played += sequence.size()) {
      simulator->play(sequence, outcomes);
      benchmark::ClobberMemory();
    }
  }
  const std::size_t at_once = (accesses + sequence.size() - 1) / sequence.size() * sequence.size();
  state.SetItemsProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * at_once));
  state.counters["miss_rate"] = static_cast<double>(std::count_if(outcomes.begin(), outcomes.end(), is_miss)) /
                                static_cast<double>(outcomes.size());
}

void add_row(const std::string& name, const CacheDescription& cache, const AccessSequence& sequence) {
  benchmark::RegisterBenchmark(name.c_str(), [cache, sequence](benchmark::State& state) {
    play(state, cache, sequence);
  })->Unit(benchmark::kMillisecond);
}

AccessSequence laps(std::uint64_t array_bytes, std::uint64_t stride_bytes) {
  const std::uint64_t lap = array_bytes / stride_bytes;
  return cyclic(array_bytes, stride_bytes, std::max<std::uint64_t>(1, accesses_at_once / lap) * lap);
}

void add_published_caches() {
  const Replacement lru{.policy = "lru", .parameters = {}, .equivalent = {}};
  for (const Geometry& geometry : {texture, data}) {
    for (const std::uint64_t array_bytes :
         {geometry.capacity_bytes(), geometry.capacity_bytes() + 128, 2 * geometry.capacity_bytes()}) {
      for (const std::uint64_t stride_bytes : {std::uint64_t{4}, geometry.line_bytes}) {
        add_row("lru/" + geometry.name + "/array:" + std::to_string(array_bytes) +
                    "/stride:" + std::to_string(stride_bytes),
                described(geometry, lru), laps(array_bytes, stride_bytes));
      }
    }
  }
}

std::vector<double> numbers(std::size_t count, std::size_t step) {
  std::vector<double> list(count);
  for (std::size_t i = 0; i < count; ++i) {
    list[i] = static_cast<double>((i + step) % count);
  }
  return list;
}

// Each policy once, and once more where parameters change the work.
std::vector<Replacement> policies_of_sixteen_ways() {
  constexpr std::size_t ways = 16;
  std::vector<Replacement> policies;
  for (const Replacement& guess : guessed_policies(std::vector<std::uint32_t>(8, ways))) {
    if (guess.policy != "qlru" || policies.back().policy != "qlru") {
      policies.push_back(guess);
    }
  }
  for (const std::string variant : {"H00_M1_R0_U1", "H11_M1_R1_U2", "H21_M2_R2_U0_UMO", "H20_M3_R1_U3_UMO"}) {
    policies.push_back({.policy = "qlru", .parameters = {{"variant", variant}}, .equivalent = {}});
  }
  for (const std::string name : {"bip", "brrip", "random"}) {
    policies.push_back({.policy = name, .parameters = {}, .equivalent = {}});
  }
  policies.push_back(
      {.policy = "weighted_random", .parameters = {{"victim_weights", numbers(ways, 1)}}, .equivalent = {}});
  policies.push_back({.policy = "fermi",
                      .parameters = {{"favoured_way", std::int64_t{1}}, {"others", std::string("random")}},
                      .equivalent = {}});
  // First in, first out, as a permutation and as a machine.
  policies.push_back(
      {.policy = "permutation",
       .parameters = {{"hits", std::vector<std::vector<double>>(ways, numbers(ways, 0))}, {"miss", numbers(ways, 1)}},
       .equivalent = {}});
  std::vector<std::vector<double>> hits;
  for (std::size_t state = 0; state < ways; ++state) {
    hits.emplace_back(ways, static_cast<double>(state));
  }
  policies.push_back({.policy = "automaton",
                      .parameters = {{"hits", hits}, {"victims", numbers(ways, 0)}, {"misses", numbers(ways, 1)}},
                      .equivalent = {}});
  return policies;
}

std::string short_name(const Replacement& replacement) {
  const bool is_long = replacement.policy == "permutation" || replacement.policy == "automaton" ||
                       replacement.policy == "weighted_random";
  std::string name = is_long ? replacement.policy : to_text(replacement);
  std::replace(name.begin(), name.end(), ' ', ',');
  return name;
}

void add_policies() {
  const std::uint64_t capacity_bytes = sixteen_ways.capacity_bytes();
  Random random(1);
  const AccessSequence walk =
      random_walk(cold_pass(0, capacity_bytes * 3 / 2, sixteen_ways.line_bytes), accesses_at_once, random);
  for (const Replacement& policy : policies_of_sixteen_ways()) {
    const CacheDescription cache = described(sixteen_ways, policy);
    const std::string name = short_name(policy) + "/" + sixteen_ways.name;
    add_row(name + "/array:" + std::to_string(capacity_bytes) + "/stride:128", cache, laps(capacity_bytes, 128));
    add_row(name + "/array:" + std::to_string(2 * capacity_bytes) + "/stride:128", cache,
            laps(2 * capacity_bytes, 128));
    add_row(name + "/random walk over " + std::to_string(capacity_bytes * 3 / 2), cache, walk);
  }
}

}  // namespace
}  // namespace gpuinfer::model

int main(int argc, char** argv) {
  gpuinfer::model::add_published_caches();
  gpuinfer::model::add_policies();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
