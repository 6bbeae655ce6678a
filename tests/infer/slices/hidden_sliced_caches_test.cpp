// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove this wrong: a leaf that is resolved on a random outer cache in slices and is not as that cache is.
#include <gtest/gtest.h>

#include <bit>
#include <iostream>
#include <map>
#include <optional>
#include <string>

#include "infer/asking/gf2.hpp"
#include "infer/cache/infer_cache.hpp"
#include "tests/infer/slices/sliced_cache.hpp"

namespace gpuinfer::infer {
namespace {

using foreign::SlicedCache;
using Policy = SlicedCache::Policy;

constexpr unsigned page_bits = 21;

// How many lines have one digit in the quotient, which says the set; none: sets come otherwise.
struct HiddenSets {
  unsigned digits = 0;
  std::uint32_t divisor = 0;              // 0: there is no quotient
  std::vector<std::uint64_t> parities;    // of the quotient, or of the address
  std::vector<std::uint64_t> in_address;  // that are added to the parities of a quotient
  std::uint32_t modulo = 1;               // of the rest of the quotient, of which a digit is flipped
  std::uint64_t flips = 0;

  [[nodiscard]] std::uint32_t count() const { return modulo << parities.size(); }

  [[nodiscard]] std::uint64_t of(std::uint64_t address, const foreign::HiddenSlices& slices) const {
    std::uint64_t told = address;
    if (divisor != 0) {
      std::uint64_t number = 0;
      for (std::size_t i = digits; i-- > 0;) {
        number = 2 * number + static_cast<std::uint64_t>(std::popcount(address & slices.digits[i]) % 2);
      }
      told = ((address >> page_bits << digits) + number) / divisor;
    }
    std::uint64_t set = 0;
    if (modulo > 1) {
      const std::uint64_t rest = told >> parities.size();
      set = (rest ^ static_cast<std::uint64_t>(std::popcount(told & flips) % 2)) % modulo;
    }
    for (std::size_t i = 0; i < parities.size(); ++i) {
      const int others = divisor != 0 ? std::popcount(address & in_address[i]) : 0;
      set = 2 * set + static_cast<std::uint64_t>((std::popcount(told & parities[i]) + others) % 2);
    }
    return set;
  }
};

struct HiddenCache {
  foreign::HiddenSlices slices;
  HiddenSets sets;
  SlicedCache::Slice slice;
  foreign::SliceNoise noise;
  std::uint64_t buffer_bytes = 64ULL << 20U;

  [[nodiscard]] std::uint64_t capacity_bytes() const {
    return std::uint64_t{slices.count()} * slice.sets * slice.ways * slice.line_bytes;
  }
};

// Slices by a number that is divided, whose quotient says the set: a few parities beside it, all digits of a page.
foreign::HiddenSlices draw_divided(unsigned lowest, model::Random& random) {
  const unsigned bits = page_bits - lowest;
  const auto rows = static_cast<unsigned>(random.below(3));
  foreign::HiddenSlices slices;
  slices.modulo = 3 + 2 * static_cast<std::uint32_t>(random.below(((128U >> rows) - 3) / 2));
  const unsigned digits = bits - rows;
  EchelonBasis independent;
  std::vector<std::uint64_t> masks;
  for (unsigned i = 0; i < bits; ++i) {
    const unsigned own = i < rows ? bits - 1 - i : i - rows;
    std::uint64_t inside = 0;
    do {
      inside = std::uint64_t{1} << own;
      for (int more = 0; more < 2 && random.below(3) == 0; ++more) {
        inside |= std::uint64_t{1} << random.below(bits);
      }
    } while (!independent.add(inside << lowest));
    masks.push_back(inside << lowest | (random.below(2) << (page_bits + random.below(10))));
  }
  slices.rows.assign(masks.begin(), masks.begin() + rows);
  slices.digits.assign(masks.begin() + rows, masks.end());
  for (unsigned i = 0; i < digits; ++i) {
    slices.weights.push_back((1U << i) % slices.modulo);
  }
  slices.weight_of_block = (1U << digits) % slices.modulo;
  return slices;
}

// Parities of bits from `lowest` on, each with one of its own.
std::vector<std::uint64_t> draw_parities(std::size_t count, unsigned lowest, unsigned bits, model::Random& random) {
  std::vector<std::uint64_t> parities;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t others = random.below(std::uint64_t{1} << (bits - count)) << count;
    parities.push_back((std::uint64_t{1} << i | (others & random() & random())) << lowest);
  }
  return parities;
}

HiddenCache draw_hidden(std::uint64_t seed) {
  model::Random random(seed);
  HiddenCache hidden;
  hidden.noise = foreign::any_noise(seed);
  SlicedCache::Slice& slice = hidden.slice;
  slice.line_bytes = random.below(3) == 0 ? 64 : 128;
  slice.sector_bytes = slice.line_bytes >> random.below(3);
  slice.ways = 3 + static_cast<std::uint32_t>(random.below(18));
  const std::uint64_t kind = random.below(10);
  slice.policy = kind < 6 ? Policy::lru : kind < 9 ? Policy::fifo : Policy::any_line;
  const auto line_bits = static_cast<unsigned>(std::countr_zero(slice.line_bytes));
  const std::size_t parities = 2 + random.below(3);
  HiddenSets& sets = hidden.sets;
  if (random.below(4) != 0) {
    const unsigned lowest = line_bits + static_cast<unsigned>(random.below(3));
    hidden.slices = draw_divided(lowest, random);
    constexpr std::array<std::uint32_t, 4> moduli{1, 3, 5, 7};
    sets.digits = static_cast<unsigned>(hidden.slices.digits.size());
    sets.divisor = hidden.slices.modulo;
    sets.parities = draw_parities(parities, 0, 9, random);
    for (std::size_t i = 0; i < parities; ++i) {
      const unsigned below = lowest - line_bits;
      sets.in_address.push_back(below == 0 ? 0 : random.below(std::uint64_t{1} << below) << line_bits);
    }
    sets.modulo = moduli[random.below(moduli.size())];
    sets.flips = std::uint64_t{1} << (parities + 3 + random.below(3));
  } else {
    hidden.slices = foreign::any_slices(seed);
    sets.parities = draw_parities(parities, 10, 14, random);
  }
  slice.sets = sets.count();
  // What is asked again and again must not take all of a test's time.
  constexpr std::uint64_t most_bytes = 6ULL << 20U;
  while (hidden.capacity_bytes() > most_bytes && slice.ways > 3) {
    --slice.ways;
  }
  return hidden;
}

// Leaves by what was said of them.
struct SlicesTally {
  std::map<std::string, std::size_t> resolved;
  std::map<std::string, std::size_t> open;
  std::size_t wrong = 0;
};

class SlicesJudge {
 public:
  SlicesJudge(const HiddenCache& hidden, const CacheFinding& finding, SlicesTally& tally)
      : hidden_(&hidden), finding_(&finding), tally_(&tally) {}

  template <class Value>
  void number(const std::string& leaf, const std::optional<Value>& said, Value is) {
    if (is_resolved(leaf)) {
      ASSERT_TRUE(said) << leaf;
      expect(leaf, *said == is, std::to_string(*said) + " instead of " + std::to_string(is));
    }
  }

  void policy() {
    if (is_resolved("replacement")) {
      const std::string is = hidden_->slice.policy == Policy::lru    ? "lru"
                             : hidden_->slice.policy == Policy::fifo ? "fifo"
                                                                     : "random";
      expect("replacement", finding_->cache.replacement->policy == is, finding_->cache.replacement->policy);
    }
  }

  // As it is in a page but for digits of the number that the page flips, which is a naming.
  void index(const std::string& leaf, const std::optional<model::IndexFunction>& said, bool with_sets) {
    if (!is_resolved(leaf)) {
      return;
    }
    ASSERT_TRUE(said) << leaf;
    if (const auto* table = std::get_if<model::TableIndex>(&*said)) {
      expect(leaf, splits_as(*table, with_sets), model::to_text(*said));
      return;
    }
    const std::uint64_t page = (foreign::SlicedDevice::buffer_address >> page_bits) + 1;
    bool is_found = false;
    for (std::uint32_t flips = 0; flips < std::uint32_t{1} << digits_of(*said) && !is_found; ++flips) {
      is_found = splits_as(with_flips(*said, flips), page, with_sets);
    }
    expect(leaf, is_found, model::to_text(*said));
  }

 private:
  bool is_resolved(const std::string& leaf) {
    const auto evidence = finding_->evidence.leaves.find(leaf);
    const bool is =
        evidence != finding_->evidence.leaves.end() && evidence->second.status == model::EvidenceStatus::resolved;
    ++(is ? tally_->resolved : tally_->open)[leaf];
    return is;
  }

  // Whether sets, or slices, that are said and those that are have each other's names.
  class Names {
   public:
    bool agree(std::uint64_t is, std::uint32_t said) {
      return there_.emplace(is, said).first->second == said && back_.emplace(said, is).first->second == is;
    }

   private:
    std::map<std::uint64_t, std::uint32_t> there_;
    std::map<std::uint32_t, std::uint64_t> back_;
  };

  [[nodiscard]] static std::size_t digits_of(const model::IndexFunction& said) {
    if (const auto* hash = std::get_if<model::HashIndex>(&said); hash != nullptr && !hash->terms.empty()) {
      return hash->terms.front().weights.size();
    }
    const auto* quotient = std::get_if<model::QuotientIndex>(&said);
    return quotient != nullptr ? quotient->digit_masks.size() : 0;
  }

  [[nodiscard]] static model::IndexFunction with_flips(model::IndexFunction said, std::uint32_t flips) {
    if (auto* hash = std::get_if<model::HashIndex>(&said); hash != nullptr && !hash->terms.empty()) {
      model::HashIndex::Term& term = hash->terms.front();
      for (std::size_t i = 0; i < term.weights.size(); ++i) {
        term.weights[i] = (flips >> i & 1U) != 0 ? term.modulo - term.weights[i] : term.weights[i];
      }
    } else if (auto* quotient = std::get_if<model::QuotientIndex>(&said)) {
      quotient->constant = flips;
    }
    return said;
  }

  [[nodiscard]] std::uint64_t true_name(std::uint64_t address, bool with_sets) const {
    const std::uint64_t slice = hidden_->slices(address);
    return with_sets ? slice * hidden_->slice.sets + hidden_->sets.of(address, hidden_->slices) : slice;
  }

  // Whether it splits a page as the cache does.
  [[nodiscard]] bool splits_as(const model::IndexFunction& said, std::uint64_t page, bool with_sets) const {
    Names names;
    for (std::uint64_t offset = 0; offset < std::uint64_t{1} << page_bits; offset += hidden_->slice.line_bytes) {
      const std::uint64_t address = page << page_bits | offset;
      if (!names.agree(true_name(address, with_sets), set_of(said, model::Address{address}))) {
        return false;
      }
    }
    return true;
  }

  // Whether it splits what it covers of the buffer as the cache does.
  [[nodiscard]] bool splits_as(const model::TableIndex& said, bool with_sets) const {
    Names names;
    const std::uint64_t begin = foreign::SlicedDevice::buffer_address;
    for (std::uint64_t address = begin; address < begin + hidden_->buffer_bytes; address += hidden_->slice.line_bytes) {
      if (said.covers(model::Address{address}) &&
          !names.agree(true_name(address, with_sets), said.set_of(model::Address{address}))) {
        return false;
      }
    }
    return true;
  }

  void expect(const std::string& leaf, bool is_right, const std::string& said) {
    tally_->wrong += is_right ? 0 : 1;
    EXPECT_TRUE(is_right) << leaf << ": " << said;
  }

  const HiddenCache* hidden_;
  const CacheFinding* finding_;
  SlicesTally* tally_;
};

TEST(HiddenSlicedCaches, NothingResolvedIsWrong) {
  const std::size_t devices = foreign::number_from("GPUINFER_TEST_SLICED_CACHES", 1);
  const std::uint64_t first_seed = foreign::number_from("GPUINFER_TEST_SEED", 1);
  SlicesTally tally;
  for (std::uint64_t seed = first_seed; seed < first_seed + devices; ++seed) {
    const HiddenCache hidden = draw_hidden(seed);
    const std::size_t wrong_before = tally.wrong;
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << hidden.slices.count() << " slices modulo "
                                    << hidden.slices.modulo << ", " << hidden.slice.sets << " sets (quotient "
                                    << (hidden.sets.divisor != 0) << ", modulo " << hidden.sets.modulo << ") of "
                                    << hidden.slice.ways << " ways, lines of " << hidden.slice.line_bytes);
    SlicedCache device(
        hidden.slices, hidden.slice, seed, hidden.buffer_bytes,
        [&hidden](std::uint64_t address) { return hidden.sets.of(address, hidden.slices); }, hidden.noise);
    Settings settings;
    settings.seed = seed;
    settings.budget_accesses = 100'000'000;
    const CacheFinding finding = infer_cache(device, "L2", settings);
    const model::CacheDescription& cache = finding.cache;
    SlicesJudge judge(hidden, finding, tally);
    judge.number("slices", cache.slices, hidden.slices.count());
    judge.number("capacity_bytes", cache.capacity_bytes, hidden.capacity_bytes());
    judge.number("line_bytes", cache.line_bytes, hidden.slice.line_bytes);
    judge.number("sector_bytes", cache.sector_bytes, hidden.slice.sector_bytes);
    judge.number("slice_ways", cache.slice_ways ? std::optional(cache.slice_ways->size()) : std::nullopt,
                 std::size_t{hidden.slice.sets});
    judge.number("slice_ways", cache.slice_ways ? std::optional(cache.slice_ways->front()) : std::nullopt,
                 hidden.slice.ways);
    judge.policy();
    judge.index("slice_index", cache.slice_index ? std::optional(cache.slice_index->index) : std::nullopt, false);
    judge.index("index", cache.index, true);
    if (devices > 10) {
      std::cout << "seed " << seed << (tally.wrong > wrong_before ? " WRONG\n" : "\n") << std::flush;
    }
    for (const auto& [leaf, evidence] : finding.evidence.leaves) {
      if (devices > 10 && evidence.status != model::EvidenceStatus::resolved) {
        std::cout << "  " << leaf << ": " << evidence.reason << '\n';
      }
    }
  }
  for (const auto& [leaf, resolved] : tally.resolved) {
    std::cout << leaf << ": " << resolved << " resolved, " << tally.open[leaf] << " open\n";
  }
  EXPECT_EQ(tally.wrong, 0U);
}

}  // namespace
}  // namespace gpuinfer::infer
