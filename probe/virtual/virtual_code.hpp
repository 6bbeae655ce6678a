// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/answerer.hpp"
#include "model/device_description.hpp"
#include "model/random.hpp"
#include "probe/virtual/noise.hpp"

namespace gpuinfer::probe {

// Straight-line code that runs through caches of pieces, each level with the least recently run ones.
class VirtualCode {
 public:
  VirtualCode(const model::CodeDescription& code, const model::NoiseDescription& noise, model::Random seeds)
      : piece_bytes_(code.piece_bytes), levels_(*code.levels), noise_(noise, seeds()) {}

  [[nodiscard]] static std::optional<std::string> why_refused(const model::CodeDescription& code) {
    if (!code.levels) {
      return "levels is null and a simulation needs it; give it a value";
    }
    if (fitting_pieces(*code.levels, code.piece_bytes) > most_pieces) {
      return "levels has one that fits more than " + std::to_string(most_pieces) +
             " pieces, too many for a simulation; describe larger pieces";
    }
    return std::nullopt;
  }

  // Twice the code that fits the last level with an end.
  [[nodiscard]] model::BufferFacts buffer() const {
    constexpr std::uint64_t fewest_pieces = 64;
    return {.bytes = std::max(fewest_pieces, 2 * fitting_pieces(levels_, piece_bytes_)) * piece_bytes_,
            .piece_bytes = piece_bytes_};
  }

  std::vector<float> answer(const model::Question& question) {
    if (question.state != model::StartState::keep) {
      last_runs_.clear();
    }
    for (const std::uint64_t offset : question.warm) {
      static_cast<void>(run(offset / piece_bytes_));
    }
    std::vector<float> cycles(question.record.size());
    std::transform(question.record.begin(), question.record.end(), cycles.begin(),
                   [this](std::uint64_t offset) { return noise_.timed(run(offset / piece_bytes_)); });
    return cycles;
  }

 private:
  static constexpr std::uint64_t most_pieces = 4096;

  static std::uint64_t fitting_pieces(const std::vector<model::CodeLevel>& levels, std::uint64_t piece_bytes) {
    return levels.size() > 1 ? *levels[levels.size() - 2].fits_bytes / piece_bytes : 0;
  }

  double run(std::uint64_t piece) {
    const auto last = std::find(last_runs_.begin(), last_runs_.end(), piece);
    const auto others = static_cast<std::uint64_t>(last - last_runs_.begin());
    const bool is_known = last != last_runs_.end();
    if (is_known) {
      last_runs_.erase(last);
    }
    last_runs_.insert(last_runs_.begin(), piece);
    const auto level = std::find_if(levels_.begin(), levels_.end(), [&](const model::CodeLevel& each) {
      return !each.fits_bytes || (is_known && others < *each.fits_bytes / piece_bytes_);
    });
    return level->cycles;
  }

  std::uint64_t piece_bytes_;
  std::vector<model::CodeLevel> levels_;
  std::vector<std::uint64_t> last_runs_;  // the last one first
  Noise noise_;
};

}  // namespace gpuinfer::probe
