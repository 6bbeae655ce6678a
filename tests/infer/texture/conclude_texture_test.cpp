// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a row of the table below that comes out otherwise; a block that is found and open, or
// resolved and not found.
#include "infer/texture/conclude_texture.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;
using model::TexelBlock;

TEST(ConcludeTexture, BlocksThatWereFound) {
  const LeafVerdict found = conclude_texel_block({.block = TexelBlock{.width = 4, .height = 2}, .reason = {}});
  EXPECT_EQ(found.status, EvidenceStatus::resolved);
  EXPECT_EQ(found.reason, "");
  const LeafVerdict open = conclude_texel_block({.block = {}, .reason = "the texture is too small"});
  EXPECT_EQ(open.status, EvidenceStatus::unknown);
  EXPECT_EQ(open.reason, "the texture is too small");
}

TEST(ConcludeTexture, LevelsMustPutSectorsAndLinesTogether) {
  struct Row {
    const char* what;
    std::optional<std::vector<model::TileLevel>> levels;
    std::optional<TexelBlock> sector_texels;
    std::optional<TexelBlock> line_texels;
    EvidenceStatus status;
    const char* reason;  // a part of it
  };
  const std::vector<model::TileLevel> tiles{{.width = 8, .height = 4}};
  const TexelBlock two_rows{.width = 8, .height = 2};
  const TexelBlock tile{.width = 8, .height = 4};
  const TexelBlock half_of_each_row{.width = 4, .height = 4};
  const std::vector<Row> rows{
      {"both lie together", tiles, two_rows, tile, EvidenceStatus::resolved, ""},
      {"no line is known", tiles, two_rows, {}, EvidenceStatus::resolved, ""},
      {"rows of texels", std::vector<model::TileLevel>{}, TexelBlock{.width = 8}, {}, EvidenceStatus::resolved, ""},
      {"a sector does not", tiles, half_of_each_row, tile, EvidenceStatus::ambiguous, "sectors of 4 x 4 texels"},
      {"a line does not", tiles, two_rows, half_of_each_row, EvidenceStatus::ambiguous, "lines of 4 x 4 texels"},
      {"no sector is known", tiles, {}, {}, EvidenceStatus::ambiguous, "no sector that loads show"},
      {"no tiles were found", {}, two_rows, tile, EvidenceStatus::unknown, "no tiles explain it"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const LeafVerdict verdict = conclude_texel_levels(
        {.width = 64, .height = 64, .sector_texels = row.sector_texels, .line_texels = row.line_texels},
        {.levels = row.levels, .reason = row.levels ? "" : "no tiles explain it"});
    EXPECT_EQ(verdict.status, row.status);
    EXPECT_NE(verdict.reason.find(row.reason), std::string::npos) << verdict.reason;
    EXPECT_EQ(verdict.reason.empty(), row.status == EvidenceStatus::resolved);
  }
}

}  // namespace
}  // namespace gpuinfer::infer
