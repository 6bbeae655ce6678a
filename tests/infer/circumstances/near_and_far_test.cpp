// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove this wrong: SMs put into one group that have different parts near, a home that is not where lines
// are, a parity where homes follow no parity, or parts where there is but one.
#include "infer/circumstances/near_and_far.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model/random.hpp"

namespace gpuinfer::infer {
namespace {

constexpr std::uint64_t l2_line_bytes = 128;

// A cache in parts. A line is brought to its home, and where copies are kept also to the part near
// the SM that loads it.
struct Parts {
  std::function<std::size_t(std::uint64_t address)> home_of;
  std::function<std::size_t(std::uint32_t sm)> near_to;
  bool keeps_copies = true;
  std::size_t lines_of_part = std::size_t{1} << 15U;  // two pages; random ones leave
  double far_cycles = 165;
  bool misses_are_far_too = true;
  double deviation_cycles = 12;
};

class DeviceInParts final : public model::Answerer {
 public:
  DeviceInParts(Parts parts, std::uint64_t seed) : parts_(std::move(parts)), random_(seed) {
    facts_.name = "in parts";
    facts_.sm_count = 24;
    facts_.chooses_unit = true;
    facts_.targets = {"L2"};
    facts_.buffer = {.bytes = 64ULL << 20U, .address = model::Address{3ULL << 20U}};
  }

  const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (question.state == model::StartState::flooded) {
        present_.clear();
        lines_.clear();
      }
      std::vector<float> cycles;
      for (const std::uint64_t offset : question.warm) {
        static_cast<void>(load(number_of(facts_.buffer.address + offset), number_of(*question.circumstances.unit)));
      }
      for (const std::uint64_t offset : question.record) {
        cycles.push_back(load(number_of(facts_.buffer.address + offset), number_of(*question.circumstances.unit)));
      }
      answers.push_back({.latency_cycles = std::move(cycles), .refusal = std::nullopt});
    }
    return answers;
  }

 private:
  float load(std::uint64_t address, std::uint32_t sm) {
    const std::uint64_t line = address / l2_line_bytes;
    const std::size_t home = parts_.home_of(address);
    const std::size_t near = parts_.near_to(sm);
    double cycles = 280;
    if (!present_.contains(in_part(near, line))) {
      const double cycles_to_home = home == near ? 0 : parts_.far_cycles;
      cycles = bring(home, line) ? 700 + (parts_.misses_are_far_too ? cycles_to_home : 0) : 280 + cycles_to_home;
    }
    if (parts_.keeps_copies) {
      bring(near, line);
    }
    const double stray = random_.unit() < 0.002 ? 300 : 0;
    return static_cast<float>(std::round(cycles + parts_.deviation_cycles * random_.normal() + stray));
  }

  static std::uint64_t in_part(std::size_t part, std::uint64_t line) { return line * 64 + part; }

  // Whether it was not there.
  bool bring(std::size_t part, std::uint64_t line) {
    if (!present_.insert(in_part(part, line)).second) {
      return false;
    }
    std::vector<std::uint64_t>& lines = lines_[part];
    if (lines.size() < parts_.lines_of_part) {
      lines.push_back(line);
    } else {
      present_.erase(in_part(part, std::exchange(lines[random_.below(lines.size())], line)));
    }
    return true;
  }

  Parts parts_;
  model::Random random_;
  model::DeviceFacts facts_;
  std::unordered_set<std::uint64_t> present_;
  std::map<std::size_t, std::vector<std::uint64_t>> lines_;  // the same, by part
};

constexpr std::uint64_t mask = 1U << 12U | 1U << 13U | 1U << 19U | 1ULL << 24U;

std::size_t parity_home(std::uint64_t address) { return static_cast<std::size_t>(std::popcount(address & mask) % 2); }

NearAndFar found_of(const Parts& parts) {
  constexpr std::uint64_t seed = 20261121;
  std::cout << "seed " << seed << '\n';
  DeviceInParts device(parts, seed);
  const Settings settings;
  Asker asker(device, "L2", settings);
  return find_near_and_far(asker, l2_line_bytes);
}

TEST(NearAndFar, TwoPartsAndTheParityOfTheHome) {
  for (const bool keeps_copies : {true, false}) {
    const NearAndFar found = found_of({.home_of = parity_home,
                                       .near_to = [](std::uint32_t sm) { return sm / 2 % 3 == 1 ? std::size_t{1} : 0; },
                                       .keeps_copies = keeps_copies});
    EXPECT_EQ(found.reason, "");
    ASSERT_EQ(found.sms.size(), 2U);
    EXPECT_EQ(numbers_of(found.sms[1]), (std::vector<std::uint32_t>{2, 3, 8, 9, 14, 15, 20, 21}));
    EXPECT_EQ(found.sms[0].size(), 16U);
    EXPECT_NEAR(found.near_cycles, 280, 5);
    EXPECT_NEAR(found.far_cycles, 165, 5);
    EXPECT_EQ(found.keeps_copies, keeps_copies);
    ASSERT_TRUE(found.home);
    // Bits above those of a page are not told.
    EXPECT_EQ(found.home->row_masks, std::vector<std::uint64_t>{mask & ((2ULL << 20U) - 1)});
    EXPECT_EQ(found.block_bytes, 2ULL << 20U);
  }
}

TEST(NearAndFar, WhatIsPresentNearAnSm) {
  constexpr std::size_t lines = (3U << 20U) / l2_line_bytes;
  Parts parts{.home_of = parity_home,
              .near_to = [](std::uint32_t sm) { return std::size_t{sm % 2}; },
              .keeps_copies = true,
              .lines_of_part = lines};
  const NearAndFar found = found_of(parts);
  ASSERT_TRUE(found.resident_bytes);
  const auto [low, high] = *found.resident_bytes;
  EXPECT_NEAR(std::midpoint(low, high), lines * l2_line_bytes, 0.02 * lines * l2_line_bytes);
  EXPECT_LT(high - low, 2.5 * 0.04 * lines * l2_line_bytes);  // 4.9 deviations to each side; of 95 %, 4 % at most
  parts.keeps_copies = false;
  EXPECT_FALSE(found_of(parts).resident_bytes) << "what has its home far away is never near";
}

TEST(NearAndFar, LatenciesOfNearLines) {
  constexpr std::uint64_t seed = 20261127;
  std::cout << "seed " << seed << '\n';
  for (const bool misses_are_far_too : {true, false}) {
    DeviceInParts device({.home_of = [](std::uint64_t address) { return 1 - parity_home(address); },
                          .near_to = [](std::uint32_t sm) { return std::size_t{sm % 2}; },
                          .misses_are_far_too = misses_are_far_too},
                         seed);
    const Settings settings;
    Asker asker(device, "L2", settings);
    const NearAndFar found = find_near_and_far(asker, l2_line_bytes);
    ASSERT_TRUE(found.home);
    const auto near = find_near_latencies(asker, l2_line_bytes, found);
    ASSERT_EQ(near.has_value(), misses_are_far_too) << "what takes as long from everywhere is of no part";
    if (near) {
      EXPECT_NEAR(near->hit_cycles, 280, 2);
      EXPECT_NEAR(near->miss_cycles, 700, 2);
    }
  }
}

TEST(NearAndFar, OnePartIsNoParts) {
  Parts parts{.home_of = [](std::uint64_t) { return std::size_t{0}; },
              .near_to = [](std::uint32_t) { return std::size_t{0}; },
              .deviation_cycles = 4};
  const NearAndFar found = found_of(parts);
  EXPECT_EQ(found.sms.size(), 1U);
  EXPECT_FALSE(found.home);
  EXPECT_EQ(found.reason, "");
  parts.deviation_cycles = 40;
  EXPECT_NE(found_of(parts).reason.find("would not have been seen"), std::string::npos);
}

TEST(NearAndFar, AllSmsMayBeFarFromTheSameLines) {
  const NearAndFar found = found_of(
      {.home_of = parity_home, .near_to = [](std::uint32_t) { return std::size_t{0}; }, .keeps_copies = false});
  EXPECT_EQ(found.reason, "");
  EXPECT_EQ(found.sms.size(), 1U);
  ASSERT_TRUE(found.home);
  EXPECT_EQ(found.home->row_masks, std::vector<std::uint64_t>{mask & ((2ULL << 20U) - 1)});
  EXPECT_NEAR(found.near_cycles, 280, 5);
  EXPECT_NEAR(found.far_cycles, 165, 5);
}

TEST(NearAndFar, PartsThatAreHardlyFartherAreNotDenied) {
  const std::vector<std::pair<double, double>> far_and_deviation{{30, 12}, {3, 4}, {1.5, 4}, {3, 0.5}};
  for (const auto& [far_cycles, deviation_cycles] : far_and_deviation) {
    for (const bool keeps_copies : {true, false}) {
      for (const std::vector<std::uint32_t>& sms_of_part :
           {std::vector<std::uint32_t>{0}, {5}, {0, 8, 16}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}) {
        const NearAndFar found = found_of(
            {.home_of = parity_home,
             .near_to = [&](std::uint32_t sm) { return static_cast<std::size_t>(std::ranges::count(sms_of_part, sm)); },
             .keeps_copies = keeps_copies,
             .far_cycles = far_cycles,
             .deviation_cycles = deviation_cycles});
        EXPECT_FALSE(found.home);
        EXPECT_NE(found.reason, "") << far_cycles << " cycles farther, deviation " << deviation_cycles << ", "
                                    << sms_of_part.size() << " SMs near the other part";
      }
    }
  }
}

TEST(NearAndFar, HomesThatFollowNoParityAreNotTold) {
  const NearAndFar found = found_of({.home_of = [](std::uint64_t address) { return address / 4096 % 3 % 2; },
                                     .near_to = [](std::uint32_t sm) { return std::size_t{sm % 2}; }});
  EXPECT_EQ(found.sms.size(), 2U);
  EXPECT_FALSE(found.home);
  EXPECT_NE(found.reason, "");
}

TEST(NearAndFar, OfFourPartsTheSmsAreTold) {
  const NearAndFar found = found_of({.home_of = [](std::uint64_t address) { return address / 4096 % 4; },
                                     .near_to = [](std::uint32_t sm) { return std::size_t{sm % 4}; }});
  ASSERT_EQ(found.sms.size(), 4U);
  EXPECT_EQ(numbers_of(found.sms[1]), (std::vector<std::uint32_t>{1, 5, 9, 13, 17, 21}));
  EXPECT_FALSE(found.home);
}

}  // namespace
}  // namespace gpuinfer::infer
