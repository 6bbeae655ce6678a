// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "model/device_description.hpp"

namespace gpuinfer::cli {

// What simulate --texture plays: `sequence` after `warm`, each one of texel_forms().
struct TextureRun {
  std::string texture;
  std::string sequence;
  std::optional<std::string> warm;
  model::Address address = {};  // of the first texel
  std::uint64_t seed = 0;
};

// Rows `access,x,y,offset,set,outcome` of the accesses of the sequence. Throws InputError that names `file`.
void write_texture_rows(std::ostream& out, const model::DeviceDescription& device, const std::string& file,
                        const TextureRun& run);

}  // namespace gpuinfer::cli
