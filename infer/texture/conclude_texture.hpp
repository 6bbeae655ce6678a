// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "infer/asking/leaves.hpp"
#include "infer/texture/texel_blocks.hpp"
#include "infer/texture/texel_tiles.hpp"
#include "model/device_description.hpp"

// Decides what is said of where texels lie from what was found of it. Asks nothing.
namespace gpuinfer::infer {

// Of the texels of a sector or of a line.
[[nodiscard]] LeafVerdict conclude_texel_block(const TexelBlockFit& fit);

// Of the levels of tiles. `texture`: with the sectors and lines that loads showed, which was another way to ask the
// same memory.
[[nodiscard]] LeafVerdict conclude_texel_levels(const model::TextureDescription& texture, const TexelTilesFit& fit);

}  // namespace gpuinfer::infer
