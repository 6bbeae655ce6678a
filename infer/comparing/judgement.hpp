// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

// What comes out of the comparison of two values.
namespace gpuinfer::infer {

enum class Verdict {
  same,
  differs,
  less_certain,  // only one of them knows
  open,          // neither knows
};

[[nodiscard]] constexpr std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::same:
      return "same";
    case Verdict::differs:
      return "differs";
    case Verdict::less_certain:
      return "less_certain";
    case Verdict::open:
      break;
  }
  return "open";
}

struct Judgement {
  Verdict verdict = Verdict::same;
  std::string note;  // by how much, how it was told, or what is missing
};

[[nodiscard]] inline Judgement same(std::string note = "") {
  return {.verdict = Verdict::same, .note = std::move(note)};
}
[[nodiscard]] inline Judgement different(std::string note = "") {
  return {.verdict = Verdict::differs, .note = std::move(note)};
}

struct Interval {
  double least = 0;
  double most = 0;

  [[nodiscard]] bool overlaps(const Interval& other) const { return least <= other.most && other.least <= most; }
};

}  // namespace gpuinfer::infer
