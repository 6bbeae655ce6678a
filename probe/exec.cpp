// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/exec.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "model/errors.hpp"
#include "probe/device_failures.hpp"
#include "probe/process.hpp"
#include "probe/wire.hpp"

namespace gpuinfer::probe {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

bool is_sequence_target(std::string_view target) {
  return !model::takes_texels(target) && !model::takes_workloads(target);
}

class ExecDevice final : public model::Answerer {
 public:
  ExecDevice(const std::string& command, double timeout_seconds, std::function<bool()> stop_waiting, std::string source)
      : source_(std::move(source)),
        timeout_(std::chrono::duration_cast<milliseconds>(std::chrono::duration<double>(timeout_seconds))),
        stop_waiting_(std::move(stop_waiting)), process_(command) {
    try {
      allow_lines_of(0);
      std::string_view nothing;
      std::optional<std::string> greeting;
      for (restart_clock(); !(greeting = take_line());) {
        exchange(nothing);
      }
      facts_ = wire::parse_greeting(*greeting);
    } catch (const DeviceError& error) {
      throw DeviceUnavailable(error.what());
    } catch (const InputError& error) {
      throw DeviceUnavailable(source_ + " does not greet: " + error.what());
    }
    facts_.source = source_;
    for (std::vector<std::string>* targets : {&facts_.targets, &facts_.stored_targets, &facts_.hinted_targets}) {
      std::erase_if(*targets, [](const std::string& target) { return !is_sequence_target(target); });
    }
  }

  const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Disturbance> disturbances() const override { return disturbances_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    if (failure_) {
      throw DeviceError(*failure_);
    }
    try {
      return exchange_all(questions);
    } catch (const DeviceError& error) {
      failure_ = error.what();
      throw;
    } catch (const InputError& error) {
      failure_ = source_ + ": " + error.what();
      throw DeviceError(*failure_);
    }
  }

 private:
  // Sends and listens by turns, whichever is possible, so neither side can block the other however long the batch is.
  std::vector<model::Answer> exchange_all(std::span<const model::Question> questions) {
    std::vector<model::Answer> answers(questions.size());
    allow_lines_of(std::accumulate(questions.begin(), questions.end(), std::size_t{0},
                                   [](std::size_t most, const auto& q) { return std::max(most, q.record.size()); }));
    std::string line;
    std::string_view unsent;
    std::size_t next = 0;
    restart_clock();
    while (true) {
      for (; unsent.empty() && next < questions.size(); ++next) {
        // A process would pass over what it does not know.
        if (auto refusal = model::refusal_of(facts_, questions[next])) {
          answers[next].refusal = std::move(refusal);
          continue;
        }
        if (!is_sequence_target(questions[next].target)) {
          answers[next].refusal = questions[next].target + " is not asked by access sequences, and only those travel " +
                                  "over exec:; run gpuinfer where the device is";
          continue;
        }
        waiting_.emplace(next_id_, next);
        line = wire::question_line(next_id_++, questions[next]) + "\n";
        unsent = line;
      }
      if (unsent.empty() && waiting_.empty()) {
        return answers;
      }
      exchange(unsent);
      while (const auto said = take_line()) {
        accept(*said, questions, answers);
      }
    }
  }

  void accept(const std::string& line, std::span<const model::Question> questions,
              std::vector<model::Answer>& answers) {
    wire::Answered answered = wire::parse_answer(line);
    const std::string which = "question " + std::to_string(answered.id);
    const auto waiting = waiting_.find(answered.id);
    if (waiting == waiting_.end()) {
      throw InputError(answered.id < next_id_ ? which + " was answered twice; answer each once"
                                              : which + " was answered and never asked; send back the id that came");
    }
    const std::size_t expected = questions[waiting->second].record.size();
    if (!answered.answer.refusal && answered.answer.latency_cycles.size() != expected) {
      throw InputError(which + " got " + std::to_string(answered.answer.latency_cycles.size()) + " latencies for " +
                       std::to_string(expected) + " recorded loads; send one for each");
    }
    if (answered.disturbances) {
      disturbances_ = std::move(*answered.disturbances);
    }
    answers[waiting->second] = std::move(answered.answer);
    waiting_.erase(waiting);
  }

  void exchange(std::string_view& unsent) {
    if (process_.output_ended()) {
      throw DeviceError(source_ + " " + process_.how_it_ended() + "; run the command by hand to see why");
    }
    const auto left = std::chrono::ceil<milliseconds>(deadline_ - Clock::now());
    constexpr milliseconds longest_wait{100};
    const bool something = process_.exchange(unsent, said_, std::clamp(left, milliseconds{0}, longest_wait));
    check_waiting(something);
    if (something) {
      restart_clock();
    } else if (Clock::now() >= deadline_) {
      throw DeviceError(source_ + " said nothing for " + std::to_string(timeout_.count()) +
                        " ms; run the command by hand to see why");
    }
  }

  void check_waiting(bool something) {
    constexpr milliseconds grace{500};
    if (!stop_waiting_()) {
      return;
    }
    if (!stopped_) {
      stopped_ = Clock::now();
    }
    if (!something || Clock::now() - *stopped_ > grace) {
      throw WaitingEnded(source_ + " had not answered when the waiting was ended; give it more time");
    }
  }

  // The next whole line of what was said.
  std::optional<std::string> take_line() {
    const std::size_t end = said_.find('\n', searched_);
    if (end == std::string::npos) {
      said_.erase(0, taken_);
      taken_ = 0;
      searched_ = said_.size();
      if (searched_ > longest_line_) {
        throw DeviceError(source_ + " sent a line of more than " + std::to_string(longest_line_) +
                          " bytes; send one answer on each line");
      }
      return std::nullopt;
    }
    std::string line = said_.substr(taken_, end - taken_);
    searched_ = taken_ = end + 1;
    return line;
  }

  void allow_lines_of(std::size_t latencies) {
    constexpr std::size_t room_for_texts = 1U << 20U;
    constexpr std::size_t longest_number = 32;
    longest_line_ = room_for_texts + longest_number * latencies;
  }

  void restart_clock() { deadline_ = Clock::now() + timeout_; }

  std::string source_;
  milliseconds timeout_;
  std::function<bool()> stop_waiting_;
  std::optional<Clock::time_point> stopped_;
  Process process_;
  model::DeviceFacts facts_;
  std::vector<model::Disturbance> disturbances_;
  std::optional<std::string> failure_;

  std::string said_;
  std::size_t taken_ = 0;     // lines before this were taken
  std::size_t searched_ = 0;  // no line end between taken_ and this
  std::size_t longest_line_ = 0;
  Clock::time_point deadline_;

  std::uint64_t next_id_ = 0;
  std::unordered_map<std::uint64_t, std::size_t> waiting_;  // id -> question of the batch
};

}  // namespace

std::unique_ptr<model::Answerer> open_exec(const std::string& command, double timeout_seconds,
                                           std::function<bool()> stop_waiting,
                                           const std::optional<std::string>& source) {
  return std::make_unique<ExecDevice>(command, timeout_seconds, std::move(stop_waiting),
                                      source.value_or("exec:" + command));
}

}  // namespace gpuinfer::probe
