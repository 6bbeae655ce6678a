// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/faulty_device.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <regex>
#include <string>
#include <tuple>
#include <utility>

#include "model/errors.hpp"
#include "probe/device_failures.hpp"

namespace gpuinfer::probe {

namespace {

constexpr std::uint64_t forever = std::numeric_limits<std::uint64_t>::max();
constexpr double clock_factor = 1.25;

struct Kind {
  std::string_view name;
  FaultKind kind;
  std::uint64_t times;  // left out
};

constexpr std::array kinds{Kind{"lost", FaultKind::lost, forever},
                           Kind{"out_of_memory", FaultKind::out_of_memory, 1},
                           Kind{"kernel_timeout", FaultKind::kernel_timeout, 1},
                           Kind{"ecc_error", FaultKind::ecc_error, forever},
                           Kind{"clock_change", FaultKind::clock_change, forever},
                           Kind{"tenant", FaultKind::tenant, 500},
                           Kind{"wrong_count", FaultKind::wrong_count, 1},
                           Kind{"places", FaultKind::places, forever}};

bool ends_the_device(FaultKind kind) { return kind == FaultKind::lost || kind == FaultKind::ecc_error; }

// Tries fail, as long as there are `times` left; otherwise questions are answered otherwise.
bool fails_tries(FaultKind kind) {
  return kind != FaultKind::clock_change && kind != FaultKind::tenant && kind != FaultKind::places;
}

InputError malformed(std::string_view item) {
  std::string names;
  for (const Kind& kind : kinds) {
    names += std::string(kind.name) + ", ";
  }
  return InputError("`" + std::string(item) +
                    "` is no fault; write KIND@QUESTION or KIND@QUESTIONxTIMES, KIND one of " + names + "random");
}

class FaultyDevice final : public model::Answerer {
 public:
  FaultyDevice(std::unique_ptr<model::Answerer> device, std::shared_ptr<FaultSchedule> schedule)
      : device_(std::move(device)), schedule_(std::move(schedule)) {}

  const model::DeviceFacts& facts() const override { return device_->facts(); }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    if (fail(questions.size())) {
      return without_one_latency(questions);
    }
    std::vector<model::Answer> answers;
    if (!is_disturbed(questions.size())) {
      answers = device_->ask(questions);
      schedule_->count(questions.size());
      return answers;
    }
    for (const model::Question& question : questions) {
      answers.push_back(disturbed(question));
      schedule_->count(1);
    }
    return answers;
  }

  std::vector<model::Timing> time(std::span<const model::Workload> workloads) override {
    const bool lacks_one = fail(workloads.size());
    std::vector<model::Timing> timings = device_->time(workloads);
    if (lacks_one && !timings.front().cycles.empty()) {
      timings.front().cycles.pop_back();
      return timings;
    }
    for (model::Timing& timing : timings) {
      for (double& cycles : timing.cycles) {
        cycles *= factor();
      }
      schedule_->count(1);
    }
    return timings;
  }

  std::optional<std::vector<std::uint64_t>> places_of(const std::string& target,
                                                      std::span<const std::uint64_t> offsets) override {
    return device_->places_of(target, offsets);
  }

  std::vector<model::Disturbance> disturbances() const override {
    std::vector<model::Disturbance> all = device_->disturbances();
    if (clock_changed_) {
      all.push_back({.kind = model::Disturbance::Kind::clocks,
                     .sentence =
                         "the SM clock changed while it answered, and none is expected to; fix its clocks, then "
                         "measure again"});
    }
    if (tenant_came_) {
      all.push_back({.kind = model::Disturbance::Kind::other_processes,
                     .sentence = "another process had a compute context on the GPU, and none is expected; measure "
                                 "again when there is no other"});
    }
    return all;
  }

 private:
  // Throws if a batch of so many fails; else whether it lacks a latency.
  [[nodiscard]] bool fail(std::size_t questions) {
    const std::uint64_t end = schedule_->answered() + questions;
    for (Fault& fault : schedule_->until(end)) {
      if (!fails_tries(fault.kind) || fault.times == 0 || fault.at_question >= end) {
        continue;
      }
      if (!ends_the_device(fault.kind)) {
        --fault.times;
      }
      if (fault.kind == FaultKind::wrong_count) {
        return true;
      }
      throw_failure(fault.kind);
    }
    return false;
  }

  [[noreturn]] void throw_failure(FaultKind kind) const {
    const std::string& source = facts().source;
    switch (kind) {
      case FaultKind::out_of_memory:
        throw TransientError(source + " is out of memory; free memory on it");
      case FaultKind::kernel_timeout:
        throw TransientError(source + " had a kernel ended that ran for too long; end what else runs on it");
      case FaultKind::ecc_error:
        throw DeviceError(source + " had an uncorrectable memory error (ECC); have it reset");
      default:
        throw DeviceError(source + " is lost (it has fallen off the bus); have its host reset it");
    }
  }

  [[nodiscard]] static std::vector<model::Answer> without_one_latency(std::span<const model::Question> questions) {
    std::vector<model::Answer> answers(questions.size());
    for (std::size_t i = 0; i < questions.size(); ++i) {
      answers[i].latency_cycles.resize(questions[i].record.size(), 1);
    }
    if (!answers.front().latency_cycles.empty()) {
      answers.front().latency_cycles.pop_back();
    }
    return answers;
  }

  [[nodiscard]] bool is_active(FaultKind kind, std::uint64_t questions = 1) const {
    const std::uint64_t begin = schedule_->answered();
    return std::ranges::any_of(schedule_->until(begin + questions), [&](const Fault& fault) {
      return fault.kind == kind && fault.at_question < begin + questions &&
             (begin < fault.at_question || begin - fault.at_question < fault.times);
    });
  }

  [[nodiscard]] bool is_disturbed(std::uint64_t questions) const {
    return is_active(FaultKind::clock_change, questions) || is_active(FaultKind::tenant, questions) ||
           is_active(FaultKind::places, questions);
  }

  // How much longer than it is a latency seems now.
  double factor() {
    double factor = 1;
    if (is_active(FaultKind::clock_change)) {
      clock_changed_ = true;
      factor *= clock_factor;
    }
    if (is_active(FaultKind::tenant)) {
      constexpr double most_added = 0.3;
      tenant_came_ = true;
      factor *= 1 + most_added * random_.unit();
    }
    return factor;
  }

  // An L2 in two halves with memory behind it, in the proportions of an NVIDIA H200: a near half, a far one a tenth
  // slower, memory at twice the latency and more. A question finds most of its lines in one half, another question in
  // the other one.
  void move_misses(std::vector<float>& latencies) {
    constexpr double slowest_hit = 1.8;  // of the quickest load
    constexpr double far_slower = 0.1;
    constexpr double share_of_memory = 0.05;
    const double share_of_far = random_.unit() < 0.5 ? 0.05 : 0.95;
    for (const float latency : latencies) {
      quickest_ = std::min(quickest_, latency);
    }
    for (float& latency : latencies) {
      if (latency < slowest_hit * quickest_) {
        continue;
      }
      double slower = random_.unit() < share_of_far ? far_slower : 0;
      if (random_.unit() < share_of_memory) {
        slower = 0.7 + random_.unit();
      }
      latency = static_cast<float>(std::round(latency * (1 + slower)));
    }
  }

  model::Answer disturbed(const model::Question& question) {
    model::Question asked = question;
    std::vector<bool> is_ours(question.record.size(), true);
    if (is_active(FaultKind::tenant)) {
      asked.warm = interspersed(question.target, question.warm).first;
      std::tie(asked.record, is_ours) = interspersed(question.target, question.record);
    }
    model::Answer answer = std::move(device_->ask({&asked, 1}).front());
    std::vector<float> ours;
    for (std::size_t i = 0; i < answer.latency_cycles.size(); ++i) {
      if (is_ours[i]) {
        ours.push_back(static_cast<float>(std::round(answer.latency_cycles[i] * factor())));
      }
    }
    if (is_active(FaultKind::places)) {
      move_misses(ours);
    }
    answer.latency_cycles = std::move(ours);
    return answer;
  }

  // With loads of another one in between, and which are not.
  std::pair<model::AccessSequence, std::vector<bool>> interspersed(const std::string& target,
                                                                   const model::AccessSequence& sequence) {
    constexpr double probability = 1.0 / 16;
    const model::BufferFacts& buffer = facts().buffer_of(target);
    const std::uint64_t unit = buffer.piece_bytes ? *buffer.piece_bytes
                               : buffer.raster    ? buffer.raster->texel_bytes
                                                  : 4;
    std::pair<model::AccessSequence, std::vector<bool>> all;
    const auto add = [&](std::uint64_t offset, bool is_ours) {
      all.first.push_back(offset);
      all.second.push_back(is_ours);
    };
    for (const std::uint64_t offset : sequence) {
      if (random_.unit() < probability) {
        add(random_.below(buffer.bytes / unit) * unit, false);
      }
      add(offset, true);
    }
    return all;
  }

  std::unique_ptr<model::Answerer> device_;
  std::shared_ptr<FaultSchedule> schedule_;
  model::Random random_{1};
  float quickest_ = std::numeric_limits<float>::max();
  bool clock_changed_ = false;
  bool tenant_came_ = false;
};

}  // namespace

FaultSchedule::FaultSchedule(std::string_view text) {
  constexpr std::uint64_t default_gap = 2000;
  const std::regex form("([a-z_]+)@([0-9]{1,18})(?:x(0*[1-9][0-9]{0,17}))?");
  while (true) {
    const std::string item(text.substr(0, text.find(',')));
    std::smatch parts;
    if (!std::regex_match(item, parts, form)) {
      throw malformed(item);
    }
    const std::string name = parts[1];
    const std::uint64_t first = std::stoull(parts[2]);
    const auto times_or = [&](std::uint64_t left_out) { return parts[3].matched ? std::stoull(parts[3]) : left_out; };
    const auto* const kind = std::ranges::find(kinds, name, &Kind::name);
    if (kind != kinds.end()) {
      faults_.push_back({.kind = kind->kind, .at_question = first, .times = times_or(kind->times)});
    } else if (name == "random" && !random_) {
      random_.emplace(first);
      mean_gap_ = times_or(default_gap);
    } else {
      throw malformed(item);
    }
    if (item.size() == text.size()) {
      return;
    }
    text.remove_prefix(item.size() + 1);
  }
}

std::vector<Fault>& FaultSchedule::until(std::uint64_t questions) {
  while (random_ && drawn_until_ < questions) {
    constexpr std::uint64_t most_tries = 5;
    const double gap = -std::log(1 - random_->unit()) * static_cast<double>(mean_gap_);
    drawn_until_ += 1 + static_cast<std::uint64_t>(gap);
    const Kind& kind = kinds.at(random_->below(kinds.size()));
    std::uint64_t times = kind.times;
    if (!fails_tries(kind.kind)) {
      times = 1 + random_->below(2 * mean_gap_);
    } else if (!ends_the_device(kind.kind)) {
      times = 1 + random_->below(most_tries);
    }
    faults_.push_back({.kind = kind.kind, .at_question = drawn_until_, .times = times});
  }
  return faults_;
}

std::unique_ptr<model::Answerer> faulty(std::unique_ptr<model::Answerer> device,
                                        std::shared_ptr<FaultSchedule> schedule) {
  return std::make_unique<FaultyDevice>(std::move(device), std::move(schedule));
}

}  // namespace gpuinfer::probe
