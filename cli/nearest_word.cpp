// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/nearest_word.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace gpuinfer::cli {

namespace {

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row.back();
}

}  // namespace

std::string did_you_mean(std::string_view word, std::span<const std::string> words) {
  const std::string* nearest = nullptr;
  std::size_t least = 0;
  for (const std::string& each : words) {
    const std::size_t letters = distance(word, each);
    if (letters <= std::max<std::size_t>(1, each.size() / 3) && (nearest == nullptr || letters < least)) {
      nearest = &each;
      least = letters;
    }
  }
  return nearest == nullptr ? "" : " (did you mean `" + *nearest + "`?)";
}

}  // namespace gpuinfer::cli
