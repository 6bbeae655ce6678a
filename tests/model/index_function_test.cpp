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
  EXPECT_EQ(set_of(index, Address{0x100}), 1U);
  EXPECT_EQ(set_of(index, Address{0x080}), 2U);
  EXPECT_EQ(set_of(index, Address{0x180 | 0x7f | 0x200}), 3U);
}

TEST(IndexFunction, NoBitsMakeOneSet) {
  EXPECT_EQ(sets(IndexFunction(BitsIndex{})), 1U);
  EXPECT_EQ(set_of(IndexFunction(BitsIndex{}), Address{12345}), 0U);
}

TEST(IndexFunction, XorIsParityThenConstant) {
  const IndexFunction index = XorIndex{.row_masks = {1U << 7U | 1U << 12U, 1U << 8U}, .constant = 2};
  EXPECT_EQ(kind_name(index), "xor");
  EXPECT_EQ(sets(index), 4U);
  EXPECT_EQ(set_of(index, Address{0}), 2U);
  EXPECT_EQ(set_of(index, Address{1U << 7U}), 3U);
  EXPECT_EQ(set_of(index, Address{1U << 7U | 1U << 12U}), 2U);
  EXPECT_EQ(set_of(index, Address{1U << 8U}), 0U);
}

TEST(IndexFunction, XorReachesTheHighestAddressBit) {
  const IndexFunction index = XorIndex{.row_masks = {std::uint64_t{1} << 63U}, .constant = 0};
  EXPECT_EQ(set_of(index, Address{std::numeric_limits<std::uint64_t>::max()}), 1U);
}

TEST(IndexFunction, ModuloCountsGranules) {
  const IndexFunction index = ModuloIndex{.granule_bytes = 100, .sets_count = 7};
  EXPECT_EQ(kind_name(index), "modulo");
  EXPECT_EQ(sets(index), 7U);
  EXPECT_EQ(set_of(index, Address{99}), 0U);
  EXPECT_EQ(set_of(index, Address{100}), 1U);
  EXPECT_EQ(set_of(index, Address{700}), 0U);
}

TEST(IndexFunction, SumAddsFieldsModuloSets) {
  const IndexFunction index = SumIndex{.fields = {{{7, 8}}, {{13, 14}}}, .sets_count = 3};
  EXPECT_EQ(kind_name(index), "sum");
  EXPECT_EQ(sets(index), 3U);
  EXPECT_EQ(set_of(index, Address{3U << 7U}), 0U);
  EXPECT_EQ(set_of(index, Address{(2U << 7U) | (3U << 13U)}), 2U);
}

TEST(IndexFunction, TableRepeatsInBothDirectionsFromItsOrigin) {
  const IndexFunction index = TableIndex{.granule_bytes = 10, .sets_of = {2, 0, 1}, .origin = 50, .range_bytes = {}};
  EXPECT_EQ(kind_name(index), "table");
  EXPECT_EQ(sets(index), 3U);
  EXPECT_EQ(set_of(index, Address{50}), 2U);
  EXPECT_EQ(set_of(index, Address{69}), 0U);
  EXPECT_EQ(set_of(index, Address{80}), 2U);
  EXPECT_EQ(set_of(index, Address{49}), 1U);
  EXPECT_EQ(set_of(index, Address{0}), 0U);
  EXPECT_TRUE(covers(index, Address{0}));
}

TEST(IndexFunction, TableWithARangeKnowsNothingOutsideIt) {
  const IndexFunction index = TableIndex{.granule_bytes = 10, .sets_of = {0, 1}, .origin = 50, .range_bytes = 20};
  EXPECT_FALSE(covers(index, Address{49}));
  EXPECT_TRUE(covers(index, Address{50}));
  EXPECT_TRUE(covers(index, Address{69}));
  EXPECT_FALSE(covers(index, Address{70}));
  EXPECT_TRUE(covers(IndexFunction(BitsIndex{{3}}), Address{70}));
}

TEST(IndexFunction, HashIsATupleOfParitiesAndTerms) {
  const HashIndex::Term term{.modulo = 9, .shift = 4, .weights = {1, 2}, .row_masks = {0b1, 0b110}};
  const IndexFunction index =
      HashIndex{.row_masks = {0b11, 0b100}, .constant = 2, .terms = {term, {.modulo = 2, .shift = 9}}};
  EXPECT_EQ(kind_name(index), "hash");
  EXPECT_EQ(sets(index), 4U * 9 * 2);
  EXPECT_EQ(set_of(index, Address{0}), 2U);
  EXPECT_EQ(set_of(index, Address{0b1}), 4U * 1 + 3);
  EXPECT_EQ(set_of(index, Address{0b100}), 4U * 2 + 0);
  EXPECT_EQ(set_of(index, Address{8U << 4U}), 4U * 8 + 2);
  EXPECT_EQ(set_of(index, Address{8U << 4U | 0b100}), 4U * 1 + 0);
  EXPECT_EQ(set_of(index, Address{1U << 9U}), 4U * 9 + 4U * (32 % 9) + 2);
  // Modulo what it says, not modulo 2^64.
  EXPECT_EQ(set_of(IndexFunction(HashIndex{.row_masks = {},
                                           .constant = 0,
                                           .terms = {{.modulo = 7, .shift = 0, .weights = {6}, .row_masks = {1}}}}),
                   Address{std::numeric_limits<std::uint64_t>::max()}),
            (std::numeric_limits<std::uint64_t>::max() % 7 + 6) % 7);
}

TEST(IndexFunction, QuotientNamesASliceAndASetInIt) {
  // N = address / 16 with two parities below it, 3 parts by its remainder and 2 by a parity; of N / 3, with bit 0 below
  // it, 5 sets.
  const QuotientIndex index{.row_masks = {0b1000},
                            .divisor = 3,
                            .shift = 4,
                            .digit_masks = {0b10, 0b110},
                            .constant = 0,
                            .beside_masks = {0b1},
                            .set = {.row_masks = {}, .constant = 0, .terms = {{.modulo = 5, .shift = 0}}}};
  EXPECT_EQ(sets(index), 2U * 3 * 5);
  EXPECT_EQ(set_of(index, Address{0}), 0U);
  EXPECT_EQ(set_of(index, Address{0b1000}), 1U);
  EXPECT_EQ(set_of(index, Address{0b10}), 2U * (0 * 3 + 0) + 2U * (2 * 3));         // N = 3: remainder 0, quotient 1
  EXPECT_EQ(set_of(index, Address{0b100}), 2U * 2);                                 // N = 2
  EXPECT_EQ(set_of(index, Address{0b1}), 2U * (1 * 3));                             // N = 0, beside it 1
  EXPECT_EQ(set_of(index, Address{7U << 4U | 0b1111}), 2U * (4 * 3 + 29 % 3) + 1);  // N = 29: 2 x 9 + 1 = 19
  QuotientIndex flipped = index;
  flipped.constant = 0b10;
  EXPECT_EQ(flipped.set_of(Address{0}), index.set_of(Address{0b100}));
}

TEST(IndexFunction, SaysWhatItIs) {
  EXPECT_EQ(to_text(IndexFunction(
                QuotientIndex{.row_masks = {1},
                              .divisor = 47,
                              .shift = 21,
                              .digit_masks = {2, 4},
                              .constant = 0,
                              .beside_masks = {8, 16, 32},
                              .set = {.row_masks = {1, 2}, .constant = 0, .terms = {{.modulo = 5, .shift = 13}}}})),
            "slice N mod 47 and 1 parity, set 5 x 4 by N / 47 and 3 parities, N 2 parities below address / 2,097,152");
  EXPECT_EQ(to_text(IndexFunction(BitsIndex{{7, 8}})), "address bits 7, 8");
  EXPECT_EQ(to_text(IndexFunction(ModuloIndex{.granule_bytes = 1024, .sets_count = 3})), "(address / 1,024) mod 3");
  EXPECT_EQ(to_text(IndexFunction(HashIndex{.row_masks = {1, 2},
                                            .constant = 0,
                                            .terms = {{.modulo = 9, .shift = 20, .weights = {1}, .row_masks = {4}}}})),
            "(address / 1,048,576 + 1 parities) mod 9, beside 2 rows of parities");
}

TEST(IndexFunction, ParitiesAreGivenOnlyWhereTheyAreAll) {
  EXPECT_EQ(parities(BitsIndex{{7, 8}}), (Masks{1U << 7U, 1U << 8U}));
  EXPECT_EQ(parities(ModuloIndex{.granule_bytes = 64, .sets_count = 4}), (Masks{64, 128}));
  EXPECT_EQ(parities(ModuloIndex{.granule_bytes = 96, .sets_count = 4}), std::nullopt);
  EXPECT_EQ(parities(SumIndex{.fields = {{{7}}}, .sets_count = 2}), std::nullopt);
  EXPECT_EQ(parities(HashIndex{.row_masks = {3}, .constant = 0, .terms = {}}), Masks{3});
  EXPECT_EQ(parities(HashIndex{.row_masks = {3}, .constant = 0, .terms = {{.modulo = 3}}}), std::nullopt);
}

TEST(IndexFunction, ShiftingRenumbersWhatXorMakes) {
  const XorIndex index{.row_masks = {1, 2}, .constant = 1};
  EXPECT_EQ(shifted(index, 2), IndexFunction(XorIndex{.row_masks = {1, 2}, .constant = 3}));
  EXPECT_EQ(shifted(BitsIndex{{7}}, 1), std::nullopt);
}

}  // namespace
}  // namespace gpuinfer::model
