// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/victims.hpp"

#include <algorithm>
#include <array>
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
    // After a latency that says nothing, or a miss of the line that was placed last, the ways are lost track of.
    if (readings[i] == Reading::unclear || (readings[i] == Reading::miss && line == placed)) {
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

std::array<Histogram, 6> histograms(const std::vector<VictimSequence>& sequences, std::uint32_t ways) {
  const std::uint32_t groups = std::min(8U, ways);
  const auto group = [&](std::uint32_t way) { return static_cast<std::size_t>(way) * groups / ways; };
  Histogram by_way(ways);
  Histogram by_parity(std::size_t{2} * groups);
  Histogram by_pair(static_cast<std::size_t>(groups) * groups);
  Histogram by_repetition(2);
  Histogram by_rank(std::min(16U, ways));
  Histogram by_most_recent(2);
  for (const VictimSequence& victims : sequences) {
    for (std::size_t i = 0; i < victims.way.size(); ++i) {
      ++by_way[victims.way[i]];
      ++by_parity[(i % 2) * groups + group(victims.way[i])];
      if (i > 0) {
        ++by_pair[group(victims.way[i - 1]) * groups + group(victims.way[i])];
        ++by_repetition[victims.way[i - 1] == victims.way[i] ? 1 : 0];
      }
      // Ranks in close succession depend on each other, and a test of counts takes them for independent.
      if (i % 4 == 0) {
        ++by_rank[(victims.recency_rank[i] - 1) * by_rank.size() / ways];
        ++by_most_recent[victims.recency_rank[i] == 1 ? 1 : 0];
      }
    }
  }
  return {by_way, by_parity, by_pair, by_repetition, by_rank, by_most_recent};
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

std::vector<VictimSequence> simulate_victims(const LevelClassifier& classifier, const model::Replacement& policy,
                                             std::uint32_t ways, std::size_t wanted, std::uint64_t seed) {
  model::CacheDescription set;
  set.line_bytes = 1;
  set.sector_bytes = 1;
  set.ways = {ways};
  set.index = model::BitsIndex{};
  set.replacement = policy;
  const auto simulator = model::CacheSimulator::make(set, seed);
  model::Random random(seed ^ 0x51c7ULL);
  model::Question question;
  question.warm.resize(ways);
  std::iota(question.warm.begin(), question.warm.end(), std::uint64_t{0});
  question.record = chase(ways + 1, classifier);

  std::vector<VictimSequence> sequences;
  std::size_t observed = 0;
  for (std::size_t round = 0; observed < wanted && round < most_simulated; ++round) {
    std::vector<Reading> readings;
    for (const model::Outcome outcome : outcomes_of(*simulator, question, 0)) {
      const bool miss = model::is_miss(outcome);
      const bool misread = random.unit() < (miss ? classifier.miss_misread_share() : classifier.hit_misread_share());
      readings.push_back(miss != misread ? Reading::miss : Reading::hit);
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
  const auto of_a = histograms(a, ways);
  const auto of_b = histograms(b, ways);
  double worst = 1;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    worst = std::min(worst, same_distribution(of_a[i], of_b[i]));
  }
  return worst;
}

}  // namespace gpuinfer::infer
