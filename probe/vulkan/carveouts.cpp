// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/vulkan/carveouts.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace gpuinfer::probe::vulkan {
namespace {

constexpr std::uint64_t kb_bytes = 1024;

std::uint64_t kb_of(std::uint64_t bytes) { return (bytes + kb_bytes / 2) / kb_bytes; }

// Where `of_unit` workgroups of each shape find room. None: less is missing than they take.
std::optional<std::map<std::uint32_t, Shape>> carveouts_beside(std::span<const Fit> fits, std::uint32_t of_unit) {
  const auto set_aside_bytes = [of_unit](const Fit& fit) { return of_unit * fit.shape.shared_bytes(); };
  const std::uint64_t largest_bytes = std::ranges::max_element(fits, {}, &Fit::bytes)->bytes;
  std::uint64_t beside_largest_kb = 0;
  for (const Fit& fit : fits) {
    if (kb_of(largest_bytes - fit.bytes) == 0) {
      beside_largest_kb = std::max(beside_largest_kb, set_aside_bytes(fit) / kb_bytes);
    }
  }
  std::map<std::uint32_t, Shape> carveouts;
  for (const Fit& fit : fits) {
    const std::uint64_t kb = beside_largest_kb + kb_of(largest_bytes - fit.bytes);
    if (kb * kb_bytes < set_aside_bytes(fit)) {
      return std::nullopt;
    }
    Shape& shape = carveouts.try_emplace(static_cast<std::uint32_t>(kb), fit.shape).first->second;
    if (fit.shape.chunk_accesses > shape.chunk_accesses) {
      shape = fit.shape;
    }
  }
  return carveouts;
}

}  // namespace

std::map<std::uint32_t, Shape> carveouts_of(std::span<const Fit> fits, std::uint32_t most_of_unit) {
  if (fits.empty()) {
    return {};
  }
  for (std::uint32_t of_unit = most_of_unit; of_unit > 0; --of_unit) {
    if (auto carveouts = carveouts_beside(fits, of_unit)) {
      return carveouts->size() > 1 ? std::move(*carveouts) : std::map<std::uint32_t, Shape>{};
    }
  }
  return {};
}

}  // namespace gpuinfer::probe::vulkan
