// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/hierarchy_drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "cli/leaf_table.hpp"
#include "cli/report/markup.hpp"
#include "cli/report/status.hpp"

namespace gpuinfer::cli::report {

namespace {

struct Box {
  std::string name;
  std::vector<std::string> lines;
  StatusSummary status;
};

Box box_of(const std::string& target, const model::CacheDescription& cache, const StatusSummary& status) {
  Box box{.name = target, .lines = {}, .status = status};
  if (cache.capacity_bytes) {
    box.lines.push_back(model::words::bytes(*cache.capacity_bytes));
  } else {
    box.lines.push_back(cache.onset_bytes ? "fits " + model::words::bytes(*cache.onset_bytes) : "size not known");
  }
  box.lines.push_back(cache.line_bytes ? "lines of " + model::words::bytes(*cache.line_bytes) : "line not known");
  box.lines.push_back(cache.ways ? model::words::ways(*cache.ways) + " ways" : "sets not known");
  const auto cycles = [](const std::optional<double>& value) { return value ? number_text(*value) : "?"; };
  box.lines.push_back("hit " + cycles(cache.latency_cycles.hit) + ", miss " + cycles(cache.latency_cycles.miss));
  return box;
}

// Beyond the SM.
bool is_far(const std::string& target) {
  constexpr std::array<std::string_view, 3> far{"L2", "L2TLB", "ConstL15"};
  return std::find(far.begin(), far.end(), target) != far.end();
}

std::vector<Box> near_boxes(const model::DeviceDescription& profile) {
  std::vector<Box> boxes;
  for (const auto& [target, cache] : profile.caches) {
    if (!is_far(target)) {
      boxes.push_back(box_of(target, cache, status_of(profile, target)));
    }
  }
  for (const auto& [target, texture] : profile.textures) {
    boxes.push_back({.name = target,
                     .lines = {fmt::format("{} x {} texels", texture.width, texture.height),
                               texture.line_texels ? "line " + to_string(*texture.line_texels) : "line not known"},
                     .status = status_of(profile, target)});
  }
  if (profile.shared_memory) {
    const auto& shared = *profile.shared_memory;
    Box box{.name = "Shared memory", .lines = {}, .status = status_of(profile, "shared_memory")};
    box.lines.push_back(shared.banks ? fmt::format("{} banks", *shared.banks) : "banks not known");
    if (shared.bank_width_bytes) {
      box.lines.push_back(fmt::format("{} B wide each", *shared.bank_width_bytes));
    }
    if (shared.latency_cycles.broadcast) {
      box.lines.push_back(number_text(*shared.latency_cycles.broadcast) + " cycles");
    }
    boxes.push_back(box);
  }
  for (const auto& [target, code] : profile.code) {
    boxes.push_back({.name = target,
                     .lines = {code.levels ? fmt::format("{} levels", code.levels->size()) : "levels not known"},
                     .status = status_of(profile, target)});
  }
  if (profile.outstanding) {
    const auto& outstanding = *profile.outstanding;
    boxes.push_back(
        {.name = "Outstanding loads",
         .lines = {outstanding.kind ? std::string(to_string(*outstanding.kind)) : "kind not known",
                   outstanding.entries ? fmt::format("{} entries", *outstanding.entries) : "entries not known"},
         .status = status_of(profile, "outstanding")});
  }
  return boxes;
}

std::vector<Box> far_boxes(const model::DeviceDescription& profile) {
  std::vector<Box> boxes;
  for (const auto& [target, cache] : profile.caches) {
    if (is_far(target)) {
      boxes.push_back(box_of(target, cache, status_of(profile, target)));
    }
  }
  return boxes;
}

Box memory_box(const model::DeviceDescription& profile) {
  Box box{.name = "Memory", .lines = {}, .status = {}};
  if (const auto dram = profile.bandwidth.find("DRAM_load"); dram != profile.bandwidth.end() && dram->second.best) {
    constexpr double giga = 1e9;
    box.lines.push_back(number_text(std::round(dram->second.best->bytes_per_second / giga)) + " GB/s loaded");
    const auto evidence = profile.evidence.find("bandwidth");
    if (evidence != profile.evidence.end() && evidence->second.leaves.contains("DRAM_load")) {
      const std::string_view word = to_string(evidence->second.leaves.at("DRAM_load").status);
      box.status = {.word = word, .counts = {{word, 1}}};
    }
  }
  return box;
}

constexpr double box_width = 144;
constexpr double gap = 8;
constexpr double row_height = 18;

double height_of(const Box& box) {
  return 32 + row_height * static_cast<double>(box.lines.size() + box.status.counts.size());
}

void draw(Drawing& drawing, const Box& box, double x, double y, double height) {
  drawing.box(x, y, box_width, height, fmt::format("cache {}", box.status.word));
  drawing.text(x + gap, y + 20, box.name, "strong");
  double line_y = y + 20;
  for (const std::string& line : box.lines) {
    constexpr std::size_t letters = 18;
    drawing.text(x + gap, line_y += row_height, line.size() > letters ? line.substr(0, letters - 3) + "..." : line);
  }
  for (const auto& [word, count] : box.status.counts) {
    drawing.text(x + gap, line_y += row_height, count_text(word, count), fmt::format("small on-{}", word));
  }
}

// A frame with boxes two by two; returns where it ends.
double draw_frame(Drawing& drawing, const std::string& title, const std::vector<Box>& boxes, double y) {
  constexpr double width = 2 * box_width + 3 * gap;
  Drawing inside;
  double row_y = y + 28;
  for (std::size_t i = 0; i < boxes.size(); i += 2) {
    const bool has_two = i + 1 < boxes.size();
    const double height = std::max(height_of(boxes[i]), has_two ? height_of(boxes[i + 1]) : 0);
    draw(inside, boxes[i], gap, row_y, height);
    if (has_two) {
      draw(inside, boxes[i + 1], 2 * gap + box_width, row_y, height);
    }
    row_y += height + gap;
  }
  drawing.box(0, y, width, row_y - y, "frame");
  drawing.text(gap, y + 19, title, "small");
  drawing.add(inside, 0, 0);
  return row_y;
}

double draw_arrow(Drawing& drawing, double y) {
  constexpr double middle = box_width + 1.5 * gap;
  constexpr double length = 26;
  drawing.line(middle, y, middle, y + length - 2);
  drawing.path(fmt::format("M{} {}l-5 -7h10z", middle, y + length), "tip");
  return y + length;
}

// The boxes from the SM outwards, in frames.
struct Frame {
  std::string title;
  std::vector<Box> boxes;
};

std::vector<Frame> frames_of(const model::DeviceDescription& profile) {
  const std::string sms = profile.device.sm_count ? fmt::format("each of {} SMs", *profile.device.sm_count) : "each SM";
  std::vector<Frame> frames{
      {sms, near_boxes(profile)}, {"shared by SMs", far_boxes(profile)}, {"behind them", {memory_box(profile)}}};
  std::erase_if(frames, [](const Frame& frame) { return frame.boxes.empty(); });
  return frames;
}

}  // namespace

Drawing hierarchy_drawing(const model::DeviceDescription& profile) {
  Drawing drawing;
  double y = 0;
  for (const Frame& frame : frames_of(profile)) {
    y = draw_frame(drawing, frame.title, frame.boxes, y == 0 ? 0 : draw_arrow(drawing, y));
  }
  return drawing;
}

Table hierarchy_table(const model::DeviceDescription& profile) {
  Table table{.head = {"where", "what", "what is known", "status"}, .rows = {}};
  for (const Frame& frame : frames_of(profile)) {
    for (const Box& box : frame.boxes) {
      std::vector<std::string> counts;
      for (const auto& [word, count] : box.status.counts) {
        counts.push_back(count_text(word, count));
      }
      table.rows.push_back({frame.title, box.name, fmt::format("{}", fmt::join(box.lines, "; ")),
                            fmt::format("{}", fmt::join(counts, ", "))});
    }
  }
  return table;
}

}  // namespace gpuinfer::cli::report
