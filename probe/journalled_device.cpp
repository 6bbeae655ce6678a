// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/journalled_device.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/errors.hpp"
#include "probe/lead.hpp"

namespace gpuinfer::probe {

namespace {

using Clock = std::chrono::steady_clock;

bool same(const model::Answer& a, const model::Answer& b) {
  return a.latency_cycles == b.latency_cycles && a.refusal == b.refusal;
}

class JournalledDevice final : public model::Answerer {
 public:
  JournalledDevice(model::Answerer& device, JournalWriter& journal, std::optional<JournalReader> past,
                   Reopened reopened)
      : device_(&device), journal_(&journal), past_(std::move(past)), reopened_(reopened) {
    if (past_) {
      told_ = past_->disturbances();
    }
  }

  const model::DeviceFacts& facts() const override { return device_->facts(); }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers = past_answers(questions);
    const auto past = questions.first(answers.size());
    const auto rest = questions.subspan(answers.size());
    if (reopened_ == Reopened::answers_the_same && !past.empty()) {
      confirm(std::ranges::equal(device_->ask(past), answers, same));
    }
    if (!rest.empty()) {
      lead_to(rest);
      std::vector<model::Answer> given = telling_disturbances([&] { return device_->ask(rest); });
      journal_->append(rest, given);
      tell_disturbances();
      std::ranges::move(given, std::back_inserter(answers));
    }
    return answers;
  }

  std::vector<model::Timing> time(std::span<const model::Workload> workloads) override {
    std::vector<model::Timing> timings;
    while (timings.size() < workloads.size()) {
      const std::string target(target_of(workloads[timings.size()]));
      auto next = past_ && !left_.contains(target) ? past_->next_workload(target) : std::nullopt;
      if (!next) {
        break;
      }
      if (next->workload != workloads[timings.size()]) {
        journal_->append_workload_cut(target, taken_[target]);
        left_.insert(target);
        break;
      }
      ++taken_[target];
      timings.push_back(std::move(next->timing));
    }
    const auto past = workloads.first(timings.size());
    const auto rest = workloads.subspan(timings.size());
    if (reopened_ == Reopened::answers_the_same && !past.empty()) {
      confirm(device_->time(past) == timings);
    }
    if (!rest.empty()) {
      std::vector<model::Timing> given = telling_disturbances([&] { return device_->time(rest); });
      journal_->append(rest, given);
      tell_disturbances();
      std::ranges::move(given, std::back_inserter(timings));
    }
    return timings;
  }

  std::optional<std::vector<std::uint64_t>> places_of(const std::string& target,
                                                      std::span<const std::uint64_t> offsets) override {
    if (past_) {
      if (auto places = kept_places(past_->places(), target, offsets)) {
        return places;
      }
    }
    auto places = device_->places_of(target, offsets);
    if (places) {
      journal_->append(target, offsets, *places);
    }
    return places;
  }

  std::vector<model::Disturbance> disturbances() const override {
    std::vector<model::Disturbance> all = told_;
    for (model::Disturbance& each : device_->disturbances()) {
      if (std::ranges::find(all, each) == all.end()) {
        all.push_back(std::move(each));
      }
    }
    return all;
  }

 private:
  std::vector<model::Answer> past_answers(std::span<const model::Question> questions) {
    std::vector<model::Answer> answers;
    while (answers.size() < questions.size() && counts_past_of(questions[answers.size()].target)) {
      auto next = past_->next_question(questions[answers.size()].target);
      if (!next) {
        break;
      }
      const std::string& target = next->question.target;
      if (next->question != questions[answers.size()]) {
        journal_->append_question_cut(target, taken_[target]);
        left_.insert(target);
        break;
      }
      ++taken_[target];
      if (reopened_ == Reopened::answers_anew && !next->answer.refusal) {
        leads_[target].add(next->question);
      }
      answers.push_back(std::move(next->answer));
    }
    return answers;
  }

  // Where the lines of a level behind another one go hangs on pages of memory, which are others by now.
  [[nodiscard]] bool counts_past_of(const std::string& target) const {
    return past_ && !left_.contains(target) &&
           (reopened_ == Reopened::answers_the_same || !facts().buffer_of(target).nearer_bytes);
  }

  // Puts the caches of the targets where the questions of the past had left them, if that is to be kept.
  void lead_to(std::span<const model::Question> questions) {
    for (const model::Question& question : questions) {
      const auto lead = leads_.find(question.target);
      if (lead == leads_.end()) {
        continue;
      }
      if (question.state == model::StartState::keep) {
        static_cast<void>(device_->ask(lead->second.questions()));
      }
      leads_.erase(lead);
    }
  }

  // A run that goes on where this one failed has to know what touched the answers until then.
  template <class Asking>
  auto telling_disturbances(Asking asking) -> decltype(asking()) {
    try {
      return asking();
    } catch (const DeviceError&) {
      look_due_ = {};
      tell_disturbances();
      throw;
    }
  }

  // To look takes some devices milliseconds, others nothing.
  void tell_disturbances() {
    constexpr int share_of_time = 100;
    const auto begin = Clock::now();
    if (begin < look_due_) {
      return;
    }
    if (std::vector<model::Disturbance> all = disturbances(); all != told_) {
      journal_->append_disturbances(all);
      told_ = std::move(all);
    }
    const auto end = Clock::now();
    look_due_ = end + share_of_time * (end - begin);
  }

  void confirm(bool same_as_then) const {
    if (!same_as_then) {
      throw InputError(past_->file().string() + ": " + facts().source +
                       " answers otherwise than it did then; bring back what it was, or begin another run with "
                       "--record");
    }
  }

  model::Answerer* device_;
  JournalWriter* journal_;
  std::optional<JournalReader> past_;
  Reopened reopened_;
  std::map<std::string, Lead> leads_;           // by target
  std::map<std::string, std::uint64_t> taken_;  // from the past, by target
  std::set<std::string> left_;                  // targets of which other questions were asked than in the past
  std::vector<model::Disturbance> told_;
  Clock::time_point look_due_;
};

}  // namespace

std::unique_ptr<model::Answerer> journalled(model::Answerer& device, JournalWriter& journal,
                                            std::optional<JournalReader> past, Reopened reopened) {
  return std::make_unique<JournalledDevice>(device, journal, std::move(past), reopened);
}

}  // namespace gpuinfer::probe
