// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuinfer::cli::report {

// Each has a light value, which stands in the picture, and a dark one, which pages put in its place.
enum class Colour : std::uint8_t {
  none,
  paper,
  ink,
  faint,
  edge,
  fill,
  accent,
  good,
  bad,
  caution,
  grey,
  accent_tint,
  good_tint,
  bad_tint,
  caution_tint,
  orange,
  teal,
  pink,
  gold,
  sky,
  violet,
};

// Style of a page: each colour as a variable, light and dark, and the drawings in it repainted by them.
[[nodiscard]] std::string palette_css();

struct Paint {
  Colour fill = Colour::none;
  Colour stroke = Colour::none;
  double stroke_width = 1;
  bool is_dashed = false;
  double opacity = 1;
  bool is_round = false;  // ends of strokes: a stroke without length is a dot
};

enum class Anchor : std::uint8_t { begin, middle, end };

struct Letters {
  Colour colour = Colour::ink;
  double height = 12;
  bool is_bold = false;
  Anchor anchor = Anchor::begin;
};

inline constexpr Letters bold{.is_bold = true};
inline constexpr Letters small{.colour = Colour::faint, .height = 11};
inline constexpr Letters small_middle{.colour = Colour::faint, .height = 11, .anchor = Anchor::middle};
inline constexpr Letters small_end{.colour = Colour::faint, .height = 11, .anchor = Anchor::end};
inline constexpr Letters middle{.anchor = Anchor::middle};

// A box as a piece of a path, for many boxes of one colour.
[[nodiscard]] std::string cell_path(double x, double y, double width, double height);

// A vector picture in the making: SVG that needs no style sheet. Lengths are in CSS pixels; texts stand with their base
// line at y.
class Drawing {
 public:
  void box(double x, double y, double width, double height, const Paint& paint, double radius = 0);
  void text(double x, double y, std::string_view plain, const Letters& letters = {});
  // One behind the other, as wide as the font makes them.
  void texts(double x, double y, const std::vector<std::pair<std::string, Letters>>& all);
  // Turned by a quarter, its anchor at y.
  void upward_text(double x, double y, std::string_view plain, const Letters& letters = middle);
  void line(double x1, double y1, double x2, double y2, const Paint& paint);
  // `d` as in SVG, inside what the other elements reach.
  void path(std::string_view d, const Paint& paint);
  // From left to right or upside down, with a tip at its end.
  void arrow(double x1, double y1, double x2, double y2);
  // Makes it at least so large.
  void reach(double x, double y);
  // Puts `other` into this one.
  void add(const Drawing& other, double x, double y);

  // No font is narrower by much, none that is usual is wider.
  [[nodiscard]] static double text_width(std::string_view plain, double height = 12, bool is_bold = false);

  // Part of a page; `title` tells those who do not see it what it shows.
  [[nodiscard]] std::string svg(std::string_view title) const;
  // A file of its own, with white paper around it.
  [[nodiscard]] std::string file(std::string_view title) const;

  [[nodiscard]] double width() const { return width_; }
  [[nodiscard]] double height() const { return height_; }

 private:
  [[nodiscard]] std::string root(std::string_view title, double margin, Colour paper) const;

  std::string elements_;
  double width_ = 0;
  double height_ = 0;
};

}  // namespace gpuinfer::cli::report
