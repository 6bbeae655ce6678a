// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace gpuinfer::oracle {

// Chance that is the same on every platform and shares nothing with model/random.hpp.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}

  // In [0, bound); bound > 0. The slight preference for small numbers is below anything that a test could see.
  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }
  // In [least, most].
  std::uint64_t between(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  // In [0, 1).
  double unit() { return static_cast<double>(engine_() >> 11U) * 0x1.0p-53; }

  template <class T>
  const T& one_of(const std::vector<T>& things) {
    return things[below(things.size())];
  }

  template <class T>
  void shuffle(std::vector<T>& things) {
    for (std::size_t i = things.size(); i > 1; --i) {
      std::swap(things[i - 1], things[below(i)]);
    }
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace gpuinfer::oracle
