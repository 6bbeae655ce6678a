// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/gpu/texel_places.hpp"

#include <algorithm>
#include <iterator>

namespace gpuinfer::probe::gpu {

std::vector<std::uint32_t> places_of_numbers(std::span<const std::uint32_t> memory, std::uint32_t count) {
  std::vector<std::uint32_t> places(count);
  std::vector<bool> is_found(count);
  std::uint32_t found = 0;
  for (std::uint32_t place = 0; place < memory.size(); ++place) {
    const std::uint32_t number = memory[place];
    if (number == 0 || number > count) {
      continue;
    }
    if (is_found[number - 1]) {
      return {};
    }
    is_found[number - 1] = true;
    places[number - 1] = place;
    ++found;
  }
  return found == count ? places : std::vector<std::uint32_t>{};
}

std::optional<std::vector<std::uint64_t>> places_of_offsets(const std::vector<std::uint32_t>& places,
                                                            std::span<const std::uint64_t> offsets) {
  constexpr std::uint64_t word_bytes = sizeof(std::uint32_t);
  if (places.empty()) {
    return std::nullopt;
  }
  std::vector<std::uint64_t> in_bytes;
  in_bytes.reserve(offsets.size());
  std::ranges::transform(offsets, std::back_inserter(in_bytes), [&places](std::uint64_t offset) {
    return places.at(offset / word_bytes) * word_bytes + offset % word_bytes;
  });
  return in_bytes;
}

}  // namespace gpuinfer::probe::gpu
