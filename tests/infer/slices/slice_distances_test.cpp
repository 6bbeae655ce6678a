// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove this wrong: groups of SMs other than the device has, a distance that is off by more than a clock
// step, distances of a device whose SMs are neither alike nor unlike, or of one that is otherwise a moment later.
#include "infer/slices/slice_distances.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <set>
#include <utility>

#include "infer/asking/asker.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {
namespace {

using Row = std::vector<double>;

// Line i lies in slice i mod `slices`. What was never loaded misses, and a line is found near from the second load on,
// until contended pairs take it home again, which bring nothing.
class DistantSlices final : public model::Answerer {
 public:
  static constexpr std::uint32_t slices = 10;
  static constexpr std::uint64_t line_bytes = 128;
  static constexpr std::uint64_t lines = 1000;
  static constexpr double copy_cycles = 230;

  DistantSlices(std::vector<Row> cycles, std::uint64_t seed) : cycles_(std::move(cycles)), random_(seed) {
    facts_.name = facts_.source = "distant";
    facts_.targets = facts_.contended_targets = {"L2"};
    facts_.buffer = {.bytes = lines * line_bytes, .address = model::Address{1ULL << 30U}};
    facts_.sm_count = static_cast<unsigned>(cycles_.size());
    facts_.chooses_unit = true;
  }

  void change_after(std::size_t questions, std::vector<Row> cycles) {
    left_ = questions;
    later_ = std::move(cycles);
  }

  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }

  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (left_ > 0 && --left_ == 0) {
        cycles_ = later_;
      }
      model::Answer& answer = answers.emplace_back();
      for (const std::uint64_t offset : question.record) {
        const std::uint64_t line = offset / line_bytes;
        if (question.circumstances.contended_pairs) {
          copied_.erase(line);
          answer.latency_cycles.push_back(2700);
          continue;
        }
        if (present_.insert(line).second) {
          answer.latency_cycles.push_back(700);
          continue;
        }
        const double home_cycles = cycles_.at(number_of(*question.circumstances.unit)).at(line % slices);
        const double cycles = copied_.insert(line).second ? home_cycles : copy_cycles;
        const double stray_cycles = random_.below(50) == 0 ? 400 : 0;
        answer.latency_cycles.push_back(static_cast<float>(cycles + 2 * random_.normal() + stray_cycles));
      }
    }
    return answers;
  }

 private:
  std::vector<Row> cycles_;
  std::vector<Row> later_;
  std::size_t left_ = 0;
  model::Random random_;
  model::DeviceFacts facts_;
  std::set<std::uint64_t> present_;
  std::set<std::uint64_t> copied_;
};

FoundDistances found_on(DistantSlices& device, std::uint64_t seed) {
  std::vector<std::vector<std::uint64_t>> lines(DistantSlices::slices);
  for (std::uint64_t line = 0; line < DistantSlices::lines; ++line) {
    lines[line % DistantSlices::slices].push_back(line * DistantSlices::line_bytes);
  }
  Settings settings;
  settings.seed = seed;
  Asker asker(device, "L2", settings);
  return find_slice_distances(asker, lines);
}

// Rows of groups that differ by `apart_cycles` or more, as the root of the mean square; SMs of a group by the same
// cycles at all slices.
struct Hidden {
  std::vector<model::ComputeUnits> groups;
  std::vector<Row> cycles;  // by SM
};

Hidden hidden(std::size_t groups, std::size_t sms, double apart_cycles, std::uint64_t seed) {
  model::Random random(seed);
  std::vector<Row> of_groups;
  for (std::size_t group = 0; group < groups; ++group) {
    Row& row = of_groups.emplace_back(DistantSlices::slices, 280.0);
    row[group] += apart_cycles * std::sqrt(DistantSlices::slices);
    row[9] += 170;  // the same for all
  }
  Hidden device{.groups = std::vector<model::ComputeUnits>(groups), .cycles = {}};
  for (std::uint32_t sm = 0; sm < sms; ++sm) {
    const std::size_t group = sm < groups ? sm : random.below(groups);
    device.groups[group].push_back(model::ComputeUnit{sm});
    Row& row = device.cycles.emplace_back(of_groups[group]);
    const auto more = static_cast<double>(random.below(9));
    std::ranges::for_each(row, [more](double& cycles) { cycles += more; });
  }
  return device;
}

TEST(SliceDistances, AreThoseOfTheDevice) {
  for (std::uint64_t seed = 20261201; seed < 20261209; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Hidden truth = hidden(1 + seed % 4, 24, 6, seed);
    DistantSlices device(truth.cycles, seed);
    const FoundDistances found = found_on(device, seed);
    ASSERT_TRUE(found.distances) << found.reason;
    EXPECT_EQ(found.distances->sms, truth.groups);
    EXPECT_EQ(found.fresh, 240U);
    EXPECT_EQ(found.wrong, 0U);
    for (std::uint32_t sm = 0; sm < truth.cycles.size(); ++sm) {
      const Row cycles = cycles_to_slices(*found.distances, model::ComputeUnit{sm});
      for (std::size_t slice = 0; slice < cycles.size(); ++slice) {
        EXPECT_NEAR(cycles[slice], truth.cycles[sm][slice], 2.5) << "SM " << sm << ", slice " << slice;
      }
    }
  }
}

TEST(SliceDistances, OfGroupsThatAreNeitherAlikeNorUnlikeAreNotTold) {
  constexpr std::uint64_t seed = 20261210;
  std::cout << "seed " << seed << '\n';
  // Two groups of as many SMs, whose rows differ by the root of twice that.
  DistantSlices device(hidden(2, 24, 2.2, seed).cycles, seed);
  const FoundDistances found = found_on(device, seed);
  EXPECT_FALSE(found.distances);
  EXPECT_NE(found.reason.find("neither none nor clearly some"), std::string::npos) << found.reason;
}

TEST(SliceDistances, ThatChangeAreNotTold) {
  constexpr std::uint64_t seed = 20261211;
  std::cout << "seed " << seed << '\n';
  const Hidden truth = hidden(2, 24, 12, seed);
  DistantSlices device(truth.cycles, seed);
  std::vector<Row> later = truth.cycles;
  std::ranges::for_each(later, [](Row& row) { std::rotate(row.begin(), row.begin() + 1, row.end()); });
  constexpr std::size_t rounds_that_find = 3;
  device.change_after(rounds_that_find * (2 * 24 + 1) + 1, later);
  const FoundDistances found = found_on(device, seed);
  EXPECT_FALSE(found.distances);
  EXPECT_GT(found.wrong, 24U);
}

TEST(SliceDistances, NeedLinesCloseTogether) {
  DistantSlices device(hidden(1, 4, 6, 1).cycles, 1);
  std::vector<std::vector<std::uint64_t>> lines(2, std::vector<std::uint64_t>(39));
  Asker asker(device, "L2", Settings{});
  EXPECT_FALSE(find_slice_distances(asker, lines).distances);
  lines.front().clear();
  EXPECT_FALSE(find_slice_distances(asker, lines).distances);
}

}  // namespace
}  // namespace gpuinfer::infer
