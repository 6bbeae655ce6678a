// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_texture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cli/described.hpp"
#include "cli/naming_cache.hpp"
#include "cli/outcome_word.hpp"
#include "cli/sequence_option.hpp"
#include "model/cache_simulator.hpp"
#include "model/errors.hpp"
#include "model/texel_layout.hpp"

namespace gpuinfer::cli {

namespace {

model::AccessSequence offsets_of(const model::TexelLayout& layout, const std::vector<model::Texel>& texels,
                                 const std::string& sequence) {
  model::AccessSequence offsets(texels.size());
  try {
    std::transform(texels.begin(), texels.end(), offsets.begin(),
                   [&](model::Texel texel) { return layout.offset_of(texel); });
  } catch (const InputError& error) {
    throw InputError("--sequence " + sequence + ": " + error.what());
  }
  return offsets;
}

}  // namespace

void write_texture_rows(std::ostream& out, const model::DeviceDescription& device, const std::string& file,
                        const TextureRun& run) {
  const model::TextureDescription& texture = described(device.textures, run.texture, "--texture", file);
  if (const auto leaf = model::null_leaf(texture)) {
    throw InputError(
        fmt::format("{}: textures.{}.{} is null and a simulation needs it; give it a value", file, run.texture, *leaf));
  }
  const model::CacheDescription& cache = device.caches.at(*texture.cache);
  const model::TexelLayout layout(texture);
  const std::vector<model::Texel> texels = parse_texels(run.sequence, texture.width, texture.height);
  model::Question question{.target = *texture.cache,
                           .state = model::StartState::clean,
                           .warm = {},
                           .record = offsets_of(layout, texels, run.sequence)};
  if (run.warm) {
    question.warm = offsets_of(layout, parse_texels(*run.warm, texture.width, texture.height), *run.warm);
  }
  const std::vector<model::Outcome> outcomes = naming_cache(file, *texture.cache, [&] {
    return model::outcomes_of(*model::CacheSimulator::make(cache, run.seed), question, run.address);
  });
  std::string csv = "access,x,y,offset,set,outcome\n";
  for (std::size_t i = 0; i < texels.size(); ++i) {
    const std::uint64_t offset = question.record[i];
    fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{}\n", i, texels[i].x, texels[i].y, offset,
                   model::set_of(*cache.index, run.address + offset), word_for(outcomes[i]));
  }
  out << csv;
}

}  // namespace gpuinfer::cli
