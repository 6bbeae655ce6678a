// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/report/markup.hpp"

namespace gpuinfer::cli::report {

namespace {

struct NamedColour {
  std::string_view name;
  std::string_view light;
  std::string_view dark;
};

// By number of Colour. The saturated ones are told apart by people who see few colours (Okabe & Ito). No two are alike
// in light, since pages find them by that.
constexpr std::array<NamedColour, 21> colours{{{"none", "none", "none"},
                                               {"paper", "#ffffff", "#14181c"},
                                               {"ink", "#1c2024", "#e6e9ec"},
                                               {"faint", "#565f68", "#a3adb6"},
                                               {"edge", "#c9d0d6", "#3a434b"},
                                               {"fill", "#eef1f4", "#222930"},
                                               {"accent", "#0b6bb8", "#6db5f5"},
                                               {"good", "#1b7837", "#6fcf8b"},
                                               {"bad", "#b2182b", "#ff8b8b"},
                                               {"caution", "#8a5a00", "#e8b04a"},
                                               {"grey", "#7a7f85", "#9aa3ab"},
                                               {"accent-tint", "#cfe2f3", "#1d3b57"},
                                               {"good-tint", "#d3e8da", "#1f4430"},
                                               {"bad-tint", "#f3d3d7", "#54262c"},
                                               {"caution-tint", "#f4e6c8", "#4a3a16"},
                                               {"orange", "#d55e00", "#ff9a4d"},
                                               {"teal", "#009e73", "#3fd0a5"},
                                               {"pink", "#cc79a7", "#e5a3c8"},
                                               {"gold", "#b08900", "#e0bd3c"},
                                               {"sky", "#56b4e9", "#8fd0f7"},
                                               {"violet", "#8a6bd1", "#b79df0"}}};

const NamedColour& named(Colour colour) { return colours.at(static_cast<std::size_t>(colour)); }

std::string variables(std::string_view NamedColour::*shade) {
  std::string text;
  for (const NamedColour& each : colours) {
    text += each.light == "none" ? "" : fmt::format("--{}:{};", each.name, each.*shade);
  }
  return text;
}

// Without zeros behind the point.
std::string length(double pixels) {
  constexpr double digits = 100;
  return fmt::format("{}", std::round(pixels * digits) / digits);
}

std::string attributes(const Paint& paint) {
  std::string text = fmt::format(" fill=\"{}\"", named(paint.fill).light);
  if (paint.stroke != Colour::none) {
    text += fmt::format(" stroke=\"{}\"", named(paint.stroke).light);
    text += paint.stroke_width != 1 ? fmt::format(" stroke-width=\"{}\"", length(paint.stroke_width)) : "";
    text += paint.is_dashed ? " stroke-dasharray=\"4 3\"" : "";
    text += paint.is_round ? " stroke-linecap=\"round\" stroke-linejoin=\"round\"" : "";
  }
  return text + (paint.opacity != 1 ? fmt::format(" opacity=\"{}\"", length(paint.opacity)) : "");
}

std::string attributes(const Letters& letters) {
  constexpr std::array<std::string_view, 3> anchors{"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  return fmt::format(" font-size=\"{}\" fill=\"{}\"{}{}", letters.height, named(letters.colour).light,
                     letters.is_bold ? " font-weight=\"bold\"" : "",
                     anchors.at(static_cast<std::size_t>(letters.anchor)));
}

// Of DejaVu Sans, the widest of usual fonts, in shares of the height.
double letter_width(char letter) {
  constexpr std::string_view narrow = "ijlI.,:;|'![]() ";
  constexpr std::string_view wide = "mwMW%@";
  constexpr double narrow_width = 0.36;
  constexpr double usual_width = 0.62;
  constexpr double wide_width = 0.95;
  return narrow.find(letter) != std::string_view::npos ? narrow_width
         : wide.find(letter) != std::string_view::npos ? wide_width
                                                       : usual_width;
}

}  // namespace

std::string palette_css() {
  std::string css = ":root{" + variables(&NamedColour::light) +
                    "}\n@media screen and (prefers-color-scheme:dark){:root{" + variables(&NamedColour::dark) + "}}\n";
  for (const NamedColour& each : colours) {
    if (each.light != "none") {
      css += fmt::format(".drawing [fill=\"{0}\"]{{fill:var(--{1})}}.drawing [stroke=\"{0}\"]{{stroke:var(--{1})}}\n",
                         each.light, each.name);
    }
  }
  return css;
}

void Drawing::reach(double x, double y) {
  width_ = std::max(width_, x);
  height_ = std::max(height_, y);
}

std::string cell_path(double x, double y, double width, double height) {
  return fmt::format("M{:.2f} {:.2f}h{:.2f}v{:.2f}h-{:.2f}z", x, y, width, height, width);
}

void Drawing::box(double x, double y, double width, double height, const Paint& paint, double radius) {
  elements_ +=
      fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}{}/>\n", length(x), length(y), length(width),
                  length(height), radius > 0 ? fmt::format(" rx=\"{}\"", radius) : "", attributes(paint));
  reach(x + width, y + height);
}

void Drawing::text(double x, double y, std::string_view plain, const Letters& letters) {
  if (plain.empty()) {
    return;
  }
  constexpr std::array<double, 3> right_of_anchor{1, 0.5, 0};
  elements_ +=
      fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", length(x), length(y), attributes(letters), escaped(plain));
  reach(x + text_width(plain, letters.height, letters.is_bold) *
                right_of_anchor.at(static_cast<std::size_t>(letters.anchor)),
        y + 4);
}

void Drawing::texts(double x, double y, const std::vector<std::pair<std::string, Letters>>& all) {
  elements_ += fmt::format("<text x=\"{}\" y=\"{}\" xml:space=\"preserve\">", length(x), length(y));
  double width = 0;
  for (const auto& [plain, letters] : all) {
    elements_ +=
        fmt::format("<tspan font-size=\"{}\" fill=\"{}\"{}>{}</tspan>", letters.height, named(letters.colour).light,
                    letters.is_bold ? " font-weight=\"bold\"" : "", escaped(plain));
    width += text_width(plain, letters.height, letters.is_bold);
  }
  elements_ += "</text>\n";
  reach(x + width, y + 4);
}

void Drawing::upward_text(double x, double y, std::string_view plain, const Letters& letters) {
  elements_ += fmt::format("<text transform=\"translate({} {}) rotate(-90)\"{}>{}</text>\n", length(x), length(y),
                           attributes(letters), escaped(plain));
}

void Drawing::line(double x1, double y1, double x2, double y2, const Paint& paint) {
  elements_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}/>\n", length(x1), length(y1), length(x2),
                           length(y2), attributes(paint));
  reach(std::max(x1, x2), std::max(y1, y2));
}

void Drawing::path(std::string_view d, const Paint& paint) {
  if (!d.empty()) {
    elements_ += fmt::format("<path d=\"{}\"{}/>\n", d, attributes(paint));
  }
}

void Drawing::arrow(double x1, double y1, double x2, double y2) {
  constexpr double tip = 8;
  const bool is_upright = x1 == x2;
  line(x1, y1, is_upright ? x2 : x2 - tip, is_upright ? y2 - tip : y2, {.stroke = Colour::faint, .stroke_width = 1.5});
  path(is_upright ? fmt::format("M{} {}l-4 -8h8z", length(x2), length(y2))
                  : fmt::format("M{} {}l-8 -4v8z", length(x2), length(y2)),
       {.fill = Colour::faint});
}

void Drawing::add(const Drawing& other, double x, double y) {
  elements_ += fmt::format("<g transform=\"translate({} {})\">\n{}</g>\n", length(x), length(y), other.elements_);
  reach(x + other.width_, y + other.height_);
}

double Drawing::text_width(std::string_view plain, double height, bool is_bold) {
  double width = 0;
  for (const char letter : plain) {
    width += letter_width(letter);
  }
  constexpr double wider_if_bold = 1.1;
  return width * height * (is_bold ? wider_if_bold : 1);
}

std::string Drawing::root(std::string_view title, double margin, Colour paper) const {
  const double width = std::ceil(width_ + 2 * margin);
  const double height = std::ceil(height_ + 2 * margin);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"drawing\" role=\"img\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"{2} {2} {0} {1}\" font-family=\"'DejaVu Sans', Verdana, sans-serif\" font-size=\"12\">\n"
      "<title>{3}</title>\n",
      width, height, -margin, escaped(title));
  if (paper != Colour::none) {
    text += fmt::format("<rect x=\"{2}\" y=\"{2}\" width=\"{0}\" height=\"{1}\" fill=\"{3}\"/>\n", width, height,
                        -margin, named(paper).light);
  }
  return text + elements_ + "</svg>\n";
}

std::string Drawing::svg(std::string_view title) const { return root(title, 2, Colour::none); }

std::string Drawing::file(std::string_view title) const {
  constexpr double margin = 16;
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + root(title, margin, Colour::paper);
}

}  // namespace gpuinfer::cli::report
