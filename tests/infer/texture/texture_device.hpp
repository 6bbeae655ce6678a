// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/answerer.hpp"
#include "model/random.hpp"

// Textures that lie in a cache as any function says, by a simulator that shares nothing with the product's.
namespace gpuinfer::infer {

struct Cell {
  std::uint64_t x = 0;
  std::uint64_t y = 0;

  auto operator<=>(const Cell&) const = default;
};

// How a texture lies in lines and sectors: any function of the texel.
struct Layout {
  std::function<Cell(Cell texel)> sector_of;
  std::function<Cell(Cell texel)> line_of;
};

inline Layout rectangles(model::TexelBlock sector, model::TexelBlock line) {
  const auto cell_of = [](model::TexelBlock block) {
    return [block](Cell texel) { return Cell{.x = texel.x / block.width, .y = texel.y / block.height}; };
  };
  return {.sector_of = cell_of(sector), .line_of = cell_of(line)};
}

// A fully associative cache of so many lines; the least recently used one leaves, or any.
class TextureDevice final : public model::Answerer {
 public:
  TextureDevice(Layout layout, std::size_t lines, bool by_chance, std::uint64_t seed, std::uint64_t side)
      : layout_(std::move(layout)), lines_(lines), by_chance_(by_chance), side_(side), random_(seed) {
    facts_.name = "a texture";
    facts_.targets = {"Texture2D"};
    facts_.own_buffers["Texture2D"] = {.bytes = side_ * side_ * 4,
                                       .address = {},
                                       .raster = model::Raster{.texel_bytes = 4, .width = side_, .height = side_}};
  }

  const model::DeviceFacts& facts() const override { return facts_; }

  using PlaceOf = std::function<std::uint64_t(Cell texel)>;  // in texels
  void show_memory(PlaceOf place_of) { place_of_ = std::move(place_of); }

  std::optional<std::vector<std::uint64_t>> places_of(const std::string& /*target*/,
                                                      std::span<const std::uint64_t> offsets) override {
    constexpr std::uint64_t begin = 4096;
    if (!place_of_) {
      return std::nullopt;
    }
    std::vector<std::uint64_t> places;
    for (const std::uint64_t offset : offsets) {
      places.push_back(begin + 4 * place_of_({.x = offset / 4 % side_, .y = offset / 4 / side_}));
    }
    return places;
  }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      lines_present_.clear();
      order_.clear();
      for (const std::uint64_t offset : question.warm) {
        load(offset);
      }
      std::vector<float> cycles;
      for (const std::uint64_t offset : question.record) {
        const double middle = load(offset) ? 96 : 320;
        cycles.push_back(static_cast<float>(std::round(middle + 3 * random_.normal())));
      }
      answers.push_back({.latency_cycles = std::move(cycles), .refusal = std::nullopt});
    }
    return answers;
  }

 private:
  struct Line {
    std::list<Cell>::iterator place;
    std::set<Cell> sectors;
  };

  bool load(std::uint64_t offset) {
    const Cell texel{.x = offset / 4 % side_, .y = offset / 4 / side_};
    const Cell name = layout_.line_of(texel);
    auto line = lines_present_.find(name);
    if (line == lines_present_.end()) {
      if (order_.size() == lines_) {
        const auto victim = std::prev(order_.end(), by_chance_ ? 1 + static_cast<long>(random_.below(lines_)) : 1);
        lines_present_.erase(*victim);
        order_.erase(victim);
      }
      line = lines_present_.emplace(name, Line{.place = order_.insert(order_.begin(), name), .sectors = {}}).first;
    } else {
      order_.splice(order_.begin(), order_, line->second.place);
    }
    return !line->second.sectors.insert(layout_.sector_of(texel)).second;
  }

  model::DeviceFacts facts_;
  PlaceOf place_of_;
  Layout layout_;
  std::size_t lines_;
  bool by_chance_;
  std::uint64_t side_;
  model::Random random_;
  std::map<Cell, Line> lines_present_;
  std::list<Cell> order_;  // the latest first
};

}  // namespace gpuinfer::infer
