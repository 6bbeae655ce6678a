// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: silence where lines beyond the table lie in sets of their own, or a sentence where they do
// not.
#include "infer/cache/further_sets.hpp"

#include <gtest/gtest.h>

#include "tests/infer/calibrated.hpp"
#include "tests/infer/foreign_device.hpp"

namespace gpuinfer::infer {
namespace {

constexpr std::uint64_t table_bytes = 64U << 10U;
constexpr std::uint32_t table_sets = 8;
constexpr std::uint32_t ways_of_set = 4;

// Eight sets by the line number; of the lines beyond the table, one in `one_in` lies in a ninth.
class NinthSet final : public foreign::Cache {
 public:
  NinthSet(std::uint64_t one_in, foreign::OrderRules rules)
      : one_in_(one_in), sets_(foreign::ordered_sets(table_sets + 1, ways_of_set, rules)) {}

  unsigned load(std::uint64_t address) override {
    const std::uint64_t line = address / line_bytes;
    const bool is_in_ninth = one_in_ != 0 && address >= table_bytes && line % one_in_ == 0;
    return sets_.load_in(is_in_ninth ? table_sets : line % table_sets, line) ? 0 : 1;
  }

 private:
  std::uint64_t one_in_;
  foreign::SetArray sets_;
};

model::CacheDescription told_by_table(const std::string& policy) {
  model::TableIndex table{.granule_bytes = line_bytes, .sets_of = {}, .origin = 0, .range_bytes = table_bytes};
  for (std::uint32_t line = 0; line < table_bytes / line_bytes; ++line) {
    table.sets_of.push_back(line % table_sets);
  }
  model::CacheDescription cache;
  cache.line_bytes = cache.sector_bytes = line_bytes;
  cache.ways = std::vector<std::uint32_t>(table_sets, ways_of_set);
  cache.index = std::move(table);
  cache.replacement.emplace().policy = policy;
  return cache;
}

std::optional<std::string> told(std::uint64_t one_in, const std::string& policy = "lru",
                                foreign::OrderRules rules = foreign::lru) {
  foreign::Device device([=] { return std::make_unique<NinthSet>(one_in, rules); }, foreign::two_levels);
  const Settings settings;
  Interrogator interrogator = calibrated(device, settings);
  return why_further_sets(interrogator, told_by_table(policy));
}

TEST(FurtherSets, LinesBeyondTheTableThatStayTellThem) {
  for (const std::uint64_t one_in : {3U, 50U, 300U}) {
    const auto sentence = told(one_in);
    ASSERT_TRUE(sentence) << one_in;
    EXPECT_NE(sentence->find("beyond the table of sets stay"), std::string::npos) << *sentence;
  }
}

TEST(FurtherSets, ThereAreNoneWhereAllLinesGo) { EXPECT_EQ(told(0), std::nullopt); }

TEST(FurtherSets, APolicyThatKeepsLinesTellsNothing) {
  const auto sentence = told(0, "mru");
  ASSERT_TRUE(sentence);
  EXPECT_NE(sentence->find("may keep lines of any set"), std::string::npos) << *sentence;
}

}  // namespace
}  // namespace gpuinfer::infer
