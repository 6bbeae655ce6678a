// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include "model/fnv.hpp"
#include "model/random.hpp"

namespace gpuinfer::model {

// All random choices of a run follow from one seed, each kind of them from a stream of its own. A stream is known by
// the name of what is drawn and, where that is drawn anew again and again, by numbers: random("packings", 3). The same
// seed, name and numbers give the same stream; streams that differ in any of them have nothing in common.
class RandomStreams {
 public:
  explicit RandomStreams(std::uint64_t seed) : seed_(seed) {}

  template <std::integral... Numbers>
  [[nodiscard]] Random random(std::string_view name, Numbers... numbers) const {
    std::uint64_t state = mixed(seed_, fnv1a(name));
    ((state = mixed(state, static_cast<std::uint64_t>(numbers))), ...);
    return Random(state);
  }

 private:
  static std::uint64_t mixed(std::uint64_t a, std::uint64_t b) { return Random(Random(a)() ^ b)(); }

  std::uint64_t seed_;
};

}  // namespace gpuinfer::model
