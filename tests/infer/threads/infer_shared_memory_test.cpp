// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/infer_shared_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/leaves.hpp"
#include "model/description/evidence.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/random.hpp"
#include "probe/virtual_device.hpp"
#include "tests/infer/timed_device.hpp"

// What would prove the inference wrong: a value that is resolved and is not what the device was made of, on any device,
// whether or not it is one that a description can express.
namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;
using model::SharedLoads;
using model::SharedMemoryDescription;
using model::warp_lanes;

constexpr std::array leaf_names{"banks", "bank_width_bytes", "row_bytes", "latency_cycles"};

SharedMemoryFinding found_shared_memory(model::Answerer& device) {
  return infer_shared_memory(device, "Shared", Settings{});
}

bool is_resolved(const SharedMemoryFinding& finding, const std::string& leaf) {
  return finding.evidence.leaves.at(leaf).status == EvidenceStatus::resolved;
}

std::string reason(const SharedMemoryFinding& finding, const std::string& leaf) {
  return finding.evidence.leaves.at(leaf).reason;
}

std::string text_of(const SharedMemoryFinding& finding) {
  std::string text = std::to_string(finding.questions) + " questions, " + std::to_string(finding.accesses) + " loads\n";
  for (const auto& [name, leaf] : finding.evidence.leaves) {
    text += name + ": " + std::string(to_string(leaf.status)) + " " + leaf.reason + "\n";
    for (const auto& [key, value] : details_in_words(leaf)) {
      text.append("  ").append(key).append(": ").append(value).append("\n");
    }
  }
  for (const model::Inquiry& inquiry : finding.evidence.inquiries) {
    text += inquiry.asked + ": " + inquiry.learned + "\n";
  }
  return text;
}

void expect_nothing_resolved(const SharedMemoryFinding& finding) {
  for (const char* leaf : leaf_names) {
    EXPECT_FALSE(is_resolved(finding, leaf)) << leaf << "\n" << text_of(finding);
  }
  EXPECT_EQ(finding.shared_memory, SharedMemoryDescription{});
}

// Every resolved leaf is true, every other one null. Latencies are true within a tenth of what a row costs and 1 %.
void expect_nothing_wrong(const SharedMemoryFinding& finding, const SharedMemoryDescription& truth) {
  SCOPED_TRACE(text_of(finding));
  const SharedMemoryDescription& found = finding.shared_memory;
  const auto expect_number = [&](const char* leaf, const auto& value, const auto& expected) {
    EXPECT_EQ(value.has_value(), is_resolved(finding, leaf)) << leaf;
    EXPECT_TRUE(!value || value == expected) << leaf << " is wrong";
  };
  expect_number("banks", found.banks, truth.banks);
  expect_number("bank_width_bytes", found.bank_width_bytes, truth.bank_width_bytes);
  expect_number("row_bytes", found.row_bytes, truth.row_bytes);
  EXPECT_EQ(found.latency_cycles != model::SharedMemoryLatency{}, is_resolved(finding, "latency_cycles"));
  if (is_resolved(finding, "latency_cycles")) {
    const std::uint32_t most = std::min(
        warp_lanes, SharedLoads::shared_bytes / std::max(*truth.row_bytes, *truth.banks * *truth.bank_width_bytes));
    for (std::uint32_t degree = 1; degree <= most; ++degree) {
      const double expected = model::cycles_of(truth.latency_cycles, degree);
      EXPECT_NEAR(model::cycles_of(found.latency_cycles, degree), expected, 0.01 * expected) << "degree " << degree;
    }
  }
}

void expect_all_right(const SharedMemoryFinding& finding, const SharedMemoryDescription& truth) {
  expect_nothing_wrong(finding, truth);
  EXPECT_TRUE(finding.all_resolved()) << text_of(finding);
}

class PublishedSharedMemory : public testing::TestWithParam<const char*> {};

TEST_P(PublishedSharedMemory, IsFoundWhole) {
  const auto description = model::read_description("configs/devices/" + std::string(GetParam()) + ".yaml");
  const auto device = probe::open_virtual(description, "virtual:tested", 3);
  const SharedMemoryFinding finding = found_shared_memory(*device);
  expect_all_right(finding, *description.shared_memory);
  if (std::getenv("GPUINFER_TEST_SHOW") != nullptr) {
    std::cout << text_of(finding);
  }
}

INSTANTIATE_TEST_SUITE_P(InferSharedMemory, PublishedSharedMemory,
                         testing::Values("gtx560ti", "gtx780", "gtx780-8byte-banks", "gtx980"), [](const auto& name) {
                           std::string text = name.param;
                           std::erase(text, '-');
                           return text;
                         });

TEST(InferSharedMemory, SaysWhatFermiDoes) {
  const auto device =
      probe::open_virtual(model::read_description("configs/devices/gtx560ti.yaml"), "virtual:gtx560ti", 1);
  const SharedMemoryFinding finding = found_shared_memory(*device);
  const auto& details = finding.evidence.leaves.at("latency_cycles").details;
  EXPECT_NEAR(details.per_way.value_or(0), 37.406, 0.1);
  constexpr std::array first_degrees{1U, 1U, 2U, 1U, 4U, 1U, 2U, 1U, 8U, 1U, 2U, 1U};
  ASSERT_GE(details.degree_by_stride.size(), first_degrees.size());
  EXPECT_TRUE(std::ranges::equal(first_degrees, std::span(details.degree_by_stride).first(first_degrees.size())));
  EXPECT_EQ(details.elements_of_8_bytes->contiguous_rows, 2U);
  EXPECT_EQ(details.elements_of_16_bytes->contiguous_rows, 4U);
}

// The questions that found a value could not refute it.
TEST(InferSharedMemory, ConfidenceCountsFreshLoads) {
  const auto device = probe::open_virtual(model::read_description("configs/devices/gtx780.yaml"), "virtual:gtx780", 1);
  const SharedMemoryFinding finding = found_shared_memory(*device);
  constexpr std::size_t of_few_words = 512;
  constexpr std::size_t strides_and_random = 129 + 256;
  for (const auto& [name, leaf] : finding.evidence.leaves) {
    const std::size_t trials = name == "latency_cycles" ? strides_and_random : of_few_words;
    EXPECT_EQ(leaf.confidence, confidence_after(trials)) << name;
    EXPECT_GT(leaf.experiments, trials) << name;
  }
}

// Banks, widths, rows and latencies of all kinds, 100 of them where GPUINFER_TEST_CACHES says so.
TEST(InferSharedMemory, RandomDevices) {
  constexpr std::uint64_t seed = 20;
  const char* const wanted = std::getenv("GPUINFER_TEST_CACHES");
  const unsigned devices = wanted != nullptr ? static_cast<unsigned>(std::stoul(wanted)) : 6;
  model::Random random(seed);
  unsigned whole = 0;
  for (unsigned trial = 0; trial < devices; ++trial) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", trial " + std::to_string(trial));
    constexpr std::array bank_counts{8U, 16U, 24U, 31U, 32U, 32U, 64U};
    constexpr std::array widths{4U, 4U, 8U, 16U};
    constexpr std::array rows{1U, 1U, 2U, 3U, 4U};
    const std::uint32_t banks = bank_counts.at(random.below(bank_counts.size()));
    const std::uint32_t width = widths.at(random.below(widths.size()));
    model::DeviceDescription description;
    description.device = {
        .name = "random", .source = "test", .compute_capability = {}, .sm_count = {}, .provenance = {}};
    SharedMemoryDescription& truth = description.shared_memory.emplace();
    truth.banks = banks;
    truth.bank_width_bytes = width;
    truth.row_bytes = width > 4 && random.below(6) == 0 ? 4 : banks * width * rows.at(random.below(rows.size()));
    model::SharedMemoryLatency& latency = truth.latency_cycles;
    latency.broadcast = 20 + 60 * random.unit();
    latency.two_way = *latency.broadcast + 1 + 40 * random.unit() * random.unit();
    latency.per_way = 1 + 40 * random.unit() * random.unit();
    if (random.below(3) == 0) {
      double cycles = *latency.broadcast;
      for (const std::uint32_t degree : {1U, 2U, 4U, 8U, 16U, 32U}) {
        latency.by_degree.push_back({.degree = degree, .cycles = cycles});
        cycles += (1 + 20 * random.unit()) * degree;
      }
      latency.two_way = latency.by_degree[1].cycles;
      latency.per_way.reset();
    }
    description.noise = model::NoiseDescription{.jitter_cycles = 3 * random.unit(),
                                                .outlier_probability = 0.001 * random.unit(),
                                                .outlier_cycles = 400,
                                                .misread_probability = 0};
    const auto device = probe::open_virtual(description, "virtual:random", trial + 1);
    const SharedMemoryFinding finding = found_shared_memory(*device);
    expect_nothing_wrong(finding, truth);
    if (finding.all_resolved()) {
      ++whole;
    } else {
      std::cout << "trial " << trial << " of seed " << seed << ", " << banks << " banks of " << width << ", rows of "
                << *truth.row_bytes << ":\n"
                << text_of(finding);
    }
  }
  EXPECT_GE(whole, devices - devices / 20);
}

// Whatever a test says that a load takes.
class ForeignSharedMemory final : public foreign::TimedDevice<SharedLoads> {
 public:
  using Cycles = std::function<double(const SharedLoads&)>;

  explicit ForeignSharedMemory(Cycles cycles) : cycles_(std::move(cycles)) {}

  void disturb_runs_by(double cycles) { run_deviation_ = cycles; }
  void disturb_launches_by(double cycles) { launch_deviation_ = cycles; }
  void refuse() { refuses_ = true; }

 protected:
  model::Timing timing_of(const SharedLoads& loads) override {
    if (refuses_) {
      return refused("no shared memory today; ask tomorrow");
    }
    model::Timing timing;
    const double launch = launch_deviation_ * normal_(random_);
    for (std::uint32_t run = 0; run < loads.runs; ++run) {
      timing.cycles.push_back(cycles_(loads) + launch + run_deviation_ * normal_(random_));
    }
    return timing;
  }

 private:
  Cycles cycles_;
  std::mt19937 random_{5};
  std::normal_distribution<double> normal_;
  double run_deviation_ = 0.2;
  double launch_deviation_ = 0;
  bool refuses_ = false;
};

// Different words of the busiest bank among some lanes.
template <class BankOf>
std::size_t degree_of(const SharedLoads& loads, BankOf bank_of, std::size_t first_lane = 0,
                      std::size_t lanes = warp_lanes) {
  std::map<std::uint32_t, std::set<std::uint32_t>> words;
  std::size_t most = 0;
  for (std::size_t lane = first_lane; lane < first_lane + lanes; ++lane) {
    for (std::uint32_t byte = 0; byte < loads.element_bytes; byte += 4) {
      const std::uint32_t word = (loads.lane_offsets.at(lane) + byte) / 4;
      std::set<std::uint32_t>& in_bank = words[bank_of(word)];
      in_bank.insert(word);
      most = std::max(most, in_bank.size());
    }
  }
  return most;
}

std::uint32_t plain(std::uint32_t word) { return word % 32; }

double cycles_of_degree(std::size_t degree) { return 34.3 + 2 * static_cast<double>(degree); }

// As an H200 was measured: 36.3 cycles, and 2 for each further way.
TEST(InferSharedMemory, ForeignBanksOfFourBytes) {
  ForeignSharedMemory device([](const SharedLoads& loads) { return cycles_of_degree(degree_of(loads, plain)); });
  device.disturb_runs_by(0);
  const SharedMemoryFinding finding = found_shared_memory(device);
  expect_all_right(finding, {.banks = 32,
                             .bank_width_bytes = 4,
                             .row_bytes = 128,
                             .latency_cycles = {.broadcast = 36.3, .two_way = 38.3, .per_way = 2, .by_degree = {}}});
  EXPECT_TRUE(finding.shared_memory.latency_cycles.by_degree.empty());
  EXPECT_NEAR(*finding.shared_memory.latency_cycles.per_way, 2, 0.001);
  EXPECT_EQ(finding.evidence.leaves.at("latency_cycles").details.elements_of_8_bytes->contiguous_rows, 2U);
  EXPECT_LT(finding.questions, 3000U);
}

TEST(InferSharedMemory, ForeignBanksBehindAHash) {
  ForeignSharedMemory device([](const SharedLoads& loads) {
    return cycles_of_degree(
        degree_of(loads, [](std::uint32_t word) { return (word ^ (word >> 5U) ^ (word >> 9U)) % 32; }));
  });
  expect_nothing_resolved(found_shared_memory(device));
}

// Only words behind the first 16 KB are one bank further.
TEST(InferSharedMemory, ForeignBanksThatShiftHalfway) {
  ForeignSharedMemory device([](const SharedLoads& loads) {
    return cycles_of_degree(degree_of(loads, [](std::uint32_t word) { return (word + word / 4096) % 32; }));
  });
  expect_nothing_resolved(found_shared_memory(device));
}

TEST(InferSharedMemory, ForeignLanesThatAllTakeTheirTurn) {
  ForeignSharedMemory device([](const SharedLoads& loads) {
    std::map<std::uint32_t, std::size_t> lanes;
    std::size_t most = 0;
    for (const std::uint32_t offset : loads.lane_offsets) {
      most = std::max(most, ++lanes[plain(offset / 4)]);
    }
    return cycles_of_degree(most);
  });
  const SharedMemoryFinding finding = found_shared_memory(device);
  expect_nothing_resolved(finding);
  EXPECT_NE(reason(finding, "banks").find("no broadcast"), std::string::npos);
}

// One word reaches all lanes that want it, each other one a lane at a time, as on GPUs of compute capability 1.
TEST(InferSharedMemory, ForeignBroadcastOfOneWordOnly) {
  ForeignSharedMemory device([](const SharedLoads& loads) {
    std::map<std::uint32_t, std::size_t> lanes;
    std::size_t most = 0;
    for (const std::uint32_t offset : loads.lane_offsets) {
      if (offset != loads.lane_offsets[0]) {
        most = std::max(most, ++lanes[plain(offset / 4)]);
      }
    }
    return cycles_of_degree(most + (lanes[plain(loads.lane_offsets[0] / 4)] == most ? 1 : 0));
  });
  expect_nothing_resolved(found_shared_memory(device));
}

TEST(InferSharedMemory, ForeignHalfWarps) {
  ForeignSharedMemory device([](const SharedLoads& loads) {
    const auto bank_of = [](std::uint32_t word) { return word % 16; };
    return 20 + 4 * static_cast<double>(degree_of(loads, bank_of, 0, 16) + degree_of(loads, bank_of, 16, 16));
  });
  expect_nothing_resolved(found_shared_memory(device));
}

TEST(InferSharedMemory, ForeignMemoryWithoutConflicts) {
  ForeignSharedMemory device([](const SharedLoads&) { return 30.0; });
  const SharedMemoryFinding finding = found_shared_memory(device);
  expect_nothing_resolved(finding);
  EXPECT_NE(reason(finding, "banks").find("no conflicts were seen"), std::string::npos);
}

TEST(InferSharedMemory, ForeignConflictsThatNoiseHides) {
  ForeignSharedMemory device([](const SharedLoads& loads) { return cycles_of_degree(degree_of(loads, plain)); });
  device.disturb_launches_by(3);
  expect_nothing_resolved(found_shared_memory(device));
}

// Runs average out, as far as it takes some thousands of them.
TEST(InferSharedMemory, ForeignConflictsInNoise) {
  ForeignSharedMemory device([](const SharedLoads& loads) { return cycles_of_degree(degree_of(loads, plain)); });
  device.disturb_runs_by(4);
  expect_nothing_wrong(found_shared_memory(device),
                       {.banks = 32,
                        .bank_width_bytes = 4,
                        .row_bytes = 128,
                        .latency_cycles = {.broadcast = 36.3, .two_way = 38.3, .per_way = 2, .by_degree = {}}});
}

// As Kepler was measured: two ways cost 66 or 82 cycles.
TEST(InferSharedMemory, ForeignDegreeOfTwoLatencies) {
  ForeignSharedMemory device([](const SharedLoads& loads) {
    const std::size_t degree = degree_of(loads, plain);
    if (degree == 2) {
      return loads.lane_offsets[3] / 4 % 3 == 0 ? 81.625 : 66.125;
    }
    return degree == 1 ? 46.75 : 36 + 15 * static_cast<double>(degree);
  });
  const SharedMemoryFinding finding = found_shared_memory(device);
  SCOPED_TRACE(text_of(finding));
  EXPECT_EQ(finding.shared_memory.banks, 32U);
  EXPECT_EQ(finding.shared_memory.bank_width_bytes, 4U);
  EXPECT_EQ(finding.shared_memory.row_bytes, 128U);
  EXPECT_EQ(finding.evidence.leaves.at("latency_cycles").status, EvidenceStatus::ambiguous);
  EXPECT_EQ(finding.shared_memory.latency_cycles, model::SharedMemoryLatency{});
  EXPECT_TRUE(finding.evidence.leaves.at("latency_cycles").details.residuals.has_value());
}

// A load of 32 different words takes longer than one of a few, whatever the banks.
TEST(InferSharedMemory, ForeignLatencyThatDegreesDoNotTell) {
  ForeignSharedMemory device([](const SharedLoads& loads) {
    const std::set<std::uint32_t> words(loads.lane_offsets.begin(), loads.lane_offsets.end());
    return cycles_of_degree(degree_of(loads, plain)) + (words.size() > 24 ? 0.9 : 0);
  });
  const SharedMemoryFinding finding = found_shared_memory(device);
  EXPECT_FALSE(is_resolved(finding, "latency_cycles")) << text_of(finding);
}

TEST(InferSharedMemory, RefusalsAndFailures) {
  const auto cycles = [](const SharedLoads& loads) { return cycles_of_degree(degree_of(loads, plain)); };
  ForeignSharedMemory refusing(cycles);
  refusing.refuse();
  const SharedMemoryFinding finding = found_shared_memory(refusing);
  expect_nothing_resolved(finding);
  EXPECT_NE(reason(finding, "banks").find("ask tomorrow"), std::string::npos);

  ForeignSharedMemory failing(cycles);
  failing.fail_after(100);
  EXPECT_THROW(static_cast<void>(found_shared_memory(failing)), DeviceError);

  ForeignSharedMemory stopped(cycles);
  Settings settings;
  settings.budget_accesses = 2'000'000;
  const SharedMemoryFinding partly = infer_shared_memory(stopped, "Shared", settings);
  EXPECT_TRUE(partly.ended_early);
  expect_nothing_resolved(partly);
}

}  // namespace
}  // namespace gpuinfer::infer
