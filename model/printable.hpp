// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>

namespace gpuinfer {

// A sentence that may quote what somebody wrote into a file, without what would steer a terminal or begin another line.
[[nodiscard]] inline std::string printable(std::string sentence) {
  constexpr char delete_character = '\x7f';
  std::replace_if(
      sentence.begin(), sentence.end(), [](char c) { return (c >= '\0' && c < ' ') || c == delete_character; }, '?');
  return sentence;
}

}  // namespace gpuinfer
