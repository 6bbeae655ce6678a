// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: words of a granule that are read or fetched as if all of it had been written, or the other
// way round.
#include <gtest/gtest.h>

#include "model/stores.hpp"

namespace gpuinfer::model {
namespace {

TEST(WrittenLines, AGranuleIsReadableOnceAllOfItIsWritten) {
  WrittenLines written(8);
  EXPECT_TRUE(written.empty());
  written.write(3, 12);
  EXPECT_FALSE(written.empty());
  EXPECT_FALSE(written.is_readable(3, 12));
  EXPECT_TRUE(written.is_partial(3));
  written.write(3, 8);
  EXPECT_TRUE(written.is_readable(3, 12));
  EXPECT_FALSE(written.is_partial(3));
  EXPECT_FALSE(written.is_readable(3, 0));
  EXPECT_FALSE(written.is_readable(2, 12));
}

TEST(WrittenLines, ALineIsPartialUntilEachOfItsGranulesIsWhole) {
  WrittenLines written(8);
  written.write(0, 0);
  written.write(0, 16);
  written.write(0, 4);
  EXPECT_TRUE(written.is_partial(0));
  written.write(0, 20);
  EXPECT_FALSE(written.is_partial(0));
}

TEST(WrittenLines, WhatIsFetchedIsPartialNoMore) {
  WrittenLines written(8);
  written.write(0, 0);
  written.write(0, 40);
  written.fetch(0, 0b01, 32);
  EXPECT_TRUE(written.is_partial(0));
  EXPECT_FALSE(written.is_readable(0, 0));
  written.fetch(0, 0b11, 32);
  EXPECT_FALSE(written.is_partial(0));
  written.fetch(1, 0b11, 32);
  EXPECT_FALSE(written.is_partial(1));
}

TEST(WrittenLines, WhatIsCompletedIsCleanAndReadable) {
  WrittenLines written(8);
  written.mark_dirty(0);
  written.write(0, 12);
  written.complete(0);
  EXPECT_FALSE(written.is_dirty(0));
  EXPECT_FALSE(written.is_partial(0));
  EXPECT_TRUE(written.is_readable(0, 8));
  EXPECT_FALSE(written.is_readable(0, 0));
}

TEST(WrittenLines, DirtyIsALineUntilItIsCleanOrGone) {
  WrittenLines written(4);
  for (const std::uint32_t slot : {5U, 1U}) {
    written.mark_dirty(slot);
  }
  EXPECT_FALSE(written.is_dirty(0));
  written.mark_clean(1);
  EXPECT_FALSE(written.is_dirty(1));
  EXPECT_TRUE(written.is_dirty(5));
  written.write(5, 0);
  written.forget(5);
  EXPECT_FALSE(written.is_dirty(5));
  EXPECT_FALSE(written.is_readable(5, 0));
  written.mark_dirty(1);
  written.clear();
  EXPECT_TRUE(written.empty());
  EXPECT_FALSE(written.is_dirty(1));
}

}  // namespace
}  // namespace gpuinfer::model
