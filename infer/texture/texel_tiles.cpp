// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/texture/texel_tiles.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>

#include "infer/asking/stream.hpp"
#include "model/random.hpp"
#include "model/texel_layout.hpp"

namespace gpuinfer::infer {

namespace {

using model::Raster;
using model::Texel;
using model::TileLevel;
using model::TileOrder;

// A texel at a power of two of one side, with nothing of the other.
struct Neighbour {
  Texel texel;
  std::uint64_t place_texels = 0;  // from texel (0, 0)

  [[nodiscard]] bool is_in_row() const { return texel.y == 0; }
};

std::vector<std::uint64_t> offsets_of(const Raster& raster, const std::vector<Texel>& texels) {
  std::vector<std::uint64_t> offsets(texels.size());
  std::ranges::transform(texels, offsets.begin(), [&raster](Texel texel) { return offset_of(raster, texel); });
  return offsets;
}

// Of address bits from the lowest to the highest, which of them come from x ('x') and which from y ('y').
std::string_view longest_morton(std::string_view bits) {
  std::size_t end = 0;
  while (end < bits.size() && bits[end] == (end % 2 == 0 ? 'x' : 'y')) {
    ++end;
  }
  // The longer side gives what remains.
  if (end > 1 && end < bits.size()) {
    end = std::min(bits.find_first_not_of(bits[end], end), bits.size());
  }
  return bits.substr(0, end);
}

std::string_view longest_linear(std::string_view bits) {
  const std::size_t first_y = std::min(bits.find('y'), bits.size());
  return bits.substr(0, std::min(bits.find('x', first_y), bits.size()));
}

TileLevel level_of(std::string_view bits, TileOrder order) {
  return {.width = std::uint64_t{1} << static_cast<unsigned>(std::ranges::count(bits, 'x')),
          .height = std::uint64_t{1} << static_cast<unsigned>(std::ranges::count(bits, 'y')),
          .order = order};
}

// Each level as large as can be, rows rather than Morton order where both do.
std::vector<TileLevel> levels_of(std::string_view bits) {
  std::vector<TileLevel> levels;
  while (!bits.empty()) {
    const std::string_view linear = longest_linear(bits);
    const std::string_view morton = longest_morton(bits);
    const bool in_rows = linear.size() >= morton.size();
    const std::string_view taken = in_rows ? linear : morton;
    levels.push_back(level_of(taken, in_rows ? TileOrder::linear : TileOrder::morton));
    bits.remove_prefix(taken.size());
  }
  return levels;
}

bool explains(const model::TextureDescription& texture, const std::vector<Texel>& texels,
              std::span<const std::uint64_t> places, std::uint64_t first_place) {
  const model::TexelLayout layout(texture);
  for (std::size_t i = 0; i < texels.size(); ++i) {
    if (first_place + layout.offset_of(texels[i]) != places[i]) {
      return false;
    }
  }
  return true;
}

}  // namespace

TexelTilesFit find_texel_tiles(Interrogator& device) {
  constexpr std::size_t random_texels = 20'000;
  const Raster& raster = *device.buffer().raster;
  std::vector<Texel> texels{{}};
  for (std::uint64_t x = 1; x < raster.width; x *= 2) {
    texels.push_back({.x = x, .y = 0});
  }
  for (std::uint64_t y = 1; y < raster.height; y *= 2) {
    texels.push_back({.x = 0, .y = y});
  }
  const std::size_t neighbours_end = texels.size();
  model::Random random = stream(device.settings(), "texels of tiles");
  while (texels.size() < neighbours_end + random_texels) {
    texels.push_back({.x = random.below(raster.width), .y = random.below(raster.height)});
  }
  const auto places = device.places_of(offsets_of(raster, texels));
  if (!places) {
    return {.levels = {},
            .reason =
                "how lines follow one another in memory shows in their sets only, which are not known here, and "
                "the device does not tell where texels lie"};
  }
  const std::uint64_t first_place = places->front();
  std::vector<Neighbour> neighbours;
  for (std::size_t i = 1; i < neighbours_end; ++i) {
    neighbours.push_back({.texel = texels[i], .place_texels = ((*places)[i] - first_place) / raster.texel_bytes});
  }
  std::ranges::sort(neighbours, {}, &Neighbour::place_texels);
  std::string bits;
  model::TextureDescription texture{.texel_bytes = raster.texel_bytes,
                                    .width = raster.width,
                                    .height = raster.height,
                                    .levels = std::vector<TileLevel>{}};
  for (std::size_t bit = 0;; ++bit) {
    if (explains(texture, texels, *places, first_place)) {
      return {.levels = texture.levels, .reason = {}, .tested = random_texels};
    }
    if (bit == neighbours.size() || neighbours[bit].place_texels != std::uint64_t{1} << bit) {
      return {.levels = {}, .reason = "no tiles whose sides are powers of two put the texels where they lie"};
    }
    bits += neighbours[bit].is_in_row() ? 'x' : 'y';
    texture.levels = levels_of(bits);
  }
}

bool lie_together(const model::TextureDescription& texture, const model::TexelBlock& block) {
  const model::TexelLayout layout(texture);
  const std::uint64_t block_bytes = block.width * block.height * texture.texel_bytes;
  std::set<std::uint64_t> taken;
  for (std::uint64_t top = 0; top + block.height <= std::min(texture.height, 16 * block.height); top += block.height) {
    for (std::uint64_t left = 0; left + block.width <= std::min(texture.width, 16 * block.width); left += block.width) {
      const std::uint64_t of_block = layout.offset_of({.x = left, .y = top}) / block_bytes;
      for (std::uint64_t i = 0; i < block.width * block.height; ++i) {
        const Texel texel{.x = left + i % block.width, .y = top + i / block.width};
        if (layout.offset_of(texel) / block_bytes != of_block) {
          return false;
        }
      }
      if (!taken.insert(of_block).second) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace gpuinfer::infer
