// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "model/trace.hpp"

namespace gpuinfer::probe {

// What was asked of one target since the state of its caches was last known, or the last million loads of it. Asked
// again, it puts them where a question that keeps their state wants them.
class Lead {
 public:
  void add(const model::Question& question) {
    if (question.state != model::StartState::keep) {
      questions_.clear();
      accesses_ = 0;
    }
    questions_.push_back(question);
    accesses_ += accesses_of(question);
    constexpr std::size_t most_accesses = 1U << 20U;
    while (accesses_ > most_accesses && questions_.size() > 1) {
      accesses_ -= accesses_of(questions_.front());
      questions_.pop_front();
    }
  }

  [[nodiscard]] std::vector<model::Question> questions() const { return {questions_.begin(), questions_.end()}; }

 private:
  [[nodiscard]] static std::size_t accesses_of(const model::Question& question) {
    return question.warm.size() + question.record.size();
  }

  std::deque<model::Question> questions_;
  std::size_t accesses_ = 0;
};

}  // namespace gpuinfer::probe
