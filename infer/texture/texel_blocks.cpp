// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/texture/texel_blocks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "model/random.hpp"
#include "model/texel_layout.hpp"

namespace gpuinfer::infer {

namespace {

using model::Raster;
using model::Texel;
using model::TexelBlock;

struct RowByRow {
  bool operator()(Texel a, Texel b) const { return std::pair(a.y, a.x) < std::pair(b.y, b.x); }
};
using Texels = std::set<Texel, RowByRow>;

// The first texel of the block that this one lies in.
Texel begin_of_block(Texel texel, const TexelBlock& block) {
  return {.x = texel.x - texel.x % block.width, .y = texel.y - texel.y % block.height};
}

// No sector reaches further from any of its texels.
constexpr std::uint64_t furthest_texels = 32;

// The texels that are present after this one was loaded.
Texels brought_with(Interrogator& device, Texel loaded) {
  const Raster& raster = *device.buffer().raster;
  std::vector<Texel> others;
  std::vector<model::Question> questions;
  for (std::uint64_t y = loaded.y - furthest_texels; y <= loaded.y + furthest_texels; ++y) {
    for (std::uint64_t x = loaded.x - furthest_texels; x <= loaded.x + furthest_texels; ++x) {
      others.push_back({.x = x, .y = y});
      questions.push_back(device.question({offset_of(raster, loaded)}, {offset_of(raster, others.back())}));
    }
  }
  const std::vector<std::vector<Reading>> readings = device.ask_voted(questions, device.votes_needed());
  Texels present;
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (readings[i].front() == Reading::hit) {
      present.insert(others[i]);
    }
  }
  return present;
}

// The aligned block of this size around a texel.
Texels block_around(Texel texel, const TexelBlock& block) {
  const Texel begin = begin_of_block(texel, block);
  Texels texels;
  for (std::uint64_t y = begin.y; y < begin.y + block.height; ++y) {
    for (std::uint64_t x = begin.x; x < begin.x + block.width; ++x) {
      texels.insert({.x = x, .y = y});
    }
  }
  return texels;
}

TexelBlock bounds_of(const Texels& texels) {
  const auto [left, right] =
      std::minmax_element(texels.begin(), texels.end(), [](Texel a, Texel b) { return a.x < b.x; });
  return {.width = right->x - left->x + 1, .height = texels.rbegin()->y - texels.begin()->y + 1};
}

// In sectors.
using Position = Texel;

// Sectors that are loaded together, wherever a multiple of `steps` puts them.
struct SectorBlock {
  std::vector<Position> sectors;
  Position steps{.x = 1, .y = 1};
  Position margin;  // how many places are too near to the far edges
};

SectorBlock aligned_block(std::uint64_t width, std::uint64_t height) {
  SectorBlock block{.sectors = {}, .steps = {.x = width, .y = height}, .margin = {}};
  for (std::uint64_t y = 0; y < height; ++y) {
    for (std::uint64_t x = 0; x < width; ++x) {
      block.sectors.push_back({.x = x, .y = y});
    }
  }
  return block;
}

SectorBlock single_sector() { return aligned_block(1, 1); }

// A sector and another one so far to the right, or to the left, and below, anywhere.
SectorBlock pair_apart(std::uint64_t across, std::uint64_t down, bool to_the_left) {
  const std::uint64_t left = to_the_left ? across : 0;
  return {.sectors = {{.x = left, .y = 0}, {.x = across - left, .y = down}},
          .steps = {.x = 1, .y = 1},
          .margin = {.x = across, .y = down}};
}

// A mean and its standard error.
struct MissShare {
  double mean = 0;
  double error = 0;
};

// By how many standard errors the second is larger.
double errors_between(const MissShare& low, const MissShare& high) {
  return (high.mean - low.mean) / std::hypot(low.error, high.error);
}

constexpr std::size_t few_walks = 4;
constexpr std::size_t most_walks = 64;
constexpr double certain_errors = 4;

// How much room lines take, in misses.
class Room {
 public:
  Room(Interrogator& device, const TexelBlock& sector)
      : device_(&device), raster_(*device.buffer().raster), sector_(sector),
        random_(stream(device.settings(), "places of blocks")) {}

  // Of so many blocks at random places, loaded one after another, the share whose first sector is not there any more
  // when they are loaded again in another order.
  MissShare missing(std::size_t blocks, std::size_t walks, const SectorBlock& block) {
    std::vector<model::Question> questions;
    for (std::size_t walk = 0; walk < walks; ++walk) {
      std::vector<std::uint64_t> places = random_places(blocks, block);
      AccessSequence warm = loads_of(places, block);
      random_.shuffle(places);
      questions.push_back(device_->question(std::move(warm), loads_of(places, block)));
    }
    std::vector<double> shares;
    for (const std::vector<float>& cycles : device_->latencies(questions)) {
      const std::vector<Reading> readings = device_->classifier().readings(cycles);
      std::size_t misses = 0;
      for (std::size_t first = 0; first < readings.size(); first += block.sectors.size()) {
        misses += readings[first] == Reading::miss ? 1U : 0U;
      }
      shares.push_back(static_cast<double>(misses) / static_cast<double>(blocks));
    }
    const auto count = static_cast<double>(walks);
    const Spread of_walks = spread_of(shares);
    const double least = 1 / (count * static_cast<double>(blocks));  // where no two walks differ
    return {.mean = of_walks.mean, .error = std::max(least, of_walks.deviation / std::sqrt(count - 1))};
  }

  // Single sectors of which one in five is missing, so that it shows when there is more to hold. None if the texture is
  // too small for it.
  std::optional<std::size_t> just_too_many() {
    constexpr double noticeable = 0.2;
    const std::size_t most =
        static_cast<std::size_t>(raster_.width / sector_.width * (raster_.height / sector_.height)) / 4;
    std::size_t fitting = 0;
    std::size_t too_many = 16;
    while (missing(too_many, few_walks, single_sector()).mean < noticeable) {
      fitting = std::exchange(too_many, 2 * too_many);
      if (too_many > most) {
        return std::nullopt;
      }
    }
    while (too_many - fitting > too_many / 64 + 1) {
      const std::size_t middle = std::midpoint(fitting, too_many);
      (missing(middle, few_walks, single_sector()).mean < noticeable ? fitting : too_many) = middle;
    }
    return too_many;
  }

 private:
  // Columns and rows of blocks in the texture.
  [[nodiscard]] Position extent(const SectorBlock& block) const {
    return {.x = raster_.width / sector_.width / block.steps.x - block.margin.x,
            .y = raster_.height / sector_.height / block.steps.y - block.margin.y};
  }

  std::vector<std::uint64_t> random_places(std::size_t blocks, const SectorBlock& block) {
    const Position many = extent(block);
    std::set<std::uint64_t> taken;
    std::vector<std::uint64_t> places;
    while (places.size() < blocks) {
      const std::uint64_t place = random_.below(many.x * many.y);
      if (taken.insert(place).second) {
        places.push_back(place);
      }
    }
    return places;
  }

  [[nodiscard]] AccessSequence loads_of(const std::vector<std::uint64_t>& places, const SectorBlock& block) const {
    const std::uint64_t columns = extent(block).x;
    AccessSequence loads;
    for (const std::uint64_t place : places) {
      for (const Position& sector : block.sectors) {
        loads.push_back(offset_of(raster_, {.x = (place % columns * block.steps.x + sector.x) * sector_.width,
                                            .y = (place / columns * block.steps.y + sector.y) * sector_.height}));
      }
    }
    return loads;
  }

  Interrogator* device_;
  Raster raster_;
  TexelBlock sector_;
  model::Random random_;
};

// Of blocks that are aligned to another size than the line, one in so many lies on two lines at the least: those of two
// sectors where a line has seven.
constexpr std::size_t least_straddling = 8;

// Pairs of sectors that are further apart are not looked at.
constexpr std::uint64_t furthest_sectors = 4;

// Which sides blocks of one line can have in one direction; a line of the longest is not told from longer ones.
constexpr std::array<std::uint64_t, 9> sides{1, 2, 3, 4, 5, 6, 7, 8, 16};

// The longest side; none if the sides are not just its divisors.
std::optional<std::uint64_t> longest_side(const std::vector<std::uint64_t>& of_one_line) {
  const std::uint64_t longest = of_one_line.back();
  const auto divides = [longest](std::uint64_t side) { return longest % side == 0; };
  const auto divisors = std::count_if(sides.begin(), sides.end(), divides);
  const bool only_those = std::all_of(of_one_line.begin(), of_one_line.end(), divides) &&
                          divisors == std::ssize(of_one_line) && longest < sides.back();
  return only_those ? std::optional(longest) : std::nullopt;
}

}  // namespace

TexelBlockFit find_sector_texels(Interrogator& device) {
  constexpr int fresh_texels = 12;
  const Raster& raster = *device.buffer().raster;
  if (raster.width <= 2 * furthest_texels || raster.height <= 2 * furthest_texels) {
    return {.block = {}, .reason = "the texture is too small"};
  }
  model::Random random = stream(device.settings(), "texels of a sector");
  const auto any_texel = [&] {
    return Texel{.x = furthest_texels + random.below(raster.width - 2 * furthest_texels),
                 .y = furthest_texels + random.below(raster.height - 2 * furthest_texels)};
  };
  const Texel first = any_texel();
  const Texels brought = brought_with(device, first);
  if (!brought.contains(first)) {
    return {.block = {}, .reason = "a texel that was just loaded does not hit"};
  }
  const TexelBlock block = bounds_of(brought);
  if (std::max(block.width, block.height) > furthest_texels) {
    return {.block = {}, .reason = "what a miss brings is longer than " + std::to_string(furthest_texels) + " texels"};
  }
  if (brought != block_around(first, block)) {
    return {.block = {}, .reason = "the texels that a miss brings are no aligned rectangle"};
  }
  for (int fresh = 0; fresh < fresh_texels; ++fresh) {
    const Texel texel = any_texel();
    if (brought_with(device, texel) != block_around(texel, block)) {
      return {.block = {},
              .reason = "a miss at texel (" + std::to_string(texel.x) + ", " + std::to_string(texel.y) +
                        ") brings others than the block of " + model::to_string(block) + " texels around it"};
    }
  }
  return {.block = block, .reason = {}};
}

namespace {

// Which sectors take room together, so that fewer go when they are loaded, than as many sectors alone.
class LineShape {
 public:
  // `blocks`: so many sectors alone are just too many. Throws Undecided.
  LineShape(Room& room, std::size_t blocks) : room_(&room), blocks_(blocks) {
    alone_ = room.missing(blocks, most_walks, single_sector());
    with_more_ = room.missing(blocks + blocks / least_straddling, most_walks, single_sector());
    with_less_ = room.missing(blocks - blocks / 4, most_walks, single_sector());
  }

  // Why nothing can be seen; empty: it can.
  [[nodiscard]] std::string why_blind() const {
    return errors_between(alone_, with_more_) >= 2 * certain_errors
               ? ""
               : "an eighth more sectors do not leave clearly more misses: " + std::to_string(with_more_.mean) +
                     " after " + std::to_string(alone_.mean);
  }

  bool is_one_line(std::uint64_t width, std::uint64_t height) {
    for (std::size_t walks = few_walks; walks <= most_walks; walks *= 2) {
      const MissShare share = missing(blocks_, walks, aligned_block(width, height));
      const bool is_more = errors_between(alone_, share) > certain_errors;
      const bool is_less = errors_between(share, with_more_) > certain_errors;
      if (is_more != is_less) {
        return is_less;
      }
    }
    throw Undecided("blocks of " + std::to_string(width) + " x " + std::to_string(height) +
                    " sectors take neither the room of one line nor clearly more");
  }

  // Lines of another shape than an aligned rectangle of that size: where half of the pairs of sectors so far apart lie
  // on one line, three quarters of the room are taken. Empty: there are none.
  std::string other_shape(std::uint64_t width, std::uint64_t height) {
    for (std::uint64_t down = 0; down <= furthest_sectors; ++down) {
      for (std::uint64_t across = 0; across <= furthest_sectors; ++across) {
        for (const bool to_the_left : {false, true}) {
          const bool is_listed_twice = to_the_left && (across == 0 || down == 0);
          if ((across < width && down < height) || is_listed_twice) {
            continue;
          }
          const SectorBlock pair = pair_apart(across, down, to_the_left);
          if (takes_less(pair, few_walks) && takes_less(pair, most_walks)) {
            return "sectors take room together that are " + std::to_string(across) + " apart across and " +
                   std::to_string(down) + " down";
          }
        }
      }
    }
    return "";
  }

 private:
  // How much few walks differ among themselves says less than how much many do.
  MissShare missing(std::size_t many, std::size_t walks, const SectorBlock& block) {
    MissShare share = room_->missing(many, walks, block);
    share.error =
        std::max(share.error, alone_.error * std::sqrt(static_cast<double>(most_walks) / static_cast<double>(walks)));
    return share;
  }

  bool takes_less(const SectorBlock& pair, std::size_t walks) {
    const MissShare share = missing(blocks_ / 2, walks, pair);
    return errors_between(share, alone_) > certain_errors && share.mean < std::midpoint(alone_.mean, with_less_.mean);
  }

  Room* room_;
  std::size_t blocks_;
  MissShare alone_;
  MissShare with_more_;
  MissShare with_less_;
};

}  // namespace

TexelBlockFit find_line_texels(Interrogator& device, const TexelBlock& sector) {
  Room room(device, sector);
  const std::optional<std::size_t> blocks = room.just_too_many();
  if (!blocks) {
    return {.block = {}, .reason = "the texture is too small to overflow the cache"};
  }
  LineShape shape(room, *blocks);
  if (std::string reason = shape.why_blind(); !reason.empty()) {
    return {.block = {}, .reason = std::move(reason)};
  }
  std::vector<std::uint64_t> widths{1};
  std::vector<std::uint64_t> heights{1};
  for (const std::uint64_t side : std::span(sides).subspan(1)) {
    if (shape.is_one_line(side, 1)) {
      widths.push_back(side);
    }
    if (shape.is_one_line(1, side)) {
      heights.push_back(side);
    }
  }
  const std::optional<std::uint64_t> width = longest_side(widths);
  const std::optional<std::uint64_t> height = longest_side(heights);
  if (!width || !height || !shape.is_one_line(*width, *height)) {
    return {.block = {}, .reason = "the sectors that take room together are no rectangle"};
  }
  if (std::string reason = shape.other_shape(*width, *height); !reason.empty()) {
    return {.block = {}, .reason = std::move(reason)};
  }
  return {.block = TexelBlock{.width = *width * sector.width, .height = *height * sector.height}, .reason = {}};
}

}  // namespace gpuinfer::infer
