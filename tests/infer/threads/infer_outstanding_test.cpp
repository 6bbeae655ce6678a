// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/infer_outstanding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "infer/threads/outstanding_fit.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/random.hpp"
#include "probe/virtual_device.hpp"
#include "tests/infer/timed_device.hpp"
#include "tests/model/configured_devices.hpp"

// What would prove the inference wrong: anything resolved that is not so. A table where there is none (memory that is
// merely slow, rows of DRAM, a cache, a limit on threads); another kind, number of entries or of merges than the device
// has; a stop of the scoreboard that is the table's; a bound that the device does not keep. And on the published
// devices anything left open that the paper found.
namespace gpuinfer::infer {
namespace {

using model::ConcurrentLoads;
using model::EvidenceStatus;
using model::OutstandingDescription;
using model::OutstandingKind;

OutstandingFinding infer_entries(model::Answerer& device) {
  return infer_outstanding(device, "Outstanding", Settings{});
}

OutstandingFinding infer_entries(const OutstandingDescription& outstanding, const model::NoiseDescription& noise,
                                 std::uint64_t seed) {
  model::DeviceDescription description;
  description.outstanding = outstanding;
  description.noise = noise;
  return infer_entries(*probe::open_virtual(description, "virtual:table", seed));
}

bool is_resolved(const OutstandingFinding& finding, const std::string& leaf) {
  const auto found = finding.evidence.leaves.find(leaf);
  return found != finding.evidence.leaves.end() && found->second.status == EvidenceStatus::resolved;
}

std::string text_of(const OutstandingFinding& finding) {
  model::DeviceDescription profile;
  profile.outstanding = finding.outstanding;
  profile.evidence["outstanding"] = finding.evidence;
  return model::to_yaml(profile);
}

const model::EvidenceDetails& details(const OutstandingFinding& finding, const std::string& leaf) {
  return finding.evidence.leaves.at(leaf).details;
}

// The numbers of threads before and after the jump of so many loads of each thread; none: there is no such knee.
std::optional<std::array<std::uint32_t, 2>> knee(const OutstandingFinding& finding, std::uint32_t loads,
                                                 std::uint32_t threads_per_line) {
  const auto& knees = details(finding, "kind").knees;
  const auto found = std::ranges::find_if(knees, [&](const model::KneeOfLoads& each) {
    return each.loads == loads && each.threads_per_line == threads_per_line && each.from_l2;
  });
  return found == knees.end() ? std::nullopt : std::optional(found->threads);
}

// Whatever is resolved is true, and everything else is null.
void expect_nothing_wrong(const OutstandingFinding& finding, const OutstandingDescription& truth) {
  const OutstandingDescription& found = finding.outstanding;
  EXPECT_EQ(found.kind.has_value(), is_resolved(finding, "kind"));
  EXPECT_EQ(found.entries.has_value(), is_resolved(finding, "entries"));
  EXPECT_EQ(found.merges.has_value(), is_resolved(finding, "merges"));
  EXPECT_EQ(found.loads_per_warp.has_value(), is_resolved(finding, "loads_per_warp"));
  EXPECT_TRUE(!found.kind || found.kind == truth.kind) << "kind is wrong";
  EXPECT_TRUE(!found.entries || found.entries == truth.entries) << "entries is wrong";
  EXPECT_TRUE(!found.merges || found.merges == truth.merges) << "merges is wrong";
  EXPECT_TRUE(!found.merges_at_least || !truth.merges || *found.merges_at_least <= *truth.merges)
      << "merges_at_least is wrong";
  EXPECT_TRUE(!found.loads_per_warp || found.loads_per_warp == truth.loads_per_warp) << "loads_per_warp is wrong";
  for (const auto& [leaf, evidence] : finding.evidence.leaves) {
    EXPECT_EQ(evidence.status == EvidenceStatus::resolved, evidence.reason.empty()) << leaf;
  }
  const model::EvidenceDetails& entries = details(finding, "entries");
  if (truth.kind == OutstandingKind::mshr && entries.lines_at_least) {
    EXPECT_LE(entries.lines_at_least, truth.entries);
  }
  if (truth.kind == OutstandingKind::prt && entries.warp_loads_at_least) {
    EXPECT_LE(entries.warp_loads_at_least, truth.entries);
  }
}

// A machine given as a formula, with noise and rare outliers.
class Formula final : public foreign::TimedDevice<ConcurrentLoads> {
 public:
  using Cycles = std::function<double(const ConcurrentLoads&)>;

  explicit Formula(Cycles cycles) : cycles_(std::move(cycles)) {}

  void refuse_what_is_not_in_l2() { only_l2_ = true; }

 protected:
  model::Timing timing_of(const ConcurrentLoads& loads) override {
    if (only_l2_ && !loads.from_l2) {
      return refused("nothing drives lines out of L2; ask for lines in L2");
    }
    model::Timing timing;
    const double cycles = cycles_(loads);
    for (std::uint32_t run = 0; run < loads.runs; ++run) {
      timing.cycles.push_back(std::round(cycles + 1.5 * random_.normal() + (random_.below(500) == 0 ? 350 : 0)));
    }
    return timing;
  }

 private:
  Cycles cycles_;
  model::Random random_{11};
  bool only_l2_ = false;
};

double lines_of(const ConcurrentLoads& loads) { return model::mshr_entries_of(loads, model::warp_lanes); }
double warp_loads_of(const ConcurrentLoads& loads) { return model::prt_entries_of(loads); }

TEST(InferOutstanding, TheM2070) {
  const auto device = probe::open_virtual(model::configured_device("m2070"), "virtual:m2070", 1);
  const OutstandingFinding finding = infer_entries(*device);
  SCOPED_TRACE(text_of(finding));
  EXPECT_EQ(finding.outstanding.kind, OutstandingKind::mshr);
  EXPECT_EQ(finding.outstanding.entries, 128U);
  EXPECT_EQ(finding.outstanding.merges, std::nullopt);
  EXPECT_EQ(finding.outstanding.merges_at_least, 8U);
  EXPECT_EQ(finding.outstanding.loads_per_warp, 4U);
  using Threads = std::array<std::uint32_t, 2>;
  EXPECT_EQ(knee(finding, 1, 1), (Threads{128, 130}));
  EXPECT_EQ(knee(finding, 2, 1), (Threads{64, 66}));
  EXPECT_EQ(knee(finding, 1, 2), (Threads{256, 258}));
  EXPECT_EQ(knee(finding, 2, 4), (Threads{256, 258}));
  EXPECT_EQ(knee(finding, 4, 8), (Threads{256, 258}));
  std::cout << finding.questions << " questions, " << finding.accesses << " loads\n";
}

TEST(InferOutstanding, TheK20) {
  const auto device = probe::open_virtual(model::configured_device("k20"), "virtual:k20", 1);
  const OutstandingFinding finding = infer_entries(*device);
  SCOPED_TRACE(text_of(finding));
  EXPECT_EQ(finding.outstanding.kind, OutstandingKind::prt);
  EXPECT_EQ(finding.outstanding.entries, 44U);
  EXPECT_EQ(finding.outstanding.loads_per_warp, 3U);
  EXPECT_TRUE(finding.all_resolved());
  const auto& knees = details(finding, "kind").knees;
  EXPECT_TRUE(std::ranges::none_of(knees, [](const model::KneeOfLoads& each) { return each.loads == 1; }));
  using Threads = std::array<std::uint32_t, 2>;
  EXPECT_EQ(knee(finding, 2, 1), (Threads{704, 706}));
  EXPECT_EQ(knee(finding, 3, 1), (Threads{448, 450}));
}

TEST(InferOutstanding, NinetySixEntriesThatMergeFour) {
  const OutstandingDescription truth{
      .kind = OutstandingKind::mshr,
      .entries = 96,
      .merges = 4,
      .merges_at_least = {},
      .loads_per_warp = 6,
      .timing = model::OutstandingTiming{
          .latency = 400, .issue_per_request = 2, .write_back_per_request = 0.1, .memory_per_line = 0.7}};
  const OutstandingFinding finding = infer_entries(truth, {.jitter_cycles = 3}, 7);
  SCOPED_TRACE(text_of(finding));
  EXPECT_TRUE(finding.all_resolved());
  expect_nothing_wrong(finding, truth);
}

// The curves of Lashgar et al. 2015, figure 1, in closed form: a ramp of one warp, a slow rise, and a latency more each
// time the table has filled.
double staircase(double entries, double table, const ConcurrentLoads& loads) {
  const double ramp = 2.0 * std::min(loads.threads, model::warp_lanes);
  const double latency = loads.from_l2 ? 420 : 640;
  return 25 + ramp + 0.1 * loads.threads * loads.loads_per_thread + latency * std::ceil(entries / table);
}

TEST(InferOutstanding, StaircasesInClosedForm) {
  Formula by_lines([](const ConcurrentLoads& loads) { return staircase(lines_of(loads), 77, loads); });
  const OutstandingFinding mshr = infer_entries(by_lines);
  EXPECT_EQ(mshr.outstanding.kind, OutstandingKind::mshr) << text_of(mshr);
  EXPECT_EQ(mshr.outstanding.entries, 77U);
  EXPECT_EQ(mshr.outstanding.merges, std::nullopt);
  EXPECT_EQ(mshr.outstanding.merges_at_least, 32U);
  EXPECT_EQ(mshr.outstanding.loads_per_warp, std::nullopt);
  EXPECT_EQ(details(mshr, "loads_per_warp").loads_per_warp_at_least, 8U);

  Formula by_warp_loads([](const ConcurrentLoads& loads) { return staircase(warp_loads_of(loads), 29, loads); });
  const OutstandingFinding prt = infer_entries(by_warp_loads);
  EXPECT_EQ(prt.outstanding.kind, OutstandingKind::prt) << text_of(prt);
  EXPECT_EQ(prt.outstanding.entries, 29U);
}

// Much of the time of a load is none in which it is outstanding.
TEST(InferOutstanding, ALongTimingIsNeverAWrongTable) {
  for (const double timing : {0.0, 100.0, 200.0, 300.0, 500.0}) {
    Formula device([timing](const ConcurrentLoads& loads) {
      return timing + (loads.from_l2 ? 300 : 500) * std::ceil(lines_of(loads) / 150) + 0.2 * lines_of(loads);
    });
    const OutstandingFinding finding = infer_entries(device);
    EXPECT_EQ(finding.outstanding.kind.value_or(OutstandingKind::mshr), OutstandingKind::mshr) << text_of(finding);
    EXPECT_EQ(finding.outstanding.entries.value_or(150), 150U) << text_of(finding);
    EXPECT_TRUE(finding.outstanding.entries || timing > 100) << text_of(finding);
  }
}

// An entry that has merged its fill makes the other threads of its line wait until the line has come.
TEST(InferOutstanding, EntriesThatWaitWhereTheyCannotMerge) {
  Formula device([](const ConcurrentLoads& loads) {
    constexpr double merges = 5;
    const double rounds_of_line = std::ceil(std::min(loads.threads, loads.threads_per_line) / merges);
    return 30 + 1.5 * std::min(loads.threads, model::warp_lanes) +
           (loads.from_l2 ? 400 : 600) * std::ceil(lines_of(loads) / 90) * rounds_of_line;
  });
  const OutstandingFinding finding = infer_entries(device);
  EXPECT_EQ(finding.outstanding.kind, OutstandingKind::mshr) << text_of(finding);
  EXPECT_EQ(finding.outstanding.entries, 90U);
  EXPECT_EQ(finding.outstanding.merges, 5U);
}

// As an H200 answers: a line each 1.04 cycles, whatever is outstanding.
TEST(InferOutstanding, SlowMemoryIsNoTable) {
  Formula device([](const ConcurrentLoads& loads) {
    return (loads.from_l2 ? 340 : 700) + 1.04 * lines_of(loads) + 3 * loads.loads_per_thread;
  });
  const OutstandingFinding finding = infer_entries(device);
  SCOPED_TRACE(text_of(finding));
  EXPECT_EQ(finding.outstanding, OutstandingDescription{});
  // By Little's law 340 / 1.04 or 700 / 1.04 lines are outstanding.
  EXPECT_GT(details(finding, "entries").lines_at_least, 327U);
  EXPECT_LE(details(finding, "entries").lines_at_least, 673U);
  EXPECT_EQ(details(finding, "entries").warp_loads_at_least, 256U);
  std::cout << finding.evidence.leaves.at("kind").reason << '\n';
}

// The first line is in the near half of L2, others are in the far one, almost two latencies away.
TEST(InferOutstanding, FarLinesAreNoTable) {
  for (const double first_far_line : {2.0, 3.0, 7.0, 30.0}) {
    Formula device([=](const ConcurrentLoads& loads) {
      const double far = lines_of(loads) >= first_far_line ? 230 : 0;
      return (loads.from_l2 ? 262 : 700) + far + 1.04 * lines_of(loads);
    });
    const OutstandingFinding finding = infer_entries(device);
    SCOPED_TRACE(text_of(finding));
    EXPECT_EQ(finding.outstanding, OutstandingDescription{});
    EXPECT_GT(details(finding, "entries").lines_at_least, 100U);
  }
}

TEST(InferOutstanding, ATableThatNeverFillsIsNoLimit) {
  Formula device([](const ConcurrentLoads& loads) { return 500 + 0.01 * lines_of(loads); });
  const OutstandingFinding finding = infer_entries(device);
  EXPECT_EQ(finding.outstanding.kind, OutstandingKind::no_limit_seen) << text_of(finding);
  EXPECT_EQ(finding.outstanding.entries, std::nullopt);
  EXPECT_EQ(details(finding, "entries").lines_at_least, 8192U);

  // The same table, of which the scoreboard lets nobody see the end.
  Formula stopped([](const ConcurrentLoads& loads) { return 500.0 * std::ceil(loads.loads_per_thread / 2.0); });
  const OutstandingFinding after_two = infer_entries(stopped);
  EXPECT_EQ(after_two.outstanding.kind, std::nullopt) << text_of(after_two);
  EXPECT_EQ(after_two.outstanding.loads_per_warp, 2U);
}

// Rising edges at the same number of lines in every plot, or of loads of warps, or of threads.
// Lines come one in a cycle, 300 cycles after they were asked for, and an entry is free when its last line has come.
double cycles_in_turn(const ConcurrentLoads& loads, OutstandingKind kind, std::size_t entries) {
  constexpr double latency_cycles = 300;
  const bool of_lines = kind == OutstandingKind::mshr;
  const auto lines = static_cast<std::size_t>(lines_of(loads));
  const std::size_t taken = of_lines ? lines : static_cast<std::size_t>(warp_loads_of(loads));
  std::vector<double> free_at(taken);
  double asked = 0;
  double come = 0;
  for (std::size_t entry = 0; entry < taken; ++entry) {
    asked = std::max(asked, entry < entries ? 0 : free_at[entry - entries]);
    for (std::size_t line = entry * lines / taken; line < (entry + 1) * lines / taken; ++line) {
      come = std::max(asked + latency_cycles, come + 1);
      asked += 1;
    }
    free_at[entry] = come;
  }
  return come;
}

// So nothing waits for a table of more entries than lines are under way, and all such tables answer alike.
TEST(InferOutstanding, TablesThatAreNeverWaitedForAnswerAlike) {
  std::vector<ConcurrentLoads> asked;
  Formula device([&asked](const ConcurrentLoads& loads) {
    asked.push_back(loads);
    return cycles_in_turn(loads, OutstandingKind::mshr, 400) * (loads.from_l2 ? 1 : 2);
  });
  const OutstandingFinding finding = infer_entries(device);
  SCOPED_TRACE(text_of(finding));
  for (const std::string leaf : {"kind", "entries"}) {
    EXPECT_EQ(finding.evidence.leaves.at(leaf).status, EvidenceStatus::unknown) << leaf;
  }
  EXPECT_LE(details(finding, "entries").lines_at_least, 400U);
  ASSERT_FALSE(asked.empty());
  for (const ConcurrentLoads& loads : asked) {
    const double cycles = cycles_in_turn(loads, OutstandingKind::mshr, 400);
    EXPECT_EQ(cycles, cycles_in_turn(loads, OutstandingKind::mshr, 4096));
    EXPECT_EQ(cycles, cycles_in_turn(loads, OutstandingKind::prt, 512));
    EXPECT_EQ(cycles, cycles_in_turn(loads, OutstandingKind::prt, 4096));
  }
  // One that is too small is waited for.
  EXPECT_TRUE(std::ranges::any_of(asked, [](const ConcurrentLoads& loads) {
    return cycles_in_turn(loads, OutstandingKind::mshr, 128) > cycles_in_turn(loads, OutstandingKind::mshr, 4096);
  }));
}

TEST(InferOutstanding, WavesAreNoTable) {
  for (const double period : {12.0, 150.0, 600.0}) {
    for (const double height : {120.0, 400.0}) {
      for (const int over : {0, 1, 2}) {
        Formula device([=](const ConcurrentLoads& loads) {
          const double phase = over == 0 ? lines_of(loads) : over == 1 ? 32 * warp_loads_of(loads) : loads.threads;
          const double edge = std::fmod(phase / period, 1) < 0.5 ? -1 : 1;  // the steepest of all waves
          const double wave = period < 100 ? edge : std::sin(2 * std::numbers::pi * phase / period);
          return 500 + 0.4 * lines_of(loads) + height * (1 + wave);
        });
        const OutstandingFinding finding = infer_entries(device);
        EXPECT_EQ(finding.outstanding.kind.value_or(OutstandingKind::no_limit_seen), OutstandingKind::no_limit_seen)
            << "period " << period << ", height " << height << ", over " << over << text_of(finding);
        EXPECT_EQ(finding.outstanding.entries, std::nullopt);
      }
    }
  }
}

// What more lines undo was no table that was full.
TEST(InferOutstanding, AHillIsNoTable) {
  Formula device(
      [](const ConcurrentLoads& loads) { return lines_of(loads) > 300 && lines_of(loads) <= 380 ? 1100 : 500; });
  EXPECT_EQ(infer_entries(device).outstanding.kind, OutstandingKind::no_limit_seen);
}

// 500 threads at a time, whatever they load; also where a thread has but one load outstanding, so that a table of 500
// loads would look the same.
TEST(InferOutstanding, ALimitOnThreadsIsNoTable) {
  for (const bool one_after_another : {false, true}) {
    Formula device([=](const ConcurrentLoads& loads) {
      return 500 * std::ceil(loads.threads / 500.0) * (one_after_another ? loads.loads_per_thread : 1);
    });
    const OutstandingFinding finding = infer_entries(device);
    EXPECT_EQ(finding.outstanding.kind, std::nullopt) << text_of(finding);
    EXPECT_EQ(finding.outstanding.entries, std::nullopt);
  }
}

// More lines than a cache holds drive each other out of it, and memory answers 2.3 times as late.
TEST(InferOutstanding, ACacheIsNoTable) {
  for (const auto& [cache_lines, cycles_per_line] : {std::pair(200, 1.1), std::pair(1500, 0.13)}) {
    for (const bool only_l2 : {false, true}) {
      Formula device([lines = cache_lines, per_line = cycles_per_line](const ConcurrentLoads& loads) {
        const bool hits = loads.from_l2 && lines_of(loads) <= lines;
        return (hits ? 300 : 700) + per_line * lines_of(loads);
      });
      if (only_l2) {
        device.refuse_what_is_not_in_l2();
      }
      const OutstandingFinding finding = infer_entries(device);
      EXPECT_EQ(finding.outstanding.kind, std::nullopt) << text_of(finding);
      EXPECT_EQ(finding.outstanding.entries, std::nullopt);
    }
  }
}

// Four parts of an SM with 11 entries each, one warp after another in turn: what fills depends on how the loads divide.
TEST(InferOutstanding, ATableInPartsIsNotTakenForOneOfAnotherSize) {
  Formula device([](const ConcurrentLoads& loads) {
    const double warps = std::ceil(loads.threads / 32.0);
    return 40 + 450 * std::ceil(std::ceil(warps / 4) * loads.loads_per_thread / 11) + 0.05 * lines_of(loads);
  });
  const OutstandingFinding finding = infer_entries(device);
  EXPECT_EQ(finding.outstanding.entries, std::nullopt) << text_of(finding);
}

TEST(InferOutstanding, TheStopOfAWarpMayBeTheTablesOwn) {
  for (const std::uint32_t loads_per_warp : {2U, 5U}) {
    for (const std::uint32_t entries : {1U, 2U, 3U, 5U, 6U}) {
      for (const OutstandingKind kind : {OutstandingKind::mshr, OutstandingKind::prt}) {
        const OutstandingDescription truth{.kind = kind,
                                           .entries = entries,
                                           .merges = 2,
                                           .merges_at_least = {},
                                           .loads_per_warp = loads_per_warp,
                                           .timing = model::OutstandingTiming{.latency = 300}};
        const OutstandingFinding finding = infer_entries(truth, {.jitter_cycles = 2}, 3);
        SCOPED_TRACE(text_of(finding));
        expect_nothing_wrong(finding, truth);
      }
    }
  }
}

TEST(InferOutstanding, RefusalsFailuresAndBudgetsAreTold) {
  Formula device([](const ConcurrentLoads& loads) { return 500 + lines_of(loads); });
  device.fail_after(10);
  EXPECT_THROW(static_cast<void>(infer_entries(device)), DeviceError);

  Formula failing([](const ConcurrentLoads& loads) { return 100.0 * loads.loads_per_thread; });
  Settings settings;
  settings.budget_accesses = 100'000;
  const OutstandingFinding ended = infer_outstanding(failing, "Outstanding", settings);
  EXPECT_TRUE(ended.ended_early);
  EXPECT_EQ(ended.outstanding, OutstandingDescription{});
  EXPECT_NE(ended.evidence.leaves.at("kind").reason.find("budget"), std::string::npos);
}

TEST(InferOutstanding, EntriesThatTablesNeed) {
  const TableHypothesis waiting{.kind = OutstandingKind::mshr, .merges = 4, .when_merged = WhenMerged::waits_for_line};
  EXPECT_EQ(waiting.entries_for({.threads = 9, .threads_per_line = 4}), 3U);
  EXPECT_EQ(waiting.entries_for({.threads = 9, .threads_per_line = 8}), std::nullopt);
  EXPECT_EQ(waiting.threads_that_fit({.threads_per_line = 8}, 100), 4U);
  const TableHypothesis prt{.kind = OutstandingKind::prt};
  EXPECT_EQ(prt.threads_that_fit({.loads_per_thread = 3}, 44), 448U);
  EXPECT_EQ(prt.threads_that_fit({.loads_per_thread = 1}, 44), 1024U);
  EXPECT_EQ(prt.threads_that_fit({.loads_per_thread = 3}, 2), 0U);
}

// Now and then of a machine in which everything else takes so long that a table is hard to see.
OutstandingDescription random_table(model::Random& random) {
  const auto up_to = [&random](double most) { return most * random.unit(); };
  const auto number = [&random](std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(random.below(high - low + 1));
  };
  const bool mshr = random.below(2) == 0;
  const bool slow = random.below(5) == 0;
  OutstandingDescription table{.kind = mshr ? OutstandingKind::mshr : OutstandingKind::prt,
                               .entries = mshr ? number(1, 1U << number(3, 9)) : number(1, 100),
                               .merges = {},
                               .merges_at_least = {},
                               .loads_per_warp = number(1, 10),
                               .timing = model::OutstandingTiming{.latency = (slow ? 40 : 150) + up_to(600),
                                                                  .issue_per_request = up_to(slow ? 20 : 4),
                                                                  .write_back_per_request = up_to(slow ? 3 : 0.4),
                                                                  .memory_per_line = up_to(slow ? 10 : 1.5),
                                                                  .beyond_l2 = up_to(500)}};
  if (mshr) {
    table.merges = random.below(2) == 0 ? 1U << number(0, 5) : number(1, 40);
  }
  return table;
}

TEST(InferOutstanding, RandomTablesAreNeverTakenForOthers) {
  const char* chosen = std::getenv("GPUINFER_TEST_SEED");
  const std::uint64_t seed = chosen == nullptr ? 2015 : std::stoull(chosen);
  const char* count = std::getenv("GPUINFER_TEST_TABLES");
  const int tables = count == nullptr ? 10 : std::stoi(count);
  std::cout << "seed " << seed << " (GPUINFER_TEST_SEED)\n";
  model::Random random(seed);
  int kinds = 0;
  int entries = 0;
  int merges = 0;
  int loads_per_warp = 0;
  int mshr = 0;
  for (int i = 0; i < tables; ++i) {
    const OutstandingDescription truth = random_table(random);
    const model::NoiseDescription noise{.jitter_cycles = (random.below(8) == 0 ? 60 : 4) * random.unit(),
                                        .outlier_probability = 0.004 * random.unit(),
                                        .outlier_cycles = 400,
                                        .misread_probability = 0};
    const OutstandingFinding finding = infer_entries(truth, noise, random());
    model::DeviceDescription device;
    device.outstanding = truth;
    SCOPED_TRACE("device " + std::to_string(i) + "\n" + model::to_yaml(device) + text_of(finding));
    expect_nothing_wrong(finding, truth);
    mshr += truth.kind == OutstandingKind::mshr ? 1 : 0;
    kinds += finding.outstanding.kind ? 1 : 0;
    entries += finding.outstanding.entries ? 1 : 0;
    merges += finding.outstanding.merges ? 1 : 0;
    loads_per_warp += finding.outstanding.loads_per_warp ? 1 : 0;
  }
  std::cout << kinds << " kinds, " << entries << " entries, " << merges << " merges of " << mshr << " mshr, "
            << loads_per_warp << " loads_per_warp resolved of " << tables << '\n';
  if (tables >= 100) {
    EXPECT_GT(kinds, tables / 2);
  }
}

}  // namespace
}  // namespace gpuinfer::infer
