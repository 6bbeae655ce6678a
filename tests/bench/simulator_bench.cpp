// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
// Accesses per second of the reference simulator on one thread; README.md beside it says what the rows are.
#include <benchmark/benchmark.h>

#include <time.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "model/cache_simulator.hpp"
#include "model/hierarchy.hpp"
#include "tests/bench/array_lru.hpp"
#include "tests/bench/walks.hpp"

namespace gpuinfer::bench {
namespace {

using namespace model;  // NOLINT(google-build-using-namespace): all of it is measured here

// Played over and over, as the questions of an inference are; large caches get longer ones.
constexpr std::size_t accesses_at_once = 100'000;
constexpr std::size_t accesses_of_large = 4'000'000;

// In all, for each row.
constexpr std::size_t accesses = 40'000'000;

struct Geometry {
  std::string name;
  std::uint64_t line_bytes = 0;
  std::uint64_t sector_bytes = 0;
  std::uint32_t sets = 0;
  std::uint32_t ways = 0;

  [[nodiscard]] std::uint64_t capacity_bytes() const { return line_bytes * sets * ways; }
};

const Geometry data{.name = "32x4x128B", .line_bytes = 128, .sector_bytes = 128, .sets = 32, .ways = 4};
const Geometry sectored{.name = "32x4x4x32B", .line_bytes = 128, .sector_bytes = 32, .sets = 32, .ways = 4};
const Geometry texture{.name = "4x96x32B", .line_bytes = 32, .sector_bytes = 32, .sets = 4, .ways = 96};
const Geometry sixteen_ways{.name = "8x16x128B", .line_bytes = 128, .sector_bytes = 128, .sets = 8, .ways = 16};
const Geometry large{.name = "8192x48x128B", .line_bytes = 128, .sector_bytes = 128, .sets = 8192, .ways = 48};

CacheDescription described(const Geometry& geometry, Replacement replacement) {
  BitsIndex index;
  auto bit = static_cast<unsigned>(std::countr_zero(geometry.line_bytes));
  for (std::uint32_t sets = 1; sets < geometry.sets; sets *= 2) {
    index.bits.push_back(bit++);
  }
  CacheDescription cache;
  cache.line_bytes = geometry.line_bytes;
  cache.sector_bytes = geometry.sector_bytes;
  cache.ways = std::vector(geometry.sets, geometry.ways);
  cache.index = index;
  cache.replacement = std::move(replacement);
  return cache;
}

// Of this thread: other programs on the machine count as little as can be.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of(auto&& work) {
  const double begin = cpu_seconds();
  work();
  benchmark::ClobberMemory();
  return cpu_seconds() - begin;
}

// Plays of the whole sequence by turns, the first ones only to warm both up. Each is as fast as its best turn.
void race(benchmark::State& state, std::size_t length, auto&& gpuinfer, auto&& yardstick) {
  for ([[maybe_unused]] auto _ : state) {
    std::array best{std::numeric_limits<double>::max(), std::numeric_limits<double>::max()};
    gpuinfer();
    yardstick();
    for (std::size_t played = 0; played < std::max(accesses, 6 * length); played += length) {
      best[0] = std::min(best[0], seconds_of(gpuinfer));
      best[1] = std::min(best[1], seconds_of(yardstick));
    }
    state.SetIterationTime(best[0]);
    state.counters["M/s"] = static_cast<double>(length) / best[0] / 1e6;
    state.counters["yardstick"] = static_cast<double>(length) / best[1] / 1e6;
    state.counters["ratio"] = best[1] / best[0];
  }
}

void check_same(benchmark::State& state, const std::vector<Outcome>& outcomes, const std::vector<Outcome>& expected) {
  const auto agree = [](Outcome a, Outcome b) { return is_miss(a) == is_miss(b); };
  if (!std::equal(outcomes.begin(), outcomes.end(), expected.begin(), agree)) {
    state.SkipWithError("the yardstick hits where the simulator does not, or the other way round");
  }
  state.counters["misses"] = static_cast<double>(std::count_if(outcomes.begin(), outcomes.end(), is_miss)) /
                             static_cast<double>(outcomes.size());
}

const Replacement lru{.policy = "lru", .parameters = {}, .equivalent = {}};

template <class Line>
void race_of_caches(benchmark::State& state, const Geometry& geometry, const AccessSequence& sequence) {
  const auto simulator = CacheSimulator::make(described(geometry, lru), 1);
  ArrayLru<Line> array(geometry.line_bytes, geometry.sets, geometry.ways);
  std::vector<Outcome> outcomes(sequence.size());
  std::vector<Outcome> expected(sequence.size());
  const std::uint64_t sectors = geometry.line_bytes / geometry.sector_bytes;
  const auto sector_shift = static_cast<unsigned>(std::countr_zero(geometry.sector_bytes));
  race(
      state, sequence.size(), [&] { simulator->play(sequence, outcomes); },
      [&] {
        for (std::size_t i = 0; i < sequence.size(); ++i) {
          const bool is_hit = array.load(sequence[i], (sequence[i] >> sector_shift) & (sectors - 1));
          expected[i] = is_hit ? Outcome::hit : Outcome::line_miss;
        }
      });
  check_same(state, outcomes, expected);
}

// An L1 with an L2 behind it, beside two yardsticks one behind the other.
void race_of_paths(benchmark::State& state, const Geometry& outer, const AccessSequence& sequence) {
  DeviceDescription device;
  device.caches["L1"] = described(data, lru);
  device.caches["L2"] = described(outer, lru);
  device.paths["load"].caches = {"L1", "L2"};
  HierarchySimulator path(device, "load", 1);
  ArrayLru<WholeLine> first(data.line_bytes, data.sets, data.ways);
  ArrayLru<WholeLine> second(outer.line_bytes, outer.sets, outer.ways);
  std::vector<AccessClass> classes(sequence.size());
  std::vector<std::uint8_t> expected(sequence.size());
  race(
      state, sequence.size(), [&] { path.play(sequence, classes); },
      [&] {
        for (std::size_t i = 0; i < sequence.size(); ++i) {
          expected[i] = first.load(sequence[i]) ? 0 : second.load(sequence[i]) ? 1 : 2;
        }
      });
  const auto agree = [](const AccessClass& a, std::uint8_t level) { return a.cache.value_or(2) == level; };
  if (!std::equal(classes.begin(), classes.end(), expected.begin(), agree)) {
    state.SkipWithError("the yardstick finds lines elsewhere");
  }
}

void add_row(const std::string& name, auto&& run) {
  benchmark::RegisterBenchmark(name.c_str(), run)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);
}

void add_race(const Geometry& geometry, const std::string& what, const AccessSequence& sequence) {
  add_row("lru/" + geometry.name + "/" + what, [&geometry, sequence](benchmark::State& state) {
    if (geometry.sector_bytes < geometry.line_bytes) {
      race_of_caches<LineOfSectors>(state, geometry, sequence);
    } else {
      race_of_caches<WholeLine>(state, geometry, sequence);
    }
  });
}

void add_races() {
  for (const Geometry* geometry : {&data, &texture, &large, &sectored}) {
    const bool is_large = geometry == &large;
    const std::size_t length = is_large ? accesses_of_large : accesses_at_once;
    const std::uint64_t bytes = geometry->capacity_bytes();
    const std::uint64_t step = geometry->sector_bytes;
    if (!is_large) {
      add_race(*geometry, "fits, in words", laps(bytes, 4, length));
    }
    add_race(*geometry, "fits", laps(bytes, step, length));
    add_race(*geometry, "always misses", laps(2 * bytes, step, length));
    add_race(*geometry, "uniform over 2x", uniform_walk(2 * bytes, step, length));
    const std::uint64_t times = is_large ? 8 : 16;
    add_race(*geometry, "zipf .9 over " + std::to_string(times) + "x", zipf_walk(times * bytes, step, 0.9, length));
  }
  const Geometry small_outer{.name = "1024x16x128B", .line_bytes = 128, .sector_bytes = 128, .sets = 1024, .ways = 16};
  for (const Geometry& outer : {small_outer, large}) {
    const std::uint64_t bytes = outer.capacity_bytes();
    const std::string name = "lru/" + data.name + " before " + outer.name + "/";
    for (const auto& [what, sequence] :
         {std::pair("uniform over 2x", uniform_walk(2 * bytes, 128, accesses_of_large)),
          std::pair("zipf .9 over 8x", zipf_walk(8 * bytes, 128, 0.9, accesses_of_large))}) {
      add_row(name + what,
              [outer, sequence = sequence](benchmark::State& state) { race_of_paths(state, outer, sequence); });
    }
  }
}

void play(benchmark::State& state, const CacheDescription& cache, const AccessSequence& sequence) {
  const auto simulator = CacheSimulator::make(cache, 1);
  std::vector<Outcome> outcomes(sequence.size());
  simulator->play(sequence, outcomes);
  for ([[maybe_unused]] auto _ : state) {
    double best = std::numeric_limits<double>::max();
    for (std::size_t played = 0; played < accesses / 4; played += sequence.size()) {
      best = std::min(best, seconds_of([&] { simulator->play(sequence, outcomes); }));
    }
    state.SetIterationTime(best);
    state.counters["M/s"] = static_cast<double>(sequence.size()) / best / 1e6;
  }
  state.counters["misses"] = static_cast<double>(std::count_if(outcomes.begin(), outcomes.end(), is_miss)) /
                             static_cast<double>(outcomes.size());
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
  const std::size_t ways = sixteen_ways.ways;
  std::vector<Replacement> policies;
  for (const Replacement& guess : guessed_policies(std::vector<std::uint32_t>(sixteen_ways.sets, ways))) {
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
  const std::uint64_t bytes = sixteen_ways.capacity_bytes();
  const AccessSequence fits = laps(bytes, 128, accesses_at_once);
  const AccessSequence overflows = laps(2 * bytes, 128, accesses_at_once);
  const AccessSequence walk = uniform_walk(bytes * 3 / 2, 128, accesses_at_once);
  for (const Replacement& policy : policies_of_sixteen_ways()) {
    const CacheDescription cache = described(sixteen_ways, policy);
    for (const auto& [what, sequence] :
         {std::pair("fits", fits), std::pair("twice the cache", overflows), std::pair("uniform over 1.5x", walk)}) {
      add_row(short_name(policy) + "/" + sixteen_ways.name + "/" + what,
              [cache, sequence = sequence](benchmark::State& state) { play(state, cache, sequence); });
    }
  }
}

}  // namespace
}  // namespace gpuinfer::bench

int main(int argc, char** argv) {
  gpuinfer::bench::add_races();
  gpuinfer::bench::add_policies();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
