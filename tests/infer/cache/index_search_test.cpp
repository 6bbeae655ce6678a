// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/index_search.hpp"

#include <gtest/gtest.h>

#include "infer/cache/granularity.hpp"
#include "infer/cache/index_fit.hpp"
#include "infer/cache/set_map.hpp"
#include "tests/infer/calibrated.hpp"
#include "tests/infer/foreign_device.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

using model::IndexFunction;

// A device, asked as far as its first set.
class Search {
 public:
  explicit Search(const model::CacheDescription& cache)
      : device_(device_of(cache)), interrogator_(calibrated(*device_, settings_)) {
    EXPECT_TRUE(interrogator_.classifier().levels_are_apart());
    interrogator_.set_line(*cache.line_bytes);
    const Onset onset = find_onset(interrogator_, conflicts_, *cache.line_bytes, aligned_start(interrogator_));
    onset_lines_ = onset.granules.value();
    line_bytes_ = *cache.line_bytes;
    std::string reason;
    auto set = Partitioner(interrogator_, conflicts_, line_bytes_, onset_lines_).first_set(reason);
    EXPECT_TRUE(set) << reason;
    set_ = set.value();
  }

  std::optional<IndexFunction> linear() {
    return guess_linear(interrogator_, conflicts_, set_, line_bytes_, onset_lines_);
  }
  std::vector<IndexFunction> modulo() { return guess_modulo(interrogator_, set_, line_bytes_, onset_lines_); }
  std::optional<std::vector<std::uint32_t>> ways(const IndexFunction& index) {
    return find_ways(interrogator_, conflicts_, index, line_bytes_, set_.ways);
  }
  PackingCheck packings(const IndexFunction& index, const std::vector<std::uint32_t>& ways) {
    return check_packings(interrogator_, conflicts_, index, ways, line_bytes_, 0, 8, false);
  }
  std::size_t accesses() const { return interrogator_.accesses_asked(); }
  std::vector<std::uint64_t> addresses() const {
    std::vector<std::uint64_t> addresses;
    model::Random random(11);
    for (int i = 0; i < 5000; ++i) {
      addresses.push_back(number_of(interrogator_.address_of(random.below(interrogator_.buffer().bytes))));
    }
    return addresses;
  }

 private:
  Settings settings_;
  std::unique_ptr<model::Answerer> device_;
  Interrogator interrogator_;
  Conflicts conflicts_{interrogator_, 1};
  std::uint64_t line_bytes_ = 0;
  std::size_t onset_lines_ = 0;
  ConflictClass set_;
};

model::XorIndex hash_of_eight_sets() {
  const auto row = [](std::initializer_list<unsigned> bits) {
    std::uint64_t mask = 0;
    for (const unsigned bit : bits) {
      mask |= std::uint64_t{1} << bit;
    }
    return mask;
  };
  return {.row_masks = {row({5, 9, 13, 20}), row({6, 12, 17, 25}), row({8, 14, 15, 24})}, .constant = 5};
}

// A line of the set that hits in every lap is no line of another set.
TEST(IndexSearch, LinesThatStayBelongToTheSetAllTheSame) {
  constexpr std::size_t sets = 4;
  for (const std::size_t ways : {6U, 9U, 13U}) {
    foreign::Device device(
        [&] { return std::make_unique<foreign::SetArray>(foreign::ordered_sets(sets, ways, foreign::lip)); },
        {{.cycles = 100}, {.cycles = 220}});
    device.refuse_clean_starts();
    const Settings settings;
    Interrogator interrogator = calibrated(device, settings);
    ASSERT_TRUE(interrogator.classifier().levels_are_apart());
    interrogator.set_line(line_bytes);
    Conflicts conflicts(interrogator, 1);
    conflicts.distrust_thrashing();
    const ConflictClass set{.lines = model::cold_pass(0, (ways + 1) * sets * line_bytes, sets * line_bytes),
                            .ways = static_cast<std::uint32_t>(ways)};
    const auto index = guess_linear(interrogator, conflicts, set, line_bytes, sets * ways);
    ASSERT_TRUE(index) << ways;
    EXPECT_EQ(*index, IndexFunction(model::BitsIndex{.bits = {5, 6}})) << ways;
  }
}

TEST(IndexSearch, OneSetAndAChaseForEachBitTellAHash) {
  for (const char* policy : {"lru", "fifo", "plru", "random"}) {
    const model::XorIndex hash = hash_of_eight_sets();
    Search search(cache_of(std::vector<std::uint32_t>(8, 8), hash, replacement(policy)));
    const auto guess = search.linear();
    ASSERT_TRUE(guess) << policy;
    EXPECT_TRUE(same_partition(*guess, hash, search.addresses())) << policy;
  }
}

TEST(IndexSearch, UnequalSetsAreMeasuredSideBySide) {
  const std::vector<std::uint32_t> ways{7, 9, 12, 8, 10, 6, 11, 13};
  const model::XorIndex hash = hash_of_eight_sets();
  Search search(cache_of(ways, hash, replacement("lru")));
  const auto guess = search.linear();
  ASSERT_TRUE(guess);
  const auto found = search.ways(*guess);
  ASSERT_TRUE(found);
  auto sorted_found = *found;
  auto sorted_ways = ways;
  std::sort(sorted_found.begin(), sorted_found.end());
  std::sort(sorted_ways.begin(), sorted_ways.end());
  EXPECT_EQ(sorted_found, sorted_ways);
  EXPECT_FALSE(search.packings(*guess, *found).failed());
}

TEST(IndexSearch, ALinearGuessIsNotMadeOfAModulo) {
  const model::ModuloIndex modulo{.granule_bytes = 64, .sets_count = 7};
  Search search(cache_of(std::vector<std::uint32_t>(7, 6), modulo, replacement("lru")));
  EXPECT_FALSE(search.linear());
  const auto guesses = search.modulo();
  EXPECT_NE(std::find(guesses.begin(), guesses.end(), IndexFunction(modulo)), guesses.end());
}

TEST(IndexSearch, PackingsRefuteAnIndexThatIsWrongInOneHighBit) {
  model::XorIndex hash = hash_of_eight_sets();
  Search search(cache_of(std::vector<std::uint32_t>(8, 8), hash, replacement("lru")));
  hash.row_masks[1] ^= std::uint64_t{1} << 25U;
  EXPECT_TRUE(search.packings(hash, std::vector<std::uint32_t>(8, 8)).failed());
}

// What a line costs must not grow with the cache, or 60 MB would be out of reach.
TEST(IndexSearch, CostsGrowWithTheLinesOnly) {
  const auto accesses_per_line = [](unsigned set_bits) {
    model::XorIndex hash;
    for (unsigned bit = 0; bit < set_bits; ++bit) {
      hash.row_masks.push_back((std::uint64_t{1} << (5 + bit)) | (std::uint64_t{1} << (24 - bit % 7)));
    }
    const std::vector<std::uint32_t> ways(std::size_t{1} << set_bits, 8);
    Search search(cache_of(ways, hash, replacement("lru")));
    const auto guess = search.linear();
    EXPECT_TRUE(guess && same_partition(*guess, hash, search.addresses()));
    return static_cast<double>(search.accesses()) / static_cast<double>(8 * ways.size());
  };
  // The onset is found by halving, and there are more bits to look at: eight times the lines, a few laps more.
  EXPECT_LT(accesses_per_line(11), 2 * accesses_per_line(8));
}

TEST(LinesOfSets, EverySetGetsWhatIsWantedOfIt) {
  const auto device = device_of(cache_of(std::vector<std::uint32_t>(8, 8), hash_of_eight_sets(), replacement("lru")));
  const Settings settings;
  const Interrogator interrogator = calibrated(*device, settings);
  const IndexFunction index = hash_of_eight_sets();
  model::Random random(1);
  const std::vector<std::uint32_t> wanted{0, 1, 2, 3, 50, 5, 6, 700};
  const auto drawn = LinesOfSets(interrogator, index, 32).draw(wanted, random);
  for (std::uint32_t set = 0; set < wanted.size(); ++set) {
    EXPECT_EQ(drawn[set].size(), wanted[set]);
    for (const std::uint64_t offset : drawn[set]) {
      EXPECT_EQ(model::set_of(index, interrogator.address_of(offset)), set);
    }
  }
}

}  // namespace
}  // namespace gpuinfer::infer
