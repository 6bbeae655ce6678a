// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/vulkan/carveouts.hpp"

#include <algorithm>

namespace gpuinfer::probe::vulkan {
namespace {

constexpr std::uint64_t kb_bytes = 1024;

std::uint64_t kb_of(std::uint64_t bytes) { return (bytes + kb_bytes / 2) / kb_bytes; }

}  // namespace

std::map<std::uint32_t, Shape> carveouts_of(std::span<const Fit> fits) {
  std::map<std::uint32_t, Shape> carveouts;
  if (fits.empty()) {
    return carveouts;
  }
  const std::uint64_t largest_bytes = std::ranges::max_element(fits, {}, &Fit::bytes)->bytes;
  std::uint64_t beside_largest_kb = 0;
  for (const Fit& fit : fits) {
    if (kb_of(largest_bytes - fit.bytes) == 0) {
      beside_largest_kb = std::max(beside_largest_kb, fit.shape.set_aside_bytes() / kb_bytes);
    }
  }
  for (const Fit& fit : fits) {
    const std::uint64_t kb = beside_largest_kb + kb_of(largest_bytes - fit.bytes);
    if (kb * kb_bytes < fit.shape.set_aside_bytes()) {
      return {};
    }
    Shape& shape = carveouts.try_emplace(static_cast<std::uint32_t>(kb), fit.shape).first->second;
    if (fit.shape.chunk_accesses > shape.chunk_accesses) {
      shape = fit.shape;
    }
  }
  return carveouts.size() > 1 ? carveouts : std::map<std::uint32_t, Shape>{};
}

}  // namespace gpuinfer::probe::vulkan
