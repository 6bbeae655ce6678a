// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/recordings/described_answers.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/errors.hpp"
#include "probe/virtual_device.hpp"

namespace gpuinfer::test {

namespace {

// The latencies of single loads that a description gives to a target; none where it takes workloads, or is not told.
std::vector<double> described_levels(const model::DeviceDescription& description, const std::string& target) {
  std::vector<double> levels;
  const auto add = [&levels](const std::optional<double>& cycles, double extra_cycles = 0) {
    if (cycles) {
      levels.push_back(*cycles + extra_cycles);
    }
  };
  if (const auto cache = description.caches.find(target); cache != description.caches.end()) {
    add(cache->second.latency_cycles.hit);
    add(cache->second.latency_cycles.miss);
    if (cache->second.partitions) {
      add(cache->second.latency_cycles.hit, cache->second.partitions->far_cycles);
    }
  }
  // A texture is simulated through its cache, whose latencies it has there.
  if (const auto texture = description.textures.find(target);
      texture != description.textures.end() && texture->second.cache) {
    return described_levels(description, *texture->second.cache);
  }
  if (const auto code = description.code.find(target); code != description.code.end() && code->second.levels) {
    for (const model::CodeLevel& level : *code->second.levels) {
      add(level.cycles);
    }
  }
  return levels;
}

template <class Levels>
auto& nearest(Levels& levels, double cycles) {
  return *std::ranges::min_element(levels, {},
                                   [cycles](const auto& level) { return std::abs(level.described_cycles - cycles); });
}

}  // namespace

DescribedAnswers::DescribedAnswers(const std::filesystem::path& archive,
                                   std::vector<model::DeviceDescription> descriptions)
    : file_(archive), descriptions_(std::move(descriptions)),
      recorded_(probe::open_recording(archive, "recorded:" + archive.string())) {
  for (model::DeviceDescription& each : descriptions_) {
    each.noise.reset();  // that of the recording is drawn from
  }
}

std::vector<model::Answer> DescribedAnswers::ask(std::span<const model::Question> questions) {
  std::vector<model::Answer> answers;
  answers.reserve(questions.size());
  for (const model::Question& question : questions) {
    answers.push_back(answer(question));
  }
  return answers;
}

std::vector<model::Timing> DescribedAnswers::time(std::span<const model::Workload> workloads) {
  std::vector<model::Timing> timings;
  timings.reserve(workloads.size());
  for (const model::Workload& workload : workloads) {
    timings.push_back(timing(workload));
  }
  return timings;
}

const probe::Archive& DescribedAnswers::archive() {
  if (!archive_) {
    archive_ = probe::read_archive(file_);
  }
  return *archive_;
}

std::vector<DescribedAnswers::Level> DescribedAnswers::levels_of(const model::DeviceDescription& description,
                                                                 const std::string& target) const {
  std::vector<Level> levels;
  for (const double cycles : described_levels(description, target)) {
    levels.push_back({.described_cycles = cycles});
  }
  if (levels.empty()) {
    return {};
  }
  const auto is_wanted = [&](std::string_view of, const auto& /*any*/) { return of == target; };
  probe::for_each_trace(file_, is_wanted, [&](const model::Trace& trace) {
    for (const float cycles : trace.latency_cycles) {
      nearest(levels, cycles).recorded_cycles.push_back(cycles);
    }
  });
  return levels;
}

std::vector<double> DescribedAnswers::relative_times_of(const std::string& target) const {
  std::vector<double> relative;
  for (const probe::TimedWorkload& each : archive_->timed) {
    if (target_of(each.workload) != target) {
      continue;
    }
    std::vector<double> runs = each.timing.cycles;
    const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
    std::ranges::nth_element(runs, middle);
    std::ranges::transform(each.timing.cycles, std::back_inserter(relative),
                           [median = *middle](double cycles) { return median > 0 ? cycles / median : 1; });
  }
  return relative;
}

DescribedAnswers::Simulation& DescribedAnswers::simulation_of(const std::string& target) {
  const auto [found, is_new] = simulations_.try_emplace(target);
  if (!is_new) {
    return found->second;
  }
  static_cast<void>(archive());
  for (const model::DeviceDescription& description : descriptions_) {
    try {
      auto device = probe::open_virtual(description, file_.string(), 1, facts().buffer_of(target));
      if (std::ranges::find(device->facts().targets, target) != device->facts().targets.end()) {
        found->second = {.device = std::move(device),
                         .levels = levels_of(description, target),
                         .relative_times = relative_times_of(target)};
        break;
      }
    } catch (const InputError&) {
      // The next one may be complete.
    }
  }
  return found->second;
}

model::Answer DescribedAnswers::answer(const model::Question& question) {
  Tally& tally = tallies_[question.target];
  ++tally.asked;
  if (question.state != model::StartState::keep) {
    since_start_.clear();
  }
  if (recorded_->holds(question)) {
    since_start_.push_back(question);
    return recorded_->ask({&question, 1}).front();
  }
  ++tally.described;
  Simulation& simulation = simulation_of(question.target);
  model::Answer answer{.latency_cycles = {},
                       .refusal = "no description is proven far enough to answer for " + file_.string()};
  if (simulation.device && !simulation.levels.empty()) {
    static_cast<void>(simulation.device->ask(since_start_));
    answer = simulation.device->ask({&question, 1}).front();
  }
  since_start_.push_back(question);
  for (float& cycles : answer.latency_cycles) {
    const std::vector<float>& recorded = nearest(simulation.levels, cycles).recorded_cycles;
    if (recorded.empty()) {
      answer = {.latency_cycles = {}, .refusal = file_.string() + " holds no latency of a level that is asked for"};
      break;
    }
    cycles = recorded[random_.below(recorded.size())];
  }
  if (answer.refusal && !tally.unanswered) {
    tally.unanswered = answer.refusal;
  }
  return answer;
}

model::Timing DescribedAnswers::timing(const model::Workload& workload) {
  const std::string target(target_of(workload));
  Tally& tally = tallies_[target];
  ++tally.asked;
  if (recorded_->holds(workload)) {
    return recorded_->time({&workload, 1}).front();
  }
  ++tally.described;
  Simulation& simulation = simulation_of(target);
  model::Timing timing;
  if (simulation.device && !simulation.relative_times.empty()) {
    timing = simulation.device->time({&workload, 1}).front();
  } else {
    timing.refusal = "no description is proven far enough to answer for " + file_.string();
  }
  for (std::size_t run = 0; run < timing.cycles.size(); ++run) {
    const double relative = simulation.relative_times[random_.below(simulation.relative_times.size())];
    timing.cycles[run] *= relative;
    if (run < timing.seconds.size()) {
      timing.seconds[run] *= relative;
    }
  }
  if (timing.refusal && !tally.unanswered) {
    tally.unanswered = timing.refusal;
  }
  return timing;
}

}  // namespace gpuinfer::test
