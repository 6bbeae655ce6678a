// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <utility>

// The numbers that the distributions of libstdc++ draw, bit by bit. Those ask for two logarithms with each, which clang
// does not work out when it compiles: a fifth of what the tests of noisy devices do.
namespace gpuinfer::infer {

// As std::uniform_real_distribution does, from 0 to below 1.
[[nodiscard]] inline double drawn_unit(std::mt19937_64& random) {
  return std::min(static_cast<double>(random()) * 0x1p-64, std::nextafter(1.0, 0.0));
}

// As std::normal_distribution does, of mean 0 and deviation 1: two at a time, of which the second is kept.
class DrawnNormal {
 public:
  [[nodiscard]] double operator()(std::mt19937_64& random) {
    if (kept_) {
      return *std::exchange(kept_, std::nullopt);
    }
    double x = 0;
    double y = 0;
    double square = 0;
    do {
      x = 2 * drawn_unit(random) - 1;
      y = 2 * drawn_unit(random) - 1;
      square = x * x + y * y;
    } while (square > 1 || square == 0);
    const double factor = std::sqrt(-2 * std::log(square) / square);
    kept_ = x * factor;
    return y * factor;
  }

 private:
  std::optional<double> kept_;
};

}  // namespace gpuinfer::infer
