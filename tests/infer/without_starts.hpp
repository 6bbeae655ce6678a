// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "model/answerer.hpp"

namespace gpuinfer::infer {

// A device that cannot give some of the starts.
class WithoutStarts final : public model::Answerer {
 public:
  WithoutStarts(std::unique_ptr<model::Answerer> device, std::vector<model::StartState> starts)
      : device_(std::move(device)), facts_(device_->facts()), starts_(std::move(starts)) {}

  void say_buffer_has(std::uint64_t bytes) { facts_.buffer.bytes = bytes; }

  const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (std::ranges::find(starts_, question.state) != starts_.end()) {
        answers.push_back({.latency_cycles = {}, .refusal = "there is no way to get there; ask for another start"});
      } else {
        answers.push_back(device_->ask({&question, 1}).front());
      }
    }
    return answers;
  }

 private:
  std::unique_ptr<model::Answerer> device_;
  model::DeviceFacts facts_;
  std::vector<model::StartState> starts_;
};

}  // namespace gpuinfer::infer
