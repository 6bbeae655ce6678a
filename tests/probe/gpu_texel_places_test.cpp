// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/gpu/texel_places.hpp"

#include <gtest/gtest.h>

namespace gpuinfer::probe::gpu {
namespace {

TEST(TexelPlaces, PlacesAreThoseOfAllNumbers) {
  EXPECT_EQ(places_of_numbers(std::vector<std::uint32_t>{0, 3, 1, 9, 2}, 3), (std::vector<std::uint32_t>{2, 4, 1}));
  EXPECT_TRUE(places_of_numbers(std::vector<std::uint32_t>{3, 1, 0}, 3).empty());
  EXPECT_TRUE(places_of_numbers(std::vector<std::uint32_t>{1, 2, 2}, 2).empty());
}

TEST(TexelPlaces, OffsetsInATexelStayThere) {
  const std::vector<std::uint32_t> places{2, 4, 1};
  const std::vector<std::uint64_t> offsets{0, 5, 8};
  EXPECT_EQ(places_of_offsets(places, offsets), (std::vector<std::uint64_t>{8, 17, 4}));
  EXPECT_EQ(places_of_offsets({}, offsets), std::nullopt);
}

}  // namespace
}  // namespace gpuinfer::probe::gpu
