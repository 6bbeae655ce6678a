// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_line.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace gpuinfer::cli {
namespace {

infer::Progress at(const std::string& finding, double done) {
  return {.finding = finding, .done = done, .questions = 7, .accesses = 900};
}

TEST(ProgressLine, WritesALineForEachStageWhereNothingCanChange) {
  std::ostringstream out;
  ProgressLine line(out, ProgressLine::Style::lines);
  line.update("L1tex", at("capacity", 0.01));
  line.update("L1tex", at("capacity", 0.02));
  line.update("L1tex", at("partition into sets", 0.04));
  line.clear();
  EXPECT_EQ(out.str(),
            "gpuinfer: L1tex: capacity, 7 questions, 900 accesses, 0.0 s\n"
            "gpuinfer: L1tex: partition into sets, 7 questions, 900 accesses, 0.0 s\n");
}

TEST(ProgressLine, IsOneLineNarrowerThanTheTerminal) {
  std::ostringstream out;
  ProgressLine line(out, ProgressLine::Style::live, 20);
  line.update("L1tex", at("capacity", 0.01));
  line.update("L1tex", at("replacement", 0.5));
  EXPECT_EQ(out.str(), "\r\033[KL1tex: capacity, 7 \r\033[KL1tex: replacement,");
  line.clear();
  EXPECT_TRUE(out.str().ends_with("\r\033[K"));
}

TEST(ProgressLine, EstimatesTheTimeThatIsLeft) {
  std::ostringstream out;
  ProgressLine line(out, ProgressLine::Style::lines);
  line.update("L1tex", at("replacement", 0.5));
  EXPECT_NE(out.str().find("s left"), std::string::npos) << out.str();
}

TEST(ProgressLine, LongTimesAreInMinutesAndHours) {
  EXPECT_EQ(duration_text(42.26), "42.3 s");
  EXPECT_EQ(duration_text(125.4), "2 min 5 s");
  EXPECT_EQ(duration_text(3599.6), "1 h 0 min");
  EXPECT_EQ(duration_text(12000), "3 h 20 min");
}

TEST(ProgressLine, SaysNothingWhenQuiet) {
  std::ostringstream out;
  ProgressLine line(out, ProgressLine::Style::none);
  line.update("L1tex", at("capacity", 0.5));
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace gpuinfer::cli
