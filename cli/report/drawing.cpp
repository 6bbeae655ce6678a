// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/drawing.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/report/assets.hpp"
#include "cli/report/markup.hpp"

namespace gpuinfer::cli::report {

void Drawing::reach(double x, double y) {
  width_ = std::max(width_, x);
  height_ = std::max(height_, y);
}

void Drawing::box(double x, double y, double width, double height, std::string_view classes) {
  elements_ +=
      fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"{}\"/>\n", x, y, width, height, classes);
  reach(x + width, y + height);
}

void Drawing::text(double x, double y, std::string_view plain, std::string_view classes) {
  elements_ += fmt::format("<text x=\"{}\" y=\"{}\" class=\"{}\">{}</text>\n", x, y, classes, escaped(plain));
  const bool is_middle = classes.find("middle") != std::string_view::npos;
  const bool is_end = classes.find("end") != std::string_view::npos;
  reach(x + (is_end ? 0 : text_width(plain) / (is_middle ? 2 : 1)), y + 4);
}

void Drawing::line(double x1, double y1, double x2, double y2, std::string_view classes) {
  elements_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\"/>\n", x1, y1, x2, y2, classes);
  reach(std::max(x1, x2), std::max(y1, y2));
}

void Drawing::path(std::string_view d, std::string_view classes) {
  elements_ += fmt::format("<path d=\"{}\" class=\"{}\"/>\n", d, classes);
}

double Drawing::text_width(std::string_view plain) {
  constexpr double letter = 7.2;
  return letter * static_cast<double>(plain.size());
}

void Drawing::add(const Drawing& other, double x, double y) {
  elements_ += fmt::format("<g transform=\"translate({} {})\">\n{}</g>\n", x, y, other.elements_);
  reach(x + other.width_, y + other.height_);
}

std::string Drawing::root(std::string_view title, std::string_view style) const {
  constexpr double margin = 2;
  const double width = width_ + 2 * margin;
  const double height = height_ + 2 * margin;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"drawing\" role=\"img\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"{2} {2} {0} {1}\">\n<title>{3}</title>\n{4}{5}</svg>\n",
      width, height, -margin, escaped(title), style, elements_);
}

std::string Drawing::svg(std::string_view title) const { return root(title, ""); }

std::string Drawing::file(std::string_view title) const {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" +
         root(title, fmt::format("<style>\n{}</style>\n<rect x=\"-2\" y=\"-2\" width=\"100%\" height=\"100%\" "
                                 "class=\"paper\"/>\n",
                                 escaped(drawing_css)));
}

}  // namespace gpuinfer::cli::report
