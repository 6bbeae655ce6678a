// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/vulkan/texel_places.hpp"

namespace gpuinfer::probe::vulkan {

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

}  // namespace gpuinfer::probe::vulkan
