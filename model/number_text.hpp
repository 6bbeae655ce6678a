// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <optional>
#include <string>

// Numbers as they stand in descriptions, the same whatever the locale.
namespace gpuinfer::model {

// The shortest text that reads back as the same number. Before an exponent there is a point: readers of YAML 1.1 take
// 1e+12 for text.
[[nodiscard]] inline std::string to_text(double number) {
  std::array<char, 32> buffer{};
  std::string text(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr);
  if (const std::size_t exponent = text.find('e');
      exponent != std::string::npos && text.find('.') == std::string::npos) {
    text.insert(exponent, ".0");
  }
  return text;
}

template <std::integral Integer>
[[nodiscard]] std::string to_text(Integer number) {
  return std::to_string(number);
}

// To so many significant digits, by default about as many as a measurement repeats: 0 for what is not positive.
[[nodiscard]] inline double rounded(double value, int digits = 4) {
  const double scale = value > 0 ? std::pow(10, digits - 1 - std::floor(std::log10(value))) : 1;
  return scale < 1 ? std::round(value * scale) * std::round(1 / scale) : std::round(value * scale) / scale;
}

[[nodiscard]] inline std::string whole_text(double number) { return std::to_string(std::llround(number)); }

[[nodiscard]] inline std::string percent_text(double share) { return to_text(std::round(share * 1000) / 10) + " %"; }

// None unless all of `text` is a number that fits.
template <class Number>
[[nodiscard]] std::optional<Number> number_from(const std::string& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

}  // namespace gpuinfer::model
