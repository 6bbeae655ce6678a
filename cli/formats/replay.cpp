// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/formats/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "model/cache_simulator.hpp"
#include "model/errors.hpp"
#include "model/random_streams.hpp"

namespace gpuinfer::cli {

namespace {

constexpr std::uint64_t seed = 1;
constexpr std::size_t random_loads = 20000;
constexpr std::uint64_t most_loads_of_a_lap = std::uint64_t{1} << 23U;
constexpr std::uint64_t least_overflow_bytes = 128;
constexpr std::uint64_t least_aligned = 64;

bool in_one_set(const model::IndexFunction& index, std::uint64_t lines, std::uint64_t period) {
  for (std::uint64_t line = 1; line < lines; ++line) {
    if (model::set_of(index, model::Address{line * period}) != model::set_of(index, model::Address{0})) {
      return false;
    }
  }
  return true;
}

// How far apart lines lie that all fall into one set of the exported cache and not of the described one: beyond what
// its index hashes, where there is such a distance nearby, else as by the plain bits.
std::uint64_t aligning_period(const model::CacheDescription& described, const model::CacheDescription& exported,
                              std::uint64_t lines) {
  constexpr unsigned most_doublings = 8;
  const std::uint64_t plain = exported.ways->size() * exported.line_bytes.value();
  for (unsigned doublings = 0; doublings <= most_doublings; ++doublings) {
    const std::uint64_t period = plain << doublings;
    if (in_one_set(*exported.index, lines, period) && !in_one_set(*described.index, lines, period)) {
      return period;
    }
  }
  return plain;
}

std::size_t misses(const model::CacheDescription& description, const model::Question& question) {
  const auto cache = model::CacheSimulator::make(description, seed);
  const std::vector<model::Outcome> outcomes = model::outcomes_of(*cache, question, {});
  return static_cast<std::size_t>(std::count_if(outcomes.begin(), outcomes.end(), model::is_miss));
}

}  // namespace

std::vector<Replay> replays(const model::CacheDescription& described, const model::CacheDescription& exported) {
  const std::uint64_t line_bytes = described.line_bytes.value();
  const std::uint64_t lines = std::accumulate(described.ways->begin(), described.ways->end(), std::uint64_t{0});
  const std::uint64_t bytes = std::min(lines, described.store_lines.value_or(lines)) * line_bytes;
  const std::uint64_t stride = std::min(described.sector_bytes.value(), exported.sector_bytes.value());
  const std::uint64_t random_bytes = bytes + bytes / 2;
  if (random_bytes / stride > most_loads_of_a_lap) {
    return {};
  }

  std::vector<Replay> counted;
  const auto count = [&](std::string loads, const model::Question& question) {
    try {
      counted.push_back({.loads = std::move(loads),
                         .accesses = question.record.size(),
                         .described_misses = misses(described, question),
                         .exported_misses = misses(exported, question)});
    } catch (const InputError&) {
      // Outside the table of the index.
    }
  };

  const std::uint64_t chase_bytes = bytes + std::max(line_bytes, least_overflow_bytes);
  model::Question chase;
  chase.warm = chase.record = model::cold_pass(0, chase_bytes, stride);
  count(fmt::format("a chase over {} B in steps of {}", chase_bytes, stride), chase);

  model::Question random;
  random.warm = model::cold_pass(0, random_bytes, stride);
  model::Random draw = model::RandomStreams(seed).random("loads");
  random.record = model::random_walk(random.warm, random_loads, draw);
  count(fmt::format("random loads from {} B", random_bytes), random);

  const std::uint64_t most_ways = *std::ranges::max_element(*described.ways);
  const std::uint64_t aligned_lines =
      std::max<std::uint64_t>(1, std::min(lines / 2, std::max(least_aligned, 2 * most_ways)));
  const std::uint64_t period_bytes = aligning_period(described, exported, aligned_lines);
  model::Question aligned;
  aligned.warm = aligned.record = model::cold_pass(0, aligned_lines * period_bytes, period_bytes);
  count(fmt::format("a chase of {} lines {} B apart", aligned.record.size(), period_bytes), aligned);
  return counted;
}

}  // namespace gpuinfer::cli
