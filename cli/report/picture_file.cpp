// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/picture_file.hpp"

#include <algorithm>
#include <optional>

#include "cli/report/cache_drawing.hpp"
#include "cli/report/hierarchy_drawing.hpp"
#include "cli/supposed_cache.hpp"

namespace gpuinfer::cli::report {

namespace {

constexpr double gap = 28;

void add_below(Drawing& drawing, const Drawing& next) { drawing.add(next, 0, drawing.height() + gap); }

void add_cache(Drawing& drawing, const std::string& target, const model::DeviceDescription& profile) {
  const model::CacheDescription& cache = profile.caches.at(target);
  const auto evidence = profile.evidence.find(target);
  const SupposedCache likely = supposed(cache, evidence == profile.evidence.end() ? nullptr : &evidence->second);
  const model::CacheDescription& drawn = likely.cache;
  add_below(drawing, cache_drawing(target, drawn));
  constexpr std::size_t most_lines = 512;
  constexpr std::size_t most_sets = 64;
  if (const auto array = placed_array(drawn, most_lines)) {
    add_below(drawing, set_map(*array, *drawn.ways, std::min(drawn.ways->size(), most_sets)));
  }
  if (!likely.leaves.empty()) {
    drawing.text(0, drawing.height() + gap,
                 "drawn with the only alternative where the evidence says ambiguous: not proven", "small");
  }
}

}  // namespace

std::string picture_file(const model::DeviceDescription& profile, const std::vector<std::string>& targets) {
  Drawing drawing;
  drawing.text(0, 14, profile.device.name + " (" + profile.device.source + ")", "strong");
  add_below(drawing, hierarchy_drawing(profile));
  for (const std::string& target : targets) {
    if (profile.caches.contains(target)) {
      add_cache(drawing, target, profile);
    } else if (const auto texture = profile.textures.find(target); texture != profile.textures.end()) {
      if (const auto texels = texel_drawing(texture->second)) {
        add_below(drawing, *texels);
      }
    }
  }
  return drawing.file(profile.device.name);
}

}  // namespace gpuinfer::cli::report
