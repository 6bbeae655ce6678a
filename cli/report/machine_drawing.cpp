// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/machine_drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/leaf_table.hpp"
#include "cli/targets.hpp"
#include "model/description/sections.hpp"

namespace gpuinfer::cli::report {

namespace {

constexpr double pad = 12;
constexpr double level_height = 54;
constexpr double row_gap = 12;
constexpr double core_width = 66;
constexpr double arrow_width = 132;
constexpr double chain_arrow_width = 72;
constexpr double sm_width = 700;
constexpr double boxes_left = pad + core_width + arrow_width;
constexpr double l2_width = 128;
constexpr double outer_arrow_width = 130;
constexpr double plain_width = 128;  // of a box without capacity

constexpr Paint cache_paint{.fill = Colour::fill, .stroke = Colour::faint};
constexpr Paint frame_paint{.stroke = Colour::edge, .is_dashed = true};
constexpr double round_corner = 4;

// What stands on an arrow: above it the cycles, below it the bytes per clock.
void draw_arrow(Drawing& drawing, double x, double y, double width, const std::string& above,
                const std::string& below) {
  drawing.arrow(x + 4, y, x + width - 4, y);
  drawing.text(x + width / 2 - 3, y - 6, above, {.height = 11, .anchor = Anchor::middle});
  drawing.text(x + width / 2 - 3, y + 15, below, small_middle);
}

std::string cycles_words(const Level& level) {
  return level.hit_cycles ? cycles_text(level.hit_cycles) + " cycles" : "";
}

std::string rate_words(const Level& level) {
  return level.bytes_per_sm_clock ? model::words::rounded(*level.bytes_per_sm_clock, 3) + " B/clk" : "";
}

constexpr double line_height = 14;

// Lines of text in a box, as many as it has room for, and of each line the first form that fits; the first line is
// its name.
void draw_texts(Drawing& drawing, double x, double y, double width, double height,
                const std::vector<std::vector<std::string>>& lines) {
  double base = y + 16;
  for (std::size_t i = 0; i < lines.size() && base < y + height; ++i) {
    const Letters letters = i == 0 ? bold : small;
    for (const std::string& form : lines[i]) {
      if (!form.empty() && Drawing::text_width(form, letters.height, letters.is_bold) <= width - 12) {
        drawing.text(x + 6, base, form, letters);
        base += line_height;
        break;
      }
    }
  }
}

// Where something is not verified; what that is stands below the picture.
void draw_mark(Drawing& drawing, const Level& level, double right, double y) {
  if (!level.unverified.empty()) {
    drawing.box(right - 17, y + 4, 13, 15, {.fill = Colour::caution_tint, .stroke = Colour::caution}, 3);
    drawing.text(right - 10.5, y + 16, "?", {.colour = Colour::caution, .is_bold = true, .anchor = Anchor::middle});
  }
}

double width_of(const Level& level, double height) {
  return level.capacity_bytes ? area_of(*level.capacity_bytes) / height : plain_width;
}

std::string counted_name(const Level& level) {
  return level.groups_of_sms == 0 ? level.name : fmt::format("{}, {} of them", level.name, level.groups_of_sms);
}

std::vector<std::vector<std::string>> texts_of(const Level& level) {
  return {{counted_name(level), level.name, level.targets.size() > 1 ? level.targets.front() : ""},
          {size_words(level), level.capacity_bytes ? model::words::bytes(*level.capacity_bytes) : ""},
          {level.geometry.empty() ? level.line : geometry_words(level), level.geometry},
          {level.policy}};
}

void draw_level(Drawing& drawing, const Level& level, double x, double y, double width, double height) {
  drawing.box(x, y, width, height, cache_paint, round_corner);
  draw_texts(drawing, x, y, width, height, texts_of(level));
  draw_mark(drawing, level, x + width, y);
}

// The cache and shared memory, which share one store: by the carve-out that the cache is described with.
bool draw_unified(Drawing& drawing, const Level& level, const model::CacheDescription& cache,
                  const std::optional<std::uint32_t>& carveout_kb, const Level* shared, double y) {
  const auto tags = model::tag_bytes(cache);

  if (!level.capacity_bytes || !carveout_kb || !tags) {
    return false;
  }
  constexpr std::uint64_t bytes_of_kb = 1024;
  const std::uint64_t shared_bytes = *carveout_kb * bytes_of_kb;
  const std::uint64_t all = std::max(*tags, *level.capacity_bytes + shared_bytes);
  const double width = area_of(all) / level_height;
  const auto part = [&](std::uint64_t bytes) { return width * static_cast<double>(bytes) / static_cast<double>(all); };
  const double l1_width = part(*level.capacity_bytes);
  const double shared_width = part(shared_bytes);
  drawing.box(boxes_left, y, width, level_height, cache_paint, round_corner);
  drawing.box(boxes_left, y, l1_width, level_height, {.fill = Colour::accent_tint, .stroke = Colour::faint},
              round_corner);
  drawing.box(boxes_left + width - shared_width, y, shared_width, level_height,
              {.fill = Colour::caution_tint, .stroke = Colour::faint}, round_corner);
  // Beside the bar, since either part may be narrow.
  const double right = boxes_left + width + 10;
  drawing.text(right, y + 10, level.name + ": " + model::words::bytes(*level.capacity_bytes), bold);
  drawing.text(right, y + 24,
               fmt::format("+ {} of shared memory, of {}", model::words::bytes(shared_bytes), model::words::bytes(all)),
               small);
  drawing.text(right, y + 38, level.size_range, small);
  drawing.text(right, y + 52, geometry_words(level) + (level.policy.empty() ? "" : ", " + level.policy), small);
  draw_mark(drawing, level, boxes_left + width, y);
  const bool has_shared = shared != nullptr;
  const auto label = [](const Level& each) {
    return fmt::format("{}{}{}", cycles_words(each), each.bytes_per_sm_clock ? ", " : "", rate_words(each));
  };
  draw_arrow(drawing, pad + core_width, y + (has_shared ? 16 : level_height / 2), arrow_width, label(level), "");
  if (has_shared) {
    draw_arrow(drawing, pad + core_width, y + level_height - 8, arrow_width, "shared: " + cycles_words(*shared),
               rate_words(*shared));
  }
  return true;
}

// Boxes behind one another, each with the arrow that leads to it. What does not fit into the last one stands beside it.
void draw_chain(Drawing& drawing, const std::vector<const Level*>& chain, double y) {
  double x = pad + core_width;
  double room = arrow_width;
  for (const Level* level : chain) {
    const bool is_first = level == chain.front();
    draw_arrow(drawing, x, y + level_height / 2, room, is_first ? cycles_words(*level) : cycles_text(level->hit_cycles),
               level->piece.empty() ? rate_words(*level) : "for " + level->piece);
    x += room;
    const double width = width_of(*level, level_height);
    const bool is_narrow = Drawing::text_width(level->name, bold.height, true) > width - 12;
    if (is_narrow && level == chain.back()) {
      drawing.box(x, y, width, level_height, cache_paint, round_corner);
      draw_texts(drawing, x + width, y, sm_width - pad - x - width, level_height, texts_of(*level));
      draw_mark(drawing, *level, x + width, y);
    } else {
      draw_level(drawing, *level, x, y, width, level_height);
    }
    x += width;
    room = chain_arrow_width;
  }
}

const Level* shared_memory_of(const std::vector<Level>& levels) {
  const auto found = std::ranges::find_if(levels, &Level::is_shared_memory);
  return found == levels.end() ? nullptr : &*found;
}

// Returns its height.
double draw_sm(Drawing& drawing, const model::DeviceDescription& profile, const std::vector<Level>& levels) {
  double y = 34;
  const double top = y;
  const Level* shared = shared_memory_of(levels);
  bool is_shared_drawn = false;
  const auto next_row = [&] { y += level_height + row_gap; };
  for (const Level& level : levels) {
    const auto cache = level.targets.empty() ? profile.caches.end() : profile.caches.find(level.targets.front());
    if (level.place == Place::data && &level != shared && cache != profile.caches.end()) {
      const Level* beside = is_shared_drawn ? nullptr : shared;
      if (draw_unified(drawing, level, cache->second, carveout_of(profile, cache->first), beside, y)) {
        is_shared_drawn = is_shared_drawn || beside != nullptr;
      } else if (level.capacity_bytes || !level.hit.empty() || !level.line.empty()) {
        draw_chain(drawing, {&level}, y);
      } else {
        continue;
      }
      next_row();
    }
  }
  // What has no capacity needs no row of its own.
  for (const Level& level : levels) {
    if (level.place == Place::data && !level.targets.empty() && !profile.caches.contains(level.targets.front()) &&
        !(&level == shared && is_shared_drawn)) {
      draw_chain(drawing, {&level}, y);
      next_row();
    }
  }
  for (const Place place : {Place::constants, Place::code}) {
    std::vector<std::vector<const Level*>> chains;
    for (const Level& level : levels) {
      if (level.place == place) {
        const bool is_cache = profile.caches.contains(level.targets.front());
        const bool goes_on =
            !chains.empty() && (is_cache ? profile.caches.contains(chains.back().front()->targets.front())
                                         : chains.back().front()->targets.front() == level.targets.front());
        if (!goes_on) {
          chains.emplace_back();
        }
        chains.back().push_back(&level);
      }
    }
    for (const auto& chain : chains) {
      draw_chain(drawing, chain, y);
      next_row();
    }
  }
  const double bottom = std::max(y - row_gap, top + level_height);
  drawing.box(pad, top, core_width, bottom - top, {.fill = Colour::paper, .stroke = Colour::ink}, round_corner);
  drawing.text(pad + core_width / 2, (top + bottom) / 2 - 2, "warps", {.is_bold = true, .anchor = Anchor::middle});
  if (profile.outstanding && profile.outstanding->entries) {
    drawing.text(pad + core_width / 2, (top + bottom) / 2 + 14, fmt::format("{} loads", *profile.outstanding->entries),
                 small_middle);
    drawing.text(pad + core_width / 2, (top + bottom) / 2 + 28, "in flight", small_middle);
  }
  drawing.box(0, 14, sm_width, bottom + pad - 14, frame_paint, round_corner);
  drawing.text(pad, 29, profile.device.sm_count ? fmt::format("one of {} SMs", *profile.device.sm_count) : "each SM",
               small);
  return bottom + pad;
}

void draw_outer(Drawing& drawing, const model::DeviceDescription& profile, const std::vector<Level>& levels,
                double height) {
  double x = sm_width;
  const double middle_y = (14 + height) / 2;
  for (const Level& level : levels) {
    if (level.place != Place::shared_by_sms && level.place != Place::memory) {
      continue;
    }
    draw_arrow(drawing, x, middle_y, outer_arrow_width, cycles_words(level),
               rate_words(level) + (level.bytes_per_sm_clock ? " per SM" : ""));
    if (level.bytes_per_second) {
      constexpr double giga = 1e9;
      drawing.text(x + outer_arrow_width / 2, middle_y + 29,
                   model::words::grouped(static_cast<std::uint64_t>(*level.bytes_per_second / giga)) + " GB/s",
                   small_middle);
    }
    x += outer_arrow_width;
    const double box_height = level.capacity_bytes ? area_of(*level.capacity_bytes) / l2_width : level_height;
    const double y = middle_y - box_height / 2;
    const auto cache = level.targets.empty() ? profile.caches.end() : profile.caches.find(level.targets.front());
    const bool has_halves = cache != profile.caches.end() && cache->second.partitions && box_height > 2 * level_height;
    draw_level(drawing, level, x, y, l2_width, has_halves ? box_height / 2 : box_height);
    if (has_halves) {
      const model::Partitions& partitions = *cache->second.partitions;
      drawing.box(x, y + box_height / 2, l2_width, box_height / 2, cache_paint, round_corner);
      const std::uint32_t slices = cache->second.slices.value_or(0) / 2;
      const std::string of_half = slices > 0 ? fmt::format("{} slices", slices) : "";
      if (!of_half.empty()) {
        drawing.text(x + 6, y + box_height / 2 - 21, of_half, small);
      }
      drawing.text(x + 6, y + box_height / 2 - 8, "half near to this SM", small);
      draw_texts(drawing, x, y + box_height / 2, l2_width, box_height / 2,
                 {{"far half"},
                  {fmt::format("+{} cycles", cycles_text(partitions.far_cycles))},
                  {of_half},
                  {partitions.keeps_copies ? "near one keeps copies" : ""}});
    }
    x += l2_width;
  }
}

// What is not verified: at the right of the SM below the L2, or below everything where that has no room.
void draw_notes(Drawing& drawing, const std::vector<Level>& levels, double frame_bottom, double bottom) {
  constexpr std::size_t letters = 66;
  constexpr double note_height = 15;
  std::vector<std::pair<bool, std::string>> lines;  // whether it begins a note
  for (const Level& level : levels) {
    if (level.unverified.empty()) {
      continue;
    }
    std::string rest = wrapped(fmt::format("{}: {}", level.name, words(level.unverified)), "", letters);
    for (bool begins = true; !rest.empty(); begins = false) {
      const std::size_t end = rest.find('\n');
      lines.emplace_back(begins, rest.substr(0, end));
      rest.erase(0, end + 1);
    }
  }
  const double height = note_height * static_cast<double>(lines.size());
  const double middle_y = (14 + frame_bottom) / 2;
  double widest_box = level_height;
  for (const Level& level : levels) {
    if (level.place == Place::shared_by_sms && level.capacity_bytes) {
      widest_box = std::max(widest_box, area_of(*level.capacity_bytes) / l2_width);
    }
  }
  const bool is_beside = middle_y + widest_box / 2 + 16 + height <= frame_bottom;
  const double x = is_beside ? sm_width + 24 : pad;
  double y = is_beside ? frame_bottom - height : bottom + 8;
  for (const auto& [begins, text] : lines) {
    if (begins) {
      drawing.box(x, y, 12, 13, {.fill = Colour::caution_tint, .stroke = Colour::caution}, 3);
      drawing.text(x + 6, y + 10.5, "?",
                   {.colour = Colour::caution, .height = 11, .is_bold = true, .anchor = Anchor::middle});
    }
    drawing.text(x + 18, y + 11, text, small);
    y += note_height;
  }
}

void draw_translation(Drawing& drawing, const std::vector<Level>& levels, double y) {
  double x = pad + core_width;
  double room = arrow_width;
  std::string cost = "address";
  bool is_any = false;
  for (const Level& level : levels) {
    if (level.place != Place::translation) {
      continue;
    }
    is_any = true;
    constexpr double tlb_width = 206;
    draw_arrow(drawing, x, y + level_height / 2, room, cost, "");
    x += room;
    drawing.box(x, y, tlb_width, level_height, cache_paint, round_corner);
    draw_texts(
        drawing, x, y, tlb_width, level_height,
        {{counted_name(level), level.name},
         {size_words(level)},
         {level.geometry.empty() ? "" : geometry_words(level) + (level.policy.empty() ? "" : ", " + level.policy)}});
    draw_mark(drawing, level, x + tlb_width, y);
    x += tlb_width;
    room = 150;
    cost = level.hit_cycles && level.miss_cycles
               ? fmt::format("miss: +{} cycles", cycles_text(*level.miss_cycles - *level.hit_cycles))
               : "miss";
  }
  if (is_any) {
    draw_arrow(drawing, x, y + level_height / 2, room, cost, "");
    x += room;
    drawing.box(x, y, plain_width, level_height, cache_paint, round_corner);
    draw_texts(drawing, x, y, plain_width, level_height, {{"page tables"}});
    drawing.text(pad, y + level_height / 2 - 4, "translation", small);
  }
}

}  // namespace

double area_of(std::uint64_t capacity_bytes) {
  constexpr double pixels = 1350;  // so that the longest chain of today's GPUs has room in an SM
  constexpr double smallest = 256;
  return pixels * std::max(std::log2(static_cast<double>(capacity_bytes) / smallest), 1.0);
}

Drawing machine_drawing(const model::DeviceDescription& profile, const std::vector<Level>& levels) {
  Drawing drawing;
  double y = draw_sm(drawing, profile, levels);
  const double frame_bottom = y;
  draw_outer(drawing, profile, levels, y);
  const bool translates =
      std::ranges::any_of(levels, [](const Level& level) { return level.place == Place::translation; });
  if (translates) {
    draw_translation(drawing, levels, y + 14);
    y += 14 + level_height;
  }
  draw_notes(drawing, levels, frame_bottom, y);
  return drawing;
}

}  // namespace gpuinfer::cli::report
