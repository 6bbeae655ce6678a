// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "model/device_description.hpp"

// How the texels of a two-dimensional texture follow one another in memory. Needs a device whose buffer is a raster.
namespace gpuinfer::infer {

struct TexelTilesFit {
  // As in model::TextureDescription; none: the device does not tell where texels lie, or no such tiles explain it.
  std::optional<std::vector<model::TileLevel>> levels;
  std::string reason;      // why there are none
  std::size_t tested = 0;  // texels that took no part in finding them
};

// Neighbours at powers of two give the tiles whose sides are such powers, as few levels of them as possible; texels at
// random places, which took no part in that, must lie where these tiles put them, all of them.
[[nodiscard]] TexelTilesFit find_texel_tiles(Interrogator& device);

// Whether the texels of each aligned block of this size lie in an aligned block of memory of its own.
[[nodiscard]] bool lie_together(const model::TextureDescription& texture, const model::TexelBlock& block);

}  // namespace gpuinfer::infer
