// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "infer/asking/interrogator.hpp"
#include "model/device_description.hpp"

// Which texels of a two-dimensional texture lie together in the cache that it is read through. Needs a device whose
// buffer is a raster, and a start in which nothing is present.
namespace gpuinfer::infer {

struct TexelBlockFit {
  std::optional<model::TexelBlock> block;
  std::string reason;  // why there is none
};

// The texels that one miss brings: a texel that hits right after another one missed lies in its sector. That the
// sectors are equal rectangles, aligned to their size, is tested on texels that took no part in finding it.
[[nodiscard]] TexelBlockFit find_sector_texels(Interrogator& device);

// The sectors that take room together, whatever the sets and the policy: blocks of sectors at random places leave as
// many misses behind as the same number of single sectors when each block is one line, and more when it lies on two.
[[nodiscard]] TexelBlockFit find_line_texels(Interrogator& device, const model::TexelBlock& sector);

}  // namespace gpuinfer::infer
