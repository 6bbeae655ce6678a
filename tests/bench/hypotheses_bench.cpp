// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
// One sequence against many hypotheses: accesses x hypotheses per second, each alone and all together; README.md beside
// it says what they are.
#include <benchmark/benchmark.h>

#include <optional>
#include <vector>

#include "model/access_sequence.hpp"
#include "model/cache_simulator.hpp"
#include "model/hypotheses.hpp"

namespace gpuinfer::model {
namespace {

constexpr std::uint64_t line_bytes = 128;
constexpr std::size_t accesses = 100'000;
constexpr std::size_t most_hypotheses = 10'000;

struct Recording {
  AccessSequence addresses;
  std::vector<Measured> measured;
};

// A random walk over one and a half times 8 KB, line by line, as it would be asked: no run shortens it.
Recording recording() {
  Random random(1);
  Recording recording{.addresses = random_walk(cold_pass(0, 12288, line_bytes), accesses, random), .measured = {}};
  for (std::size_t i = 0; i < accesses; ++i) {
    recording.measured.push_back(random.below(2) == 0 ? Measured::hit : Measured::miss);
  }
  return recording;
}

// Eight sets of eight ways: each of the three lowest bits of the line number by itself or with one of the next four,
// times every deterministic policy that a search tries.
std::vector<Hypothesis> hypotheses() {
  const std::vector<std::uint32_t> ways(8, 8);
  const std::vector<Replacement> policies = guessed_policies(ways);
  std::vector<Hypothesis> hypotheses;
  for (unsigned choice = 0; choice < 125; ++choice) {
    const auto row = [](unsigned bit, unsigned other) {
      return (std::uint64_t{1} << bit) | (other == 0 ? 0 : std::uint64_t{1} << (9U + other));
    };
    const XorIndex index{{row(7, choice % 5), row(8, choice / 5 % 5), row(9, choice / 25)}, 0};
    for (const Replacement& policy : policies) {
      if (hypotheses.size() < most_hypotheses) {
        hypotheses.push_back({.index = index, .ways = ways, .replacement = policy});
      }
    }
  }
  return hypotheses;
}

void count_pairs(benchmark::State& state, std::size_t tested) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(tested * accesses));
}

void each_alone(benchmark::State& state) {
  const Recording played = recording();
  const std::vector<Hypothesis> all = hypotheses();
  std::vector<Outcome> outcomes(accesses);
  std::size_t tested = 0;
  for ([[maybe_unused]] auto _ : state) {
    tested = 0;
    for (std::size_t h = 0; h < all.size(); h += 97, ++tested) {
      CacheDescription cache;
      cache.line_bytes = line_bytes;
      cache.sector_bytes = line_bytes;
      cache.ways = all[h].ways;
      cache.index = all[h].index;
      cache.replacement = all[h].replacement;
      CacheSimulator::make(cache, 1)->play(played.addresses, outcomes);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < accesses; ++i) {
        wrong += is_miss(outcomes[i]) != (played.measured[i] == Measured::miss) ? 1U : 0U;
      }
      benchmark::DoNotOptimize(wrong);
    }
  }
  count_pairs(state, tested);
}

void together(benchmark::State& state) {
  const Recording played = recording();
  const std::vector<Hypothesis> all = hypotheses();
  for ([[maybe_unused]] auto _ : state) {
    HypothesisTester tester(line_bytes, line_bytes);
    tester.add(played.addresses, played.measured);
    benchmark::DoNotOptimize(tester.wrong(all, static_cast<std::size_t>(state.range(0))));
  }
  count_pairs(state, all.size());
}

BENCHMARK(each_alone)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(together)->ArgName("jobs")->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace gpuinfer::model

BENCHMARK_MAIN();
