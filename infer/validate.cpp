// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/validate.hpp"

#include <algorithm>

#include "infer/trace_levels.hpp"
#include "model/cache_simulator.hpp"

namespace gpuinfer::infer {

namespace {

// Outcomes from every start that the trace leaves open: as recorded, or, where nobody knows what came before, from an
// empty cache and from caches that have seen the same accesses forwards and backwards.
std::vector<std::vector<model::Outcome>> possible_outcomes(const model::CacheDescription& cache,
                                                           const model::Trace& trace, std::uint64_t address_of_buffer,
                                                           std::uint64_t seed) {
  const auto simulate = [&](const model::AccessSequence& before) {
    model::Question question = trace.question;
    question.state = model::StartState::clean;
    question.warm.insert(question.warm.begin(), before.begin(), before.end());
    const auto simulator = model::CacheSimulator::make(cache, seed);
    return outcomes_of(*simulator, question, address_of_buffer);
  };
  std::vector<std::vector<model::Outcome>> outcomes{simulate({})};
  const bool start_is_empty = trace.start_is_known && trace.question.state != model::StartState::keep;
  if (!start_is_empty) {
    model::AccessSequence seen = trace.question.record;
    outcomes.push_back(simulate(seen));
    std::reverse(seen.begin(), seen.end());
    outcomes.push_back(simulate(seen));
  }
  return outcomes;
}

}  // namespace

double Agreement::share() const {
  const std::size_t judged = accesses - outliers - undetermined;
  return judged == 0 ? 0.0 : static_cast<double>(agreeing) / static_cast<double>(judged);
}

Agreement validate(const model::CacheDescription& cache, const model::Trace& trace, std::uint64_t address_of_buffer,
                   std::uint64_t seed) {
  const TraceLevels levels(trace.latency_cycles, cache.latency_cycles);
  const auto outcomes = possible_outcomes(cache, trace, address_of_buffer, seed);
  Agreement agreement;
  agreement.accesses = trace.latency_cycles.size();
  for (std::size_t i = 0; i < trace.latency_cycles.size(); ++i) {
    const bool predicted = model::is_miss(outcomes.front()[i]);
    const bool determined = std::all_of(outcomes.begin(), outcomes.end(),
                                        [&](const auto& possible) { return model::is_miss(possible[i]) == predicted; });
    const Reading reading = levels.read(trace.latency_cycles[i]);
    if (reading == Reading::unclear) {
      ++agreement.outliers;
      continue;
    }
    if (!determined) {
      ++agreement.undetermined;
      continue;
    }
    const bool measured = reading == Reading::miss;
    ++agreement.confusion[predicted ? 1 : 0][measured ? 1 : 0];
    agreement.agreeing += predicted == measured ? 1U : 0U;
    if (predicted != measured && !agreement.first_disagreement) {
      agreement.first_disagreement = i;
    }
  }
  return agreement;
}

}  // namespace gpuinfer::infer
