// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "infer/asking/interrogator.hpp"
#include "infer/cache/known_outcomes.hpp"

namespace gpuinfer::infer {

// With a start and a classifier, whether or not its levels are apart. The device and the settings outlive it.
inline Interrogator calibrated(model::Answerer& device, const Settings& settings, const std::string& target = "L1tex") {
  Asker asker(device, target, settings);
  asker.choose_start();
  LevelClassifier classifier = calibrate(asker);
  return {std::move(asker), std::move(classifier)};
}

}  // namespace gpuinfer::infer
