// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/persistent_device.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "model/errors.hpp"
#include "probe/device_failures.hpp"
#include "probe/keep/run_facts.hpp"
#include "probe/lead.hpp"

namespace gpuinfer::probe {

namespace {

using std::chrono::milliseconds;

constexpr std::array pauses{milliseconds{50}, milliseconds{200}, milliseconds{800}};
constexpr unsigned most_repetitions_of_refused = 2;
constexpr unsigned most_reopenings = 2;

// Without the advice that follows it.
std::string what_happened(const std::string& sentence) { return sentence.substr(0, sentence.find("; ")); }

std::size_t runs_of(const model::Workload& workload) {
  return std::visit([](const auto& each) { return std::size_t{each.runs}; }, workload);
}

class PersistentDevice final : public model::Answerer {
 public:
  PersistentDevice(std::unique_ptr<model::Answerer> device, Reopen reopen, std::function<bool()> stop_waiting)
      : device_(std::move(device)), reopen_(std::move(reopen)), stop_waiting_(std::move(stop_waiting)),
        facts_(device_->facts()) {}

  const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    unsigned repetitions_of_refused = 0;
    auto answers = persist([&](bool again) {
      if (again) {
        lead_to(questions);
      }
      auto given = device_->ask(questions);
      check(questions, given);
      for (; repetitions_of_refused < most_repetitions_of_refused && refuses_what_it_answered(questions, given);
           ++repetitions_of_refused) {
        note_passed(facts_.source + " refused a question of a kind that it had answered before");
        lead_to(questions);
        given = device_->ask(questions);
        check(questions, given);
      }
      return given;
    });
    for (std::size_t i = 0; i < questions.size(); ++i) {
      leads_[questions[i].target].add(questions[i]);
      if (!answers[i].refusal) {
        answered_.emplace(questions[i].target, questions[i].state);
        ++answers_;
      }
    }
    return answers;
  }

  std::vector<model::Timing> time(std::span<const model::Workload> workloads) override {
    auto timings = persist([&](bool /*again*/) {
      auto given = device_->time(workloads);
      for (std::size_t i = 0; i < workloads.size(); ++i) {
        if (!given[i].refusal && given[i].cycles.size() != runs_of(workloads[i])) {
          throw wrong_number(given[i].cycles.size(), "times", runs_of(workloads[i]), "runs");
        }
      }
      return given;
    });
    answers_ += timings.size();
    return timings;
  }

  std::optional<std::vector<std::uint64_t>> places_of(const std::string& target,
                                                      std::span<const std::uint64_t> offsets) override {
    return persist([&](bool /*again*/) { return device_->places_of(target, offsets); });
  }

  std::vector<model::Disturbance> disturbances() const override {
    std::vector<model::Disturbance> all = passed_;
    if (device_) {
      std::ranges::move(device_->disturbances(), std::back_inserter(all));
    }
    return all;
  }

  void begin_piece() override {
    passed_before_ = passed_.size();
    if (device_) {
      device_->begin_piece();
    }
  }

  model::PieceState discard_piece() override {
    if (!device_ || failure_) {
      return model::PieceState::settled;
    }
    const model::PieceState state = device_->discard_piece();
    if (state == model::PieceState::discarded) {
      passed_.erase(std::remove_if(passed_.begin() + static_cast<std::ptrdiff_t>(passed_before_), passed_.end(),
                                   [](const model::Disturbance& each) { return model::may_touch_answers(each.kind); }),
                    passed_.end());
    }
    return state;
  }

 private:
  // What `call` gives in the end; it is told whether it was tried before.
  template <class Call>
  std::invoke_result_t<Call, bool> persist(Call call) {
    if (failure_) {
      throw DeviceError(*failure_);
    }
    for (std::size_t failures = 0;;) {
      try {
        return call(failures > 0);
      } catch (const WaitingEnded&) {
        throw;
      } catch (const TransientError& error) {
        if (failures == pauses.size()) {
          throw DeviceError(told(error) + ", and was asked " + std::to_string(failures + 1) + " times");
        }
        note_passed(error.what());
        pause(pauses.at(failures), error);
        ++failures;
      } catch (const DeviceError& error) {
        reopen_after(error);
        ++failures;
        failures = std::min(failures, pauses.size());
      }
    }
  }

  // Throws WaitingEnded when nobody waits any longer.
  void pause(milliseconds time, const TransientError& error) const {
    constexpr milliseconds step{50};
    for (; time > milliseconds{0} && !stop_waiting_(); time -= step) {
      std::this_thread::sleep_for(step);
    }
    if (stop_waiting_()) {
      throw WaitingEnded(told(error));
    }
  }

  void reopen_after(const DeviceError& error) {
    const std::string sentence = told(error);
    if (stop_waiting_()) {
      throw WaitingEnded(sentence);
    }
    if (!reopen_) {
      throw DeviceError(sentence);
    }
    failure_ = sentence;
    if (reopenings_ == most_reopenings || asked_behind_another_level()) {
      throw DeviceError(sentence);
    }
    ++reopenings_;
    std::ranges::move(device_->disturbances(), std::back_inserter(passed_));
    device_.reset();
    try {
      device_ = reopen_();
    } catch (const Error&) {
      throw DeviceError(sentence);
    }
    if (run_facts_of(device_->facts()) != run_facts_of(facts_)) {
      throw DeviceError(sentence + ", and was another device when it was opened again");
    }
    failure_.reset();
    note_passed(error.what());
  }

  [[nodiscard]] bool asked_behind_another_level() const {
    return std::ranges::any_of(
        leads_, [this](const auto& lead) { return facts_.buffer_of(lead.first).nearer_bytes.has_value(); });
  }

  [[nodiscard]] std::string told(const DeviceError& error) const {
    return std::string(error.what()) + "; before that, it gave " + std::to_string(answers_) + " answers";
  }

  void note_passed(const std::string& sentence) {
    constexpr std::size_t most_told = 10;
    model::Disturbance told{.kind = model::Disturbance::Kind::asked_again,
                            .sentence = "it was asked again after a failure (" + what_happened(sentence) +
                                        "), and none is expected; measure again if there are many"};
    if (passed_.size() < most_told && std::ranges::find(passed_, told) == passed_.end()) {
      passed_.push_back(std::move(told));
    }
  }

  [[nodiscard]] TransientError wrong_number(std::size_t given, const char* of_what, std::size_t expected,
                                            const char* of) const {
    return TransientError(facts_.source + " gave " + std::to_string(given) + " " + of_what + " for " +
                          std::to_string(expected) + " " + of + "; it has to give one for each");
  }

  void check(std::span<const model::Question> questions, std::span<const model::Answer> answers) const {
    for (std::size_t i = 0; i < questions.size(); ++i) {
      const std::size_t given = answers[i].latency_cycles.size();
      if (!answers[i].refusal && given != questions[i].record.size()) {
        throw wrong_number(given, "latencies", questions[i].record.size(), "recorded loads");
      }
    }
  }

  [[nodiscard]] bool refuses_what_it_answered(std::span<const model::Question> questions,
                                              std::span<const model::Answer> answers) const {
    for (std::size_t i = 0; i < questions.size(); ++i) {
      if (answers[i].refusal && questions[i].circumstances == model::Circumstances{} &&
          answered_.contains({questions[i].target, questions[i].state})) {
        return true;
      }
    }
    return false;
  }

  // Puts caches whose state the first question of a target keeps where they were before the batch.
  void lead_to(std::span<const model::Question> questions) {
    std::set<std::string> seen;
    for (const model::Question& question : questions) {
      const auto lead = leads_.find(question.target);
      if (seen.insert(question.target).second && question.state == model::StartState::keep && lead != leads_.end()) {
        static_cast<void>(device_->ask(lead->second.questions()));
      }
    }
  }

  std::unique_ptr<model::Answerer> device_;
  Reopen reopen_;
  std::function<bool()> stop_waiting_;
  model::DeviceFacts facts_;
  std::map<std::string, Lead> leads_;  // by target
  std::set<std::pair<std::string, model::StartState>> answered_;
  std::vector<model::Disturbance> passed_;
  std::size_t passed_before_ = 0;       // when the piece began
  std::optional<std::string> failure_;  // for good
  std::size_t answers_ = 0;
  unsigned reopenings_ = 0;
};

}  // namespace

std::unique_ptr<model::Answerer> persistent(std::unique_ptr<model::Answerer> device, Reopen reopen,
                                            std::function<bool()> stop_waiting) {
  return std::make_unique<PersistentDevice>(std::move(device), std::move(reopen), std::move(stop_waiting));
}

}  // namespace gpuinfer::probe
