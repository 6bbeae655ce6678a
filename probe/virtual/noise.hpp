// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "model/device_description.hpp"
#include "model/random.hpp"

namespace gpuinfer::probe {

// What a description says of how answers are disturbed, drawn from one stream.
class Noise {
 public:
  Noise(const model::NoiseDescription& noise, std::uint64_t seed) : noise_(noise), random_(seed) {}

  bool misreads() { return happens(noise_.misread_probability); }

  double disturbed(double cycles) {
    if (noise_.jitter_cycles > 0) {
      cycles += random_.normal() * noise_.jitter_cycles;
    }
    if (happens(noise_.outlier_probability)) {
      cycles += noise_.outlier_cycles;
    }
    return cycles;
  }

  float timed(double cycles) { return static_cast<float>(std::max(0.0, std::round(disturbed(cycles)))); }

 private:
  bool happens(double probability) { return probability > 0 && random_.unit() < probability; }

  model::NoiseDescription noise_;
  model::Random random_;
};

}  // namespace gpuinfer::probe
