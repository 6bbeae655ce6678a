// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "infer/asking/asker.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

// Who asks, and what draws the questions and their order. Both outlive it.
struct Questioner {
  Asker& device;
  model::Random& random;
};

}  // namespace gpuinfer::infer
