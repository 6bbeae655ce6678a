// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
// One sequence against many hypotheses: accesses x hypotheses per second, each alone and all together; README.md beside
// it says what they are.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/access_sequence.hpp"
#include "model/cache_simulator.hpp"
#include "model/hypotheses.hpp"
#include "model/policy_classes.hpp"

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

const std::vector<std::uint32_t> ways(8, 8);

std::vector<Hypothesis> with_policies(const std::vector<XorIndex>& indexes, const std::vector<Replacement>& policies) {
  std::vector<Hypothesis> hypotheses;
  for (const Replacement& policy : policies) {
    for (const XorIndex& index : indexes) {
      if (hypotheses.size() < most_hypotheses) {
        hypotheses.push_back({.index = index, .ways = ways, .replacement = policy});
      }
    }
  }
  return hypotheses;
}

// As a search lists them: every three independent rows of one or two of the address bits 7 to 13, with one policy after
// the other.
std::vector<Hypothesis> hypotheses() {
  std::vector<std::uint64_t> rows;
  for (unsigned a = 7; a <= 13; ++a) {
    for (unsigned b = a; b <= 13; ++b) {
      rows.push_back((std::uint64_t{1} << a) | (std::uint64_t{1} << b));
    }
  }
  std::vector<XorIndex> indexes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = i + 1; j < rows.size(); ++j) {
      for (std::size_t k = j + 1; k < rows.size(); ++k) {
        if ((rows[i] ^ rows[j]) != rows[k]) {
          indexes.push_back({{rows[i], rows[j], rows[k]}, 0});
        }
      }
    }
  }
  const auto named = [](const std::string& name) {
    return Replacement{.policy = name, .parameters = {}, .equivalent = {}};
  };
  return with_policies(indexes, {named("lru"), named("fifo"), named("plru"), named("nru")});
}

// No two behave alike: rows in reduced form, and 34 policies from 34 classes.
std::vector<Hypothesis> different_hypotheses() {
  std::vector<XorIndex> indexes;
  for (std::uint64_t choice = 0; choice < 294; ++choice) {
    const auto row = [&](unsigned bit, std::uint64_t others) { return (std::uint64_t{1} << bit) | (others << 10U); };
    indexes.push_back({{row(7, choice % 7), row(8, choice / 7 % 7), row(9, choice / 49)}, 0});
  }
  std::vector<Replacement> policies;
  for (const Replacement& guess : guessed_policies(ways)) {
    const bool is_new = std::none_of(policies.begin(), policies.end(), [&](const Replacement& other) {
      return compare(guess, other, ways.front(), {.pairs_of_states = 1000}).is_alike();
    });
    if (is_new && policies.size() < 34) {
      policies.push_back(guess);
    }
  }
  return with_policies(indexes, policies);
}

void count_pairs(benchmark::State& state, std::size_t tested) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(tested * accesses));
}

// Every 97th of them.
void alone(benchmark::State& state, const std::vector<Hypothesis>& all) {
  const Recording played = recording();
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

void together(benchmark::State& state, const std::vector<Hypothesis>& all) {
  const Recording played = recording();
  for ([[maybe_unused]] auto _ : state) {
    HypothesisTester tester(line_bytes, line_bytes);
    tester.add(played.addresses, played.measured);
    benchmark::DoNotOptimize(tester.wrong(all, static_cast<std::size_t>(state.range(0))));
  }
  count_pairs(state, all.size());
}

void as_listed_each_alone(benchmark::State& state) { alone(state, hypotheses()); }
void as_listed_together(benchmark::State& state) { together(state, hypotheses()); }
void all_different_each_alone(benchmark::State& state) { alone(state, different_hypotheses()); }
void all_different_together(benchmark::State& state) { together(state, different_hypotheses()); }

BENCHMARK(as_listed_each_alone)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(as_listed_together)->ArgName("jobs")->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(all_different_each_alone)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(all_different_together)->ArgName("jobs")->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace gpuinfer::model

BENCHMARK_MAIN();
