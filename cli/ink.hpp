// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "model/device_description.hpp"

namespace gpuinfer::cli {

// How wide the terminal is that this open file is, within reason; 80 of anything else.
[[nodiscard]] std::size_t columns_of(int file);

// Colours of words in a terminal; everything stays as it is where they are not wanted. What has a colour says the same
// without it.
class Ink {
 public:
  Ink() = default;  // none
  explicit Ink(bool colours) : colours_(colours) {}

  // Colours if stdout is a terminal and NO_COLOR is not set (https://no-color.org).
  [[nodiscard]] static Ink of_stdout();

  [[nodiscard]] bool has_colours() const { return colours_; }

  // How many bytes at the beginning of `text` set a colour, or end it: none where it begins otherwise.
  [[nodiscard]] static std::size_t length_of_colour(std::string_view text);

  // `text` may be padded.
  [[nodiscard]] std::string status(model::EvidenceStatus status, const std::string& text) const;
  [[nodiscard]] std::string hit(const std::string& text) const;
  [[nodiscard]] std::string miss(const std::string& text) const;

 private:
  bool colours_ = false;
};

}  // namespace gpuinfer::cli
