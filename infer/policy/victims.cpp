// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/victims.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "infer/asking/statistics.hpp"
#include "model/cache_simulator.hpp"
#include "model/random_streams.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::size_t questions_at_once = 8;
constexpr std::size_t most_rounds = 2000;
constexpr std::size_t most_long_rounds = 200;
constexpr std::size_t most_simulated = 100000;

// Line numbers of the recorded part: the line too many, then round all of them. A misread exchanges two ways for the
// rest of an answer, so answers are short enough for nine in ten to have none.
AccessSequence chase(std::uint32_t lines, std::size_t length) {
  AccessSequence record{lines - 1U};
  for (std::size_t i = 0; i < length; ++i) {
    record.push_back(i % lines);
  }
  return record;
}

// What is loaded, and of how many recorded accesses on end the ways are followed.
struct VictimChase {
  AccessSequence warm;
  AccessSequence record;
  std::size_t followed_accesses = 0;
};

// Where no set can be emptied, laps over all lines evict strange ones: the last of them survives a lap with
// 1 - 4 / ways, as of ways + 1 lines two are absent and each of those misses twice. So one record holds many sequences,
// long enough that ways come again, since only within one their names are the same, and short enough that misreads
// leave most names where they were.
VictimChase chase_from(const Interrogator& device, std::uint32_t ways, std::optional<std::size_t> accesses) {
  constexpr std::size_t fewest_recorded = 8000;
  constexpr std::size_t laps_per_way = 3;
  constexpr double laps_followed = 32;
  const LevelClassifier& classifier = device.classifier();
  const double misreads = std::max(classifier.hit_misread_bound(), classifier.miss_misread_bound());
  const std::uint32_t lines = ways + 1;
  VictimChase planned;
  if (!device.starts_flooded()) {
    planned.warm.resize(ways);
    std::iota(planned.warm.begin(), planned.warm.end(), std::uint64_t{0});
    const double short_enough = std::clamp(0.1 / misreads, 2.0 * lines, std::max(600.0, 4.0 * lines));
    planned.record = chase(lines, accesses.value_or(static_cast<std::size_t>(short_enough)));
    planned.followed_accesses = planned.record.size();
    return planned;
  }
  planned.warm = chase(lines, laps_per_way * ways * lines);
  planned.record = chase(lines, accesses.value_or(std::max(fewest_recorded, 2 * planned.warm.size())));
  planned.followed_accesses = accesses.value_or(
      static_cast<std::size_t>(std::clamp(0.25 * ways / misreads, 2.0 * lines, laps_followed * lines)));
  return planned;
}

// What a latency that says nothing does to the following. Few are misses, and to take them all for hits exchanges ways
// as misreads do.
enum class Unclear { ends, is_hit };

// Follows the lines through the ways, from the moment when lines 0, 1, ... fill ways 0, 1, ... and the last line has
// evicted a victim not known yet.
VictimSequence follow(const AccessSequence& record, const std::vector<Reading>& readings, std::uint32_t lines,
                      Unclear unclear) {
  VictimSequence victims;
  std::vector<std::uint32_t> way_of(lines);
  std::iota(way_of.begin(), way_of.end(), 0U);
  std::uint32_t placed = lines - 1;
  for (std::size_t i = 1; i < readings.size(); ++i) {
    const auto line = static_cast<std::uint32_t>(record[i]);
    victims.followed_accesses = i;
    // After a latency that says nothing, or a miss of the line that was placed last, the ways are lost track of.
    const bool is_unclear = readings[i] == Reading::unclear;
    victims.unclear_accesses += is_unclear ? 1U : 0U;
    if ((is_unclear && unclear == Unclear::ends) || (readings[i] == Reading::miss && line == placed)) {
      break;
    }
    if (readings[i] == Reading::miss) {
      victims.way.push_back(way_of[line]);
      victims.recency_rank.push_back((placed + lines - line) % lines);
      victims.access.push_back(static_cast<std::uint32_t>(i));
      way_of[placed] = way_of[line];
      placed = line;
    }
  }
  return victims;
}

// All sequences of an answer. The first miss that is followed finds one line absent and all others present, whose ways
// are named in the order in which the chase comes to them.
void follow_all(const Interrogator& device, const VictimChase& chase, const std::vector<Reading>& readings,
                std::uint32_t lines, std::vector<VictimSequence>& sequences) {
  if (!device.starts_flooded()) {
    sequences.push_back(follow(chase.record, readings, lines, Unclear::ends));
    return;
  }
  for (std::size_t first = 0; first < readings.size(); ++first) {
    if (readings[first] != Reading::miss) {
      continue;
    }
    const std::size_t end = std::min(first + chase.followed_accesses, readings.size());
    AccessSequence named;
    for (std::size_t i = first; i < end; ++i) {
      named.push_back((chase.record[i] + 2 * std::uint64_t{lines} - 1 - chase.record[first]) % lines);
    }
    const auto part = [](std::size_t place) { return static_cast<std::ptrdiff_t>(place); };
    sequences.push_back(
        follow(named, {readings.begin() + part(first), readings.begin() + part(end)}, lines, Unclear::is_hit));
    first += sequences.back().followed_accesses;
  }
}

// Observations sorted into cells; both samples of a comparison use the same cells.
using Histogram = std::vector<std::size_t>;

using Histograms = std::array<Histogram, 6>;

Histograms empty_histograms(std::uint32_t ways) {
  const std::size_t groups = std::min(8U, ways);
  return {Histogram(ways), Histogram(2 * groups),          Histogram(groups * groups),
          Histogram(2),    Histogram(std::min(16U, ways)), Histogram(2)};
}

Histograms histograms_of(const VictimSequence& victims, std::uint32_t ways) {
  const std::uint32_t groups = std::min(8U, ways);
  const auto group = [&](std::uint32_t way) { return static_cast<std::size_t>(way) * groups / ways; };
  Histograms histograms = empty_histograms(ways);
  auto& [by_way, by_parity, by_pair, by_repetition, by_rank, by_most_recent] = histograms;
  for (std::size_t i = 0; i < victims.way.size(); ++i) {
    ++by_way[victims.way[i]];
    ++by_parity[(i % 2) * groups + group(victims.way[i])];
    // Pairs that share a victim depend on each other; these begin at even and at odd places in turn.
    if (i % 3 == 1) {
      ++by_pair[group(victims.way[i - 1]) * groups + group(victims.way[i])];
    }
    if (i > 0) {
      ++by_repetition[victims.way[i - 1] == victims.way[i] ? 1 : 0];
    }
    // Ranks in close succession depend on each other, and a test of counts takes them for independent.
    if (i % 4 == 0) {
      ++by_rank[(victims.recency_rank[i] - 1) * by_rank.size() / ways];
      ++by_most_recent[victims.recency_rank[i] == 1 ? 1 : 0];
    }
  }
  return histograms;
}

// Histograms of all sequences together, and by how much their cells vary more from sequence to sequence than those of
// independent observations (the mean design effect; at least 1).
struct Counted {
  Histograms sum;
  std::array<double, 6> design_effect{};
};

Counted count(const std::vector<VictimSequence>& sequences, std::uint32_t ways) {
  std::vector<Histograms> each;
  Counted counted{.sum = empty_histograms(ways), .design_effect = {}};
  for (const VictimSequence& victims : sequences) {
    each.push_back(histograms_of(victims, ways));
    for (std::size_t h = 0; h < counted.sum.size(); ++h) {
      std::transform(counted.sum[h].begin(), counted.sum[h].end(), each.back()[h].begin(), counted.sum[h].begin(),
                     std::plus<>());
    }
  }
  const auto total_of = [](const Histogram& cells) {
    return static_cast<double>(std::accumulate(cells.begin(), cells.end(), std::size_t{0}));
  };
  for (std::size_t h = 0; h < counted.sum.size(); ++h) {
    const Histogram& cells = counted.sum[h];
    const double total = std::max(1.0, total_of(cells));
    std::vector<double> squares(cells.size());
    for (const Histograms& one : each) {
      const double of_one = total_of(one[h]);
      for (std::size_t cell = 0; cell < cells.size(); ++cell) {
        const double excess = static_cast<double>(one[h][cell]) - of_one * static_cast<double>(cells[cell]) / total;
        squares[cell] += excess * excess;
      }
    }
    double expected = 0;
    for (const std::size_t cell : cells) {
      const auto in_cell = static_cast<double>(cell);
      expected += in_cell * (1 - in_cell / total);
    }
    const double sum_of_squares = std::accumulate(squares.begin(), squares.end(), 0.0);
    counted.design_effect[h] = expected > 0 ? std::max(1.0, sum_of_squares / expected) : 1.0;
  }
  return counted;
}

// As many independent observations as these are worth.
Histogram shrunk(Histogram cells, double design_effect) {
  for (std::size_t& cell : cells) {
    cell = static_cast<std::size_t>(std::lround(static_cast<double>(cell) / design_effect));
  }
  return cells;
}

// The warm-up of a chase evicts strange lines itself.
model::Question question_from_start(const Interrogator& device, AccessSequence warm, AccessSequence record) {
  return device.starts_flooded() ? device.question_unflooded(std::move(warm), std::move(record))
                                 : device.question(std::move(warm), std::move(record));
}

model::Question question_of(const Interrogator& device, const ConflictClass& set, const VictimChase& chase) {
  const auto offsets = [&](const AccessSequence& line_numbers) {
    AccessSequence sequence;
    for (const std::uint64_t line : line_numbers) {
      sequence.push_back(set.lines[line]);
    }
    return sequence;
  };
  return question_from_start(device, offsets(chase.warm), offsets(chase.record));
}

void ask_all(Interrogator& device, const std::vector<model::Question>& batch, const VictimChase& chase,
             std::uint32_t lines, std::vector<VictimSequence>& sequences) {
  for (const std::vector<float>& answer : device.latencies(batch)) {
    std::vector<Reading> readings;
    for (const float latency : answer) {
      readings.push_back(device.classifier().read(latency));
    }
    follow_all(device, chase, readings, lines, sequences);
  }
}

}  // namespace

std::size_t victims_in(std::span<const VictimSequence> sequences) {
  return std::accumulate(sequences.begin(), sequences.end(), std::size_t{0},
                         [](std::size_t sum, const VictimSequence& sequence) { return sum + sequence.way.size(); });
}

double unclear_share(std::span<const VictimSequence> sequences) {
  std::size_t accesses = 0;
  std::size_t unclear = 0;
  for (const VictimSequence& sequence : sequences) {
    accesses += sequence.followed_accesses;
    unclear += sequence.unclear_accesses;
  }
  return static_cast<double>(unclear) / static_cast<double>(std::max<std::size_t>(1, accesses));
}

ReadingRates reading_rates(const LevelClassifier& classifier, std::span<const VictimSequence> sequences) {
  return {.hit_misreads = classifier.hit_misread_share(),
          .miss_misreads = classifier.miss_misread_share(),
          .unclear = unclear_share(sequences)};
}

std::vector<VictimSequence> observe_victims(Interrogator& device, const ConflictClass& set, std::size_t wanted) {
  const VictimChase chase = chase_from(device, set.ways, {});
  const bool is_long = device.starts_flooded();
  const std::vector<model::Question> batch(is_long ? 1 : questions_at_once, question_of(device, set, chase));
  std::vector<VictimSequence> sequences;
  std::size_t observed = 0;
  for (std::size_t round = 0; observed < wanted && round < (is_long ? most_long_rounds : most_rounds); ++round) {
    const std::size_t before = sequences.size();
    ask_all(device, batch, chase, set.ways + 1, sequences);
    observed += victims_in(std::span(sequences).subspan(before));
  }
  return sequences;
}

std::vector<VictimSequence> observe_long(Interrogator& device, const ConflictClass& set, std::size_t accesses,
                                         unsigned times) {
  const VictimChase chase = chase_from(device, set.ways, accesses);
  std::vector<VictimSequence> sequences;
  ask_all(device, std::vector<model::Question>(times, question_of(device, set, chase)), chase, set.ways + 1, sequences);
  return sequences;
}

std::vector<VictimSequence> simulate_victims(const Interrogator& device, const model::Replacement& policy,
                                             std::uint32_t ways, std::size_t wanted, std::uint64_t seed,
                                             const ReadingRates& rates) {
  const model::RandomStreams streams(seed);
  const auto simulator = model::CacheSimulator::make(model::one_set(policy, ways), streams.random("policy")());
  model::Random random = streams.random("misreads");
  const VictimChase chase = chase_from(device, ways, {});
  const model::Question question = question_from_start(device, chase.warm, chase.record);
  std::vector<VictimSequence> sequences;
  std::size_t observed = 0;
  for (std::size_t round = 0; observed < wanted && round < most_simulated; ++round) {
    std::vector<Reading> readings;
    for (const model::Outcome outcome : outcomes_of(*simulator, question, {})) {
      const bool miss = model::is_miss(outcome);
      const bool misread = random.unit() < (miss ? rates.miss_misreads : rates.hit_misreads);
      const bool unclear = rates.unclear > 0 && random.unit() < rates.unclear;
      readings.push_back(unclear ? Reading::unclear : miss != misread ? Reading::miss : Reading::hit);
    }
    const std::size_t before = sequences.size();
    follow_all(device, chase, readings, ways + 1, sequences);
    observed += victims_in(std::span(sequences).subspan(before));
  }
  return sequences;
}

std::vector<std::size_t> count_ways(const std::vector<VictimSequence>& sequences, std::uint32_t ways) {
  std::vector<std::size_t> counts(ways);
  for (const VictimSequence& victims : sequences) {
    for (const std::uint32_t way : victims.way) {
      ++counts[way];
    }
  }
  return counts;
}

double same_source(const std::vector<VictimSequence>& a, const std::vector<VictimSequence>& b, std::uint32_t ways) {
  const Counted of_a = count(a, ways);
  const Counted of_b = count(b, ways);
  double worst = 1;
  for (std::size_t i = 0; i < of_a.sum.size(); ++i) {
    const double design_effect = std::max(of_a.design_effect[i], of_b.design_effect[i]);
    worst = std::min(worst, same_distribution(shrunk(of_a.sum[i], design_effect), shrunk(of_b.sum[i], design_effect)));
  }
  return worst;
}

namespace {

// Pairs of victims of one sequence, and how many of them are of the same way.
struct Pairs {
  double all = 0;
  double same = 0;
};

struct SharedWays {
  double share = 0;  // of the pairs
  double variance = 0;
};

SharedWays shared_ways(const std::vector<VictimSequence>& sequences, std::uint32_t ways) {
  std::vector<Pairs> each;
  Pairs sum;
  for (const VictimSequence& victims : sequences) {
    Pairs& pairs = each.emplace_back();
    const auto pairs_of = [](std::size_t count) {
      return static_cast<double>(count * (std::max<std::size_t>(count, 1) - 1));
    };
    pairs.all = pairs_of(victims.way.size());
    for (const std::size_t count : count_ways({victims}, ways)) {
      pairs.same += pairs_of(count);
    }
    sum.all += pairs.all;
    sum.same += pairs.same;
  }
  SharedWays shared{.share = sum.same / std::max(1.0, sum.all), .variance = 0};
  for (const Pairs& pairs : each) {
    const double excess = (pairs.same - shared.share * pairs.all) / std::max(1.0, sum.all);
    shared.variance += excess * excess;
  }
  return shared;
}

}  // namespace

double as_even(const std::vector<VictimSequence>& a, const std::vector<VictimSequence>& b, std::uint32_t ways) {
  const SharedWays of_a = shared_ways(a, ways);
  const SharedWays of_b = shared_ways(b, ways);
  const double variance = of_a.variance + of_b.variance;
  return variance > 0 ? std::erfc(std::abs(of_a.share - of_b.share) / std::sqrt(2 * variance)) : 1;
}

}  // namespace gpuinfer::infer
