// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/random_lines.hpp"

#include <gtest/gtest.h>

#include <set>

namespace gpuinfer::infer {
namespace {

constexpr model::BufferFacts buffer_in_midst_of_a_line{.bytes = 64 * 128, .address = model::Address{1000}};

TEST(RandomLines, AreWholeDifferentAndAllOverTheBuffer) {
  RandomLines lines(buffer_in_midst_of_a_line, 128, model::Random(1));
  const AccessSequence drawn = lines.draw(63);
  const std::set<std::uint64_t> different(drawn.begin(), drawn.end());
  EXPECT_EQ(different.size(), 63U);
  EXPECT_EQ(*different.begin(), 24U);
  EXPECT_EQ(*different.rbegin(), 24U + 62 * 128);
  for (const std::uint64_t offset : drawn) {
    EXPECT_EQ(lines.address_of(offset) % 128, 0U);
  }
}

TEST(RandomLines, MoreThanTheBufferHasAreNotDrawn) {
  RandomLines lines(buffer_in_midst_of_a_line, 128, model::Random(1));
  EXPECT_THROW(static_cast<void>(lines.draw(64)), NoSweptStore);
  EXPECT_THROW(static_cast<void>(lines.draw(1, [](std::uint64_t /*offset*/) { return false; })), NoSweptStore);
}

}  // namespace
}  // namespace gpuinfer::infer
