// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/description/words.hpp"

#include <algorithm>
#include <array>

#include "model/device_description.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::model::words {

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t digits = 3; digits < text.size(); digits += 4) {
    text.insert(text.size() - digits, 1, ',');
  }
  return text;
}

std::string together(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) {
    text += part;
  }
  return text;
}

std::string bytes(std::uint64_t size) {
  constexpr std::array<std::string_view, 4> units{"B", "KiB", "MiB", "GiB"};
  constexpr std::uint64_t factor = 1024;
  constexpr std::uint64_t parts = 4;  // of a unit, which are written
  std::size_t unit = 0;
  std::uint64_t in_unit = 1;
  while (unit + 1 < units.size() && size >= in_unit * factor && size % (in_unit * factor / parts) == 0) {
    in_unit *= factor;
    ++unit;
  }
  const std::uint64_t rest = size % in_unit * 100 / in_unit;
  const std::string decimals = rest == 0        ? ""
                               : rest % 10 == 0 ? together({".", to_text(rest / 10)})
                                                : together({".", to_text(rest)});
  return together({grouped(size / in_unit), decimals, " ", units.at(unit)});
}

std::string bytes(const std::array<double, 2>& interval) {
  constexpr std::array<std::string_view, 4> units{"B", "KiB", "MiB", "GiB"};
  constexpr double factor = 1024;
  constexpr int digits = 4;
  std::size_t unit = 0;
  double in_unit = 1;
  while (unit + 1 < units.size() && interval[1] >= in_unit * factor) {
    in_unit *= factor;
    ++unit;
  }
  return together(
      {rounded(interval[0] / in_unit, digits), " to ", rounded(interval[1] / in_unit, digits), " ", units.at(unit)});
}

std::string rounded(double number, int digits) {
  return number < 0 ? together({"-", rounded(-number, digits)}) : to_text(model::rounded(number, digits));
}

std::string ways(const std::vector<std::uint32_t>& ways) {
  std::vector<std::string> runs;
  for (auto run = ways.begin(); run != ways.end();) {
    const auto end = std::find_if(run, ways.end(), [&](std::uint32_t count) { return count != *run; });
    runs.push_back(end - run > 1 ? together({to_text(end - run), " x ", to_text(*run)}) : to_text(*run));
    run = end;
  }
  return joined(runs);
}

std::string sweep(const Sweep& sweep) {
  return together({to_text(sweep.banks), " banks; when full, a pointer takes ", to_text(sweep.lines_on_hit),
                   sweep.lines_on_hit == 1 ? " line" : " lines", " after a hit, ", to_text(sweep.lines_on_replacement),
                   " after a replacement, ", to_text(sweep.lines_on_fill), " after a fill",
                   sweep.keeps_hit_line ? ", but not the line that is hit" : ""});
}

}  // namespace gpuinfer::model::words
