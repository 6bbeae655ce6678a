// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/chart_drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "cli/leaf_table.hpp"
#include "cli/report/markup.hpp"

namespace gpuinfer::cli::report {

namespace {

struct Range {
  double from = std::numeric_limits<double>::infinity();
  double to = -std::numeric_limits<double>::infinity();

  void take(double value) {
    from = std::min(from, value);
    to = std::max(to, value);
  }
};

// 1, 2 or 5 times a power of ten, so that at most `most` steps make `length`.
double round_step(double length, double most) {
  const double least = length / most;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) {
      return factor * power;
    }
  }
  return 10 * power;
}

// Values to pixels along one axis.
class Places {
 public:
  Places(const Axis& axis, Range range, double first, double last) : axis_(&axis), first_(first), last_(last) {
    from_ = of(range.from);
    to_ = of(range.to);
  }

  [[nodiscard]] double operator()(double value) const {
    return first_ + (of(value) - from_) / std::max(to_ - from_, 1e-12) * (last_ - first_);
  }

  [[nodiscard]] std::vector<double> ticks() const {
    constexpr double pixels_of_tick = 62;
    const double most = std::max(2.0, std::floor(std::abs(last_ - first_) / pixels_of_tick));
    std::vector<double> values;
    if (axis_->scale == Scale::linear) {
      const double step = is_bytes() ? std::exp2(std::ceil(std::log2((to_ - from_) / most)))
                                     : round_step(to_ - from_, std::max(most, 4.0));
      for (double value = std::ceil(from_ / step - 1e-9) * step; value <= to_ + step * 1e-9; value += step) {
        values.push_back(std::abs(value) < step * 1e-9 ? 0 : value);
      }
      return values;
    }
    const double base = axis_->scale == Scale::log2 ? 2 : 10;
    const double step = std::max(1.0, std::ceil((to_ - from_) / most));
    for (double power = std::ceil(from_ - 1e-9); power <= to_ + 1e-9; power += step) {
      values.push_back(std::pow(base, power));
    }
    // Within one or two powers of ten there would be hardly any.
    if (base == 10 && to_ - from_ < 2) {
      values.clear();
      for (double power = std::pow(10, std::floor(from_)); power <= std::pow(10, to_); power *= 10) {
        for (const double factor : {1.0, 2.0, 5.0}) {
          values.push_back(factor * power);
        }
      }
      std::erase_if(values, [&](double value) { return of(value) < from_ - 1e-9 || of(value) > to_ + 1e-9; });
    }
    return values;
  }

  [[nodiscard]] std::string text(double value) const {
    return is_bytes() && value >= 0 ? model::words::bytes(static_cast<std::uint64_t>(std::llround(value)))
                                    : number_text(value);
  }

 private:
  [[nodiscard]] bool is_bytes() const { return axis_->unit == AxisUnit::bytes; }
  [[nodiscard]] double of(double value) const {
    return axis_->scale == Scale::linear ? value : axis_->scale == Scale::log2 ? std::log2(value) : std::log10(value);
  }

  const Axis* axis_;
  double first_;
  double last_;
  double from_;
  double to_;
};

Colour colour_of(Role role, std::size_t number) {
  constexpr std::array others{Colour::accent, Colour::orange, Colour::teal,   Colour::pink,
                              Colour::gold,   Colour::sky,    Colour::violet, Colour::grey};
  switch (role) {
    case Role::hit:
      return Colour::good;
    case Role::miss:
      return Colour::bad;
    case Role::unclear:
      return Colour::grey;
    case Role::measured:
      return Colour::ink;
    case Role::simulated:
      return Colour::accent;
    case Role::other:
      break;
  }
  return others.at(number % others.size());
}

Range x_range(const Chart& chart) {
  Range range;
  for (const Series& series : chart.series) {
    for (const auto& [x, y] : series.points) {
      range.take(x);
    }
  }
  for (const Mark& mark : chart.marks) {
    range.take(mark.x);
  }
  if (range.from == range.to) {
    range.to += 1;
  }
  return range;
}

Range y_range(const Chart& chart) {
  Range range;
  bool has_bars = false;
  for (const Series& series : chart.series) {
    has_bars = has_bars || series.shape == Series::Shape::bars;
    for (const auto& [x, y] : series.points) {
      range.take(y);
    }
  }
  for (const Band& band : chart.bands) {
    range.take(band.from);
    range.take(band.to);
  }
  if (chart.y.at_least_to) {
    range.take(*chart.y.at_least_to);
  }
  if (chart.y.scale != Scale::linear) {
    return range;
  }
  const double room = std::max(range.to - range.from, range.to / percent) * 0.08;
  const bool is_alike = range.from > range.to / 2 && !has_bars;
  range.from = is_alike ? range.from - room : std::min(range.from, 0.0);
  range.to += room;
  return range;
}

constexpr double legend_height = 20;

// Rows of names with their colours; returns how high they are.
double draw_legend(Drawing& drawing, const Chart& chart, double left, double right) {
  if (chart.series.size() < 2) {
    return 0;
  }
  double x = left;
  double y = 0;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const Series& series = chart.series[i];
    constexpr double swatch = 22;
    constexpr double gap = 14;
    const double width = swatch + Drawing::text_width(series.name, small.height) + gap;
    if (x > left && x + width > right) {
      x = left;
      y += legend_height;
    }
    const Colour colour = colour_of(series.role, i);
    if (series.shape == Series::Shape::points) {
      drawing.path(fmt::format("M{} {}h0", x + swatch / 2, y + 9),
                   {.stroke = colour, .stroke_width = 6, .is_round = true});
    } else if (series.shape == Series::Shape::bars) {
      drawing.box(x + 4, y + 4, 10, 10, {.fill = colour});
    } else {
      drawing.line(x, y + 9, x + swatch - 5, y + 9, {.stroke = colour, .stroke_width = 2});
    }
    drawing.text(x + swatch, y + 13, series.name, small);
    x += width;
  }
  return y + legend_height;
}

std::string series_path(const Series& series, const Places& x, const Places& y) {
  std::string d;
  for (const auto& [at, value] : series.points) {
    const auto place = fmt::format("{:.1f} {:.1f}", x(at), y(value));
    if (series.shape == Series::Shape::points) {
      d += fmt::format("M{}h0", place);
    } else if (d.empty()) {
      d = "M" + place;
    } else {
      d += series.shape == Series::Shape::steps ? fmt::format("H{:.1f}V{:.1f}", x(at), y(value)) : "L" + place;
    }
  }
  return d;
}

}  // namespace

DrawnChart draw(const Chart& chart, double width, double height) {
  DrawnChart drawn;
  Drawing& drawing = drawn.drawing;
  const bool is_bars = !chart.categories.empty();
  const Range values = y_range(chart);
  constexpr double line_height = 16;
  // Room for numbers at the left, and names of categories below.
  const Places unplaced(chart.y, values, height, 0);
  double left = 0;
  for (const double tick : unplaced.ticks()) {
    left = std::max(left, Drawing::text_width(unplaced.text(tick), small.height));
  }
  left += 30;
  const double right = width - 12;
  const double category_width = is_bars ? (right - left) / static_cast<double>(chart.categories.size()) : 0;
  double longest = 0;
  for (const std::string& name : chart.categories) {
    longest = std::max(longest, Drawing::text_width(name, small.height));
  }
  const bool is_upward = longest > 2 * category_width;
  const bool is_staggered = !is_upward && longest > category_width;
  const double legend = draw_legend(drawing, chart, left, right);
  const double top = legend + 10;
  // A long legend makes the drawing higher, not the chart lower.
  height += std::max(legend - legend_height, 0.0);
  const double bottom = height - 2 * line_height - 6 - (is_staggered ? line_height : 0);
  // Long names make the drawing higher, not the chart lower.
  height += is_upward ? longest : 0;
  const Places y(chart.y, values, bottom, top);

  for (const Band& band : chart.bands) {
    const double from = std::min(y(band.from) + 3, bottom);
    const double to = std::max(y(band.to) - 3, top);
    drawing.box(left, to, right - left, from - to, {.fill = colour_of(band.role, 0), .opacity = 0.16});
  }
  for (const double tick : y.ticks()) {
    drawing.line(left, y(tick), right, y(tick), {.stroke = Colour::edge});
    drawing.text(left - 5, y(tick) + 4, y.text(tick), small_end);
  }
  drawing.text((left + right) / 2, height - 4, chart.x.title, {.anchor = Anchor::middle});

  const Range span = is_bars ? Range{0, static_cast<double>(chart.categories.size())} : x_range(chart);
  const Places x(chart.x, span, left, right);
  if (is_bars) {
    for (std::size_t i = 0; i < chart.categories.size(); ++i) {
      const double base = bottom + 15 + (is_staggered && i % 2 == 1 ? line_height : 0);
      const double at = left + category_width * (static_cast<double>(i) + 0.5);
      if (is_upward) {
        drawing.upward_text(at + 4, bottom + 7, chart.categories[i], small_end);
      } else {
        drawing.text(at, base, chart.categories[i], small_middle);
      }
    }
    drawn.x_places = fmt::format("categories {} {:.1f} {:.1f}", chart.categories.size(), left, right);
  } else {
    for (const double tick : x.ticks()) {
      drawing.line(x(tick), top, x(tick), bottom + 4, {.stroke = Colour::edge});
      drawing.text(x(tick), bottom + 16, x.text(tick), small_middle);
    }
    constexpr std::array<std::string_view, 3> scales{"linear", "log2", "log10"};
    drawn.x_places = fmt::format("{} {} {} {:.1f} {:.1f}", scales.at(static_cast<std::size_t>(chart.x.scale)),
                                 span.from, span.to, left, right);
  }
  drawing.line(left, bottom, right, bottom, {.stroke = Colour::faint});

  // Where no category has two bars, they need no room beside one another.
  std::multiset<double> places;
  for (const Series& series : chart.series) {
    for (const auto& [at, value] : series.points) {
      places.insert(at);
    }
  }
  const bool is_side_by_side = std::set<double>(places.begin(), places.end()).size() < places.size();
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const Series& series = chart.series[i];
    const Colour colour = colour_of(series.role, i);
    if (series.shape == Series::Shape::bars) {
      const double share = is_side_by_side ? 1.0 / static_cast<double>(chart.series.size()) : 1;
      const double bar = category_width * 0.8 * share;
      for (const auto& [at, value] : series.points) {
        const double begin = left + category_width * (at + 0.1) + (is_side_by_side ? bar * static_cast<double>(i) : 0);
        drawing.box(begin, y(value), std::max(bar - 1, 1.0), y(0) - y(value), {.fill = colour});
      }
      continue;
    }
    constexpr std::size_t many = 40;
    const bool is_long = series.points.size() > many;
    const Paint dots{.stroke = colour, .stroke_width = is_long ? 3.5 : 5.5, .is_round = true};
    if (series.shape == Series::Shape::points) {
      drawing.path(series_path(series, x, y), dots);
      continue;
    }
    drawing.path(series_path(series, x, y), {.stroke = colour, .stroke_width = 2, .is_round = true});
    if (series.shape == Series::Shape::line && !is_long) {
      Series each = series;
      each.shape = Series::Shape::points;
      drawing.path(series_path(each, x, y), dots);
    }
  }
  double mark_base = top + 12;
  for (const Mark& mark : chart.marks) {
    drawing.line(x(mark.x), top, x(mark.x), bottom, {.stroke = Colour::faint, .is_dashed = true});
    const bool is_right = x(mark.x) > (left + right) / 2;
    drawing.text(x(mark.x) + (is_right ? -4 : 4), mark_base, mark.name, is_right ? small_end : small);
    mark_base += line_height;
  }
  for (const Band& band : chart.bands) {
    drawing.text(right - 4, std::max(y(band.to) - 6, top + 12), band.name, small_end);
  }
  drawing.upward_text(11, (top + bottom) / 2, chart.y.title);
  drawing.reach(width, height);
  return drawn;
}

}  // namespace gpuinfer::cli::report
