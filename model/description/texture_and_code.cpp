// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/description/checks.hpp"
#include "model/description/sections.hpp"
#include "model/description/values.hpp"
#include "model/errors.hpp"
#include "model/texel_layout.hpp"

namespace gpuinfer::model {

namespace {

using codec::Bytes;
using codec::Map;
using codec::max_bytes;

Map<TileLevel> tile_level() {
  return {.leaves = {
              leaf("width", &TileLevel::width, Bytes{.least = 1, .most = max_bytes}).needed(),
              leaf("height", &TileLevel::height, Bytes{.least = 1, .most = max_bytes}).needed(),
              leaf("order", &TileLevel::order,
                   codec::Words<TileOrder>{.words = {{"linear", TileOrder::linear}, {"morton", TileOrder::morton}}}),
          }};
}

}  // namespace

const Leaves<TextureDescription>& texture_leaves() {
  using Texture = TextureDescription;
  static const Leaves<Texture> leaves{
      leaf("texel_bytes", &Texture::texel_bytes, Bytes{.least = 1, .most = max_bytes}, "of the texture that was asked")
          .needed()
          .given(),
      leaf("width", &Texture::width, Bytes{.least = 1, .most = max_bytes}, "in texels").needed().given(),
      leaf("height", &Texture::height, Bytes{.least = 1, .most = max_bytes}, "in texels").needed().given(),
      leaf("sector_texels", &Texture::sector_texels, codec::texel_block(), "the block of texels that a miss brings"),
      leaf("line_texels", &Texture::line_texels, codec::texel_block(), "the block of texels that has one tag"),
      leaf("levels", &Texture::levels, codec::List<Map<TileLevel>>{.item = tile_level()},
           "how texels follow one another in memory, from the inside out"),
      leaf("cache", &Texture::cache, codec::Text{}, "through which the texture is read").given(),
      leaf("latency_cycles", &Texture::latency_cycles, codec::latency_cycles(), "medians as timed"),
  };
  return leaves;
}

void check(const Place& place, const TextureDescription& texture, const DeviceDescription& description) {
  if (texture.cache && !description.caches.contains(*texture.cache)) {
    place.need("cache").fail("`" + *texture.cache +
                             "` is no cache of this description; describe it under `caches` or name another");
  }
  try {
    check(texture);
  } catch (const InputError& error) {
    codec::fail_in(place, error.what());
  }
}

const Leaves<CodeDescription>& code_leaves() {
  static const Leaves<CodeDescription> leaves{
      leaf("piece_bytes", &CodeDescription::piece_bytes, Bytes{.least = 1, .most = max_bytes},
           "what is timed at a time")
          .needed()
          .given(),
      leaf("levels", &CodeDescription::levels, codec::code_levels(), "what a piece takes, the fastest level first"),
  };
  return leaves;
}

// One level at least, in ascending order, of which the last alone fits any length.
void check(const Place& place, const CodeDescription& code) {
  if (!code.levels) {
    return;
  }
  const std::vector<Place> items = place.need("levels").items();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool is_last = i + 1 == items.size();
    const auto& fits_bytes = (*code.levels)[i].fits_bytes;
    if (fits_bytes.has_value() == is_last) {
      items[i].fail("all levels but the last have `fits_bytes`, in ascending order; give it");
    }
    if (i > 0 && !is_last && fits_bytes <= (*code.levels)[i - 1].fits_bytes) {
      items[i].fail("fits no more than the level before it; put levels in ascending order of `fits_bytes`");
    }
  }
  if (items.empty()) {
    place.need("levels").fail("is empty; give one level at least, or null");
  }
}

}  // namespace gpuinfer::model
