// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "model/answerer.hpp"
#include "tests/infer/drawn_numbers.hpp"

// A device of one fully associative cache with timing as bad as wanted, which shares no code with the simulator.
namespace gpuinfer::infer::noisy {

struct Timing {
  std::vector<double> hit_cycles{100};  // banks, by line
  double miss_cycles = 220;
  std::optional<double> far_miss_cycles = {};  // of half of the lines, whichever
  double deviation_cycles = 2;
  double misreads = 0;                 // share of accesses that take the other level's time
  double strays = 0;                   // share of accesses that are slower by anything up to 5000 cycles
  std::size_t burst_every = 0;         // accesses between two bursts; none when 0
  std::size_t burst_accesses = 50;     // all slow
  double burst_cycles = 0;             // what a burst adds: 0 is anything up to 5000 cycles
  double drift_cycles_per_access = 0;  // of both levels
};

enum class Policy : std::uint8_t { lru, random };

class Device final : public model::Answerer {
 public:
  Device(std::size_t ways, Policy policy, Timing timing, std::uint64_t seed)
      : ways_(ways), policy_(policy), timing_(std::move(timing)), random_(seed) {
    facts_.name = "noisy";
    facts_.source = "test";
    facts_.targets = {"L1tex"};
    facts_.buffer.bytes = 1U << 20U;
  }

  void set_ways(std::size_t ways) { ways_ = ways; }
  void set_timing(const Timing& timing) { timing_ = timing; }

  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }

  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      lines_.clear();
      for (const std::uint64_t offset : question.warm) {
        static_cast<void>(load(offset));
        ++accesses_;
      }
      model::Answer& answer = answers.emplace_back();
      for (const std::uint64_t offset : question.record) {
        answer.latency_cycles.push_back(cycles_of(offset / 32, load(offset)));
      }
    }
    return answers;
  }

 private:
  bool load(std::uint64_t offset) {
    const std::uint64_t line = offset / 32;
    const auto found = std::find(lines_.begin(), lines_.end(), line);
    if (found != lines_.end()) {
      std::rotate(found, found + 1, policy_ == Policy::lru ? lines_.end() : found + 1);
      return true;
    }
    if (lines_.size() == ways_) {
      lines_.erase(lines_.begin() + (policy_ == Policy::lru ? 0 : static_cast<std::ptrdiff_t>(random_() % ways_)));
    }
    lines_.push_back(line);
    return false;
  }

  float cycles_of(std::uint64_t line, bool hit) {
    ++accesses_;
    const bool as_hit = hit != (unit() < timing_.misreads);
    double cycles = as_hit ? timing_.hit_cycles[line % timing_.hit_cycles.size()]
                    : std::popcount(line * 0x9e3779b97f4a7c15ULL) % 2 != 0
                        ? timing_.far_miss_cycles.value_or(timing_.miss_cycles)
                        : timing_.miss_cycles;
    cycles += timing_.deviation_cycles * normal_(random_) + timing_.drift_cycles_per_access * accesses_;
    const auto count = static_cast<std::size_t>(accesses_);
    const bool burst = timing_.burst_every > 0 && count % timing_.burst_every < timing_.burst_accesses;
    if (burst) {
      cycles += timing_.burst_cycles > 0 ? timing_.burst_cycles : 5000 * unit();
    } else if (unit() < timing_.strays) {
      cycles += 5000 * unit();
    }
    return static_cast<float>(std::max(0.0, std::round(cycles)));
  }

  double unit() { return drawn_unit(random_); }

  std::size_t ways_;
  Policy policy_;
  Timing timing_;
  model::DeviceFacts facts_;
  std::mt19937_64 random_;
  DrawnNormal normal_;
  std::vector<std::uint64_t> lines_;  // least recently used first
  double accesses_ = 0;
};

}  // namespace gpuinfer::infer::noisy
