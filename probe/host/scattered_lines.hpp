// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpuinfer::probe::host {

// Where the lines of a buffer lie, so that walks along it are none along pages: what has one place in its page changes
// pages with others of that place. Neighbours in a page are at least 13 pages apart.
// Bits of the offset inside the page stay, and no two offsets go to one place.
struct ScatteredLines {
  static constexpr std::uint32_t line_bytes = 64;
  static constexpr std::uint32_t page_bytes = 4096;
  static constexpr std::uint32_t pages = 32;

  // offset < pages * page_bytes
  [[nodiscard]] static constexpr std::uint32_t place_of(std::uint64_t offset) {
    constexpr std::uint64_t pages_per_line = 13;
    const std::uint64_t in_page = offset % page_bytes;
    const std::uint64_t page = (offset / page_bytes + pages_per_line * (in_page / line_bytes)) % pages;
    return static_cast<std::uint32_t>(page * page_bytes + in_page);
  }
};

}  // namespace gpuinfer::probe::host
