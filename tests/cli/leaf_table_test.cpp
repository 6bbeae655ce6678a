// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/leaf_table.hpp"

#include <gtest/gtest.h>

namespace gpuinfer::cli {
namespace {

model::DeviceDescription with_carveouts() {
  model::DeviceDescription profile;
  model::CacheDescription& cache = profile.caches["L1tex"];
  for (const std::uint32_t carveout_kb : {8U, 16U, 100U, 228U}) {
    model::Carveout carveout;
    carveout.carveout_kb = carveout_kb;
    carveout.onset_bytes = (256 - carveout_kb) * 1024;
    cache.carveouts.push_back(carveout);
  }
  profile.evidence["L1tex"].leaves["carveouts"].status = model::EvidenceStatus::resolved;
  return profile;
}

TEST(LeafTable, ValuesOfManyPartsAreATable) {
  EXPECT_EQ(leaf_table(with_carveouts(), "L1tex", 80),
            "  carveouts         resolved             8 KB: 248 KiB     16 KB: 240 KiB\n"
            "                                         100 KB: 156 KiB   228 KB: 28 KiB\n");
}

TEST(LeafTable, WhatWasPredictedIsCounted) {
  model::DeviceDescription profile = with_carveouts();
  model::CacheEvidence& evidence = profile.evidence["L1tex"];
  evidence.leaves["carveouts"].confidence = 0.999997;
  model::PredictionEvidence& prediction = evidence.prediction.emplace();
  prediction.agreement = 0.5;
  prediction.accesses = 373'918;
  prediction.sequences = 113;
  prediction.outliers = 43;
  const std::string table = leaf_table(profile, "L1tex", 120);
  EXPECT_NE(table.find(">0.9999"), std::string::npos) << table;
  EXPECT_NE(table.find("186,959 of 373,918 held-out loads predicted in 113 random sequences, 43 outliers left out"),
            std::string::npos)
      << table;
}

TEST(LeafTable, AListInTheDetailsIsATable) {
  model::DeviceDescription profile = with_carveouts();
  model::EvidenceDetails& details = profile.evidence["L1tex"].leaves["carveouts"].details;
  details.gb_per_second_by_dataset = {{4096, 33090}, {8192, 33090}, {16384, 1}, {1048576, 27320}};
  const std::string table = leaf_table(profile, "L1tex", 60);
  EXPECT_NE(table.find("                    gb_per_second_by_dataset:\n"
                       "                      4096: 33090      8192: 33090\n"
                       "                      16384: 1         1048576: 27320\n"),
            std::string::npos)
      << table;
}

}  // namespace
}  // namespace gpuinfer::cli
