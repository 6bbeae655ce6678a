// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/answerer.hpp"
#include "model/device_description.hpp"

// How a two-dimensional texture lies in memory, so that neighbours in both directions are close together: what Mei &
// Chu 2014 (section 4.3) call optimised for 2D spatial locality. Vendors publish no layout; a description states one.
namespace gpuinfer::model {

struct Texel {
  std::uint64_t x = 0;
  std::uint64_t y = 0;

  bool operator==(const Texel&) const = default;
};

// The offset of a question that names this texel, and back.
[[nodiscard]] constexpr std::uint64_t offset_of(const Raster& raster, Texel texel) {
  return raster.texel_bytes * (texel.x + raster.width * texel.y);
}
[[nodiscard]] constexpr Texel texel_at(const Raster& raster, std::uint64_t offset) {
  const std::uint64_t number = offset / raster.texel_bytes;
  return {.x = number % raster.width, .y = number / raster.width};
}

// Throws InputError "KEY: ..." (texel_bytes, width, height, levels) when a number is 0 or too large, or when a side of
// a tile in Morton order is no power of two.
void check(const TextureDescription& texture);

// The first leaf without which no access can be simulated: cache or levels.
[[nodiscard]] std::optional<std::string_view> null_leaf(const TextureDescription& texture);

// Texel -> byte. A tile of a level holds width x height tiles of the level below (of the lowest level: texels), either
// row by row or in Morton order: the lowest bit of the position is bit 0 of x, the next one bit 0 of y, then bit 1 of
// x, and so on; the longer side gives what remains. Tiles of the uppermost level lie row by row over the texture, those
// at its right and lower edge padded to full size. Without levels: texels row by row.
class TexelLayout {
 public:
  // Throws what check() throws, and InputError "levels: ..." when they are not known.
  explicit TexelLayout(const TextureDescription& texture);

  // In texels, the padding included.
  [[nodiscard]] std::uint64_t padded_width() const { return ((texture_.width - 1) / tile_.width + 1) * tile_.width; }
  [[nodiscard]] std::uint64_t padded_height() const {
    return ((texture_.height - 1) / tile_.height + 1) * tile_.height;
  }

  // From the start of the texture; below padded_width() x padded_height() x texel_bytes, another one for each texel of
  // the padded area. Throws InputError for a texel outside of it.
  [[nodiscard]] std::uint64_t offset_of(Texel texel) const;

 private:
  struct Size {  // in texels
    std::uint64_t width = 1;
    std::uint64_t height = 1;
  };

  struct Level {
    TileLevel tile;
    Size unit;  // of what the tile is made of
  };

  std::uint64_t texel_bytes_;
  Size texture_;
  std::vector<Level> levels_;
  Size tile_;  // of the uppermost level
};

}  // namespace gpuinfer::model
