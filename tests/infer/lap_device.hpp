// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/answerer.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

// Averages laps, each by a function of the places of a lap, and refuses all other questions.
class LapDevice final : public model::Answerer {
 public:
  using Cycles = std::function<double(const model::AccessSequence& lap)>;

  LapDevice(const std::string& target, std::uint64_t buffer_bytes, Cycles cycles) : cycles_(std::move(cycles)) {
    facts_.name = "foreign";
    facts_.source = "test";
    facts_.targets = {target};
    facts_.own_buffers[target] = {.bytes = buffer_bytes, .averages_laps = true};
  }

  // Of so many laps the average is by up to so many cycles too high.
  void disturb(double share, double most_cycles) {
    share_ = share;
    most_cycles_ = most_cycles;
  }

  const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (question.state != model::StartState::keep || question.record.empty()) {
        answers.push_back({.latency_cycles = {}, .refusal = "laps only; ask for one"});
        continue;
      }
      const double disturbance = random_.unit() < share_ ? most_cycles_ * random_.unit() : 0;
      const auto cycles = static_cast<float>(cycles_(question.record) + disturbance);
      answers.push_back({.latency_cycles = std::vector<float>(question.record.size(), cycles), .refusal = {}});
    }
    return answers;
  }

 private:
  Cycles cycles_;
  model::DeviceFacts facts_;
  model::Random random_{7};
  double share_ = 0;
  double most_cycles_ = 0;
};

// What laps come to once they repeat, in sets that keep what was used last: `set_of` an entry, which holds so many
// bytes.
struct LruSets {
  std::uint64_t entry_bytes;
  std::size_t ways;
  std::size_t sets;
  std::function<std::uint64_t(std::uint64_t entry)> set_of;
  double hit_cycles;
  double miss_cycles;

  double operator()(const model::AccessSequence& lap) const {
    std::vector<std::vector<std::uint64_t>> kept(sets);  // what was used last stands last
    std::size_t misses = 0;
    for (int round = 0; round < 2; ++round) {
      misses = 0;
      for (const std::uint64_t place : lap) {
        const std::uint64_t entry = place / entry_bytes;
        std::vector<std::uint64_t>& set = kept[set_of(entry)];
        const auto found = std::find(set.begin(), set.end(), entry);
        if (found != set.end()) {
          set.erase(found);
        } else {
          ++misses;
          if (set.size() == ways) {
            set.erase(set.begin());
          }
        }
        set.push_back(entry);
      }
    }
    return hit_cycles + (miss_cycles - hit_cycles) * static_cast<double>(misses) / static_cast<double>(lap.size());
  }
};

}  // namespace gpuinfer::infer
