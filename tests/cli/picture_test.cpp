// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/picture.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace gpuinfer::cli {
namespace {

model::CacheDescription small_cache() {
  model::CacheDescription cache;
  cache.capacity_bytes = 768;
  cache.line_bytes = 64;
  cache.sector_bytes = 32;
  cache.ways = {4, 4, 2, 2};
  cache.index = model::BitsIndex{{6, 8}};
  cache.replacement = model::Replacement{.policy = "lru", .parameters = {}, .equivalent = {}};
  cache.latency_cycles = {.hit = 33, .miss = 250};
  return cache;
}

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    widest = std::max(widest, line.size());
  }
  return widest;
}

TEST(Picture, SaysWhatIsKnownOfACacheInSlices) {
  model::CacheDescription cache;
  cache.sector_bytes = 64;
  cache.latency_cycles.hit = 282;
  cache.slices = 94;
  cache.partitions = model::Partitions{.index = model::XorIndex{{(1U << 12U) | (1U << 13U)}}, .far_cycles = 174};
  const std::string picture = picture_of("L2", cache, 120);
  for (const char* text :
       {"line        not known; a miss fills 64 B", "slices      94\n",
        "parts       2, by the parity of address bits 12, 13; a hit in a far one takes 174 cycles more\n"}) {
    EXPECT_NE(picture.find(text), std::string::npos) << text << '\n' << picture;
  }
  cache.partitions->keeps_copies = true;
  EXPECT_NE(picture_of("L2", cache, 200).find("174 cycles more, and the near one keeps a copy"), std::string::npos);
}

TEST(Picture, SaysThePolicyInWords) {
  model::CacheDescription cache = small_cache();
  const auto line_of = [&](std::map<std::string, model::PolicyParameter> parameters) {
    cache.replacement = model::Replacement{.policy = "some", .parameters = std::move(parameters), .equivalent = {}};
    const std::string picture = picture_of("L1D", cache, 120);
    const std::size_t at = picture.find("  policy");
    return picture.substr(at, picture.find('\n', at) - at);
  };
  EXPECT_EQ(line_of({}), "  policy      some");
  EXPECT_EQ(line_of({{"favoured_way", std::int64_t{1}}, {"others", std::vector<double>{2, 0, 3}}}),
            "  policy      some, favoured way 1, others 2 0 3");
  EXPECT_EQ(line_of({{"hits", std::vector<std::vector<double>>(300, {0, 1})}, {"misses", std::vector<double>(300)}}),
            "  policy      some, hits in 300 rows, misses of 300 numbers");
}

TEST(Picture, DrawsUnequalSets) {
  EXPECT_EQ(picture_of("L1tex", small_cache(), 100), R"(  L1tex       768 B

              +------+------+
  line        | 32 B | 32 B |  64 B, 2 sectors of 32 B
              +------+------+

  index       set = address bits 6, 8
  address bit  11 10  9  8  7  6  5  4  3  2  1  0
                t  t  t  S  t  S  s  o  o  o  o  o
    set bit 0   .  .  .  .  .  x  .  .  .  .  .  .
    set bit 1   .  .  .  x  .  .  .  .  .  .  .  .
              S chooses the set, t tag, s sector in the line, o byte in the sector

  sets, ways  4 unequal sets, of 2 x 4, 2 x 2 ways
              +----+----+----+----+
    set 0     | 0  | 2  | 8  | 10 |  4 ways
              +----+----+----+----+
    set 1     | 1  | 3  | 9  | 11 |  4 ways
              +----+----+----+----+
    set 2     | 4  | 6  |  2 ways
              +----+----+
    set 3     | 5  | 7  |  2 ways
              +----+----+
              number = line of a contiguous array that first occupies this way

  policy      lru
  latency     hit 33, miss 250 cycles
)");
}

TEST(Picture, SaysWhatIsNotKnown) {
  const std::string picture = picture_of("L2", {}, 80);
  EXPECT_NE(picture.find("capacity not known"), std::string::npos) << picture;
  EXPECT_NE(picture.find("policy      not known"), std::string::npos) << picture;
}

TEST(Picture, KeepsToItsColumns) {
  model::CacheDescription cache = small_cache();
  cache.line_bytes = 128;
  cache.ways = std::vector<std::uint32_t>(1024, 48);
  cache.capacity_bytes = 1024 * 48 * 128;
  model::XorIndex hash;
  for (unsigned row = 0; row < 10; ++row) {
    hash.row_masks.push_back((std::uint64_t{1} << (7 + row)) | (std::uint64_t{1} << (20 + row)) |
                             (std::uint64_t{1} << (38 + row)));
  }
  cache.index = hash;
  cache.exercised_bits.emplace();
  for (unsigned bit = 7; bit < 48; ++bit) {
    cache.exercised_bits->push_back(bit);
  }
  for (const std::size_t columns : {72U, 80U, 100U}) {
    const std::string picture = picture_of("L2", cache, columns);
    EXPECT_LE(widest_line(picture), columns);
    // A row of a matrix that is drawn in several parts stands in those only where it takes a bit.
    std::istringstream lines(picture);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_TRUE(line.find("  set bit ") != 2 || line.find('x') != std::string::npos) << picture;
    }
  }

  model::TableIndex table{.granule_bytes = 2097152, .sets_of = {}, .origin = 0, .range_bytes = 2097152ULL * 4096};
  for (std::uint32_t granule = 0; granule < 4096; ++granule) {
    table.sets_of.push_back(granule * 17 % 1024);
  }
  cache.index = table;
  for (const std::size_t columns : {72U, 80U, 100U}) {
    EXPECT_LE(widest_line(picture_of("L2", cache, columns)), columns);
  }
}

}  // namespace
}  // namespace gpuinfer::cli
