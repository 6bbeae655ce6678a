// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/coin_experiment.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "infer/asking/stream.hpp"
#include "infer/policy/repeatability.hpp"
#include "model/policy_traits.hpp"

namespace gpuinfer::infer {

CoinExperiment::CoinExperiment(Interrogator& device, const std::vector<const ConflictClass*>& sets,
                               model::Random random)
    : device_(&device), sets_(&sets), random_(random), rates_{.of_hits = device.classifier().hit_misread_rate(),
                                                              .of_misses = device.classifier().miss_misread_rate()},
      knows_ways_(!device.starts_flooded() ||
                  std::ranges::all_of(sets, [](const ConflictClass* set) { return numbers_ways(*set); })) {}

std::vector<model::CoinSet::Line> CoinExperiment::warm_of(const ConflictClass& set) const {
  return device_->starts_flooded() && knows_ways_ ? hits_that_number_ways(set.ways) : hits_that_forget(set.ways);
}

model::Question CoinExperiment::question_of(const ConflictClass& set, const CoinWalk& walk) const {
  return device_->question_unflooded(offsets_of(set, walk.warm), offsets_of(set, walk.record));
}

double CoinExperiment::least_accesses() const {
  return static_cast<double>(least_length(sets_->front()->ways, turns_));
}

std::vector<CoinAnswer> CoinExperiment::ask(std::size_t answers, bool some_from_empty) {
  // Else an empty set is in whatever state its policy was left in.
  const bool empty_is_known = device_->question({}, {}).state == model::StartState::clean;
  std::vector<CoinAnswer> asked;
  std::vector<model::Question> batch;
  for (std::size_t i = 0; i < answers; ++i) {
    const std::size_t number = next_set_++ % sets_->size();
    const ConflictClass& set = *(*sets_)[number];
    const bool from_empty = some_from_empty && empty_is_known && random_.below(4) == 0;
    asked.push_back({.set = number,
                     .walk = draw_walk(set.ways, set.lines.size(), turns_,
                                       from_empty ? std::vector<model::CoinSet::Line>{} : warm_of(set), random_),
                     .readings = {},
                     .usable_accesses = {}});
    batch.push_back(question_of(set, asked.back().walk));
  }
  const auto latencies = device_->latencies(batch);
  for (std::size_t i = 0; i < answers; ++i) {
    for (const float latency : latencies[i]) {
      asked[i].readings.push_back(device_->classifier().read(latency));
    }
  }
  return asked;
}

bool CoinExperiment::answers_repeat(std::size_t walks) {
  const ConflictClass& set = *sets_->front();
  CoinWalk walk = draw_walk(set.ways, set.lines.size(), turns_, warm_of(set), random_);
  for (std::size_t i = 1; i < walks; ++i) {
    const CoinWalk more = draw_walk(set.ways, set.lines.size(), turns_, {}, random_);
    walk.record.insert(walk.record.end(), more.record.begin(), more.record.end());
  }
  return repeats(*device_, question_of(set, walk));
}

ExplainedByCoins CoinExperiment::explain(const CoinAnswer& answer, const model::Replacement& policy, double chance,
                                         Elsewhere elsewhere) const {
  return CoinFilter(policy, ways_of(answer), chance, rates_, elsewhere)
      .explain(answer.walk, answer.readings, answer.usable_accesses);
}

void CoinExperiment::keep_what_is_usable(std::vector<CoinAnswer>& answers, const model::Replacement& policy,
                                         double chance) const {
  for (CoinAnswer& answer : answers) {
    const std::size_t before = answer.usable_accesses.value_or(answer.readings.size());
    answer.usable_accesses.reset();
    answer.usable_accesses = std::min(before, explain(answer, policy, chance).accesses);
  }
}

double CoinExperiment::log_likelihood(const std::vector<CoinAnswer>& answers, const model::Replacement& policy,
                                      double chance) const {
  double sum = 0;
  for (const CoinAnswer& answer : answers) {
    sum += explain(answer, policy, chance).log_likelihood;
  }
  return sum;
}

std::vector<CoinAnswer> CoinExperiment::simulate(const std::vector<CoinAnswer>& answers,
                                                 const model::Replacement& policy) {
  std::vector<CoinAnswer> simulated_answers;
  for (const CoinAnswer& answer : answers) {
    simulated_answers.push_back(simulate(answer, policy, rates_, random_));
  }
  return simulated_answers;
}

double CoinExperiment::fit(const std::vector<CoinAnswer>& answers, const model::Replacement& policy) const {
  const LevelClassifier& classifier = device_->classifier();
  const auto towards_bounds = [&](double part) {
    return MisreadRates{.of_hits = std::lerp(rates_.of_hits, classifier.hit_misread_bound(), part),
                        .of_misses = std::lerp(rates_.of_misses, classifier.miss_misread_bound(), part)};
  };
  double best = 0;
  for (const MisreadRates rates :
       {MisreadRates{.of_hits = classifier.hit_misread_share(), .of_misses = classifier.miss_misread_share()}, rates_,
        towards_bounds(0.25), towards_bounds(0.5), towards_bounds(1),
        MisreadRates{.of_hits = rates_.of_hits / 3, .of_misses = rates_.of_misses / 3}, MisreadRates{}}) {
    best = std::max(best, fit(answers, policy, rates));
    if (best > 0.05) {
      break;
    }
  }
  return best;
}

double CoinExperiment::fit(const std::vector<CoinAnswer>& answers, const model::Replacement& policy,
                           MisreadRates rates) const {
  const double chance = 1.0 / model::one_in(policy);
  std::array<double, statistics> excess{};
  std::array<double, statistics> variance{};
  model::Random random = stream(device_->settings(), "simulated coins");
  for (const CoinAnswer& answer : answers) {
    std::array<std::array<double, statistics>, simulated + 1> of{};
    CoinAnswer whole = answer;
    whole.usable_accesses.reset();
    for (std::size_t i = 0; i <= simulated; ++i) {
      of[i] = measure(i == 0 ? whole : simulate(whole, policy, rates, random), policy, chance);
    }
    add_spread(of);
    for (std::size_t s = 0; s < statistics; ++s) {
      double mean = 0;
      double squares = 0;
      for (const auto& one : of) {
        mean += one[s] / (simulated + 1);
      }
      for (const auto& one : of) {
        squares += (one[s] - mean) * (one[s] - mean) / (simulated + 1);
      }
      excess[s] += of[0][s] - mean;
      variance[s] += squares;
    }
  }
  double worst = 1;
  for (std::size_t s = 0; s < statistics; ++s) {
    if (variance[s] > 0) {
      worst = std::min(worst, std::erfc(std::abs(excess[s]) / std::sqrt(2 * variance[s])));
    }
  }
  return worst;
}

CoinAnswer CoinExperiment::simulate(const CoinAnswer& answer, const model::Replacement& policy, MisreadRates rates,
                                    model::Random& random) const {
  CoinAnswer result = answer;
  const auto outcomes = outcomes_in_one_set(answer.walk, ways_of(answer), policy, random());
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const bool miss = model::is_miss(outcomes[i]);
    const bool misread = random.unit() < (miss ? rates.of_misses : rates.of_hits);
    if (result.readings[i] != Reading::unclear) {
      result.readings[i] = miss != misread ? Reading::miss : Reading::hit;
    }
  }
  return result;
}

auto CoinExperiment::measure(const CoinAnswer& answer, const model::Replacement& policy, double chance) const
    -> std::array<double, statistics> {
  const ExplainedByCoins explained = explain(answer, policy, chance);
  const auto middle = answer.readings.begin() + static_cast<std::ptrdiff_t>(answer.readings.size() / 2);
  const auto early = static_cast<double>(std::count(answer.readings.begin(), middle, Reading::miss));
  const auto late = static_cast<double>(std::count(middle, answer.readings.end(), Reading::miss));
  return {
      explained.log_likelihood, explained.rare, early + late, early, 0, 0, static_cast<double>(explained.surprises)};
}

void CoinExperiment::add_spread(std::array<std::array<double, statistics>, simulated + 1>& of) {
  for (std::size_t s = 0; s < 2; ++s) {
    double mean = 0;
    for (const auto& one : of) {
      mean += one[s] / (simulated + 1);
    }
    for (auto& one : of) {
      one[4 + s] = (one[s] - mean) * (one[s] - mean);
    }
  }
}

}  // namespace gpuinfer::infer
