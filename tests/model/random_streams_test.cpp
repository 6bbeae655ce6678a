// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0

// What would prove it wrong: the same seed and name that draw otherwise, or streams that share what they draw though
// their seeds, names or numbers are close.
#include "model/random_streams.hpp"

#include <gtest/gtest.h>

#include <set>

namespace gpuinfer::model {
namespace {

TEST(RandomStreams, AreTheSameForTheSameSeedNameAndNumbers) {
  EXPECT_EQ(RandomStreams(7).random("packings", 3)(), RandomStreams(7).random("packings", 3)());
  EXPECT_EQ(RandomStreams(7).random("laps")(), RandomStreams(7).random("laps")());
}

TEST(RandomStreams, HaveNothingInCommon) {
  constexpr std::uint64_t seeds = 8;
  constexpr std::uint64_t numbers = 64;
  constexpr std::size_t draws = 100;
  std::set<std::uint64_t> drawn;
  const auto draw_from = [&](Random random) {
    for (std::size_t draw = 0; draw < draws; ++draw) {
      drawn.insert(random());
    }
  };
  std::size_t streams = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    for (const char* name : {"", "laps", "packings", "packing"}) {
      draw_from(RandomStreams(seed).random(name));
      ++streams;
      for (std::uint64_t number = 0; number < numbers; ++number) {
        draw_from(RandomStreams(seed).random(name, number));
        draw_from(RandomStreams(seed).random(name, number, number + 1));
        streams += 2;
      }
    }
  }
  EXPECT_EQ(drawn.size(), streams * draws);
}

}  // namespace
}  // namespace gpuinfer::model
