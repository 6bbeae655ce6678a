// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/texel_layout.hpp"

#include <bit>
#include <string>

#include "model/errors.hpp"

namespace gpuinfer::model {

namespace {

// Far above any texture, and so low that no product of them overflows.
constexpr std::uint64_t max_side = std::uint64_t{1} << 24U;
constexpr std::uint64_t max_texel_bytes = 64;

void check_range(const char* key, std::uint64_t number, std::uint64_t most) {
  if (number == 0 || number > most) {
    throw LeafError(std::string(key), "is " + std::to_string(number) + ", not a whole number from 1 to " +
                                          std::to_string(most) + "; correct it");
  }
}

std::uint64_t linear_position(const TileLevel& tile, std::uint64_t x, std::uint64_t y) { return y * tile.width + x; }

std::uint64_t morton_position(const TileLevel& tile, std::uint64_t x, std::uint64_t y) {
  std::uint64_t position = 0;
  unsigned shift = 0;
  const auto append = [&](bool bit) { position |= (bit ? std::uint64_t{1} : 0) << shift++; };
  for (std::uint64_t bit = 1; bit < tile.width || bit < tile.height; bit <<= 1U) {
    if (bit < tile.width) {
      append((x & bit) != 0);
    }
    if (bit < tile.height) {
      append((y & bit) != 0);
    }
  }
  return position;
}

}  // namespace

void check(const TextureDescription& texture) {
  check_range("texel_bytes", texture.texel_bytes, max_texel_bytes);
  check_range("width", texture.width, max_side);
  check_range("height", texture.height, max_side);
  std::uint64_t tile_width = 1;
  std::uint64_t tile_height = 1;
  if (!texture.levels) {
    return;
  }
  for (const TileLevel& level : *texture.levels) {
    check_range("levels", level.width, max_side);
    check_range("levels", level.height, max_side);
    if (level.order == TileOrder::morton && !(std::has_single_bit(level.width) && std::has_single_bit(level.height))) {
      throw LeafError("levels", "a tile of " + std::to_string(level.width) + " x " + std::to_string(level.height) +
                                    " has no Morton order, which needs powers of two; write them, or order linear");
    }
    tile_width *= level.width;
    tile_height *= level.height;
    if (tile_width > max_side || tile_height > max_side) {
      throw LeafError("levels", "make tiles of more than " + std::to_string(max_side) + " texels a side; remove some");
    }
  }
}

std::optional<std::string_view> null_leaf(const TextureDescription& texture) {
  if (!texture.cache) {
    return "cache";
  }
  if (!texture.levels) {
    return "levels";
  }
  return std::nullopt;
}

TexelLayout::TexelLayout(const TextureDescription& texture)
    : texel_bytes_(texture.texel_bytes), texture_{.width = texture.width, .height = texture.height} {
  check(texture);
  if (!texture.levels) {
    throw LeafError("levels", "are null and a layout needs them; write [] for texels row by row");
  }
  for (const TileLevel& tile : *texture.levels) {
    levels_.push_back({.tile = tile, .unit = tile_});
    tile_ = {.width = tile_.width * tile.width, .height = tile_.height * tile.height};
  }
}

std::uint64_t TexelLayout::offset_of(Texel texel) const {
  if (texel.x >= padded_width() || texel.y >= padded_height()) {
    throw InputError("texel (" + std::to_string(texel.x) + ", " + std::to_string(texel.y) +
                     ") lies outside the texture, which ends before (" + std::to_string(padded_width()) + ", " +
                     std::to_string(padded_height()) + "); ask for one inside");
  }
  const std::uint64_t tiles_in_a_row = padded_width() / tile_.width;
  std::uint64_t texels = (texel.y / tile_.height * tiles_in_a_row + texel.x / tile_.width) * tile_.width * tile_.height;
  for (const auto& [tile, unit] : levels_) {
    const std::uint64_t x = texel.x / unit.width % tile.width;
    const std::uint64_t y = texel.y / unit.height % tile.height;
    const std::uint64_t position =
        tile.order == TileOrder::linear ? linear_position(tile, x, y) : morton_position(tile, x, y);
    texels += position * unit.width * unit.height;
  }
  return texels * texel_bytes_;
}

}  // namespace gpuinfer::model
