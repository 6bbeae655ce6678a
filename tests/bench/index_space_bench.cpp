// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// Seconds and memory of a search through index functions, by how many hypotheses it has tried.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <vector>

#include "infer/recordings/index_space.hpp"
#include "model/access_sequence.hpp"
#include "model/cache_simulator.hpp"

namespace gpuinfer {
namespace {

// A random walk over 4,096 lines of 128 bytes of a cache of 64 sets of 8 ways under LRU, by an XOR of address bits.
infer::Played walk() {
  constexpr std::size_t accesses = 400'000;
  model::CacheDescription cache;
  cache.line_bytes = cache.sector_bytes = 128;
  cache.ways = std::vector<std::uint32_t>(64, 8);
  model::XorIndex index;
  for (unsigned bit = 7; bit < 13; ++bit) {
    index.row_masks.push_back((std::uint64_t{1} << bit) | (std::uint64_t{1} << (bit + 6)));
  }
  cache.index = index;
  cache.replacement = model::Replacement{.policy = "lru", .parameters = {}, .equivalent = {}};
  model::Random random(1);
  infer::Played played{
      .addresses = model::random_walk(model::cold_pass(0, std::uint64_t{4096} * 128, 128), accesses, random),
      .measured = {}};
  std::vector<model::Outcome> outcomes(accesses);
  model::CacheSimulator::make(cache, 1)->play(played.addresses, outcomes);
  for (const model::Outcome outcome : outcomes) {
    played.measured.push_back(is_miss(outcome) ? model::Measured::miss : model::Measured::hit);
  }
  return played;
}

long peak_kb() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss;
}

}  // namespace
}  // namespace gpuinfer

int main() {
  using namespace gpuinfer;
  const std::vector<infer::Played> recordings{walk()};
  const infer::SetSimulation simulation(recordings, 128, 128);
  fmt::print("| hypotheses | seconds | peak MB |\n|---|---|---|\n| 0 | 0.0 | {:.1f} |\n",
             static_cast<double>(peak_kb()) / 1024);
  for (std::size_t most = 1'000; most <= 1'000'000; most *= 10) {
    std::size_t tried = 0;
    const auto counting = [&](std::size_t hypotheses, const infer::Score& score) {
      tried += hypotheses;
      return infer::score_in_turn(hypotheses, score);
    };
    const auto begin = std::chrono::steady_clock::now();
    // Each function is tried with six hypotheses or more.
    const infer::IndexGuess guess =
        infer::guess_splits_by_index(simulation, 6, counting, [&] { return 6 * tried >= most; });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    fmt::print("| {} | {:.1f} | {:.1f} |\n", guess.hypotheses, seconds.count(), static_cast<double>(peak_kb()) / 1024);
  }
  return 0;
}
