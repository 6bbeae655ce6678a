// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace gpuinfer::cli::report {

// A vector picture in the making; colours come from the classes of drawing.css. Lengths are in CSS pixels, texts are 13
// high and stand with their base line at y.
class Drawing {
 public:
  void box(double x, double y, double width, double height, std::string_view classes);
  // At x begins the text, or its middle or end with the class `middle` or `end`.
  void text(double x, double y, std::string_view plain, std::string_view classes = {});
  void line(double x1, double y1, double x2, double y2, std::string_view classes = {});
  // `d` as in SVG.
  void path(std::string_view d, std::string_view classes);

  // Text of so many letters takes about this room.
  [[nodiscard]] static double text_width(std::string_view plain);

  // For a page whose style has drawing.css; `title` tells those who do not see it what it shows.
  [[nodiscard]] std::string svg(std::string_view title) const;
  // A file of its own.
  [[nodiscard]] std::string file(std::string_view title) const;

  [[nodiscard]] double width() const { return width_; }
  [[nodiscard]] double height() const { return height_; }
  // Puts `other` into this one.
  void add(const Drawing& other, double x, double y);

 private:
  void reach(double x, double y);
  [[nodiscard]] std::string root(std::string_view title, std::string_view style) const;

  std::string elements_;
  double width_ = 0;
  double height_ = 0;
};

}  // namespace gpuinfer::cli::report
