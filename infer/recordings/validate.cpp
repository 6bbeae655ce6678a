// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/validate.hpp"

#include <algorithm>
#include <bitset>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "infer/asking/statistics.hpp"
#include "infer/recordings/trace_levels.hpp"
#include "model/cache_simulator.hpp"
#include "model/possible_states.hpp"
#include "model/random_streams.hpp"

namespace gpuinfer::infer {

namespace {

using model::Possible;
using model::StartState;

// For a set, states times ways.
constexpr std::size_t most_ways_of_states = std::size_t{1} << 17U;

// Plays offsets some at a time and calls visit(place, outcome); long recordings are not held twice.
template <class Visit>
void play(model::CacheSimulator& simulator, const model::AccessSequence& offsets, model::Address address_of_buffer,
          const Visit& visit) {
  constexpr std::size_t at_once = std::size_t{1} << 16U;
  std::vector<std::uint64_t> addresses;
  std::vector<model::Outcome> outcomes;
  for (std::size_t first = 0; first < offsets.size(); first += at_once) {
    const std::size_t count = std::min(at_once, offsets.size() - first);
    addresses.resize(count);
    outcomes.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      addresses[i] = number_of(address_of_buffer + offsets[first + i]);
    }
    simulator.play(addresses, outcomes);
    for (std::size_t i = 0; i < count; ++i) {
      visit(first + i, outcomes[i]);
    }
  }
}

// From every start out of a few: where it is known, that one, and else an empty cache and caches that have seen the
// same accesses forwards and backwards. For an invalidated cache it is assumed that its
// policy begins anew.
std::vector<Possible> guessed_outcomes(const model::CacheDescription& cache, const model::Trace& trace,
                                       StartState start, model::Address address_of_buffer, std::uint64_t seed) {
  std::vector<Possible> outcomes(trace.question.record.size());
  const auto ignore = [](std::size_t, model::Outcome) {};
  const auto simulate = [&](const model::AccessSequence& before) {
    const auto simulator = model::CacheSimulator::make(cache, seed);
    simulator->put_into(StartState::clean);
    play(*simulator, before, address_of_buffer, ignore);
    play(*simulator, trace.question.warm, address_of_buffer, ignore);
    play(*simulator, trace.question.record, address_of_buffer, [&](std::size_t i, model::Outcome outcome) {
      (is_miss(outcome) ? outcomes[i].miss : outcomes[i].hit) = true;
    });
  };
  simulate({});
  if (model::may_hold_others(start)) {
    model::AccessSequence seen = trace.question.record;
    simulate(seen);
    std::reverse(seen.begin(), seen.end());
    simulate(seen);
  }
  return outcomes;
}

// The cache in the circumstances of the question; none: the description does not say what it is like then.
std::optional<model::CacheDescription> in_circumstances(const model::CacheDescription& cache,
                                                        const model::Circumstances& circumstances) {
  const auto& [warm_target, carveout_kb, sm, warm_sms, contended_pairs, stores, hints, set_aside_bytes] = circumstances;
  const bool is_another_cache =
      warm_target &&
      (!cache.shared_with || std::ranges::find(*cache.shared_with, *warm_target) == cache.shared_with->end());
  if (is_another_cache || !warm_sms.empty() || contended_pairs || !stores.empty() || !hints.empty() ||
      set_aside_bytes) {
    return std::nullopt;
  }
  return carveout_kb ? model::at_carveout(cache, *carveout_kb) : cache;
}

// What a cache may do of which every line was evicted, with its policy in a state that nobody knows and that has too
// many values to follow them all: that of caches with histories of random loads, of which in each set those stay that
// did what was measured there.
class RandomHistories {
 public:
  RandomHistories(const model::CacheDescription& cache, const model::Trace& trace, model::Address address_of_buffer,
                  std::uint64_t seed)
      : misses_(trace.question.record.size()) {
    const model::AccessSequence& record = trace.question.record;
    const std::set<std::uint64_t> distinct(record.begin(), record.end());
    const std::vector<std::uint64_t> pool(distinct.begin(), distinct.end());
    model::Random random = model::RandomStreams(seed).random("histories");
    const auto ignore = [](std::size_t, model::Outcome) {};
    for (std::size_t history = 0; history < most_histories; ++history) {
      const auto simulator = model::CacheSimulator::make(cache, seed);
      // The first one has none.
      model::AccessSequence before(history == 0 || pool.empty() ? 0 : random.below(rounds * pool.size()));
      std::ranges::generate(before, [&] { return pool[random.below(pool.size())]; });
      play(*simulator, before, address_of_buffer, ignore);
      simulator->put_into(StartState::invalidated);
      play(*simulator, trace.question.warm, address_of_buffer, ignore);
      play(*simulator, record, address_of_buffer,
           [&](std::size_t i, model::Outcome outcome) { misses_[i][history] = is_miss(outcome); });
    }
    for (const std::uint64_t offset : record) {
      set_of_.push_back(model::set_of(*cache.index, aligned_down(address_of_buffer + offset, *cache.line_bytes)));
    }
  }

  [[nodiscard]] Possible possible(std::size_t access) {
    const Histories left = left_in(access);
    return {.hit = (left & ~misses_[access]).any(), .miss = (left & misses_[access]).any()};
  }

  void load(std::size_t access, bool missed) {
    Histories& left = left_in(access);
    const Histories agreeing = left & (missed ? misses_[access] : ~misses_[access]);
    left = agreeing.any() ? agreeing : left;
  }

 private:
  static constexpr std::size_t most_histories = 256;
  static constexpr std::size_t rounds = 4;
  using Histories = std::bitset<most_histories>;

  Histories& left_in(std::size_t access) { return left_.try_emplace(set_of_[access], Histories().set()).first->second; }

  std::vector<Histories> misses_;  // by recorded access
  std::vector<std::uint32_t> set_of_;
  std::unordered_map<std::uint32_t, Histories> left_;
};

// What each recorded access may be after all that was measured before it.
std::vector<Possible> possible_outcomes(const model::CacheDescription& cache, const model::Trace& trace,
                                        const std::vector<Reading>& readings, model::Address address_of_buffer,
                                        std::uint64_t seed) {
  const StartState start = trace.start_is_known ? trace.question.state : StartState::keep;
  std::unique_ptr<model::PossibleStates> states;
  if (start != StartState::clean) {
    const std::uint32_t most_ways = cache.ways ? *std::max_element(cache.ways->begin(), cache.ways->end()) : 1;
    states = model::PossibleStates::make(cache, start, most_ways_of_states / most_ways);
  }
  if (!states) {
    return guessed_outcomes(cache, trace, start, address_of_buffer, seed);
  }
  for (const std::uint64_t offset : trace.question.warm) {
    states->load(address_of_buffer + offset, std::nullopt);
  }
  std::vector<Possible> outcomes;
  std::optional<RandomHistories> histories;
  for (std::size_t i = 0; i < readings.size(); ++i) {
    const model::Address address = address_of_buffer + trace.question.record[i];
    const bool is_clear = readings[i] != Reading::unclear;
    std::optional<Possible> possible = states->possible(address);
    if (!possible && model::may_hold_others(start)) {
      possible = Possible{.hit = true, .miss = true};
    } else if (!possible) {
      if (!histories) {
        histories.emplace(cache, trace, address_of_buffer, seed);
      }
      possible = histories->possible(i);
      if (is_clear) {
        histories->load(i, readings[i] == Reading::miss);
      }
    }
    outcomes.push_back(*possible);
    states->load(address, is_clear ? std::optional(readings[i] == Reading::miss) : std::nullopt);
  }
  return outcomes;
}

}  // namespace

double Agreement::share() const {
  const std::size_t judged = accesses - outliers - undetermined;
  return judged == 0 ? 0.0 : static_cast<double>(agreeing) / static_cast<double>(judged);
}

Agreement validate(const model::CacheDescription& cache, const model::Trace& trace, model::Address address_of_buffer,
                   std::uint64_t seed) {
  return validate(cache, trace, read_levels(trace, cache.latency_cycles), address_of_buffer, seed);
}

model::LatencyCycles recorded_levels(std::span<const model::Trace* const> traces, const model::LatencyCycles& guide) {
  constexpr std::size_t hardly_any = 8;
  std::vector<float> latencies;
  for (const model::Trace* const trace : traces) {
    latencies.insert(latencies.end(), trace->latency_cycles.begin(), trace->latency_cycles.end());
  }
  const TraceLevels levels(latencies, guide);
  const auto median_of = [&](Reading reading) -> std::optional<double> {
    std::vector<double> read;
    std::ranges::copy_if(latencies, std::back_inserter(read),
                         [&](float latency) { return levels.read(latency) == reading; });
    return read.size() < hardly_any ? std::nullopt : std::optional(median(std::move(read)));
  };
  return {.hit = median_of(Reading::hit), .miss = median_of(Reading::miss)};
}

std::vector<Reading> read_levels(const model::Trace& trace, const model::LatencyCycles& latency_cycles) {
  const TraceLevels levels(trace.latency_cycles, latency_cycles);
  std::vector<Reading> readings;
  for (const float latency : trace.latency_cycles) {
    readings.push_back(levels.read(latency));
  }
  return readings;
}

namespace {

Agreement compare_chance(const model::CacheDescription& cache, const model::Trace& trace,
                         const std::vector<Reading>& readings, model::Address address_of_buffer, std::uint64_t seed) {
  Agreement agreement;
  agreement.accesses = readings.size();
  agreement.outliers = static_cast<std::size_t>(std::ranges::count(readings, Reading::unclear));
  agreement.undetermined = agreement.accesses - agreement.outliers;
  agreement.chance = validate_chance(cache, trace, readings, address_of_buffer, seed);
  return agreement;
}

Agreement compare(const model::CacheDescription& cache, const model::Trace& trace, const std::vector<Reading>& readings,
                  model::Address address_of_buffer, std::uint64_t seed) {
  const std::vector<Possible> possible = possible_outcomes(cache, trace, readings, address_of_buffer, seed);
  Agreement agreement;
  agreement.accesses = readings.size();
  for (std::size_t i = 0; i < readings.size(); ++i) {
    if (readings[i] == Reading::unclear) {
      ++agreement.outliers;
      continue;
    }
    if (possible[i].hit && possible[i].miss) {
      ++agreement.undetermined;
      continue;
    }
    const bool predicted = possible[i].miss;
    const bool measured = readings[i] == Reading::miss;
    ++agreement.confusion[predicted ? 1 : 0][measured ? 1 : 0];
    agreement.agreeing += predicted == measured ? 1U : 0U;
    if (predicted != measured && !agreement.first_disagreement) {
      agreement.first_disagreement = i;
    }
  }
  return agreement;
}

// At how many places of its bank a pointer may begin as far as the description says: address bits above those that were
// exercised add a number to those of the sets that nobody knows. Of other caches it changes names only.
std::uint32_t possible_beginnings(const model::CacheDescription& cache, model::Address address_of_buffer) {
  if (!cache.sweep || !cache.exercised_bits || cache.exercised_bits->empty() || !shifted(*cache.index, 0)) {
    return 1;
  }
  const unsigned highest = *std::ranges::max_element(*cache.exercised_bits);
  return address_of_buffer >> highest >> 1U == 0 ? 1 : model::sets(*cache.index) / cache.sweep->banks;
}

}  // namespace

Agreement validate(const model::CacheDescription& described, const model::Trace& trace,
                   const std::vector<Reading>& readings, model::Address address_of_buffer, std::uint64_t seed) {
  const auto carved = in_circumstances(described, trace.question.circumstances);
  if (!carved || has_index_of_blocks(*carved)) {
    Agreement open;
    open.accesses = readings.size();
    open.outliers = static_cast<std::size_t>(std::ranges::count(readings, Reading::unclear));
    open.undetermined = open.accesses - open.outliers;
    return open;
  }
  const model::CacheDescription& cache = *carved;
  if (cache.replacement && !is_deterministic(*cache.replacement)) {
    return compare_chance(cache, trace, readings, address_of_buffer, seed);
  }
  Agreement best = compare(cache, trace, readings, address_of_buffer, seed);
  const std::uint32_t beginnings = possible_beginnings(cache, address_of_buffer);
  for (std::uint32_t place = 1; place < beginnings && best.first_disagreement; ++place) {
    model::CacheDescription moved = cache;
    moved.index = shifted(*cache.index, place);
    const Agreement agreement = compare(moved, trace, readings, address_of_buffer, seed);
    if (agreement.agreeing > best.agreeing) {
      best = agreement;
    }
  }
  return best;
}

}  // namespace gpuinfer::infer
