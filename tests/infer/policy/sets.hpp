// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "infer/policy/replacement_fit.hpp"
#include "tests/infer/calibrated.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {

inline constexpr std::uint64_t stride_bytes = 4096;

inline std::unique_ptr<model::Answerer> sets_of(std::uint32_t sets, std::uint32_t ways,
                                                const model::Replacement& policy, std::uint64_t seed,
                                                const model::NoiseDescription& noise) {
  model::BitsIndex index;
  for (unsigned bit = 5; index.sets() < sets; ++bit) {
    index.bits.push_back(bit);
  }
  return device_of(cache_of(std::vector<std::uint32_t>(sets, ways), index, policy), noise, seed);
}

// Sets that choose by the lines' numbers, and lines of each.
class Sets {
 public:
  Sets(std::unique_ptr<model::Answerer> device, std::uint32_t sets, std::uint32_t ways, std::uint64_t seed)
      : device_(std::move(device)) {
    settings_.seed = seed;
    interrogator_.emplace(calibrated(*device_, settings_));
    EXPECT_TRUE(interrogator_->classifier().levels_are_apart());
    for (std::uint64_t set = 0; set < sets; ++set) {
      classes_.push_back({.lines = {}, .ways = ways});
      for (std::uint64_t line = 0; line < 3 * ways + 1; ++line) {
        classes_.back().lines.push_back(set * 32 + line * stride_bytes);
      }
    }
    accesses_before_ = interrogator_->accesses_asked();
  }

  Sets(std::uint32_t sets, std::uint32_t ways, const model::Replacement& policy, std::uint64_t seed,
       const model::NoiseDescription& noise = {.jitter_cycles = 2})
      : Sets(sets_of(sets, ways, policy, seed, noise), sets, ways, seed) {}

  Interrogator& device() { return *interrogator_; }
  [[nodiscard]] const std::vector<ConflictClass>& classes() const { return classes_; }

  ReplacementFit fit() { return fit_replacement(*interrogator_, classes_); }
  [[nodiscard]] std::size_t accesses() const { return interrogator_->accesses_asked() - accesses_before_; }

 private:
  std::unique_ptr<model::Answerer> device_;
  Settings settings_;
  std::optional<Interrogator> interrogator_;
  std::vector<ConflictClass> classes_;
  std::size_t accesses_before_ = 0;
};

}  // namespace gpuinfer::infer
