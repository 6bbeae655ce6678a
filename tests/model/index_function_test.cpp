// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/index_function.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace gpuinfer::model {
namespace {

TEST(IndexFunction, BitsAreTakenInTheOrderTheyAreNamed) {
  const IndexFunction index = BitsIndex{{8, 7}};
  EXPECT_EQ(kind_name(index), "bits");
  EXPECT_EQ(sets(index), 4U);
  EXPECT_EQ(set_of(index, 0x100), 1U);
  EXPECT_EQ(set_of(index, 0x080), 2U);
  EXPECT_EQ(set_of(index, 0x180 | 0x7f | 0x200), 3U);
}

TEST(IndexFunction, NoBitsMakeOneSet) {
  EXPECT_EQ(sets(IndexFunction(BitsIndex{})), 1U);
  EXPECT_EQ(set_of(IndexFunction(BitsIndex{}), 12345), 0U);
}

TEST(IndexFunction, XorIsParityThenConstant) {
  const IndexFunction index = XorIndex{.row_masks = {1U << 7U | 1U << 12U, 1U << 8U}, .constant = 2};
  EXPECT_EQ(kind_name(index), "xor");
  EXPECT_EQ(sets(index), 4U);
  EXPECT_EQ(set_of(index, 0), 2U);
  EXPECT_EQ(set_of(index, 1U << 7U), 3U);
  EXPECT_EQ(set_of(index, 1U << 7U | 1U << 12U), 2U);
  EXPECT_EQ(set_of(index, 1U << 8U), 0U);
}

TEST(IndexFunction, XorReachesTheHighestAddressBit) {
  const IndexFunction index = XorIndex{.row_masks = {std::uint64_t{1} << 63U}, .constant = 0};
  EXPECT_EQ(set_of(index, std::numeric_limits<std::uint64_t>::max()), 1U);
}

TEST(IndexFunction, ModuloCountsGranules) {
  const IndexFunction index = ModuloIndex{.granule_bytes = 100, .sets_count = 7};
  EXPECT_EQ(kind_name(index), "modulo");
  EXPECT_EQ(sets(index), 7U);
  EXPECT_EQ(set_of(index, 99), 0U);
  EXPECT_EQ(set_of(index, 100), 1U);
  EXPECT_EQ(set_of(index, 700), 0U);
}

TEST(IndexFunction, SumAddsFieldsModuloSets) {
  const IndexFunction index = SumIndex{.fields = {{{7, 8}}, {{13, 14}}}, .sets_count = 3};
  EXPECT_EQ(kind_name(index), "sum");
  EXPECT_EQ(sets(index), 3U);
  EXPECT_EQ(set_of(index, 3U << 7U), 0U);
  EXPECT_EQ(set_of(index, (2U << 7U) | (3U << 13U)), 2U);
}

TEST(IndexFunction, TableRepeatsInBothDirectionsFromItsOrigin) {
  const IndexFunction index = TableIndex{.granule_bytes = 10, .sets_of = {2, 0, 1}, .origin = 50, .range_bytes = {}};
  EXPECT_EQ(kind_name(index), "table");
  EXPECT_EQ(sets(index), 3U);
  EXPECT_EQ(set_of(index, 50), 2U);
  EXPECT_EQ(set_of(index, 69), 0U);
  EXPECT_EQ(set_of(index, 80), 2U);
  EXPECT_EQ(set_of(index, 49), 1U);
  EXPECT_EQ(set_of(index, 0), 0U);
  EXPECT_TRUE(covers(index, 0));
}

TEST(IndexFunction, TableWithARangeKnowsNothingOutsideIt) {
  const IndexFunction index = TableIndex{.granule_bytes = 10, .sets_of = {0, 1}, .origin = 50, .range_bytes = 20};
  EXPECT_FALSE(covers(index, 49));
  EXPECT_TRUE(covers(index, 50));
  EXPECT_TRUE(covers(index, 69));
  EXPECT_FALSE(covers(index, 70));
  EXPECT_TRUE(covers(IndexFunction(BitsIndex{{3}}), 70));
}

}  // namespace
}  // namespace gpuinfer::model
