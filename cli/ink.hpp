// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "model/device_description.hpp"

namespace gpuinfer::cli {

// Colours of words in a terminal; everything stays as it is where they are not wanted. What has a colour says the same
// without it.
class Ink {
 public:
  Ink() = default;  // none
  explicit Ink(bool colours) : colours_(colours) {}

  // Colours if stdout is a terminal and NO_COLOR is not set (https://no-color.org).
  [[nodiscard]] static Ink of_stdout();

  // `text` may be padded.
  [[nodiscard]] std::string status(model::EvidenceStatus status, const std::string& text) const;
  [[nodiscard]] std::string hit(const std::string& text) const;
  [[nodiscard]] std::string miss(const std::string& text) const;

 private:
  bool colours_ = false;
};

}  // namespace gpuinfer::cli
