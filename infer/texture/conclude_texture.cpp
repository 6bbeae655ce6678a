// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/texture/conclude_texture.hpp"

#include <string>
#include <utility>

namespace gpuinfer::infer {

using model::EvidenceStatus;

LeafVerdict conclude_texel_block(const TexelBlockFit& fit) {
  return fit.block ? LeafVerdict::resolved() : LeafVerdict{.status = EvidenceStatus::unknown, .reason = fit.reason};
}

LeafVerdict conclude_texel_levels(const model::TextureDescription& texture, const TexelTilesFit& fit) {
  if (!fit.levels) {
    return {.status = EvidenceStatus::unknown, .reason = fit.reason};
  }
  model::TextureDescription laid_out = texture;
  laid_out.levels = fit.levels;
  for (const auto& [name, block] :
       {std::pair("sectors", texture.sector_texels), std::pair("lines", texture.line_texels)}) {
    if (block && !lie_together(laid_out, *block)) {
      return {.status = EvidenceStatus::ambiguous,
              .reason = std::string("loads show ") + name + " of " + model::to_string(*block) +
                        " texels, which would not lie together where memory shows them"};
    }
  }
  if (!texture.sector_texels) {
    return {.status = EvidenceStatus::ambiguous,
            .reason = "memory shows them, but no sector that loads show speaks for its being what is loaded"};
  }
  return LeafVerdict::resolved();
}

}  // namespace gpuinfer::infer
