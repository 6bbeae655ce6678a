// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/sequence_option.hpp"

#include <gtest/gtest.h>

#include "cli/syntax.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {
namespace {

TEST(SequenceOption, GoesRoundInLaps) {
  EXPECT_EQ(parse_sequence("cyclic:96,32,2", 1), (model::AccessSequence{0, 32, 64, 0, 32, 64}));
  EXPECT_EQ(parse_sequence("cyclic:1K,512", 1), (model::AccessSequence{0, 512}));
}

TEST(SequenceOption, PassesOnce) {
  EXPECT_EQ(parse_sequence("cold:96,32,128", 1), (model::AccessSequence{128, 160, 192}));
}

TEST(SequenceOption, DrawsTheSameForTheSameSeed) {
  const model::AccessSequence sequence = parse_sequence("random:4K,128,100", 7);
  EXPECT_EQ(sequence.size(), 100U);
  EXPECT_EQ(sequence, parse_sequence("random:4K,128,100", 7));
  EXPECT_NE(sequence, parse_sequence("random:4K,128,100", 8));
  for (const std::uint64_t offset : sequence) {
    EXPECT_EQ(offset % 128, 0U);
    EXPECT_LT(offset, 4096U);
  }
}

TEST(SequenceOption, StaysBelow64Bits) {
  EXPECT_EQ(parse_sequence("cold:18446744073709551615,9223372036854775809", 1),
            (model::AccessSequence{0, 9223372036854775809U}));
  // Two offsets in an array of so many bytes, three times round: each step goes one back.
  EXPECT_EQ(parse_sequence("cyclic:18446744073709551615,18446744073709551614,3", 1),
            (model::AccessSequence{0, 18446744073709551614U, 18446744073709551613U, 18446744073709551612U,
                                   18446744073709551611U, 18446744073709551610U}));
}

TEST(SequenceOption, HasNoMoreAccessesThanAllowed) {
  EXPECT_EQ(parse_accesses("cyclic:96,32,2", 1, 6).offsets.size(), 6U);
  EXPECT_THROW(static_cast<void>(parse_accesses("cyclic:96,32,2", 1, 5)), InputError);
}

TEST(SequenceOption, RefusesWhatItDoesNotUnderstand) {
  for (const char* text : {"", "cyclic", "cyclic:", "cyclic:96", "cyclic:96,0", "cyclic:0,4", "cyclic:96,32,2,1",
                           "cyclic:-96,32", "random:96,32", "spiral:96,32", "cyclic:16G,1,1000000000000",
                           "cyclic:99999999999999999999G,1", "csv:/nowhere.csv"}) {
    EXPECT_THROW(static_cast<void>(parse_sequence(text, 1)), InputError) << text;
  }
}

using Texels = std::vector<model::Texel>;

TEST(TexelSequence, GoesOverTheTextureInTheOrderOfItsName) {
  EXPECT_EQ(parse_texels("texels:rows", 3, 2), (Texels{{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}, {2, 1}}));
  EXPECT_EQ(parse_texels("texels:columns", 3, 2), (Texels{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}}));
  EXPECT_EQ(parse_texels("texels:tiles:2,2", 3, 3),
            (Texels{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 0}, {2, 1}, {0, 2}, {1, 2}, {2, 2}}));
  EXPECT_EQ(parse_texels("texels:tiles:1G,1G", 3, 2), parse_texels("texels:rows", 3, 2));
}

TEST(TexelSequence, RefusesWhatItDoesNotUnderstand) {
  for (const char* text : {"", "texels", "texels:", "texels:row", "texels:tiles", "texels:tiles:2", "texels:tiles:2,0",
                           "texels:tiles:2,2,2", "cyclic:96,32", "csv:/nowhere.csv"}) {
    EXPECT_THROW(static_cast<void>(parse_texels(text, 3, 2)), InputError) << text;
  }
  EXPECT_THROW(static_cast<void>(parse_texels("texels:rows", 1U << 24U, 1U << 24U)), InputError);
}

TEST(SizeWithSuffix, IsAPowerOf1024) {
  EXPECT_EQ(parse_bytes("24K", "--stride"), 24576U);
  EXPECT_EQ(parse_bytes("2G", "--stride"), 2147483648U);
  EXPECT_THROW(static_cast<void>(parse_bytes("K", "--stride")), InputError);
  EXPECT_THROW(static_cast<void>(parse_bytes("20000000000G", "--stride")), InputError);
}

}  // namespace
}  // namespace gpuinfer::cli
