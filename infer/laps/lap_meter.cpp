// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/laps/lap_meter.hpp"

#include <cmath>
#include <utility>

namespace gpuinfer::infer {

double LapMeter::cycles(AccessSequence lap) {
  constexpr std::size_t warm_laps = 2;
  model::Question question{.target = device_->target(),
                           .state = model::StartState::keep,
                           .warm = model::repeated(lap, warm_laps),
                           .record = {}};
  question.record = std::move(lap);
  return device_->latencies({&question, 1}).front().front();
}

double LapMeter::cycles_in_random_order(AccessSequence lap) {
  random_.shuffle(lap);
  return cycles(std::move(lap));
}

double rounded(double cycles) {
  constexpr double hundredths = 100;
  return std::round(hundredths * cycles) / hundredths;
}

std::string cycles_text(double cycles) {
  std::string text = std::to_string(rounded(cycles));
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

std::string kilobytes(std::uint64_t bytes) { return std::to_string(bytes / 1024) + " KB"; }

}  // namespace gpuinfer::infer
