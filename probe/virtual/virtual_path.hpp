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
#include "model/hierarchy.hpp"
#include "model/random.hpp"
#include "probe/virtual/noise.hpp"

namespace gpuinfer::probe {

// A path of memory, with caches and random streams of its own.
class VirtualPath {
 public:
  VirtualPath(const model::DeviceDescription& device, const std::string& path, const model::NoiseDescription& noise,
              model::Random seeds)
      : last_cache_(static_cast<std::uint8_t>(device.paths.at(path).caches.size() - 1)), latencies_(device, path),
        simulator_(device, path, seeds()), noise_(noise, seeds()) {}

  std::vector<float> answer(const model::Question& question, model::Address address_of_buffer) {
    const std::vector<model::AccessClass> classes = model::classes_of(simulator_, question, address_of_buffer);
    std::vector<float> latency_cycles(classes.size());
    std::transform(classes.begin(), classes.end(), latency_cycles.begin(), [this](const model::AccessClass& access) {
      return noise_.timed(latencies_.of(noise_.misreads() ? misread(access) : access).cycles);
    });
    return latency_cycles;
  }

 private:
  // As if the data had been in memory instead of a cache, or in the last cache instead of memory.
  [[nodiscard]] model::AccessClass misread(const model::AccessClass& access) const {
    return {.cache = access.cache ? std::nullopt : std::optional(last_cache_),
            .translation = access.translation,
            .far = false};
  }

  std::uint8_t last_cache_;
  model::PathLatencies latencies_;
  model::HierarchySimulator simulator_;
  Noise noise_;
};

}  // namespace gpuinfer::probe
