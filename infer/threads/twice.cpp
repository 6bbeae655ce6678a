// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/twice.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

double allowed(double value, bool in_cycles) {
  return std::max(same_round_share * std::abs(value), in_cycles ? same_round_cycles : 0.0);
}

}  // namespace

std::optional<std::string> why_not_again(std::span<const Twice> rounds, bool in_cycles) {
  const auto excess = [in_cycles](const Twice& each) {
    return std::abs(each.first - each.second) - allowed(each.first, in_cycles);
  };
  const auto worst = std::ranges::max_element(rounds, {}, excess);
  if (worst == rounds.end() || excess(*worst) <= 0) {
    return std::nullopt;
  }
  return "of " + worst->of_what + " one round says " + model::to_text(model::rounded(worst->first)) + " and another " +
         model::to_text(model::rounded(worst->second));
}

Range range_of(std::span<const double> values) {
  const auto [least, most] = std::ranges::minmax(values);
  return {.least = least,
          .mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()),
          .most = most};
}

std::optional<std::string> why_not_again(const std::string& of_what, const Range& first,
                                         std::span<const double> second) {
  const double beyond = allowed(first.mean, true);
  const auto outside = std::ranges::count_if(
      second, [&](double value) { return value < first.least - beyond || value > first.most + beyond; });
  if (static_cast<double>(outside) > most_outside * static_cast<double>(second.size())) {
    return "of " + of_what + " " + std::to_string(outside) + " of " + std::to_string(second.size()) +
           " values of another round lie outside of the first one's";
  }
  const Twice means{.of_what = of_what, .first = first.mean, .second = range_of(second).mean};
  return why_not_again({&means, 1}, true);
}

}  // namespace gpuinfer::infer
