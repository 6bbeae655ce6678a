// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/circumstances/circumstances.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "infer/asking/thresholds.hpp"
#include "model/provenance.hpp"

namespace gpuinfer::infer {

namespace {

AccessSequence first_lines(std::uint64_t lines, std::uint64_t line_bytes) {
  return model::cold_pass(0, lines * line_bytes, line_bytes);
}

std::size_t misses_in(const std::vector<Reading>& readings) {
  return static_cast<std::size_t>(std::count(readings.begin(), readings.end(), Reading::miss));
}

std::size_t hits_in(const std::vector<Reading>& readings) {
  return static_cast<std::size_t>(std::count(readings.begin(), readings.end(), Reading::hit));
}

// Each question asked once, since the answers of a cache with chance do not repeat.
std::vector<std::vector<Reading>> read_once(Interrogator& device, const std::vector<model::Question>& questions) {
  std::vector<std::vector<Reading>> readings;
  for (const std::vector<float>& cycles : device.latencies(questions)) {
    readings.push_back(device.classifier().readings(cycles));
  }
  return readings;
}

// What is unclear contradicts nothing.
std::size_t contradictions(const std::vector<Reading>& a, const std::vector<Reading>& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    count += a[i] != b[i] && a[i] != Reading::unclear && b[i] != Reading::unclear ? 1U : 0U;
  }
  return count;
}

// What most of them say of each access.
std::vector<Reading> majority(const std::vector<std::vector<Reading>>& readings) {
  std::vector<Reading> common;
  for (std::size_t i = 0; i < readings.front().size(); ++i) {
    const auto misses =
        std::count_if(readings.begin(), readings.end(), [i](const auto& of_one) { return of_one[i] == Reading::miss; });
    common.push_back(2 * static_cast<std::size_t>(misses) > readings.size() ? Reading::miss : Reading::hit);
  }
  return common;
}

double median_of(const std::vector<float>& values) { return median({values.begin(), values.end()}); }

// Whether so many contiguous lines stay when they are loaded again and again. Of lines that do not fit at least one
// misses in each lap, another one each time where chance decides, so laps are weighed as a whole (Wald 1945).
bool fits(Interrogator& device, std::uint32_t carveout_kb, std::uint64_t lines, std::uint64_t line_bytes) {
  constexpr double decided = 14;  // log likelihood ratio: wrong in at most one verdict in a million
  constexpr int most_laps = 64;
  constexpr double least_rate = 1e-6;
  const AccessSequence lap = first_lines(lines, line_bytes);
  model::Question question = device.question(model::repeated(lap, 2), lap);
  question.circumstances.shared_memory_kb = carveout_kb;
  const LevelClassifier& classifier = device.classifier();
  const double all_read_as_hits =
      static_cast<double>(lines) * std::log1p(-std::max(least_rate, classifier.hit_misread_rate()));
  const double by_lap_without_miss = all_read_as_hits - std::log(std::max(least_rate, classifier.miss_misread_rate()));
  const double by_lap_with_miss = std::log(-std::expm1(all_read_as_hits));
  double log_ratio = 0;  // of "they fit" against "they do not"
  for (int asked = 0; asked < most_laps && std::abs(log_ratio) < decided; asked += 2) {
    for (const std::vector<Reading>& readings : read_once(device, {question, question})) {
      if (misses_in(readings) > 0) {
        log_ratio += by_lap_with_miss;
      } else if (std::ranges::count(readings, Reading::unclear) == 0) {
        log_ratio += by_lap_without_miss;
      }
    }
  }
  return log_ratio > 0;
}

}  // namespace

std::optional<std::uint32_t> own_carveout_kb(const model::DeviceFacts& facts, const std::string& target) {
  const bool is_carved =
      !facts.shared_memories_kb.empty() && std::ranges::find(facts.warm_targets, target) != facts.warm_targets.end();
  return is_carved ? model::told<std::uint32_t>(facts.provenance, target, model::carveout_fact) : std::nullopt;
}

std::uint64_t lines_that_fit(Interrogator& device, std::uint32_t carveout_kb, std::uint64_t line_bytes) {
  const std::uint64_t lines_of_buffer = device.buffer().bytes / line_bytes;
  std::uint64_t fitting = 0;
  std::uint64_t too_many = 1;
  while (too_many <= lines_of_buffer && fits(device, carveout_kb, too_many, line_bytes)) {
    fitting = std::exchange(too_many, 2 * too_many);
  }
  too_many = std::min(too_many, lines_of_buffer + 1);
  while (too_many - fitting > 1) {
    const std::uint64_t middle = std::midpoint(fitting, too_many);
    (fits(device, carveout_kb, middle, line_bytes) ? fitting : too_many) = middle;
  }
  return fitting;
}

std::array<double, 2> find_resident_bytes(Interrogator& device, std::uint64_t lines, std::uint64_t line_bytes,
                                          std::optional<std::uint32_t> carveout_kb) {
  constexpr std::size_t walks = 4;
  constexpr std::size_t recorded = loads_of_resident_bytes / walks;
  constexpr std::uint64_t laps = 4;
  model::Random random = stream(device.settings(), "resident bytes", carveout_kb.value_or(0));
  const AccessSequence all = first_lines(lines, line_bytes);
  std::vector<model::Question> questions;
  for (std::size_t walk = 0; walk < walks; ++walk) {
    const AccessSequence asked = model::random_walk(all, recorded, random);
    questions.push_back(device.question(model::random_walk(all, laps * lines, random), asked));
    questions.back().circumstances.shared_memory_kb = carveout_kb;
  }
  std::size_t hits = 0;
  std::size_t misses = 0;
  for (const std::vector<Reading>& readings : read_once(device, questions)) {
    hits += hits_in(readings);
    misses += misses_in(readings);
  }
  const LevelClassifier& classifier = device.classifier();
  const auto [low, high] = wilson_interval(hits, hits + misses, 1 - wrong_verdict);
  const double misread = classifier.miss_misread_bound();
  const double present_low = std::clamp((low - misread) / (1 - misread), 0.0, 1.0);
  const double present_high = std::clamp(high / (1 - classifier.hit_misread_bound()), 0.0, 1.0);
  // Lines from before the warm-up take room as long as they stay: where victims are drawn at random one of `room` lines
  // outlasts a lap of `room` / present_high loads, of which all but present_high miss, with e^-(1 / present_high - 1).
  const double outlasting =
      device.starts_flooded() ? std::exp(-static_cast<double>(laps) * (1 / present_high - 1)) : 0.0;
  const auto bytes = static_cast<double>(lines * line_bytes);
  return {std::floor(present_low * bytes), std::ceil(std::min(1.0, present_high / (1 - outlasting)) * bytes)};
}

namespace {

std::vector<model::Question> on_every_sm(const Interrogator& device, const model::Question& question) {
  std::vector<model::Question> questions;
  for (const model::ComputeUnit sm : model::all_units(*device.facts().sm_count)) {
    questions.push_back(question);
    questions.back().circumstances.unit = sm;
  }
  return questions;
}

// SMs on which the median of the hits is further from that of most SMs than theirs are from each other.
model::ComputeUnits sms_of_other_latency(Interrogator& device, std::uint64_t line_bytes) {
  constexpr double least_cycles = 3;
  constexpr double deviations = 8;
  const AccessSequence lap = first_lines(8, line_bytes);
  std::vector<model::Question> questions = on_every_sm(device, device.question(model::repeated(lap, 2), lap));
  std::vector<double> medians;
  for (const std::vector<float>& cycles : device.latencies(questions)) {
    medians.push_back(median_of(cycles));
  }
  const double common = median(medians);
  std::vector<double> distances;
  std::transform(medians.begin(), medians.end(), std::back_inserter(distances),
                 [common](double cycles) { return std::abs(cycles - common); });
  const double far = std::max(least_cycles, deviations * median(distances));
  model::ComputeUnits others;
  for (const model::ComputeUnit sm : model::all_units(distances.size())) {
    if (distances[number_of(sm)] > far) {
      others.push_back(sm);
    }
  }
  return others;
}

}  // namespace

std::vector<model::Carveout> find_carveouts(Interrogator& device, std::uint64_t line_bytes,
                                            std::span<const model::Carveout> known) {
  std::vector<model::Carveout> carveouts;
  for (const std::uint32_t carveout_kb : device.facts().shared_memories_kb) {
    const auto same = std::ranges::find(known, carveout_kb, &model::Carveout::carveout_kb);
    model::Carveout carveout = same != known.end() ? *same : model::Carveout{};
    carveout.carveout_kb = carveout_kb;
    if (!carveout.onset_bytes) {
      carveout.onset_bytes = lines_that_fit(device, carveout_kb, line_bytes) * line_bytes;
    }
    carveout.resident_bytes = find_resident_bytes(device, carveout, line_bytes);
    carveouts.push_back(std::move(carveout));
  }
  return carveouts;
}

std::array<double, 2> find_resident_bytes(Interrogator& device, const model::Carveout& carveout,
                                          std::uint64_t line_bytes) {
  const std::uint64_t fitting = *carveout.onset_bytes / line_bytes;
  const std::uint64_t more = std::min(device.buffer().bytes / line_bytes, fitting + fitting / 2 + 16);
  return find_resident_bytes(device, more, line_bytes, carveout.carveout_kb);
}

Sharing find_sharing(Interrogator& device, std::uint64_t line_bytes) {
  constexpr std::uint64_t lines = 16;
  Sharing sharing;
  for (const std::string& other : device.facts().warm_targets) {
    if (other == device.target()) {
      continue;
    }
    const AccessSequence lap = first_lines(lines, line_bytes);
    model::Question warmed = device.question_unflooded(lap, lap);
    warmed.target = other;
    model::Question cold = warmed;
    cold.warm.clear();
    model::Question by_this = warmed;
    by_this.circumstances.warm_target = device.target();
    const std::vector<std::vector<float>> answers = device.latencies(std::vector{warmed, cold, by_this});
    const double hit = median_of(answers[0]);
    const double miss = median_of(answers[1]);
    const auto is_nearer_to_hits = [&](float cycles) { return std::abs(cycles - hit) < std::abs(cycles - miss); };
    const auto nearer =
        static_cast<std::uint64_t>(std::count_if(answers[2].begin(), answers[2].end(), is_nearer_to_hits));
    sharing.loads += lines;
    constexpr std::uint64_t strays = 1;
    const bool controls_hold = std::all_of(answers[0].begin(), answers[0].end(), is_nearer_to_hits) &&
                               std::none_of(answers[1].begin(), answers[1].end(), is_nearer_to_hits);
    if (controls_hold && nearer + strays >= lines) {
      sharing.shared_with.push_back(other);
    } else if (controls_hold && nearer <= strays) {
      sharing.apart.push_back(other);
    } else {
      sharing.in_doubt.push_back(other);
    }
  }
  return sharing;
}

SmSurvey survey_sms(Interrogator& device, std::uint64_t line_bytes, std::uint64_t onset_bytes) {
  constexpr std::size_t recorded = 4096;
  const std::uint64_t lines = std::min(device.buffer().bytes, onset_bytes + onset_bytes / 4) / line_bytes;
  model::Random random = stream(device.settings(), "walk on every SM");
  const AccessSequence all = first_lines(lines, line_bytes);
  const AccessSequence asked = model::random_walk(all, recorded, random);
  const std::vector<model::Question> questions =
      on_every_sm(device, device.question(model::random_walk(all, 2 * lines, random), asked));
  const std::vector<std::vector<Reading>> readings = read_once(device, questions);
  const std::vector<Reading> common = majority(readings);
  const double misread = std::max(device.classifier().hit_misread_rate(), device.classifier().miss_misread_rate());
  const auto is_as_common = [&](const std::vector<Reading>& of_sm) {
    return binomial_upper_tail(contradictions(of_sm, common), recorded, misread) > wrong_verdict;
  };
  std::vector<double> misses;
  std::transform(readings.begin(), readings.end(), std::back_inserter(misses),
                 [](const auto& of_sm) { return static_cast<double>(misses_in(of_sm)); });
  const double share = median(misses) / static_cast<double>(recorded);
  const auto has_as_many = [&](const std::vector<Reading>& of_sm) {
    const std::size_t count = misses_in(of_sm);
    return binomial_upper_tail(count, recorded, share) > wrong_verdict &&
           binomial_upper_tail(recorded - count, recorded, 1 - share) > wrong_verdict;
  };
  const bool repeats = 2 * std::count_if(readings.begin(), readings.end(), is_as_common) > std::ssize(readings);
  SmSurvey survey{
      .asked = questions.size(), .other_misses = {}, .other_latency = sms_of_other_latency(device, line_bytes)};
  for (const model::ComputeUnit sm : model::all_units(readings.size())) {
    const std::vector<Reading>& of_sm = readings[number_of(sm)];
    if (!(repeats ? is_as_common(of_sm) : has_as_many(of_sm))) {
      survey.other_misses.push_back(sm);
    }
  }
  return survey;
}

}  // namespace gpuinfer::infer
