// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the search for departures wrong: a device that departs and shows none, misreads taken for
// departures, a bound that more departures than it allows pass.
#include "infer/cache/rare_departures.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <iostream>
#include <limits>
#include <list>
#include <unordered_map>

#include "infer/cache/infer_cache.hpp"
#include "tests/infer/calibrated.hpp"
#include "tests/infer/finding_check.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {
constexpr std::size_t set_count = 4;
constexpr std::size_t way_count = 4;

// LRU but for some fills, in which the line is not kept.
class Departing final : public model::Answerer {
 public:
  using Departs = std::function<bool(std::uint64_t fill, std::uint64_t line, model::Random&)>;

  Departing(Departs departs, double misread_share, std::uint64_t seed)
      : departs_(std::move(departs)), misread_share_(misread_share), random_(seed) {
    facts_.name = "departing";
    facts_.targets = {"L1tex"};
    facts_.buffer = {.bytes = 1U << 18U, .address = model::Address{0}, .raster = {}, .nearer_bytes = {}};
  }

  // A line that was not loaded for so many loads of any lines is gone.
  void forget_lines_after(std::uint64_t loads) { loads_until_forgotten_ = loads; }

  // So many loads are read right.
  void misread_only_after(std::uint64_t loads) { read_right_ = loads; }

  const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (question.state == model::StartState::clean) {
        lines_ = {};
      }
      for (const std::uint64_t offset : question.warm) {
        static_cast<void>(misses(offset));
      }
      std::vector<float> cycles;
      for (const std::uint64_t offset : question.record) {
        const bool is_misread = ++recorded_ > read_right_ && random_.unit() < misread_share_;
        const bool read_as_miss = misses(offset) != is_misread;
        cycles.push_back(static_cast<float>(std::round((read_as_miss ? 200 : 100) + random_.normal())));
      }
      answers.push_back({.latency_cycles = std::move(cycles), .refusal = std::nullopt});
    }
    return answers;
  }

 private:
  bool misses(std::uint64_t offset) {
    const std::uint64_t line = offset / line_bytes;
    std::list<std::uint64_t>& set = lines_.at(line % set_count);
    ++loads_;
    std::erase_if(set, [&](std::uint64_t each) { return loads_ - last_load_[each] > loads_until_forgotten_; });
    last_load_[line] = loads_;
    const auto found = std::find(set.begin(), set.end(), line);
    const bool is_miss = found == set.end();
    if (is_miss && departs_(++fills_, line, random_)) {
      return true;
    }
    if (!is_miss) {
      set.erase(found);
    }
    set.push_front(line);
    if (set.size() > way_count) {
      set.pop_back();
    }
    return is_miss;
  }

  Departs departs_;
  double misread_share_;
  std::uint64_t read_right_ = 0;
  std::uint64_t recorded_ = 0;
  std::uint64_t loads_until_forgotten_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t loads_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> last_load_;  // by line
  model::Random random_;
  model::DeviceFacts facts_;
  std::array<std::list<std::uint64_t>, set_count> lines_;
  std::uint64_t fills_ = 0;
};

struct Searched {
  std::size_t events = 0;
  double departures_below = 0;
  double odd_lines_below = 0;
  std::optional<Contradiction> contradiction;
};

Searched searched(const Departing::Departs& departs, double misread_share, std::uint64_t seed = 20261124) {
  std::cout << "seed " << seed << '\n';
  Departing device(departs, misread_share, seed);
  Settings settings;
  settings.seed = seed;
  Interrogator interrogator = calibrated(device, settings);
  interrogator.set_fill_granularity(line_bytes);
  interrogator.set_line(line_bytes);
  const model::CacheDescription lru =
      cache_of(std::vector<std::uint32_t>(set_count, way_count), model::BitsIndex{.bits = {5, 6}}, replacement("lru"));
  DepartureTally tally(interrogator, lru);
  Searched found;
  found.contradiction = search_departures(interrogator, lru, tally);
  found.events = tally.events();
  found.departures_below = tally.departures_below();
  found.odd_lines_below = tally.odd_lines_below();
  return found;
}

bool never(std::uint64_t /*fill*/, std::uint64_t /*line*/, model::Random& /*random*/) { return false; }

TEST(RareDepartures, NoneAreExcludedToTheBoundThatIsAskedFor) {
  for (const double misread_share : {0.0, 0.002}) {
    const Searched found = searched(never, misread_share);
    EXPECT_EQ(found.events, 0U);
    EXPECT_FALSE(found.contradiction) << found.contradiction->sentence;
    EXPECT_LE(found.departures_below, 1.0 / 2000);
    EXPECT_GT(found.departures_below, 1.0 / 20'000);
    EXPECT_LE(found.odd_lines_below, 1.0 / 2000);
  }
}

TEST(RareDepartures, WhereMisreadsHideThemTheBoundIsHigher) {
  const Searched found = searched(never, 0.02);
  EXPECT_FALSE(found.contradiction) << found.contradiction->sentence;
  EXPECT_EQ(found.events, 0U);
  EXPECT_GT(found.departures_below, 1.0 / 2000);
}

TEST(RareDepartures, ByChanceAreSeen) {
  for (const std::uint64_t one_in : {64ULL, 256ULL, 1024ULL}) {
    const auto by_chance = [&](std::uint64_t, std::uint64_t, model::Random& random) {
      return random.below(one_in) == 0;
    };
    for (const double misread_share : {0.0, 0.002}) {
      const Searched found = searched(by_chance, misread_share);
      EXPECT_GT(found.events, 0U) << one_in;
      EXPECT_GT(found.departures_below, 1.0 / static_cast<double>(one_in));
    }
  }
}

// The first look at hits and misses is short, and may meet no misread of either by chance.
TEST(RareDepartures, AreNotMadeOfMisreadsThatCalibrationDidNotMeet) {
  constexpr double misread_share = 0.002;
  constexpr std::uint64_t loads_of_calibration = 2500;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Departing device(never, misread_share, seed);
    device.misread_only_after(loads_of_calibration);
    Settings settings;
    settings.seed = seed;
    const CacheFinding finding = infer_cache(device, "L1tex", settings);
    EXPECT_TRUE(is_resolved(finding, "replacement")) << "seed " << seed << '\n' << text_of(finding);
  }
}

// Random loads of a small cache come back to each line long before.
TEST(RareDepartures, LinesThatAreForgottenWhileOthersAreLoadedContradict) {
  for (const std::uint64_t loads : {500U, 5000U}) {
    Departing device(never, 0, 1);
    device.forget_lines_after(loads);
    const CacheFinding finding = infer_cache(device, "L1tex", {});
    EXPECT_FALSE(is_resolved(finding, "replacement")) << loads << '\n' << text_of(finding);
    EXPECT_TRUE(is_resolved(finding, "ways"));
  }
}

TEST(RareDepartures, OfCertainLinesContradict) {
  const auto of_lines = [](std::uint64_t, std::uint64_t line, model::Random&) { return line % 509 == 17; };
  for (const double misread_share : {0.0, 0.02}) {
    EXPECT_TRUE(searched(of_lines, misread_share).contradiction) << misread_share;
  }
}

}  // namespace
}  // namespace gpuinfer::infer
