// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace gpuinfer::model {
struct Sweep;
}

// Values in words, for people.
namespace gpuinfer::model::words {

// 12288 -> "12,288"
[[nodiscard]] std::string grouped(std::uint64_t number);
// 12288 -> "12 KiB", 12289 -> "12,289 B"
[[nodiscard]] std::string bytes(std::uint64_t size);
// {12288, 13000} -> "12 to 12.7 KiB"
[[nodiscard]] std::string bytes(const std::array<double, 2>& interval);
// {17, 8, 8, 8} -> "17, 3 x 8"
[[nodiscard]] std::string ways(const std::vector<std::uint32_t>& ways);
// 4 banks; when full, a pointer takes 1 line after a hit, 2 after a replacement, 5 after a fill
[[nodiscard]] std::string sweep(const Sweep& sweep);
// One behind the other.
[[nodiscard]] std::string together(std::initializer_list<std::string_view> parts);
template <class Texts>
[[nodiscard]] std::string joined(const Texts& texts, std::string_view separator = ", ") {
  std::string all;
  for (const std::string_view text : texts) {
    all += all.empty() ? "" : separator;
    all += text;
  }
  return all;
}
// To so many significant digits.
[[nodiscard]] std::string rounded(double number, int digits);

}  // namespace gpuinfer::model::words
