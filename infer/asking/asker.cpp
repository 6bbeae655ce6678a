// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/asker.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpuinfer::infer {

namespace {

// What `asking` gives. A device that fails because nobody waits for it any longer has not failed: `check_limits`
// throws.
template <class Asking, class CheckLimits>
auto within_limits(Asking asking, CheckLimits check_limits) {
  try {
    return asking();
  } catch (const DeviceError&) {
    check_limits();
    throw;
  }
}

}  // namespace

Asker::Asker(model::Answerer& device, std::string target, const Settings& settings)
    : RunLog(settings), Starts(device.facts(), std::move(target)), device_(&device) {}

std::vector<model::Answer> Asker::ask_within_limits(std::span<const model::Question> questions) {
  const std::size_t primers = questions_to_prime();
  const std::vector<model::Question> batch = primers == 0 ? std::vector<model::Question>{} : primed(questions);
  const std::span<const model::Question> asked = primers == 0 ? questions : std::span(batch);
  std::size_t accesses = 0;
  for (const model::Question& question : asked) {
    accesses += question.warm.size() + question.record.size();
  }
  check_limits(accesses);
  std::vector<model::Answer> all = within_limits([&] { return device_->ask(asked); }, [this] { check_limits(0); });
  count(questions.size(), accesses);
  std::vector<model::Answer> answers;
  for (std::size_t last = primers; last < all.size(); last += primers + 1) {
    answers.push_back(std::move(all[last]));
  }
  return answers;
}

void Asker::check_limits(std::size_t accesses) const {
  if (settings().budget_accesses && accesses_asked() + accesses > *settings().budget_accesses) {
    throw AskingEnded("the budget of " + std::to_string(*settings().budget_accesses) + " accesses is used up");
  }
  check_time(settings());
}

std::vector<model::Timing> Asker::time(std::span<const model::Workload> workloads) {
  constexpr std::size_t most_workloads = 64;
  std::vector<model::Timing> timings;
  for (std::size_t first = 0; first < workloads.size(); first += most_workloads) {
    const auto part = workloads.subspan(first, std::min(most_workloads, workloads.size() - first));
    std::size_t loads = 0;
    for (const model::Workload& workload : part) {
      loads += loads_of(workload);
    }
    check_limits(loads);
    std::vector<model::Timing> answers =
        within_limits([&] { return device_->time(part); }, [this] { check_limits(0); });
    count(part.size(), loads);
    std::move(answers.begin(), answers.end(), std::back_inserter(timings));
  }
  for (const model::Timing& timing : timings) {
    if (timing.refusal) {
      throw QuestionRefused(*timing.refusal);
    }
  }
  return timings;
}

bool Asker::is_taken(const model::Workload& workload) {
  try {
    static_cast<void>(time({&workload, 1}));
    return true;
  } catch (const QuestionRefused&) {
    return false;
  }
}

bool Asker::is_among(const std::vector<std::string>& targets) const {
  return std::ranges::find(targets, target()) != targets.end();
}

std::optional<std::vector<std::uint64_t>> Asker::places_of(std::span<const std::uint64_t> offsets) {
  check_limits(0);
  count(1, 0);
  return within_limits([&] { return device_->places_of(target(), offsets); }, [this] { check_limits(0); });
}

// The limits are looked at before each part of a long batch, since a slow device may take minutes for all of it.
std::vector<std::vector<float>> Asker::latencies(std::span<const model::Question> questions) {
  constexpr std::size_t most_questions = 1024;
  std::vector<model::Answer> answers;
  for (std::size_t first = 0; first < questions.size(); first += most_questions) {
    std::vector<model::Answer> part =
        ask_within_limits(questions.subspan(first, std::min(most_questions, questions.size() - first)));
    std::move(part.begin(), part.end(), std::back_inserter(answers));
  }

  std::vector<std::vector<float>> result;
  result.reserve(answers.size());
  for (std::size_t i = 0; i < questions.size(); ++i) {
    model::Answer& answer = answers[i];
    if (answer.refusal) {
      throw QuestionRefused(*answer.refusal);
    }
    result.push_back(std::move(answer.latency_cycles));
    if (const auto& told = questions[i].circumstances;
        !told.contended_pairs && told.stores.empty() && told.hints.empty()) {
      hear(questions[i], result.back());
    }
  }
  return result;
}

void Asker::choose_start() {
  std::string refusal;
  for (const model::StartState state : {model::StartState::clean, model::StartState::invalidated,
                                        model::StartState::flooded, model::StartState::keep}) {
    start_with(state);
    const model::Question trial{.target = target(), .state = state, .warm = {}, .record = {0}};
    try {
      static_cast<void>(latencies({&trial, 1}));
      return;
    } catch (const QuestionRefused& refused) {
      refusal = refused.what();
    }
  }
  throw QuestionRefused(refusal);
}

}  // namespace gpuinfer::infer
