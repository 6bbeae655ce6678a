// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/answerer.hpp"
#include "model/device_description.hpp"
#include "model/random.hpp"
#include "model/texel_layout.hpp"
#include "probe/virtual/virtual_cache.hpp"

namespace gpuinfer::probe {

// A two-dimensional texture, read through a cache of its own.
class VirtualTexture {
 public:
  VirtualTexture(const model::TextureDescription& texture, const model::CacheDescription& cache,
                 const model::NoiseDescription& noise, model::Random seeds)
      : raster_{.texel_bytes = texture.texel_bytes, .width = texture.width, .height = texture.height}, layout_(texture),
        cache_name_(*texture.cache), cache_(cache, noise, seeds) {}

  [[nodiscard]] const std::string& cache_name() const { return cache_name_; }

  [[nodiscard]] model::BufferFacts buffer() const {
    return {.bytes = raster_.texel_bytes * raster_.width * raster_.height, .address = {}, .raster = raster_};
  }

  std::vector<float> answer(model::Question question) {
    for (model::AccessSequence* sequence : {&question.warm, &question.record}) {
      for (std::uint64_t& offset : *sequence) {
        offset = place_of(offset);
      }
    }
    return cache_.answer(question, {});
  }

  [[nodiscard]] std::vector<std::uint64_t> places_of(std::span<const std::uint64_t> offsets) const {
    std::vector<std::uint64_t> places(offsets.size());
    std::ranges::transform(offsets, places.begin(), [this](std::uint64_t offset) { return place_of(offset); });
    return places;
  }

 private:
  [[nodiscard]] std::uint64_t place_of(std::uint64_t offset) const {
    return layout_.offset_of(model::texel_at(raster_, offset)) + offset % raster_.texel_bytes;
  }

  model::Raster raster_;
  model::TexelLayout layout_;
  std::string cache_name_;
  VirtualCache cache_;
};

}  // namespace gpuinfer::probe
