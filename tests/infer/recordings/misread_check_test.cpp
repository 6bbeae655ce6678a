// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the check wrong: errors of a wrong set, line or policy taken for misreads, or misreads doubted.
#include "infer/recordings/misread_check.hpp"

#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "model/cache_simulator.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

// Random loads of 32 lines of 32 bytes in 4 sets of 4 ways, LRU; `is_changed`: whether an outcome was recorded
// otherwise.
class MisreadCheck : public testing::Test {
 protected:
  template <class Changed>
  std::string doubt(const Changed& is_changed, const char* fitted_policy = "lru") {
    const auto simulator =
        model::CacheSimulator::make(cache_of({4, 4, 4, 4}, model::BitsIndex{.bits = {5, 6}}, replacement("lru")), 1);
    simulator->put_into(model::StartState::clean);
    Played played;
    for (std::size_t i = 0; i < 20'000; ++i) {
      const std::uint64_t address = 32 * random_.below(32);
      const bool missed = is_miss(simulator->step(model::Address{address}, model::AccessKind::load).outcome);
      played.addresses.push_back(address);
      played.measured.push_back(missed != is_changed(address, i) ? model::Measured::miss : model::Measured::hit);
    }
    TraceFit fit{.line_bytes = 32, .split = {}, .ways = {4, 4, 4, 4}, .policy = replacement(fitted_policy)};
    for (std::uint32_t line = 0; line < 32; ++line) {
      fit.split.lines.push_back(std::uint64_t{32} * line);
      fit.split.set_of.push_back(line % 4);
    }
    return doubt_in_errors(fit, SetSimulation({&played, 1}, 32, 32));
  }

  bool at_random(double share) { return random_.unit() < share; }

  std::uint64_t seed_ = std::random_device{}();
  model::Random random_{(std::cout << "seed " << seed_ << '\n', seed_)};
};

TEST_F(MisreadCheck, MisreadsAreNotDoubted) {
  EXPECT_EQ(doubt([](std::uint64_t, std::size_t) { return false; }), "");
  // Each check is wrong once in 400; of six runs, no more than one is doubted.
  int doubted = 0;
  for (int run = 0; run < 6; ++run) {
    doubted += doubt([this](std::uint64_t, std::size_t) { return at_random(0.01); }).empty() ? 0 : 1;
  }
  EXPECT_LE(doubted, 1);
}

TEST_F(MisreadCheck, ErrorsOfOneSetAreNoMisreads) {
  EXPECT_NE(doubt([this](std::uint64_t address, std::size_t) {
              return address % 128 == 32 && at_random(0.03);
            }).find("are in one set"),
            std::string::npos);
}

TEST_F(MisreadCheck, ErrorsOfOneLineAreNoMisreads) {
  EXPECT_NE(
      doubt([this](std::uint64_t address, std::size_t) { return at_random(address == 96 ? 0.06 : 0.004); }).find("are"),
      std::string::npos);
}

TEST_F(MisreadCheck, ErrorsInARowAreNoMisreads) {
  // Another check is wrong once in 400, and speaks first.
  int found = 0;
  for (int run = 0; run < 3; ++run) {
    const std::string reason = doubt([](std::uint64_t, std::size_t i) { return i % 1000 < 10; });
    found += reason.find("follow one another") == std::string::npos ? 0 : 1;
  }
  EXPECT_GE(found, 2);
}

TEST_F(MisreadCheck, AnotherPolicyIsNoMisread) {
  EXPECT_NE(doubt([](std::uint64_t, std::size_t) { return false; }, "fifo"), "");
}

}  // namespace
}  // namespace gpuinfer::infer
