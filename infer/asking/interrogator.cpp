// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/interrogator.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>
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

Interrogator::Interrogator(model::Answerer& device, std::string target, const Settings& settings)
    : device_(&device), target_(std::move(target)), settings_(&settings) {}

std::vector<model::Answer> Interrogator::ask_primed(std::span<const model::Question> questions) {
  std::vector<model::Question> batch;
  for (const model::Question& question : questions) {
    for (const AccessSequence& loads : primer_) {
      batch.push_back(question_unflooded({loads.begin(), loads.end() - 1}, {loads.back()}));
    }
    batch.push_back(question);
  }
  std::vector<model::Answer> all = device_->ask(batch);
  std::vector<model::Answer> answers;
  for (std::size_t last = primer_.size(); last < all.size(); last += primer_.size() + 1) {
    answers.push_back(std::move(all[last]));
  }
  return answers;
}

std::vector<model::Answer> Interrogator::ask_within_limits(std::span<const model::Question> questions) {
  const bool primes = start_ == model::StartState::invalidated && !primer_.empty();
  std::size_t accesses = 0;
  for (const AccessSequence& loads : primer_) {
    accesses += primes ? questions.size() * loads.size() : 0;
  }
  for (const model::Question& question : questions) {
    accesses += question.warm.size() + question.record.size();
  }
  check_limits(accesses);
  std::vector<model::Answer> answers = within_limits(
      [&] { return primes ? ask_primed(questions) : device_->ask(questions); }, [this] { check_limits(0); });
  count(questions.size(), accesses);
  return answers;
}

void Interrogator::check_limits(std::size_t accesses) const {
  if (settings_->budget_accesses && accesses_ + accesses > *settings_->budget_accesses) {
    throw AskingEnded("the budget of " + std::to_string(*settings_->budget_accesses) + " accesses is used up");
  }
  if (settings_->deadline && std::chrono::steady_clock::now() > *settings_->deadline) {
    throw AskingEnded("the time allowed is over");
  }
  if (settings_->stop_requested()) {
    throw AskingEnded("it was interrupted");
  }
}

void Interrogator::count(std::size_t questions, std::size_t accesses) {
  questions_ += questions;
  accesses_ += accesses;
  if (!inquiries_.empty()) {
    inquiries_.back().questions += questions;
    inquiries_.back().accesses += accesses;
  }
  progress_.questions = questions_;
  progress_.accesses = accesses_;
  settings_->on_progress(progress_);
}

std::vector<model::Timing> Interrogator::time(std::span<const model::Workload> workloads) {
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

std::optional<std::vector<std::uint64_t>> Interrogator::places_of(std::span<const std::uint64_t> offsets) {
  check_limits(0);
  count(1, 0);
  return within_limits([&] { return device_->places_of(target_, offsets); }, [this] { check_limits(0); });
}

// The limits are looked at before each part of a long batch, since a slow device may take minutes for all of it.
std::vector<std::vector<float>> Interrogator::latencies(std::span<const model::Question> questions) {
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
    if (classifier_ && questions[i].target == target_) {
      classifier_->follow(result.back());
    }
  }
  return result;
}

model::Question Interrogator::question(AccessSequence warm, AccessSequence record) const {
  if (start_ == model::StartState::keep) {
    AccessSequence flood = flood_around(warm, record);
    flood.insert(flood.end(), warm.begin(), warm.end());
    warm = std::move(flood);
  }
  return question_unflooded(std::move(warm), std::move(record));
}

void Interrogator::choose_start() {
  std::string refusal;
  for (const model::StartState state : {model::StartState::clean, model::StartState::invalidated,
                                        model::StartState::flooded, model::StartState::keep}) {
    start_ = state;
    const model::Question trial{.target = target_, .state = state, .warm = {}, .record = {0}};
    try {
      static_cast<void>(latencies({&trial, 1}));
      return;
    } catch (const QuestionRefused& refused) {
      refusal = refused.what();
    }
  }
  throw QuestionRefused(refusal);
}

// Everything in reach but the blocks that the question touches, so that no line of it is brought back by its neighbour.
AccessSequence Interrogator::flood_around(const AccessSequence& warm, const AccessSequence& record) const {
  constexpr std::uint64_t smallest_flood_bytes = 256U << 10U;
  const std::uint64_t block_bytes = flood_block_bytes_;
  std::set<std::uint64_t> touched;
  for (const AccessSequence* sequence : {&warm, &record}) {
    for (const std::uint64_t offset : *sequence) {
      touched.insert(offset / block_bytes);
    }
  }
  const std::uint64_t wanted_bytes =
      std::max({smallest_flood_bytes, 64 * flood_stride_bytes_, 8 * block_bytes * touched.size()});
  AccessSequence flood;
  std::uint64_t flooded_bytes = 0;
  for (std::uint64_t block = 0; (block + 1) * block_bytes <= buffer().bytes && flooded_bytes < wanted_bytes; ++block) {
    if (!touched.contains(block)) {
      for (std::uint64_t offset = 0; offset < block_bytes; offset += flood_stride_bytes_) {
        flood.insert(flood.end(), flood_repeats_, block * block_bytes + offset);
      }
      flooded_bytes += block_bytes;
    }
  }
  return flood;
}

std::vector<Reading> Interrogator::ask(AccessSequence warm, AccessSequence record) {
  const model::Question asked = question(std::move(warm), std::move(record));
  return classifier_->readings(latencies({&asked, 1}).front());
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
      const std::vector<double> ratios = classifier_->log_ratios(answers[i]);
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
  return classifier_->votes_needed(wrong_probability);
}

void Interrogator::report(std::string finding, double done) {
  progress_.finding = std::move(finding);
  progress_.done = std::max(progress_.done, done);
  settings_->on_progress(progress_);
}

void Interrogator::inquire(std::string asked, std::string why) {
  inquiries_.push_back({.asked = std::move(asked),
                        .why = std::move(why),
                        .learned = {},
                        .questions = 0,
                        .accesses = 0,
                        .hypotheses_before = {},
                        .hypotheses_after = {}});
}

void Interrogator::learned(std::string what, std::optional<std::size_t> hypotheses_before,
                           std::optional<std::size_t> hypotheses_after) {
  model::Inquiry& inquiry = inquiries_.back();
  inquiry.learned = std::move(what);
  inquiry.hypotheses_before = hypotheses_before;
  inquiry.hypotheses_after = hypotheses_after;
}

}  // namespace gpuinfer::infer
