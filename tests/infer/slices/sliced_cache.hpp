// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "model/answerer.hpp"
#include "model/random.hpp"
#include "tests/infer/slices/sliced_device.hpp"

// Outer caches in slices, by a simulator that shares nothing with the product's.
namespace gpuinfer::infer::foreign {

// Slices with sets of their own.
class SlicedCache final : public model::Answerer {
 public:
  using SetOf = std::function<std::uint64_t(std::uint64_t)>;  // of its slice, by address

  enum class Policy : std::uint8_t { lru, fifo, any_line };

  struct Slice {
    std::uint32_t sets = 40;
    std::uint32_t ways = 6;
    std::uint64_t line_bytes = 128;
    std::uint64_t sector_bytes = 64;
    Policy policy = Policy::lru;
  };

  // Of sets that no rule says.
  SlicedCache(HiddenSlices slices, const Slice& slice, std::uint64_t seed)
      : SlicedCache(std::move(slices), slice, seed, 16ULL << 20U, [slice, seed](std::uint64_t address) {
          return model::Random(seed ^ (address / slice.line_bytes * 0x9e3779b97f4a7c15ULL))() % slice.sets;
        }) {}

  SlicedCache(HiddenSlices slices, const Slice& slice, std::uint64_t seed, std::uint64_t buffer_bytes, SetOf set_of,
              SliceNoise noise = {.jitter = 0.02})
      : slices_(std::move(slices)), set_of_(std::move(set_of)), slice_(slice), random_(seed),
        pairs_(slices_, seed, noise, buffer_bytes), facts_(pairs_.facts()) {
    facts_.sm_count = sms;
    facts_.chooses_unit = true;
  }

  static constexpr std::uint32_t sms = 6;
  // Even ones are farther from slices of higher numbers, odd ones nearer.
  [[nodiscard]] static double distance_cycles(std::uint32_t sm, std::uint32_t slice) {
    return sm % 2 == 0 ? 270 + slice : 290 - slice + sm / 2;
  }

  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }
  void take_stores() { facts_.stored_targets = facts_.targets; }

  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (question.state != model::StartState::keep) {
        present_.clear();
      }
      const std::vector<model::AccessKind> kinds = kinds_of(question);
      for (std::size_t i = 0; i < question.warm.size(); ++i) {
        static_cast<void>(access(question.warm[i], kinds[i]));
      }
      if (question.circumstances.contended_pairs) {
        answers.push_back(pairs_.ask({&question, 1}).front());
        for (const std::uint64_t offset : question.record) {
          static_cast<void>(access(offset, model::AccessKind::load));
        }
        continue;
      }
      model::Answer& answer = answers.emplace_back();
      for (std::size_t i = 0; i < question.record.size(); ++i) {
        const std::uint64_t offset = question.record[i];
        const bool hits = access(offset, kinds[question.warm.size() + i]);
        const std::uint32_t sm = number_of(question.circumstances.unit.value_or(model::ComputeUnit{0}));
        const double hit_cycles = distance_cycles(sm, slices_(number_of(facts_.buffer.address + offset)));
        answer.latency_cycles.push_back(
            static_cast<float>((hits ? hit_cycles : 700) + static_cast<double>(random_.below(4))));
      }
    }
    return answers;
  }

 private:
  struct Line {
    std::uint64_t number = 0;
    std::uint64_t sectors = 0;
    std::uint64_t words = 0;  // written ones
  };

  // A store brings its line, and writes its word there without the rest of the sector.
  bool access(std::uint64_t offset, model::AccessKind kind) {
    const std::uint64_t address = number_of(facts().buffer.address + offset);
    const std::uint64_t number = address / slice_.line_bytes;
    const std::uint64_t sector = std::uint64_t{1} << (address % slice_.line_bytes / slice_.sector_bytes);
    std::list<Line>& lines = present_[{slices_(address), set_of_(address)}];
    const auto found = std::ranges::find(lines, number, &Line::number);
    const std::uint64_t word = std::uint64_t{1} << (address % slice_.line_bytes / 4);
    const bool is_store = kind == model::AccessKind::store;
    if (found != lines.end()) {
      const bool hits = (found->sectors & sector) != 0 || (found->words & word) != 0;
      found->sectors |= is_store || hits ? 0 : sector;
      found->words |= is_store ? word : 0;
      if (slice_.policy == Policy::lru) {
        lines.splice(lines.begin(), lines, found);
      }
      return hits;
    }
    if (lines.size() == slice_.ways) {
      const std::uint64_t from_oldest = slice_.policy == Policy::any_line ? random_.below(slice_.ways) : 0;
      lines.erase(std::prev(lines.end(), static_cast<std::ptrdiff_t>(from_oldest) + 1));
    }
    lines.push_front({.number = number, .sectors = is_store ? 0 : sector, .words = is_store ? word : 0});
    return false;
  }

  HiddenSlices slices_;
  SetOf set_of_;
  Slice slice_;
  model::Random random_;
  SlicedDevice pairs_;
  model::DeviceFacts facts_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::list<Line>> present_;  // youngest first
};

}  // namespace gpuinfer::infer::foreign
