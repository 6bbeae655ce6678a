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
using codec::Texels;

using WideCount = codec::Whole<std::uint64_t>;

constexpr std::uint64_t max_texel_bytes = 64;
constexpr std::uint64_t max_side_texels = std::uint64_t{1} << 24U;

Map<TileLevel> tile_level() {
  return {
      .leaves =
          {
              leaf("width", &TileLevel::width, WideCount{.least = 1, .most = max_side_texels},
                   "in tiles of the level below; of the innermost level, in texels")
                  .needed(),
              leaf("height", &TileLevel::height, WideCount{.least = 1, .most = max_side_texels}, "the same").needed(),
              leaf("order", &TileLevel::order,
                   codec::Words<TileOrder>{.words = {{"linear", TileOrder::linear}, {"morton", TileOrder::morton}}},
                   "row by row, or in Morton order, which takes sides that are powers of two"),
          },
      .words = [](const TileLevel& level) {
        return words::together({to_text(level.width), " x ", to_text(level.height),
                                level.order == TileOrder::linear ? " row by row" : " in Morton order"});
      }};
}

}  // namespace

const Leaves<TextureDescription>& texture_leaves() {
  using Texture = TextureDescription;
  static const Leaves<Texture> leaves{
      leaf("texel_bytes", &Texture::texel_bytes, Bytes{.least = 1, .most = max_texel_bytes},
           "of the texture that was asked")
          .needed()
          .given(),
      leaf("width", &Texture::width, Texels{.least = 1, .most = max_side_texels}, "of that texture").needed().given(),
      leaf("height", &Texture::height, Texels{.least = 1, .most = max_side_texels}, "of that texture").needed().given(),
      leaf("sector_texels", &Texture::sector_texels, codec::texel_block(),
           "the aligned block of texels that one miss brings"),
      leaf("line_texels", &Texture::line_texels, codec::texel_block(), "the aligned block of texels that has one tag"),
      leaf("levels", &Texture::levels, codec::List<Map<TileLevel>>{.item = tile_level()},
           "tiles in which texels follow one another in memory, from the inside out; the largest lie row by row")
          .in_words([](const Texture& texture) -> std::optional<std::string> {
            if (!texture.levels) {
              return std::nullopt;
            }
            std::string text;
            for (const TileLevel& level : *texture.levels) {
              text += tile_level().text(level) + ", then ";
            }
            return text + "row by row";
          }),
      leaf("cache", &Texture::cache, codec::Text{}, "of virtual devices: the cache through which the texture is read")
          .given(),
      leaf("latency_cycles", &Texture::latency_cycles, codec::latency_cycles(),
           "medians as timed; a miss is a hit in the next level")
          .in_words([](const Texture& texture) -> std::optional<std::string> {
            return texture.latency_cycles == LatencyCycles{}
                       ? std::nullopt
                       : std::optional(codec::latency_cycles().text(texture.latency_cycles));
          }),
  };
  return leaves;
}

void check(const Place& place, const TextureDescription& texture, const DeviceDescription& description) {
  if (texture.cache && !description.caches.contains(*texture.cache)) {
    place.need("cache").fail("`" + *texture.cache +
                             "` is not a cache of this description; describe it under `caches` or name another");
  }
  try {
    check(texture);
  } catch (const LeafError& error) {
    codec::fail_in(place, error);
  }
}

const Leaves<CodeDescription>& code_leaves() {
  static const Leaves<CodeDescription> leaves{
      leaf("piece_bytes", &CodeDescription::piece_bytes, Bytes{.least = 1, .most = max_bytes},
           "what is timed at a time: independent multiplications, or one by a constant so far behind the last one")
          .needed()
          .given(),
      leaf("levels", &CodeDescription::levels, codec::code_levels(),
           "what a piece takes, the fastest level first, by the length of the code; half of the pieces at least")
          .in_words([](const CodeDescription& code) -> std::optional<std::string> {
            if (!code.levels) {
              return std::nullopt;
            }
            std::vector<std::string> texts;
            for (const CodeLevel& level : *code.levels) {
              const std::string bytes = level.fits_bytes ? words::bytes(*level.fits_bytes) : "";
              texts.push_back(words::together({level.fits_bytes ? "up to " : "any length", bytes, ": ",
                                               to_text(level.cycles), " cycles for ", words::bytes(code.piece_bytes)}));
            }
            return words::joined(texts, "; ");
          }),
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
