// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/sweep_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>

#include <map>
#include <numeric>
#include <random>

namespace gpuinfer::infer {
namespace {

constexpr unsigned set_bits = 6;
constexpr std::uint32_t sets = 1U << set_bits;
constexpr std::uint32_t banks = 4;
constexpr std::size_t room = 7;
constexpr std::size_t at_once = 3;

// Names of sets are any linear function of (bank, place): a matrix of full rank, by rows.
struct Truth {
  std::vector<std::uint32_t> rows;  // of the place, the lowest first, then of the bank
  std::uint32_t constant = 0;

  [[nodiscard]] std::uint32_t number_of(std::uint32_t name) const {
    std::uint32_t number = 0;
    for (unsigned bit = 0; bit < set_bits; ++bit) {
      number |= static_cast<std::uint32_t>(std::popcount(rows[bit] & name) & 1) << bit;
    }
    return number ^ constant;
  }
};

Truth draw_truth(std::mt19937& random) {
  for (;;) {
    Truth truth;
    for (unsigned bit = 0; bit < set_bits; ++bit) {
      truth.rows.push_back(random() % sets);
    }
    std::vector<bool> met(sets);
    for (std::uint32_t name = 0; name < sets; ++name) {
      met[truth.number_of(name)] = true;
    }
    if (std::all_of(met.begin(), met.end(), [](bool is_met) { return is_met; })) {
      truth.constant = random() % (sets / banks);
      return truth;
    }
  }
}

// Of each bank a list of lines in the order in which `place_of` would have them swept; the sweep goes on where it was.
StoreRun run_of(const Truth& truth, std::size_t loads, std::mt19937& random,
                const std::function<std::uint32_t(std::uint32_t)>& place_of) {
  StoreRun run;
  std::vector<std::uint32_t> names(sets);
  std::iota(names.begin(), names.end(), 0U);
  std::shuffle(names.begin(), names.end(), random);
  std::vector<std::map<std::uint32_t, std::size_t>> held(banks);  // place -> position of the load
  std::vector<std::uint32_t> pointer(banks);
  for (std::size_t load = 0; load < loads; ++load) {
    const std::uint32_t number = truth.number_of(names[load]);
    const std::uint32_t bank = number / (sets / banks);
    const bool was_full = held[bank].size() >= room;
    run.loads.push_back({.set = names[load], .is_clear = true, .gone_by = {}});
    if (was_full) {
      for (std::size_t taken = 0; taken < at_once && !held[bank].empty(); ++taken) {
        auto next = held[bank].lower_bound(pointer[bank]);
        next = next == held[bank].end() ? held[bank].begin() : next;
        run.loads[next->second].gone_by = load;
        pointer[bank] = next->first + 1;
        held[bank].erase(next);
      }
    }
    held[bank][place_of(number % (sets / banks))] = load;
  }
  return run;
}

std::vector<StoreRun> runs_of(const Truth& truth, std::mt19937& random,
                              const std::function<std::uint32_t(std::uint32_t)>& place_of) {
  std::vector<StoreRun> runs;
  for (int run = 0; run < 24; ++run) {
    runs.push_back(run_of(truth, sets - 4, random, place_of));
  }
  return runs;
}

TEST(SweepOrder, IsFoundWhateverTheHash) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Truth truth = draw_truth(random);
    std::string reason;
    const auto order =
        fit_sweep_order(runs_of(truth, random, [](std::uint32_t place) { return place; }), set_bits, reason);
    ASSERT_TRUE(order.has_value()) << reason;
    EXPECT_EQ(order->bank_rows.size(), 2U);
    EXPECT_EQ(order->position_rows, std::vector(truth.rows.begin(), truth.rows.begin() + 4));
    EXPECT_EQ(order->position_constant, truth.constant);
    EXPECT_EQ(order->lines_of_bank, room);
    EXPECT_EQ(order->most_at_once, at_once);
  }
}

TEST(SweepOrder, AnOrderThatNoBitsMakeIsContradicted) {
  std::mt19937 random(1);
  const Truth truth = draw_truth(random);
  std::string reason;
  const auto runs = runs_of(truth, random, [](std::uint32_t place) { return place * 5 % (sets / banks); });
  EXPECT_FALSE(fit_sweep_order(runs, set_bits, reason).has_value());
  EXPECT_NE(reason, "");
}

TEST(SweepOrder, FewRunsLeaveItOpen) {
  std::mt19937 random(1);
  const Truth truth = draw_truth(random);
  std::string reason;
  const StoreRun run = run_of(truth, sets / 2, random, [](std::uint32_t place) { return place; });
  EXPECT_FALSE(fit_sweep_order({run}, set_bits, reason).has_value());
  EXPECT_EQ(reason, "");
}

TEST(SweepOrder, LinesThatGoFromAnywhereHaveNoBanks) {
  std::mt19937 random(1);
  std::vector<StoreRun> runs(8);
  for (StoreRun& run : runs) {
    for (std::size_t load = 0; load < sets; ++load) {
      run.loads.push_back({.set = static_cast<std::uint32_t>(random() % sets), .is_clear = true, .gone_by = {}});
      if (load > 20) {
        run.loads[random() % load].gone_by = load;
      }
    }
  }
  std::string reason;
  EXPECT_FALSE(fit_sweep_order(runs, set_bits, reason).has_value());
  EXPECT_NE(reason, "");
}

}  // namespace
}  // namespace gpuinfer::infer
