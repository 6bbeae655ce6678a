// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/store_sizes.hpp"

#include <gtest/gtest.h>

namespace gpuinfer::infer {
namespace {

constexpr StoreSize own_size{.onset_lines = 40, .present_lines = 30};

TEST(StoreSizes, AreOrderedByWhatIsMeasured) {
  const std::vector<StoreSize> offered{{.carveout_kb = 8, .onset_lines = 90, .present_lines = 50},
                                       {.carveout_kb = 16, .onset_lines = 70, .present_lines = 60},
                                       {.carveout_kb = 32, .onset_lines = 50, .present_lines = 10}};
  const StoreSizes by_onset = sizes_by(&StoreSize::onset_lines, own_size, offered);
  EXPECT_EQ(by_onset.smallest.carveout_kb, std::nullopt);
  EXPECT_EQ(by_onset.largest.carveout_kb, 8U);
  const StoreSizes by_presence = sizes_by(&StoreSize::present_lines, own_size, offered);
  EXPECT_EQ(by_presence.smallest.carveout_kb, 32U);
  EXPECT_EQ(by_presence.largest.carveout_kb, 16U);
}

TEST(StoreSizes, OfEqualOnesTheOwnComesFirst) {
  const StoreSizes sizes = sizes_by(&StoreSize::onset_lines, own_size, {{.carveout_kb = 8, .onset_lines = 40}});
  EXPECT_EQ(sizes.smallest.carveout_kb, std::nullopt);
  EXPECT_EQ(sizes.largest.carveout_kb, std::nullopt);
}

TEST(StoreSizes, ADeviceWithoutCarveoutsHasOne) {
  const StoreSizes sizes = sizes_by(&StoreSize::onset_lines, own_size, {});
  EXPECT_EQ(sizes.smallest.onset_lines, 40U);
  EXPECT_EQ(sizes.largest.onset_lines, 40U);
}

}  // namespace
}  // namespace gpuinfer::infer
