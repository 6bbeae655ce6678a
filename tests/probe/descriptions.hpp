// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "model/device_description.hpp"

namespace gpuinfer::probe {

inline model::CacheDescription small_cache() {
  model::CacheDescription cache;
  cache.capacity_bytes = 1024;
  cache.line_bytes = 32;
  cache.sector_bytes = 32;
  cache.ways = {8, 8, 8, 8};
  cache.index = model::BitsIndex{.bits = {5, 6}};
  cache.replacement = model::Replacement{.policy = "lru", .parameters = {}, .equivalent = {}};
  cache.latency_cycles = {.hit = 100, .miss = 200};
  return cache;
}

inline model::DeviceDescription small_device() {
  model::DeviceDescription device;
  device.device.name = "Small";
  device.device.compute_capability = "3.5";
  device.device.sm_count = 2;
  device.caches["L1tex"] = small_cache();
  return device;
}

}  // namespace gpuinfer::probe
