// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/output.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "model/errors.hpp"
#include "model/printable.hpp"

namespace gpuinfer::cli {
namespace {

namespace fs = std::filesystem;

class OutputTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directory(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_ = fs::temp_directory_path() /
                     ("gpuinfer_output_" + std::to_string(testing::UnitTest::GetInstance()->random_seed()) +
                      testing::UnitTest::GetInstance()->current_test_info()->name());
  fs::path file_ = folder_ / "profile.yaml";
};

TEST_F(OutputTest, HasItsNameOnlyWhenFinished) {
  Output output(file_.string());
  output.stream() << "whole";
  EXPECT_FALSE(fs::exists(file_));
  output.finish();
  std::string text;
  std::ifstream(file_) >> text;
  EXPECT_EQ(text, "whole");
  EXPECT_FALSE(fs::exists(file_.string() + ".partial"));
}

TEST_F(OutputTest, LeavesNothingWhenNotFinished) {
  { Output(file_.string()).stream() << "half"; }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(OutputTest, LeavesTheFileOfBeforeWhenNotFinished) {
  std::ofstream(file_) << "before";
  { Output(file_.string()).stream() << "half"; }
  std::string text;
  std::ifstream(file_) >> text;
  EXPECT_EQ(text, "before");
}

TEST_F(OutputTest, RefusesAFolderAndAMissingFolderAtOnce) {
  EXPECT_THROW(Output(folder_.string()), InputError);
  EXPECT_THROW(Output((folder_ / "missing" / "profile.yaml").string()), InputError);
}

TEST_F(OutputTest, WritesDevicesInPlace) {
  Output output("/dev/null");
  output.stream() << "gone";
  output.finish();
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(Sentence, DoesNotSteerTheTerminal) { EXPECT_EQ(printable("\033[31m'Größe'\n\r\t\x7f"), "?[31m'Größe'????"); }

}  // namespace
}  // namespace gpuinfer::cli
