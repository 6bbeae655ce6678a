// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What must not compile, so that it compiles only while it does not.
#include <gtest/gtest.h>

#include <type_traits>

#include "model/address.hpp"
#include "model/compute_unit.hpp"

namespace gpuinfer::model {
namespace {

static_assert(!std::is_convertible_v<std::uint64_t, Address>, "an offset or a line number is no address");
static_assert(!std::is_convertible_v<Address, std::uint64_t>, "an address is no offset and no line number");
static_assert(!std::is_convertible_v<std::uint32_t, ComputeUnit>, "a number of units, a part, a group is no unit");
static_assert(!std::is_convertible_v<ComputeUnit, std::uint32_t>, "a unit is no number of units, no part, no group");

TEST(Address, PlusAnOffsetIsAnAddressAndDividedByABlockANumber) {
  const Address address{4096};
  EXPECT_EQ(address + 100 - address, 100U);
  EXPECT_EQ((address + 100) / 128, 32U);
  EXPECT_EQ((address + 100) % 128, 100U);
  EXPECT_EQ(aligned_down(address + 100, 128), address);
  EXPECT_EQ(bytes_to_next(address + 100, 128), 28U);
  EXPECT_EQ(bytes_to_next(address, 128), 0U);
}

TEST(ComputeUnit, AllUnitsCountFromZero) {
  EXPECT_EQ(numbers_of(all_units(3)), (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_TRUE(all_units(0).empty());
}

}  // namespace
}  // namespace gpuinfer::model
