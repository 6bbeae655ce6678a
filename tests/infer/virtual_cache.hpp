// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "model/description_yaml.hpp"
#include "probe/virtual_device.hpp"

namespace gpuinfer::infer {

// Tests run in the root of the project.
inline model::DeviceDescription published(const std::string& name) {
  return model::read_description("configs/devices/" + name + ".yaml");
}

inline model::Replacement replacement(std::string policy) {
  return {.policy = std::move(policy), .parameters = {}, .equivalent = {}};
}

// Printed, and new with each run.
inline std::uint64_t fresh_seed() {
  const std::uint64_t seed = std::random_device{}();
  testing::Test::RecordProperty("seed", std::to_string(seed));
  std::cout << "seed " << seed << '\n';
  return seed;
}

// What cache_of() makes.
inline constexpr std::uint64_t line_bytes = 32;

// Lines of line_bytes, 100 cycles for a hit and 220 for a miss.
inline model::CacheDescription cache_of(std::vector<std::uint32_t> ways, model::IndexFunction index,
                                        model::Replacement policy) {
  model::CacheDescription cache;
  cache.line_bytes = cache.sector_bytes = line_bytes;
  cache.capacity_bytes = 0;
  for (const std::uint32_t count : ways) {
    *cache.capacity_bytes += count * *cache.line_bytes;
  }
  cache.ways = std::move(ways);
  cache.index = std::move(index);
  cache.replacement = std::move(policy);
  cache.latency_cycles = {.hit = 100, .miss = 220};
  return cache;
}

inline std::unique_ptr<model::Answerer> device_of(const model::CacheDescription& cache,
                                                  const model::NoiseDescription& noise = {.jitter_cycles = 2},
                                                  std::uint64_t seed = 1) {
  model::DeviceDescription description;
  description.device.name = "tested";
  description.caches["L1tex"] = cache;
  description.noise = noise;
  return probe::open_virtual(description, "virtual:tested", seed);
}

}  // namespace gpuinfer::infer
