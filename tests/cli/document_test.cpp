// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/document.hpp"

#include <gtest/gtest.h>

namespace gpuinfer::cli {
namespace {

Document report() {
  Document document;
  document["profile"] = "a.yaml";
  document["traces"] = Document::array();
  document["traces"].push_back({{"trace", "b.h5"}, {"agreement", 0.5}, {"first_disagreement", nullptr}});
  return document;
}

TEST(Document, YamlHasFlatMapsOnOneLine) {
  EXPECT_EQ(to_text(report(), Format::yaml),
            "profile: a.yaml\ntraces:\n  - {trace: b.h5, agreement: 0.5, first_disagreement: ~}\n");
}

TEST(Document, JsonComesBackTheSame) { EXPECT_EQ(Document::parse(to_text(report(), Format::json)), report()); }

}  // namespace
}  // namespace gpuinfer::cli
