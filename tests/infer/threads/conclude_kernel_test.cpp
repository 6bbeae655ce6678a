// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a row of the table below that comes out otherwise.
#include "infer/threads/conclude_kernel.hpp"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;

LevelShares shares_of_peaks(double l2, double dram) { return {{"DRAM", dram}, {"L2", l2}}; }

struct KernelRow {
  const char* what;
  LevelShares shares;
  std::vector<LevelShares> otherwise;
  double seconds_again;  // the first round takes a second
  EvidenceStatus status;
  const char* reason;  // a part of it
  std::vector<model::FlowYaml> alternatives;
  std::size_t warnings;
};

const std::vector<KernelRow> kernel_rows{
    {"one level", shares_of_peaks(0.4, 0.9), {}, 1.04, EvidenceStatus::resolved, "", {}, 0},
    {"nothing depends",
     shares_of_peaks(0.4, 0.9),
     {shares_of_peaks(0.3, 0.9), shares_of_peaks(0.5, 0.85)},
     1,
     EvidenceStatus::resolved,
     "",
     {},
     0},
    {"times differ",
     shares_of_peaks(0.4, 0.9),
     {},
     1.06,
     EvidenceStatus::ambiguous,
     "two rounds of the same kernel differ by 6",
     {"{dominant: DRAM, share: 0.9}"},
     0},
    {"another level",
     shares_of_peaks(0.4, 0.9),
     {shares_of_peaks(0.4, 0.9), shares_of_peaks(0.95, 0.9)},
     1,
     EvidenceStatus::ambiguous,
     "another level or share",
     {"{dominant: DRAM, share: 0.9}", "{dominant: L2, share: 0.95}"},
     0},
    {"another share",
     shares_of_peaks(0.4, 0.9),
     {shares_of_peaks(0.4, 0.7)},
     1,
     EvidenceStatus::ambiguous,
     "another level or share",
     {"{dominant: DRAM, share: 0.9}", "{dominant: DRAM, share: 0.7}"},
     0},
    {"as close",
     shares_of_peaks(0.88, 0.9),
     {},
     1,
     EvidenceStatus::ambiguous,
     "DRAM and L2 are as close",
     {"{dominant: DRAM, share: 0.9}", "{dominant: L2, share: 0.88}"},
     0},
    {"a wrong peak",
     shares_of_peaks(0.4, 1.2),
     {},
     1.5,
     EvidenceStatus::ambiguous,
     "120 % of the 100 GB/s",
     {"{dominant: DRAM, share: 1.2}"},
     1},
    {"two wrong peaks",
     shares_of_peaks(1.1, 1.2),
     {},
     1,
     EvidenceStatus::ambiguous,
     "; it moves 110 GB/s through L2",
     {"{dominant: DRAM, share: 1.2}"},
     2},
};

TEST(ConcludeKernel, Table) {
  for (const KernelRow& row : kernel_rows) {
    SCOPED_TRACE(row.what);
    const KernelVerdict verdict = conclude_kernel({.kernel = "gemm",
                                                   .peaks_bytes_per_second = {{"DRAM", 100e9}, {"L2", 100e9}},
                                                   .shares = row.shares,
                                                   .otherwise = row.otherwise,
                                                   .seconds = 1,
                                                   .seconds_again = row.seconds_again});
    EXPECT_EQ(verdict.row.status, row.status);
    EXPECT_NE(verdict.row.reason.find(row.reason), std::string::npos) << verdict.row.reason;
    EXPECT_EQ(verdict.row.reason.empty(), row.status == EvidenceStatus::resolved);
    EXPECT_EQ(verdict.row.alternatives, row.alternatives);
    EXPECT_EQ(verdict.warnings.size(), row.warnings);
  }
}

TEST(ConcludeKernel, APeakIsSurelyWrongWhereOtherCachesMakeNoDifference) {
  const auto is_sure = [](const LevelShares& otherwise) {
    const KernelVerdict verdict = conclude_kernel({.kernel = "gemm",
                                                   .peaks_bytes_per_second = {{"DRAM", 100e9}, {"L2", 100e9}},
                                                   .shares = shares_of_peaks(0.4, 1.2),
                                                   .otherwise = {otherwise},
                                                   .seconds = 1,
                                                   .seconds_again = 1});
    return std::get<WrongPeak>(verdict.warnings.front()).is_sure;
  };
  EXPECT_TRUE(is_sure(shares_of_peaks(0.4, 1.1)));
  EXPECT_FALSE(is_sure(shares_of_peaks(0.4, 1)));
}

}  // namespace
}  // namespace gpuinfer::infer
