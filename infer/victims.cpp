// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/victims.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "infer/statistics.hpp"
#include "model/cache_simulator.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::size_t questions_at_once = 8;
constexpr std::size_t most_rounds = 2000;
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

AccessSequence chase(std::uint32_t lines, const LevelClassifier& classifier) {
  const double misreads = std::max(classifier.hit_misread_bound(), classifier.miss_misread_bound());
  return chase(lines, static_cast<std::size_t>(std::clamp(0.1 / misreads, 2.0 * lines, std::max(600.0, 4.0 * lines))));
}

// Follows the lines through the ways, from the moment when lines 0, 1, ... fill ways 0, 1, ... and the last line has
// driven out a victim not known yet.
VictimSequence follow(const AccessSequence& record, const std::vector<Reading>& readings, std::uint32_t lines) {
  VictimSequence victims;
  std::vector<std::uint32_t> way_of(lines);
  std::iota(way_of.begin(), way_of.end(), 0U);
  std::uint32_t placed = lines - 1;
  for (std::size_t i = 1; i < readings.size(); ++i) {
    const auto line = static_cast<std::uint32_t>(record[i]);
    victims.followed_accesses = i;
    // After a latency that says nothing, or a miss of the line that was placed last, the ways are lost track of.
    victims.ends_unclear = readings[i] == Reading::unclear;
    if (victims.ends_unclear || (readings[i] == Reading::miss && line == placed)) {
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

model::Question question_of(const Interrogator& device, const ConflictClass& set, const AccessSequence& line_numbers) {
  AccessSequence record;
  for (const std::uint64_t line : line_numbers) {
    record.push_back(set.lines[line]);
  }
  return device.question({set.lines.begin(), set.lines.begin() + set.ways}, record);
}

void follow_all(Interrogator& device, const std::vector<model::Question>& batch, const AccessSequence& line_numbers,
                std::uint32_t lines, std::vector<VictimSequence>& sequences) {
  for (const std::vector<float>& answer : device.latencies(batch)) {
    std::vector<Reading> readings;
    for (const float latency : answer) {
      readings.push_back(device.classifier().read(latency));
    }
    sequences.push_back(follow(line_numbers, readings, lines));
  }
}

}  // namespace

double unclear_share(std::span<const VictimSequence> sequences) {
  std::size_t accesses = 0;
  std::size_t unclear = 0;
  for (const VictimSequence& sequence : sequences) {
    accesses += sequence.followed_accesses;
    unclear += sequence.ends_unclear ? 1U : 0U;
  }
  return static_cast<double>(unclear) / static_cast<double>(std::max<std::size_t>(1, accesses));
}

ReadingRates reading_rates(const LevelClassifier& classifier, std::span<const VictimSequence> sequences) {
  return {.hit_misreads = classifier.hit_misread_share(),
          .miss_misreads = classifier.miss_misread_share(),
          .unclear = unclear_share(sequences)};
}

std::vector<VictimSequence> observe_victims(Interrogator& device, const ConflictClass& set, std::size_t wanted) {
  const std::uint32_t lines = set.ways + 1;
  const AccessSequence line_numbers = chase(lines, device.classifier());
  const std::vector<model::Question> batch(questions_at_once, question_of(device, set, line_numbers));
  std::vector<VictimSequence> sequences;
  std::size_t observed = 0;
  for (std::size_t round = 0; observed < wanted && round < most_rounds; ++round) {
    const std::size_t before = sequences.size();
    follow_all(device, batch, line_numbers, lines, sequences);
    for (std::size_t i = before; i < sequences.size(); ++i) {
      observed += sequences[i].way.size();
    }
  }
  return sequences;
}

std::vector<VictimSequence> observe_long(Interrogator& device, const ConflictClass& set, std::size_t accesses,
                                         unsigned times) {
  const std::uint32_t lines = set.ways + 1;
  const AccessSequence line_numbers = chase(lines, accesses);
  std::vector<VictimSequence> sequences;
  follow_all(device, std::vector<model::Question>(times, question_of(device, set, line_numbers)), line_numbers, lines,
             sequences);
  return sequences;
}

std::vector<VictimSequence> simulate_victims(const Interrogator& device, const model::Replacement& policy,
                                             std::uint32_t ways, std::size_t wanted, std::uint64_t seed,
                                             const ReadingRates& rates) {
  const auto simulator = model::CacheSimulator::make(model::one_set(policy, ways), seed);
  model::Random random(seed ^ 0x51c7ULL);
  AccessSequence warm(ways);
  std::iota(warm.begin(), warm.end(), std::uint64_t{0});
  const model::Question question = device.question(std::move(warm), chase(ways + 1, device.classifier()));

  std::vector<VictimSequence> sequences;
  std::size_t observed = 0;
  for (std::size_t round = 0; observed < wanted && round < most_simulated; ++round) {
    std::vector<Reading> readings;
    for (const model::Outcome outcome : outcomes_of(*simulator, question, 0)) {
      const bool miss = model::is_miss(outcome);
      const bool misread = random.unit() < (miss ? rates.miss_misreads : rates.hit_misreads);
      const bool unclear = rates.unclear > 0 && random.unit() < rates.unclear;
      readings.push_back(unclear ? Reading::unclear : miss != misread ? Reading::miss : Reading::hit);
    }
    sequences.push_back(follow(question.record, readings, ways + 1));
    observed += sequences.back().way.size();
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

}  // namespace gpuinfer::infer
