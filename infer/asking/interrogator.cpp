// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/interrogator.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

namespace gpuinfer::infer {

void Interrogator::hear(const model::Question& question, std::span<const float> latency_cycles) {
  if (question.target == target()) {
    classifier_.follow(latency_cycles);
  }
}

std::vector<Reading> Interrogator::ask(AccessSequence warm, AccessSequence record) {
  const model::Question asked = question(std::move(warm), std::move(record));
  return classifier_.readings(latencies({&asked, 1}).front());
}

std::vector<std::vector<Reading>> Interrogator::ask_voted(std::span<const model::Question> questions, unsigned times) {
  std::vector<std::vector<double>> sums;
  std::vector<std::size_t> asked(questions.size());
  std::iota(asked.begin(), asked.end(), std::size_t{0});
  for (const model::Question& question : questions) {
    sums.emplace_back(question.record.size());
  }
  const auto ask_again = [&](unsigned again) {
    std::vector<model::Question> batch;
    batch.reserve(asked.size() * again);
    for (unsigned time = 0; time < again; ++time) {
      for (const std::size_t q : asked) {
        batch.push_back(questions[q]);
      }
    }
    const std::vector<std::vector<float>> answers = latencies(batch);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      std::vector<double>& sum = sums[asked[i % asked.size()]];
      const std::vector<double> ratios = classifier_.log_ratios(answers[i]);
      std::transform(sum.begin(), sum.end(), ratios.begin(), sum.begin(), std::plus<>());
    }
    std::erase_if(asked, [&](std::size_t q) {
      return std::all_of(sums[q].begin(), sums[q].end(),
                         [](double sum) { return std::abs(sum) >= conclusive_log_ratio; });
    });
  };
  ask_again(times);
  constexpr unsigned most_more = 3;
  for (unsigned more = 0; times > 1 && more < times + most_more && !asked.empty(); ++more) {
    ask_again(1);
  }

  const bool once = times == 1;
  std::vector<std::vector<Reading>> voted;
  for (const std::vector<double>& sum : sums) {
    std::vector<Reading>& verdicts = voted.emplace_back();
    for (const double ratio : sum) {
      const bool open = once ? ratio == 0 : std::abs(ratio) < conclusive_log_ratio;
      verdicts.push_back(open ? Reading::unclear : (ratio > 0 ? Reading::miss : Reading::hit));
    }
  }
  return voted;
}

unsigned Interrogator::votes_needed(double wrong_probability) const {
  return classifier_.votes_needed(wrong_probability);
}

}  // namespace gpuinfer::infer
