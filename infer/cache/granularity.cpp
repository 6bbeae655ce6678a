// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/granularity.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "infer/asking/stream.hpp"

namespace gpuinfer::infer {

namespace {

// Sectors per line, the largest first: powers of two, and three times one.
constexpr std::array<std::uint64_t, 11> line_candidates{64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2};

}  // namespace

std::uint64_t aligned_start(const Starts& device) {
  const std::uint64_t alignment = std::max<std::uint64_t>(model::load_bytes, std::bit_floor(device.buffer().bytes) / 8);
  return bytes_to_next(device.buffer().address, alignment);
}

namespace {

// Offsets at which a granule is entered, by walks from a start on: by the misses of a cold walk upwards, or downwards,
// where what lies ahead is there already.
enum class Direction : std::uint8_t { upwards, downwards };

Offsets entries_of(Interrogator& device, std::uint64_t start, std::uint64_t span_bytes, std::uint64_t step,
                   Direction direction) {
  AccessSequence loads = model::cold_pass(start, span_bytes, step);
  if (direction == Direction::downwards) {
    std::ranges::reverse(loads);
  }
  const model::Question question = device.question({}, std::move(loads));
  const auto walked = device.ask_voted({&question, 1}, device.votes_needed()).front();
  Offsets entries;
  for (std::size_t i = 0; i < walked.size(); ++i) {
    if (walked[i] == Reading::miss) {
      // The word below the first of the granule above.
      entries.push_back(question.record[i] + (direction == Direction::downwards ? step : 0));
    }
  }
  std::ranges::sort(entries);
  return entries;
}

// Whether granules of so many bytes begin at each of these offsets, and at those between them that are present before
// anything is loaded: lines that no flood evicted.
bool gaps_are_explained(Interrogator& device, const Offsets& begins, std::uint64_t spacing) {
  std::vector<model::Question> left_out;
  for (std::size_t i = 2; i < begins.size(); ++i) {
    if ((begins[i] - begins[i - 1]) % spacing != 0) {
      return false;
    }
    for (std::uint64_t offset = begins[i - 1] + spacing; offset < begins[i]; offset += spacing) {
      left_out.push_back(device.question({}, {offset}));
    }
  }
  if (left_out.empty()) {
    return true;
  }
  if (!device.starts_flooded() || 2 * left_out.size() > begins.size()) {
    return false;
  }
  const auto readings = device.ask_voted(left_out, device.votes_needed());
  return std::ranges::all_of(readings, [](const auto& reading) { return reading[0] == Reading::hit; });
}

// One of them that has another so many bytes before it, and one behind it. The first one may be no beginning.
std::optional<std::uint64_t> between_neighbours(const Offsets& begins, std::uint64_t spacing) {
  for (std::size_t i = 1; i + 1 < begins.size(); ++i) {
    if ((i == 1 || begins[i] - begins[i - 1] == spacing) && begins[i + 1] - begins[i] == spacing) {
      return begins[i];
    }
  }
  return std::nullopt;
}

// Before anything is loaded.
bool any_is_present(Interrogator& device, const Offsets& offsets) {
  if (!device.starts_flooded()) {
    return false;
  }
  std::vector<model::Question> alone;
  for (const std::uint64_t offset : offsets) {
    alone.push_back(device.question({}, {offset}));
  }
  const auto readings = device.ask_voted(alone, device.votes_needed());
  return std::ranges::any_of(readings, [](const auto& reading) { return reading[0] != Reading::miss; });
}

FillGranularity granules_of(Interrogator& device, std::uint64_t start, std::uint64_t reach, Direction direction) {
  // The misses stand where granules begin, whatever their size.
  const std::uint64_t step = std::max(model::load_bytes, reach / 32);
  const std::uint64_t span_bytes = std::min(device.buffer().bytes - start, 12 * reach);
  const Offsets begins = entries_of(device, start, span_bytes, step, direction);
  if (begins.size() < 4) {
    return {.sector_bytes = {}, .reason = "a cold walk misses too seldom to show a fill granule", .may_prefetch = true};
  }
  std::uint64_t spacing = begins[2] - begins[1];
  for (std::size_t i = 2; i < begins.size(); ++i) {
    spacing = std::min(spacing, begins[i] - begins[i - 1]);
  }
  if (!gaps_are_explained(device, begins, spacing)) {
    return {.sector_bytes = {},
            .reason = "the misses of a cold walk are not evenly spaced: fills differ in size",
            .may_prefetch = true};
  }
  if (device.address_of(begins[1]) % spacing != 0) {
    return {.sector_bytes = {}, .reason = "fill granules do not begin at multiples of their size"};
  }

  // A granule is symmetric; a prefetcher only looks ahead. So its last word brings its first, and nothing before or
  // after.
  const std::optional<std::uint64_t> between = between_neighbours(begins, spacing);
  if (!between) {
    return {.sector_bytes = {}, .reason = "a cold walk misses too seldom to show a fill granule", .may_prefetch = true};
  }
  const std::uint64_t first = *between;
  const std::uint64_t last = first + spacing - model::load_bytes;
  const std::array<model::Question, 4> checks{device.question({last}, {first}), device.question({first}, {last}),
                                              device.question({last}, {first + spacing}),
                                              device.question({first}, {first - model::load_bytes})};
  const auto checked = device.ask_voted(checks, device.votes_needed());
  if (checked[0][0] != Reading::hit || checked[1][0] != Reading::hit || checked[2][0] != Reading::miss ||
      checked[3][0] != Reading::miss) {
    if (any_is_present(device, {first + spacing, first - model::load_bytes})) {
      return {.sector_bytes = {},
              .reason = "no flood evicts the lines that were asked about, so nothing shows what a miss brings"};
    }
    return {.sector_bytes = {},
            .reason = "a miss brings more than the aligned block it lies in: a prefetch is at work",
            .may_prefetch = true};
  }
  return {.sector_bytes = spacing, .reason = {}};
}

FillGranularity look_at_fills(Interrogator& device, Direction direction) {
  const std::uint64_t start = aligned_start(device);
  // Smallest power of two at which a second load misses after one at the start.
  std::vector<model::Question> pairs;
  std::vector<std::uint64_t> distances;
  for (std::uint64_t distance = model::load_bytes; distance < (device.buffer().bytes - start) / 2; distance *= 2) {
    distances.push_back(distance);
    pairs.push_back(device.question({start}, {start + distance}));
  }
  const auto pair_readings = device.ask_voted(pairs, device.votes_needed());
  const auto first_miss = std::find_if(pair_readings.begin(), pair_readings.end(),
                                       [](const auto& readings) { return readings[0] == Reading::miss; });
  if (first_miss == pair_readings.end()) {
    return {.sector_bytes = {}, .reason = "one load brings the whole buffer, or levels cannot be told apart"};
  }
  return granules_of(device, start, distances[static_cast<std::size_t>(first_miss - pair_readings.begin())], direction);
}

}  // namespace

// A misread that no vote caught makes fills look uneven; fills that are so show it again.
FillGranularity find_fill_granularity(Interrogator& device) {
  for (int time = 0; time < 2; ++time) {
    if (FillGranularity fill = look_at_fills(device, Direction::upwards); fill.sector_bytes) {
      return fill;
    }
  }
  FillGranularity fill = look_at_fills(device, Direction::downwards);
  fill.runs_ahead = fill.sector_bytes.has_value();
  fill.may_prefetch = fill.may_prefetch || fill.runs_ahead;
  return fill;
}

Onset find_onset(Interrogator& device, Conflicts& conflicts, std::uint64_t granule_bytes, std::uint64_t start) {
  const auto most = static_cast<std::size_t>((device.buffer().bytes - start) / granule_bytes);
  // A cache of 64 MB that misses where it should takes half of that.
  constexpr std::size_t most_accesses = 100'000'000;
  const std::size_t asked_before = device.accesses_asked();
  const auto asked = [&] { return device.accesses_asked() - asked_before; };
  struct Bounds {
    std::size_t fits = 1;
    std::size_t too_many = 2;
  };
  const auto array = [&](std::size_t granules) {
    return model::cold_pass(start, granules * granule_bytes, granule_bytes);
  };
  const auto search = [&](const auto& overflows_of) {
    Bounds bounds;
    std::size_t& fits = bounds.fits;
    std::size_t& too_many = bounds.too_many;
    bool has_end = false;
    std::size_t cheapest_laps = most_accesses;
    // Where more steps of at least the cheapest kind are too many, none is begun.
    const auto overflows = [&](std::size_t granules, std::size_t steps) {
      if (asked() + steps * cheapest_laps * fits > most_accesses) {
        throw Undecided("the capacity knee is above " + std::to_string(fits * granule_bytes) +
                        (has_end ? " and below " + std::to_string(too_many * granule_bytes) : "") +
                        " bytes, and no closer look was to be had in " + std::to_string(most_accesses) + " loads");
      }
      const std::size_t before = asked();
      const bool overflow = overflows_of(granules);
      cheapest_laps = std::min(cheapest_laps, (asked() - before) / granules);
      return overflow;
    };
    while (too_many <= most && !has_end) {
      if (overflows(too_many, 0)) {
        has_end = true;
      } else {
        fits = too_many;
        too_many = too_many < most ? std::min(too_many * 2, most) : most + 1;
      }
    }
    while (has_end && too_many - fits > 1) {
      const std::size_t middle = fits + (too_many - fits) / 2;
      (overflows(middle, static_cast<std::size_t>(std::bit_width(too_many - fits - 1))) ? too_many : fits) = middle;
    }
    return bounds;
  };
  const auto thoroughly = [&](std::size_t granules) { return conflicts.overflow(array(granules)); };
  // That many granules fit is dear to show among many misreads; what fits contains all that is smaller, so that is
  // shown of the largest one only.
  bool leaves_open = false;
  Bounds found = search([&](std::size_t granules) {
    const std::optional<bool> verdict = conflicts.overflow_at_a_glance(array(granules));
    leaves_open = leaves_open || !verdict;
    return verdict.value_or(false);
  });
  bool is_shown = false;
  if (leaves_open) {
    const bool has_end = found.too_many <= most;
    is_shown = has_end && !thoroughly(found.fits);
    found = is_shown ? found : search(thoroughly);
  }
  if (found.too_many > most) {
    return {.granules = {}, .repeats = true, .largest_tried = most};
  }
  // That one more does not fit shows again when its set is looked for.
  return {.granules = found.fits, .repeats = is_shown || !thoroughly(found.fits), .largest_tried = found.too_many};
}

namespace {

// The sectors of a contiguous array, block by block.
class Blocks {
 public:
  Blocks(const Interrogator& device, std::uint64_t block_bytes, std::uint64_t start, std::uint64_t sector_bytes,
         std::size_t granules) {
    std::map<std::uint64_t, Offsets> blocks;
    for (std::size_t i = 0; i < granules; ++i) {
      const std::uint64_t offset = start + i * sector_bytes;
      blocks[device.address_of(offset) / block_bytes].push_back(offset);
    }
    for (auto& [block, offsets] : blocks) {
      sectors_.push_back(std::move(offsets));
    }
  }

  [[nodiscard]] Offsets one_of_each(model::Random& random) const {
    Offsets picked;
    for (const Offsets& block : sectors_) {
      picked.push_back(block[random.below(block.size())]);
    }
    return picked;
  }

 private:
  std::vector<Offsets> sectors_;
};

// Whichever sector of a block is picked, there are too many blocks.
bool always_overflows(Conflicts& conflicts, const Blocks& blocks, model::Random& random) {
  // One pick lets a wrong block size pass with a probability of at most one half (a direct-mapped pair).
  constexpr int picks = 20;
  for (int pick = 0; pick < picks; ++pick) {
    if (!conflicts.overflow(blocks.one_of_each(random))) {
      return false;
    }
  }
  return true;
}

// Whichever sector of a block is picked, the same blocks miss: answers to different picks differ no more than answers
// to the same pick do, which is not at all unless chance or misreads play a part.
bool same_misses(Interrogator& device, const Blocks& blocks, model::Random& random) {
  constexpr std::size_t others = 6;  // picks other than the first, and repeats of the first
  constexpr std::size_t enough_accesses = 96;
  std::vector<model::Question> questions;
  for (std::size_t pick = 0; pick <= others; ++pick) {
    const Offsets picked = blocks.one_of_each(random);
    const std::size_t laps = std::max<std::size_t>(2, enough_accesses / picked.size());
    questions.push_back(device.question(picked, model::repeated(picked, laps)));
  }
  questions.insert(questions.end(), others, questions.front());
  const auto answers = device.ask_voted(questions, 1);
  const auto differences = [&](std::size_t first, std::size_t last) {
    std::size_t count = 0;
    for (std::size_t question = first; question < last; ++question) {
      for (std::size_t i = 0; i < answers[0].size(); ++i) {
        const bool clear = answers[0][i] != Reading::unclear && answers[question][i] != Reading::unclear;
        count += clear && answers[0][i] != answers[question][i] ? 1U : 0U;
      }
    }
    return static_cast<double>(count);
  };
  const double between_picks = differences(1, 1 + others);
  const double between_repeats = differences(1 + others, questions.size());
  return between_picks <= between_repeats + 6 * std::sqrt(between_picks + between_repeats) + 2;
}

}  // namespace

LineSize find_line_bytes(Interrogator& device, Conflicts& conflicts, std::uint64_t sector_bytes,
                         std::size_t onset_granules) {
  model::Random random = stream(device.settings(), "line size");
  bool is_certain = true;
  const auto is_line = [&](std::uint64_t block_bytes) {
    const std::uint64_t start = aligned_start(device);
    const Blocks blocks(device, block_bytes, start, sector_bytes, onset_granules + 1);
    if (!always_overflows(conflicts, blocks, random)) {
      return false;
    }
    if (!same_misses(device, blocks, random)) {
      is_certain = false;
      return false;
    }
    // The picks of a block that the array cuts off are no choice, so it must begin with a whole one.
    const std::uint64_t whole_block = start + bytes_to_next(device.address_of(start), block_bytes);
    if (whole_block == start) {
      return true;
    }
    const Onset onset = find_onset(device, conflicts, sector_bytes, whole_block);
    return onset.granules &&
           always_overflows(conflicts, Blocks(device, block_bytes, whole_block, sector_bytes, *onset.granules + 1),
                            random);
  };
  // From the largest down: a block of at most half a line always passes, because each line holds a whole one.
  for (const std::uint64_t sectors : line_candidates) {
    if (is_line(sectors * sector_bytes)) {
      return {.bytes = sectors * sector_bytes, .is_certain = is_certain};
    }
  }
  return {.bytes = sector_bytes, .is_certain = is_certain};
}

}  // namespace gpuinfer::infer
