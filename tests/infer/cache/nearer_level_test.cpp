// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// A TLB behind another one. What would prove the inference wrong: a value of the nearer level taken for one of the
// level that is asked about, an onset called resolved that holds at one place only, sets where lines are not dealt to
// them in turn or go by another rule, SMs in a group whose lines they do not find.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include "infer/cache/infer_cache.hpp"
#include "model/policies/fifo.hpp"
#include "model/policies/lru.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;

class NearerSets {
 public:
  using SetOf = std::function<std::uint64_t(std::uint64_t entry)>;

  enum class Victim { oldest, first_in, any };

  NearerSets(std::size_t ways, SetOf set_of, Victim victim = Victim::oldest)
      : ways_(ways), set_of_(std::move(set_of)), victim_(victim) {}
  void make_every_other_set_larger() { more_ways_ = 2; }
  // Hits change nothing in every so manieth set, where others go by the oldest.
  void make_some_sets_first_in(std::uint64_t one_in) { first_in_one_in_ = one_in; }
  // The line that was evicted last stays beside the sets.
  void keep_a_victim() { keeps_victim_ = true; }
  // One line in so many that miss takes no place in a full set, by chance.
  void bypass_one_in(std::uint64_t lines) { bypassed_one_in_ = lines; }
  // One tag for so many entries in a row, each of which is brought by itself.
  void tag_together(std::uint64_t entries) { entries_of_tag_ = entries; }

  bool load(std::uint64_t entry) {
    const std::uint64_t tag = entry / entries_of_tag_;
    const std::uint64_t number = set_of_(tag);
    std::deque<std::uint64_t>& set = sets_[number];
    const auto found = std::find(set.begin(), set.end(), tag);
    const bool has_tag = found != set.end();
    const bool hits = has_tag && !present_.insert(entry).second;
    const bool is_first_in = first_in_one_in_ && number % *first_in_one_in_ == 0;
    if (has_tag && (victim_ != Victim::oldest || is_first_in)) {
      return hits;
    }
    if (has_tag) {
      set.erase(found);
    } else if (set.size() == ways_ + number % 2 * more_ways_) {
      if (bypassed_one_in_ && random_.below(*bypassed_one_in_) == 0) {
        return false;
      }
      const auto gone = victim_ == Victim::any
                            ? std::next(set.begin(), static_cast<std::ptrdiff_t>(random_.below(set.size())))
                            : std::prev(set.end());
      for (std::uint64_t each = 0; each < entries_of_tag_; ++each) {
        present_.erase(*gone * entries_of_tag_ + each);
      }
      const std::optional<std::uint64_t> kept = keeps_victim_ ? std::exchange(victim_kept_, *gone) : std::nullopt;
      set.erase(gone);
      set.push_front(tag);
      present_.insert(entry);
      return kept == tag;
    }
    set.push_front(tag);
    present_.insert(entry);
    return hits;
  }

  void empty() {
    sets_.clear();
    present_.clear();
    victim_kept_.reset();
  }

 private:
  std::size_t ways_;
  SetOf set_of_;
  Victim victim_;
  std::size_t more_ways_ = 0;
  bool keeps_victim_ = false;
  std::optional<std::uint64_t> victim_kept_;
  std::optional<std::uint64_t> bypassed_one_in_;
  std::optional<std::uint64_t> first_in_one_in_;
  std::uint64_t entries_of_tag_ = 1;
  std::unordered_set<std::uint64_t> present_;
  model::Random random_{5};
  std::unordered_map<std::uint64_t, std::deque<std::uint64_t>> sets_;
};

constexpr std::uint64_t near_page_bytes = 16ULL << 20U;
constexpr std::uint64_t page_bytes = 32ULL << 20U;
constexpr std::uint64_t first_page = (64ULL << 30U) / page_bytes;
constexpr std::size_t near_entries = 16;
constexpr std::size_t sets = 64;
constexpr std::size_t ways = 4;
constexpr std::uint32_t sms = 12;
constexpr std::size_t loads_until_leaving = 2500;

std::uint64_t modulo_set(std::uint64_t page) { return page % sets; }

// Each SM has a first TLB, groups of SMs a second one. A load that walks finds the upper levels of the page tables
// near, if the one before did, or not.
class TwoTlbs final : public model::Answerer {
 public:
  TwoTlbs(const NearerSets& second, std::function<std::size_t(std::uint32_t)> group_of, std::uint64_t seed)
      : random_(seed), group_of_(std::move(group_of)),
        first_(sms, NearerSets(near_entries, [](std::uint64_t) { return 0; })), second_(sms, second) {
    facts_.name = "two TLBs";
    facts_.sm_count = sms;
    facts_.chooses_unit = true;
    facts_.targets = {"L2TLB"};
    facts_.buffer = {
        .bytes = 32ULL << 30U, .address = model::Address{64ULL << 30U}, .raster = {}, .nearer_bytes = 1ULL << 30U};
  }

  void set_near_cycles(double cycles) { near_cycles_ = cycles; }

  void place_buffer(model::Address address) { facts_.buffer.address = address; }

  // Each stretch of so many bytes has a first TLB of its own.
  void split_first(std::uint64_t bytes) {
    const NearerSets split(near_entries / 2, [bytes](std::uint64_t page) { return page * near_page_bytes / bytes; });
    std::ranges::fill(first_, split);
  }

  // Loads from this page on need code, the page of which lies in the second TLB as well.
  void load_code_from(std::uint64_t page) { first_page_with_code_ = page; }

  // Each eighth of the buffer is loaded by a kernel of its own, which leaves so many loads after its last one; the code
  // that it leaves by lies in the second TLB as well.
  void leave_after(std::size_t loads) { loads_until_leaving_ = loads; }

  // Whatever a question brought is gone in the next one; other SMs can load before in the same one.
  void forget_between_questions() {
    forgets_ = true;
    facts_.warm_unit_targets = facts_.targets;
  }

  const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (question.state == model::StartState::clean || question.state == model::StartState::flooded ||
          (forgets_ && question.state == model::StartState::keep)) {
        answers.push_back({.latency_cycles = {}, .refusal = "no such start"});
        continue;
      }
      if (question.state == model::StartState::invalidated) {
        std::for_each(first_.begin(), first_.end(), [](NearerSets& tlb) { tlb.empty(); });
        std::for_each(second_.begin(), second_.end(), [](NearerSets& tlb) { tlb.empty(); });
        walked_.clear();
      }
      for (const model::ComputeUnit other : question.circumstances.warm_units) {
        for (const std::uint64_t offset : question.warm) {
          static_cast<void>(load(offset, number_of(other)));
        }
      }
      if (!question.circumstances.warm_units.empty()) {
        model::Question recorded = question;
        recorded.state = model::StartState::keep;
        recorded.warm.clear();
        recorded.circumstances.warm_units.clear();
        answers.push_back(answer(recorded));
        continue;
      }
      answers.push_back(answer(question));
    }
    return answers;
  }

 private:
  static constexpr std::uint64_t kernels = 8;

  model::Answer answer(const model::Question& question) {
    const std::uint32_t sm = number_of(question.circumstances.unit.value_or(model::ComputeUnit{}));
    const std::multimap<std::size_t, std::uint64_t> leaving = leaving_kernels(question);
    std::vector<float> cycles;
    for (std::size_t i = 0; i < question.warm.size() + question.record.size(); ++i) {
      const auto [first, last] = leaving.equal_range(i);
      std::for_each(first, last, [&](const auto& kernel) { run_code_of(kernel.second, sm); });
      const bool is_warm = i < question.warm.size();
      const float taken = load(is_warm ? question.warm[i] : question.record[i - question.warm.size()], sm);
      if (!is_warm) {
        cycles.push_back(taken);
      }
    }
    return {.latency_cycles = std::move(cycles), .refusal = std::nullopt};
  }

  // By the number of the load that it leaves before.
  [[nodiscard]] std::multimap<std::size_t, std::uint64_t> leaving_kernels(const model::Question& question) const {
    std::multimap<std::size_t, std::uint64_t> leaving;
    if (loads_until_leaving_) {
      std::map<std::uint64_t, std::size_t> last_loads;
      std::size_t load = 0;
      for (const auto* part : {&question.warm, &question.record}) {
        for (const std::uint64_t offset : *part) {
          last_loads[offset / (facts_.buffer.bytes / kernels)] = load++;
        }
      }
      for (const auto& [kernel, last] : last_loads) {
        leaving.emplace(last + *loads_until_leaving_, kernel);
      }
    }
    return leaving;
  }

  void run_code_of(std::uint64_t kernel, std::uint32_t sm) {
    constexpr std::uint64_t pages_of_code = 2;
    constexpr std::uint64_t first_page_of_code = 1ULL << 20U;
    for (std::uint64_t page = 0; page < pages_of_code; ++page) {
      static_cast<void>(second_[group_of_(sm)].load(first_page_of_code + pages_of_code * kernel + page));
    }
  }

  float load(std::uint64_t offset, std::uint32_t sm) {
    const model::Address address = facts_.buffer.address + offset;
    double cycles = near_cycles_;
    if (!first_[sm].load(address / near_page_bytes)) {
      constexpr std::uint64_t directory_bytes = 8ULL << 30U;
      const bool hits = second_[group_of_(sm)].load(address / page_bytes);
      if (first_page_with_code_ && address / page_bytes >= *first_page_with_code_) {
        constexpr std::uint64_t page_of_code = 1ULL << 20U;
        static_cast<void>(second_[group_of_(sm)].load(page_of_code));
      }
      cycles = hits ? 293 : walked_.insert(address / directory_bytes).second ? 700 : 385;
    }
    // SMs are not equally far from the data.
    return static_cast<float>(std::round(cycles + 7 * (sm % 5) + 2.5 * random_.normal()));
  }

  model::Random random_;
  double near_cycles_ = 283;
  bool forgets_ = false;
  std::optional<std::uint64_t> first_page_with_code_;
  std::optional<std::size_t> loads_until_leaving_;
  model::DeviceFacts facts_;
  std::function<std::size_t(std::uint32_t)> group_of_;
  std::vector<NearerSets> first_;
  std::vector<NearerSets> second_;
  std::set<std::uint64_t> walked_;
};

// Fresh loads to fewer fills than users ask for, which take less time.
Settings quick() {
  Settings settings;
  settings.fills_to_test = 200;
  return settings;
}

CacheFinding found_of(const NearerSets& second, const std::function<std::size_t(std::uint32_t)>& group_of,
                      const Settings& settings = quick()) {
  constexpr std::uint64_t seed = 20261122;
  std::cout << "seed " << seed << '\n';
  TwoTlbs device(second, group_of, seed);
  return infer_cache(device, "L2TLB", settings);
}

// As caches of constants, which every launch empties.
TEST(NearerLevel, WhoSharesShowsInOneQuestionToo) {
  for (const std::uint32_t sms_of_group : {1U, 3U, 5U}) {
    TwoTlbs device(
        NearerSets(ways, modulo_set), [sms_of_group](std::uint32_t sm) { return sm * 7 % sms / sms_of_group; },
        20261129);
    device.forget_between_questions();
    const CacheFinding found = infer_cache(device, "L2TLB", quick());
    const model::LeafEvidence& evidence = found.evidence.leaves.at("shared_by_sms");
    ASSERT_EQ(evidence.status, model::EvidenceStatus::resolved) << evidence.reason;
    std::vector<std::size_t> group_of(sms);
    for (std::size_t group = 0; group < found.cache.shared_by_sms.size(); ++group) {
      for (const model::ComputeUnit sm : found.cache.shared_by_sms.at(group)) {
        group_of[number_of(sm)] = group;
      }
    }
    for (std::uint32_t sm = 0; sm < sms; ++sm) {
      for (std::uint32_t other = 0; other < sms; ++other) {
        EXPECT_EQ(group_of[sm] == group_of[other], sm * 7 % sms / sms_of_group == other * 7 % sms / sms_of_group)
            << sm << ' ' << other;
      }
    }
  }
}

TEST(NearerLevel, TheSecondTlbIsFoundBehindTheFirst) {
  const CacheFinding found = found_of(NearerSets(ways, modulo_set), [](std::uint32_t sm) { return sm / 3; });
  const auto status = [&](const std::string& leaf) { return found.evidence.leaves.at(leaf).status; };
  EXPECT_EQ(found.cache.sector_bytes, page_bytes);
  EXPECT_EQ(found.cache.onset_bytes, sets * ways * page_bytes);
  EXPECT_EQ(status("onset_bytes"), EvidenceStatus::resolved);
  EXPECT_NEAR(found.cache.latency_cycles.hit.value(), 293, 2);
  EXPECT_NEAR(found.cache.latency_cycles.miss.value(), 385, 4);
  ASSERT_TRUE(found.cache.resident_bytes);
  EXPECT_LE(found.cache.resident_bytes->at(0), sets * ways * page_bytes);
  EXPECT_GE(found.cache.resident_bytes->at(1), sets * ways * page_bytes);
  ASSERT_EQ(found.cache.shared_by_sms.size(), 4U);
  for (std::uint32_t group = 0; group < 4; ++group) {
    EXPECT_EQ(numbers_of(found.cache.shared_by_sms[group]), (std::vector{3 * group, 3 * group + 1, 3 * group + 2}));
  }
  EXPECT_EQ(found.cache.ways, std::vector<std::uint32_t>(sets, ways));
  EXPECT_EQ(found.cache.capacity_bytes, sets * ways * page_bytes);
  EXPECT_EQ(found.cache.line_bytes, page_bytes);
  EXPECT_EQ(found.cache.index, model::IndexFunction(model::BitsIndex{.bits = {25, 26, 27, 28, 29, 30}}));
  EXPECT_GT(found.evidence.leaves.at("index").bound.value().departures_below, 0);
  EXPECT_EQ(found.cache.replacement, model::plain<model::Lru>());
  EXPECT_GT(found.evidence.leaves.at("replacement").bound.value().departures_below, 0);
}

// First walks may find no part of the page tables near, others do.
TEST(NearerLevel, TheMissIsLeftOpenWhereNoLineIsEvicted) {
  constexpr std::size_t ways_for_all = 16;
  const CacheFinding found = found_of(NearerSets(ways_for_all, modulo_set), [](std::uint32_t) { return 0; });
  EXPECT_NEAR(found.cache.latency_cycles.hit.value_or(0), 293, 2);
  EXPECT_EQ(found.cache.latency_cycles.miss, std::nullopt);
  EXPECT_EQ(found.evidence.leaves.at("latency_cycles").status, EvidenceStatus::ambiguous);
}

// Of the lines that are walked over to hit it keeps hardly any, unless they are few.
TEST(NearerLevel, ALevelThatHoldsLittleMoreIsFoundAndItsHitsAreTimedIfThoseOfTheNearerOneTakeLess) {
  constexpr std::size_t few_sets = 20;
  for (const double near_cycles : {283, 293}) {
    TwoTlbs device(
        NearerSets(ways, [](std::uint64_t page) { return page % few_sets; }), [](std::uint32_t) { return 0; },
        20261122);
    device.set_near_cycles(near_cycles);
    const CacheFinding found = infer_cache(device, "L2TLB", quick());
    EXPECT_EQ(found.cache.sector_bytes, page_bytes) << found.evidence.leaves.at("sector_bytes").reason;
    if (near_cycles < 293) {
      EXPECT_NEAR(found.cache.latency_cycles.hit.value_or(0), 293, 2);
    } else {
      EXPECT_NE(found.evidence.leaves.at("latency_cycles").status, EvidenceStatus::resolved);
      EXPECT_EQ(found.cache.latency_cycles, model::LatencyCycles{});
    }
    if (found.cache.ways) {
      EXPECT_EQ(found.cache.ways, std::vector<std::uint32_t>(few_sets, ways));
    }
  }
}

// As a hash may do, which deals the lines of another place more evenly.
TEST(NearerLevel, HitsAreMetWhereTheFirstLinesOverfillASet) {
  constexpr std::size_t few_sets = 20;
  const CacheFinding found =
      found_of(NearerSets(ways, [](std::uint64_t page) { return page < first_page + 6 ? 0 : page % few_sets; }),
               [](std::uint32_t) { return 0; });
  EXPECT_EQ(found.cache.sector_bytes, page_bytes) << found.evidence.leaves.at("sector_bytes").reason;
  EXPECT_NEAR(found.cache.latency_cycles.hit.value_or(0), 293, 2);
}

TEST(NearerLevel, TheIndexIsThatOfLinesFromEverywhere) {
  const auto hashed = [](std::uint64_t page) { return (page ^ page / 64) % 64; };
  const CacheFinding found = found_of(NearerSets(ways, hashed), [](std::uint32_t) { return 0; });
  ASSERT_TRUE(found.cache.index);
  const std::uint64_t first = 64ULL << 30U;
  std::map<std::uint64_t, std::uint32_t> named;
  for (std::uint64_t page = 0; page < 1024; ++page) {
    const std::uint32_t set = model::set_of(*found.cache.index, model::Address{first + page * page_bytes});
    EXPECT_EQ(named.emplace(hashed(first / page_bytes + page), set).first->second, set) << page;
  }
  EXPECT_EQ(named.size(), sets);
}

// After the aligned start all lines have the same bit 36, and where it is hashed in shows only before.
TEST(NearerLevel, TheIndexIsThatOfLinesBeforeTheAlignedStart) {
  const auto hashed = [](std::uint64_t page) { return (page ^ page / 2048) % sets; };
  TwoTlbs device(
      NearerSets(ways, hashed), [](std::uint32_t) { return 0; }, 20261127);
  const std::uint64_t first = 62ULL << 30U;
  device.place_buffer(model::Address{first});
  const CacheFinding found = infer_cache(device, "L2TLB", quick());
  ASSERT_TRUE(found.cache.index);
  std::map<std::uint64_t, std::uint32_t> named;
  for (std::uint64_t page = 0; page < 1024; ++page) {
    const std::uint32_t set = model::set_of(*found.cache.index, model::Address{first + page * page_bytes});
    EXPECT_EQ(named.emplace(hashed(first / page_bytes + page), set).first->second, set) << page;
  }
  EXPECT_EQ(named.size(), sets);
}

// A window of lines has the same set as under an index of the low bits, and a few lines beyond go elsewhere.
TEST(NearerLevel, AnIndexThatDoesNotHoldEverywhereIsNotNamed) {
  const auto odd = [](std::uint64_t page) { return page % 7 == 3 && page / 512 % 2 == 1 ? 5 : page % 64; };
  const CacheFinding found = found_of(NearerSets(ways, odd), [](std::uint32_t) { return 0; });
  if (found.cache.index) {
    EXPECT_TRUE(std::holds_alternative<model::TableIndex>(*found.cache.index));
  }
}

// By votes over repetitions it would pass for what it does mostly.
TEST(NearerLevel, APolicyThatDepartsByChanceIsDescribedByHowOften) {
  constexpr std::uint64_t one_in = 128;
  NearerSets departing(ways, modulo_set);
  departing.bypass_one_in(one_in);
  const CacheFinding found = found_of(
      departing, [](std::uint32_t) { return 0; }, Settings{});
  EXPECT_EQ(found.cache.ways, std::vector<std::uint32_t>(sets, ways));
  EXPECT_FALSE(found.cache.replacement);
  const auto& mostly = found.evidence.leaves.at("replacement").details.mostly;
  ASSERT_TRUE(mostly);
  EXPECT_EQ(mostly->policy, model::plain<model::Lru>());
  EXPECT_LT(mostly->departs[0], 1.0 / one_in);
  EXPECT_GT(mostly->departs[1], 1.0 / one_in);
}

// It comes to a quarter of the sets, once in a sequence, and to none of laps over few lines alone.
TEST(NearerLevel, SetsToWhichCodeComesLateAreLeftOutOfThePolicy) {
  TwoTlbs device(
      NearerSets(ways, modulo_set), [](std::uint32_t) { return 0; }, 20261128);
  device.leave_after(loads_until_leaving);
  const CacheFinding found = infer_cache(device, "L2TLB", Settings{});
  EXPECT_EQ(found.cache.ways, std::vector<std::uint32_t>(sets, ways));
  EXPECT_EQ(found.cache.replacement, model::plain<model::Lru>()) << found.evidence.leaves.at("replacement").reason;
  EXPECT_TRUE(std::ranges::any_of(found.evidence.inquiries, [](const model::Inquiry& inquiry) {
    return inquiry.learned.find("are left out") != std::string::npos;
  }));
}

// They have room for as many lines as all others, so there is no reason to leave them out.
TEST(NearerLevel, SetsOfAnotherPolicyAreNotLeftOut) {
  constexpr std::uint64_t one_in = 8;
  NearerSets second(ways, modulo_set);
  second.make_some_sets_first_in(one_in);
  TwoTlbs device(
      second, [](std::uint32_t) { return 0; }, 20261128);
  device.leave_after(loads_until_leaving);
  const CacheFinding found = infer_cache(device, "L2TLB", quick());
  EXPECT_FALSE(found.cache.replacement);
  EXPECT_NE(found.evidence.leaves.at("replacement").status, EvidenceStatus::resolved);
}

// Half of the sets are asked about by themselves at most, and this one may be none of them.
TEST(NearerLevel, ASingleSetOfAnotherPolicyIsNotOverlooked) {
  NearerSets second(ways, modulo_set);
  second.make_some_sets_first_in(sets);
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    Settings settings = quick();
    settings.seed = seed;
    const CacheFinding found = found_of(
        second, [](std::uint32_t) { return 0; }, settings);
    EXPECT_EQ(found.cache.ways, std::vector<std::uint32_t>(sets, ways));
    EXPECT_FALSE(found.cache.replacement) << seed;
  }
}

TEST(NearerLevel, SetsThatForgetTheirFirstLineAreCounted) {
  const CacheFinding found =
      found_of(NearerSets(ways, modulo_set, NearerSets::Victim::first_in), [](std::uint32_t) { return 0; });
  EXPECT_EQ(found.cache.ways, std::vector<std::uint32_t>(sets, ways));
  EXPECT_EQ(found.cache.replacement, model::plain<model::Fifo>());
}

TEST(NearerLevel, SetsThatAreNotAlikeOrNotFilledInTurnAreCountedAsTheyAre) {
  NearerSets larger(ways, modulo_set);
  larger.make_every_other_set_larger();
  NearerSets sectored(ways, modulo_set);
  sectored.tag_together(2);
  NearerSets small_and_sectored(ways / 2, modulo_set);
  small_and_sectored.tag_together(2);
  const std::vector<std::uint32_t> alike(sets, ways);
  std::vector<std::uint32_t> fours_and_sixes(sets / 2, ways);
  fours_and_sixes.resize(sets, ways + 2);
  const auto merged = [](std::uint64_t page) { return std::max<std::uint64_t>(1, (page ^ page / 8) % 8); };
  using Ways = std::optional<std::vector<std::uint32_t>>;
  const std::map<std::string, std::pair<NearerSets, Ways>> strange{
      {"a tag for two", {sectored, std::nullopt}},
      {"half as many tags for two", {small_and_sectored, std::nullopt}},
      {"any victim", {NearerSets(ways, modulo_set, NearerSets::Victim::any), std::nullopt}},
      {"sets of 4 and 6 ways", {larger, fours_and_sixes}},
      {"two buckets in one set",
       {NearerSets(2 * near_entries, merged), std::vector<std::uint32_t>(7, 2 * near_entries)}},
      {"two in a row to a set", {NearerSets(ways, [](std::uint64_t page) { return page / 2 % sets; }), alike}},
      {"a hash", {NearerSets(ways, [](std::uint64_t page) { return (page ^ page / sets) % sets; }), alike}},
      {"three in a row to a set", {NearerSets(ways, [](std::uint64_t page) { return page / 3 % sets; }), alike}}};
  for (const auto& [name, device] : strange) {
    const auto& [second, expected] = device;
    Ways found = found_of(second, [](std::uint32_t) { return 0; }).cache.ways;
    if (found) {
      std::ranges::sort(*found);
    }
    EXPECT_EQ(found, expected) << name;
  }
}

// A set that overflows by a line does not show until another one does, so sets begin to miss together.
TEST(NearerLevel, SetsAreToldApartWhereALineTooManyIsKept) {
  NearerSets second(ways, modulo_set);
  second.make_every_other_set_larger();
  second.keep_a_victim();
  const CacheFinding found = found_of(second, [](std::uint32_t) { return 0; });
  ASSERT_TRUE(found.cache.ways) << found.evidence.leaves.at("ways").reason;
  std::vector<std::uint32_t> found_ways = *found.cache.ways;
  std::ranges::sort(found_ways);
  std::vector<std::uint32_t> fours_and_sixes(sets / 2, ways);
  fours_and_sixes.resize(sets, ways + 2);
  EXPECT_EQ(found_ways, fours_and_sixes);
  EXPECT_TRUE(found.cache.index);
}

// Of lines far from all others few are loaded, so the first level answers for them.
TEST(NearerLevel, SetsAndIndexAreFoundBehindALevelInParts) {
  TwoTlbs device(
      NearerSets(ways, [](std::uint64_t page) { return (page ^ page / sets) % sets; }), [](std::uint32_t) { return 0; },
      20261127);
  device.split_first(4ULL << 30U);
  const CacheFinding found = infer_cache(device, "L2TLB", quick());
  EXPECT_EQ(found.cache.ways, std::vector<std::uint32_t>(sets, ways)) << found.evidence.leaves.at("ways").reason;
  EXPECT_TRUE(found.cache.index) << found.evidence.leaves.at("index").reason;
  EXPECT_EQ(found.cache.onset_bytes, sets * ways * page_bytes);
}

// Of the set in which code lies nobody sees more than is left of it.
TEST(NearerLevel, SetsAreLeftOpenWhereCodeTakesRoomInOne) {
  constexpr std::uint64_t pages_without_code = 200;
  TwoTlbs device(
      NearerSets(ways, modulo_set), [](std::uint32_t) { return 0; }, 20261127);
  device.load_code_from(first_page + pages_without_code);
  const CacheFinding found = infer_cache(device, "L2TLB", quick());
  EXPECT_FALSE(found.cache.ways);
  EXPECT_FALSE(found.cache.capacity_bytes);
}

// Lines of a short contiguous array never meet the other half of the sets.
TEST(NearerLevel, SetsThatOnlyFarLinesMeetAreNotOverlooked) {
  const auto far_sets = [](std::uint64_t page) { return page % sets + (page / 512 % 2) * sets; };
  const CacheFinding found = found_of(NearerSets(ways, far_sets), [](std::uint32_t) { return 0; });
  EXPECT_EQ(found.cache.ways, std::vector<std::uint32_t>(2 * sets, ways));
  EXPECT_EQ(found.cache.capacity_bytes, 2 * sets * ways * page_bytes);
}

TEST(NearerLevel, AnOnsetThatDependsOnThePlaceIsNotResolved) {
  const auto uneven = [](std::uint64_t page) { return page < 2306 ? page % sets : page % 2; };
  CacheFinding found = found_of(NearerSets(ways, uneven), [](std::uint32_t) { return 0; });
  EXPECT_FALSE(found.cache.onset_bytes);
  EXPECT_NE(found.evidence.leaves.at("onset_bytes").status, EvidenceStatus::resolved);
  EXPECT_EQ(found.cache.sector_bytes, page_bytes) << found.evidence.leaves.at("sector_bytes").reason;
  EXPECT_EQ(found.cache.shared_by_sms.size(), 1U) << found.evidence.leaves["shared_by_sms"].reason;
}

TEST(NearerLevel, EverySmMayHaveItsOwn) {
  const CacheFinding found = found_of(NearerSets(ways, modulo_set), [](std::uint32_t sm) { return sm; });
  EXPECT_EQ(found.cache.shared_by_sms.size(), sms);
}

}  // namespace
}  // namespace gpuinfer::infer
