// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/infer_bandwidth.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "probe/virtual_device.hpp"
#include "tests/infer/timed_device.hpp"

namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;
using model::Stream;
using model::StreamPath;
using model::StreamWork;

BandwidthFinding found_bandwidth(model::Answerer& device, const model::DeviceDescription& known = {}) {
  return infer_bandwidth(device, "Bandwidth", known, Settings{});
}

EvidenceStatus status(const BandwidthFinding& finding, const std::string& memory) {
  return finding.evidence.leaves.at(memory).status;
}

double bytes_per_second(const BandwidthFinding& finding, const std::string& memory) {
  const auto& best = finding.bandwidth.at(memory).best;
  return best ? best->bytes_per_second : 0;
}

// K16 table III: GB/s, and 32-bit elements per SM and clock.
TEST(InferBandwidth, PublishedGpusGiveTheirPublishedBandwidths) {
  struct Published {
    const char* device;
    std::map<std::string, std::pair<double, double>> memories;
  };
  const std::vector<Published> published{
      {"gtx480",
       {{"L1", {1341, 16.0}},
        {"texture", {336, 4.0}},
        {"shared", {1340, 15.9}},
        {"constant", {1990, 23.7}},
        {"L2_load", {255, 3.0}},
        {"L2_copy", {394, 4.7}},
        {"DRAM_load", {164, 2.0}}}},
      {"gtx660",
       {{"texture", {717, 32.7}},
        {"shared", {1434, 65.4}},
        {"constant", {1812, 82.6}},
        {"L2_load", {178, 8.1}},
        {"L2_copy", {306, 13.9}},
        {"DRAM_load", {119, 5.4}}}},
      {"gtx960",
       {{"L1", {718, 16.9}},
        {"texture", {718, 16.9}},
        {"shared", {1285, 30.2}},
        {"constant", {1806, 42.5}},
        {"L2_load", {319, 7.5}},
        {"L2_copy", {511, 12.0}},
        {"DRAM_load", {89, 2.1}}}},
  };
  for (const auto& [name, memories] : published) {
    const auto device = probe::open_virtual(model::read_description("configs/devices/" + std::string(name) + ".yaml"),
                                            "virtual:" + std::string(name), 1);
    const BandwidthFinding finding = found_bandwidth(*device);
    for (const auto& [memory, figures] : memories) {
      EXPECT_EQ(status(finding, memory), EvidenceStatus::resolved) << name << ' ' << memory;
      EXPECT_NEAR(bytes_per_second(finding, memory), figures.first * 1e9, figures.first * 1e7) << name << ' ' << memory;
      const auto& best = finding.bandwidth.at(memory).best;
      ASSERT_TRUE(best);
      EXPECT_NEAR(best->elements_per_sm_clock * best->element_bits / 32, figures.second, figures.second / 100)
          << name << ' ' << memory;
    }
  }
}

// Global loads of the GTX 660 pass its L1 by: what comes out is what L2 gives.
TEST(InferBandwidth, ACacheThatIsNoFasterThanTheNextIsNotKnown) {
  const auto device = probe::open_virtual(model::read_description("configs/devices/gtx660.yaml"), "virtual:gtx660", 1);
  const BandwidthFinding finding = found_bandwidth(*device);
  EXPECT_EQ(status(finding, "L1"), EvidenceStatus::unknown);
  EXPECT_FALSE(finding.bandwidth.at("L1").best);
  EXPECT_FALSE(finding.all_resolved());
}

// A device that is nothing but a law for seconds.
class Streams final : public foreign::TimedDevice<Stream> {
 public:
  using Law = std::function<double(const Stream&)>;
  using Counter = std::function<model::CacheTraffic(const Stream&)>;

  explicit Streams(Law law) : law_(std::move(law)) {
    facts_.sm_count = sms;
    facts_.own_buffers["Bandwidth"] = {.bytes = 1ULL << 30U};
  }

  static constexpr unsigned sms = 16;
  static constexpr double clock_hz = 1e9;

  void hide_sm_count() { facts_.sm_count.reset(); }
  void say(const std::string& name, const std::string& value) { facts_.provenance[name] = value; }
  void refuse_where(std::function<bool(const Stream&)> condition) { refuses_ = std::move(condition); }
  void count_by(Counter counter) { counter_ = std::move(counter); }

 protected:
  model::Timing timing_of(const Stream& stream) override {
    if (const auto reason = model::why_malformed(stream)) {
      return refused(*reason);
    }
    if (refuses_ && refuses_(stream)) {
      return refused("not carried out");
    }
    const double seconds = law_(stream);
    return {.cycles = std::vector(stream.runs, seconds * clock_hz),
            .seconds = std::vector(stream.runs, seconds),
            .counted = stream.is_counted && counter_ ? std::optional(counter_(stream)) : std::nullopt};
  }

 private:
  Law law_;
  Counter counter_;
  std::function<bool(const Stream&)> refuses_;
};

double seconds_at(const Stream& stream, double gigabytes_per_second) {
  return static_cast<double>(model::bytes_moved(stream)) / (gigabytes_per_second * 1e9);
}

// 100 GB/s from memory, 500 from 4 MB of L2, 2,000 from within an SM.
double plain_law(const Stream& stream) {
  const bool on_chip = stream.path == StreamPath::shared || stream.path == StreamPath::constant;
  const bool in_l1 = (stream.path == StreamPath::global_ca || stream.path == StreamPath::texture) &&
                     stream.dataset_bytes <= (64U << 10U);
  return seconds_at(stream, on_chip || in_l1 ? 2000 : stream.dataset_bytes <= (4U << 20U) ? 500 : 100);
}

TEST(InferBandwidth, WhatSeveralSmsFetchAtATimeIsNotTakenForL2) {
  // Blocks that go through the same dataset get what one of them fetched, four times as fast.
  Streams device([](const Stream& stream) {
    const bool shares = stream.path == StreamPath::global_cg && stream.part_bytes == 0;
    return plain_law(stream) / (shares ? 4 : 1);
  });
  const BandwidthFinding finding = found_bandwidth(device);
  EXPECT_EQ(status(finding, "L2_load"), EvidenceStatus::resolved);
  EXPECT_NEAR(bytes_per_second(finding, "L2_load"), 500e9, 1e9);
  EXPECT_NEAR(bytes_per_second(finding, "DRAM_load"), 100e9, 1e9);
}

const model::LeafEvidence& knee_of(const BandwidthFinding& finding) {
  return finding.evidence.leaves.at("copy_knee_bytes");
}

void expect_knee(const BandwidthFinding& finding, double bytes, const std::string& where) {
  EXPECT_EQ(knee_of(finding).status, EvidenceStatus::resolved) << where << ' ' << knee_of(finding).reason;
  ASSERT_TRUE(finding.bandwidth.copy_knee_bytes) << where;
  const auto [low, high] = *finding.bandwidth.copy_knee_bytes;
  EXPECT_LE(low, bytes) << where;
  EXPECT_GE(high, bytes) << where;
  EXPECT_LT(high - low, bytes / 2) << where;
}

void expect_no_knee(const BandwidthFinding& finding, EvidenceStatus status, const std::string& reason) {
  EXPECT_EQ(knee_of(finding).status, status);
  EXPECT_FALSE(finding.bandwidth.copy_knee_bytes);
  EXPECT_FALSE(knee_of(finding).details.of_l2);
  EXPECT_NE(knee_of(finding).reason.find(reason), std::string::npos) << knee_of(finding).reason;
}

// Of one pass, `l2_bytes` of what is loaded and stored are in L2.
double copy_seconds(const Stream& stream, double l2_bytes) {
  const auto bytes = static_cast<double>(model::bytes_moved(stream));
  const double in_l2 = stream.drops_l2 ? 0 : std::min(bytes, l2_bytes);
  return (bytes - in_l2) / 100e9 + in_l2 / 400e9;
}

// A copy of one element by each thread.
bool is_single_copy(const Stream& stream) {
  return stream.work == StreamWork::copy && stream.elements_per_thread == 1 && stream.elements_in_flight == 1;
}

// What L2 saves stops growing where it is full: 1 MB of what is loaded and as much that is stored.
TEST(InferBandwidth, CopiesShowWhatL2Saves) {
  Streams device([](const Stream& stream) { return copy_seconds(stream, 2 << 20U); });
  const BandwidthFinding finding = found_bandwidth(device);
  const auto& saved = knee_of(finding).details.microseconds_saved_by_l2_by_bytes;
  const std::map<std::uint64_t, double> by_bytes(saved.begin(), saved.end());
  EXPECT_EQ(by_bytes.at(524288), 7.86);
  EXPECT_EQ(by_bytes.at(1048576), 15.73);
  EXPECT_EQ(by_bytes.at(2097152), 15.73);
  EXPECT_EQ(by_bytes.at(4194304), 15.73);
  expect_knee(finding, 1 << 20U, "2 MB");
  EXPECT_FALSE(knee_of(finding).details.of_l2);
}

// A copy needs room for what it loads and for what it stores.
TEST(InferBandwidth, CopiesStopGainingWhereL2IsFull) {
  for (const std::string name : {"gtx480", "gtx660", "gtx960", "m2070", "k20"}) {
    const model::DeviceDescription description = model::read_description("configs/devices/" + name + ".yaml");
    const auto device = probe::open_virtual(description, "virtual:" + name, 1);
    const std::uint64_t capacity = description.caches.at("L2").capacity_bytes.value_or(0);
    model::DeviceDescription known;
    known.caches["L2"].capacity_bytes = capacity;
    const BandwidthFinding finding = found_bandwidth(*device, known);
    expect_knee(finding, static_cast<double>(capacity) / 2, name);
    const auto& of_l2 = knee_of(finding).details.of_l2;
    ASSERT_TRUE(of_l2) << name;
    EXPECT_EQ(of_l2->capacity_bytes, capacity) << name;
    EXPECT_TRUE(of_l2->is_half) << name;
    EXPECT_LE(of_l2->share[0], 0.5) << name;
    EXPECT_GE(of_l2->share[1], 0.5) << name;
  }
}

// The evidence says where the capacity that is known of L2, or that the device tells, is another one.
TEST(InferBandwidth, AKneeMayContradictL2) {
  Streams device([](const Stream& stream) { return copy_seconds(stream, 2 << 20U); });
  device.say("l2_bytes", "8388608");
  const BandwidthFinding finding = found_bandwidth(device);
  const auto& told = knee_of(finding).details.of_l2;
  ASSERT_TRUE(told);
  EXPECT_EQ(told->capacity_bytes, 8388608U);
  EXPECT_FALSE(told->is_half);
  EXPECT_NEAR(told->share[0], 0.125, 0.03);
  // What was found out goes first.
  model::DeviceDescription known;
  known.caches["L2"].capacity_bytes = 2097152;
  EXPECT_TRUE(knee_of(found_bandwidth(device, known)).details.of_l2->is_half);
}

// Past L2, what the run before stored has to be written back: what L2 saves falls behind the knee, and costs in the
// end.
TEST(InferBandwidth, WhatFallsBehindTheKneeStoppedGrowingThere) {
  Streams device([](const Stream& stream) {
    const double past = std::max(0.0, static_cast<double>(model::bytes_moved(stream)) - (2 << 20U));
    return copy_seconds(stream, 2 << 20U) + (stream.drops_l2 ? 0 : past / 100e9);
  });
  const BandwidthFinding finding = found_bandwidth(device);
  expect_knee(finding, 1 << 20U, "falling");
  EXPECT_LT(knee_of(finding).details.microseconds_saved_by_l2_by_bytes.back().second, 0);
}

// It grows and falls, and grows again.
TEST(InferBandwidth, WhatGrowsAgainHasNoKnee) {
  Streams device([](const Stream& stream) {
    constexpr std::uint64_t tooth_bytes = 3U << 20U;
    const double grown = static_cast<double>(stream.dataset_bytes % tooth_bytes) / tooth_bytes;
    return plain_law(stream) + (stream.drops_l2 ? 1e-5 * grown : 0);
  });
  expect_no_knee(found_bandwidth(device), EvidenceStatus::unknown, "does not grow to an end");
}

TEST(InferBandwidth, WithoutAGainThereIsNoKnee) {
  Streams without(plain_law);
  expect_no_knee(found_bandwidth(without), EvidenceStatus::unknown, "L2 saves copies nothing");
  Streams cost([](const Stream& stream) { return plain_law(stream) * (stream.drops_l2 ? 1 : 2); });
  expect_no_knee(found_bandwidth(cost), EvidenceStatus::unknown, "L2 saves copies nothing; it costs up to ");
  Streams level([](const Stream& stream) { return plain_law(stream) + (stream.drops_l2 ? 1e-5 : 0); });
  expect_no_knee(found_bandwidth(level), EvidenceStatus::unknown, "what L2 saves copies does not grow");
  Streams growing([](const Stream& stream) { return plain_law(stream) * (stream.drops_l2 ? 2 : 1); });
  expect_no_knee(found_bandwidth(growing), EvidenceStatus::unknown, "still grows at the largest dataset");
}

TEST(InferBandwidth, RefusedCopiesLeaveTheKneeOpen) {
  Streams device([](const Stream& stream) { return copy_seconds(stream, 2 << 20U); });
  device.refuse_where(is_single_copy);
  const BandwidthFinding finding = found_bandwidth(device);
  expect_no_knee(finding, EvidenceStatus::unknown, "the device refused a question: ");
  EXPECT_EQ(status(finding, "DRAM_copy"), EvidenceStatus::resolved);
}

// The finer steps are asked for twice, the only copies of one element in parts.
TEST(InferBandwidth, RoundsWithOtherKneesAreAmbiguous) {
  std::map<std::pair<std::uint64_t, bool>, int> rounds;
  Streams device([&](const Stream& stream) {
    const bool is_step = is_single_copy(stream) && stream.part_bytes != 0;
    const bool is_second = is_step && rounds[{stream.dataset_bytes, stream.drops_l2}]++ > 0;
    return copy_seconds(stream, is_second ? 4 << 20U : 2 << 20U);
  });
  const BandwidthFinding finding = found_bandwidth(device);
  expect_no_knee(finding, EvidenceStatus::ambiguous, "two rounds");
  EXPECT_EQ(knee_of(finding).alternatives.size(), 2U);
}

// Capacities and noise at random: a knee that is resolved is that of L2.
TEST(InferBandwidth, KneesOfRandomDevicesAreNeverWrong) {
  constexpr unsigned devices = 200;
  constexpr unsigned first_seed = 20261128;
  unsigned resolved = 0;
  for (unsigned seed = first_seed; seed < first_seed + devices; ++seed) {
    std::mt19937_64 random(seed);
    const double l2_bytes = std::exp(std::uniform_real_distribution(std::log(3e5), std::log(2e8))(random));
    const double noise = std::exp(std::uniform_real_distribution(std::log(1e-5), std::log(1e-2))(random));
    Streams device([&](const Stream& stream) {
      return copy_seconds(stream, l2_bytes) * (1 + std::abs(std::normal_distribution(0.0, noise)(random)));
    });
    const BandwidthFinding finding = found_bandwidth(device);
    if (const auto& knee = finding.bandwidth.copy_knee_bytes) {
      ++resolved;
      EXPECT_LE((*knee)[0], l2_bytes / 2) << seed;
      EXPECT_GE((*knee)[1], l2_bytes / 2) << seed;
    }
  }
  EXPECT_GT(resolved, devices * 6 / 10);
}

// All of what is its own, and of what is shared as much as it can ask for.
TEST(InferBandwidth, OneSmHasItsShare) {
  Streams device([](const Stream& stream) {
    const bool is_own = stream.path != StreamPath::global_cg;
    const double of_one_sm = is_own ? 200e9 : 60e9;
    const double most = is_own ? 16 * 200e9 : 500e9;
    return static_cast<double>(model::bytes_moved(stream)) / std::min(most, of_one_sm * stream.blocks);
  });
  const BandwidthFinding finding = found_bandwidth(device);
  const auto of_one_sm = [&](const char* memory) {
    return finding.evidence.leaves.at(memory).details.one_sm_gb_per_second.value_or(0);
  };
  EXPECT_NEAR(of_one_sm("L1"), 200, 2);
  EXPECT_NEAR(of_one_sm("DRAM_load"), 60, 1);
}

const model::SurfacePoint* point_at(const BandwidthFinding& finding, const std::string& memory, std::uint32_t warps,
                                    std::uint32_t elements) {
  const auto& surface = finding.evidence.leaves.at(memory).details.one_sm_surface;
  if (!surface) {
    return nullptr;
  }
  const auto found = std::ranges::find_if(surface->points, [&](const model::SurfacePoint& point) {
    return point.warps == warps && point.elements == elements;
  });
  return found == surface->points.end() ? nullptr : &*found;
}

// Each round takes a latency, or as long as the SM needs for its bytes; a run takes long to begin, and longer where its
// data has to come first. What is under way over how long it takes is what comes.
TEST(InferBandwidth, OneSmWaitsAsLongAsALatencyOrAPeakSays) {
  constexpr double begin_seconds = 3e-6;
  const auto latency_of = [](const Stream& stream) {
    return stream.path == StreamPath::global_cg ? stream.drops_l2 ? 600e-9 : 200e-9 : 40e-9;
  };
  Streams device([&](const Stream& stream) {
    const bool is_own = stream.path != StreamPath::global_cg;
    const double of_one_sm = is_own ? 64e9 : 32e9;
    const double of_all = is_own ? 16 * of_one_sm : stream.dataset_bytes <= (4U << 20U) ? 400e9 : 100e9;
    const double rounds = double{1} * stream.elements_per_thread / stream.elements_in_flight;
    const double first_pass =
        stream.dataset_bytes <= (64U << 10U) ? 5e-12 * static_cast<double>(stream.dataset_bytes) : 0;
    const double of_blocks =
        static_cast<double>(model::bytes_moved(stream)) / std::min(of_all, of_one_sm * std::min(16U, stream.blocks));
    return stream.blocks == 1 ? begin_seconds + first_pass + std::max(of_blocks, rounds * latency_of(stream))
                              : of_blocks * (!is_own || stream.dataset_bytes <= (64U << 10U) ? 1 : 4);
  });
  const BandwidthFinding finding = found_bandwidth(device);
  for (const auto& [memory, latency, bytes_per_cycle] : {std::tuple{"L1", 40.0, 64.0},
                                                         {"texture", 40.0, 64.0},
                                                         {"constant", 40.0, 64.0},
                                                         {"L2_load", 200.0, 32.0},
                                                         {"DRAM_load", 600.0, 32.0}}) {
    for (const std::uint32_t warps : {1U, 2U, 4U, 8U, 16U, 32U}) {
      for (const std::uint32_t elements : {1U, 2U, 4U, 8U}) {
        const auto* point = point_at(finding, memory, warps, elements);
        ASSERT_TRUE(point) << memory << ' ' << warps << ' ' << elements;
        const double bytes = 128.0 * warps * elements;
        const double cycles = std::max(latency, bytes / bytes_per_cycle);
        EXPECT_NEAR(point->cycles, cycles, cycles / 1000) << memory << ' ' << warps << ' ' << elements;
        EXPECT_NEAR(point->gb_per_second, bytes / cycles, bytes / cycles / 100) << memory << ' ' << warps;
      }
    }
  }
  // A copy stores as much as it loads.
  const auto* copies = point_at(finding, "shared", 1, 1);
  ASSERT_TRUE(copies);
  EXPECT_NEAR(copies->gb_per_second, 256.0 / 40, 0.1);
  EXPECT_EQ(finding.evidence.leaves.at("shared").details.one_sm_surface->work, "copy");
  // Nobody waits for stores, and a copy would wait for its load only.
  EXPECT_FALSE(finding.evidence.leaves.at("L2_copy").details.one_sm_surface);
}

// An L1 of 64 KB for each of 16 SMs that keeps a third of twice that, an L2 of 4 MB. The first pass comes from memory,
// and something else loads a little all the time.
TEST(InferBandwidth, CountersTellWhichLevelServesADataset) {
  Streams device(plain_law);
  device.count_by([](const Stream& stream) -> model::CacheTraffic {
    const std::uint64_t passes = model::bytes_moved(stream) / stream.dataset_bytes;
    const std::uint64_t of_sm = stream.dataset_bytes / Streams::sms;
    const std::uint64_t kept = of_sm <= (64U << 10U) ? 3 : of_sm <= (128U << 10U) ? 1 : 0;
    const std::uint64_t of_others = 40000;
    const std::uint64_t loaded = stream.dataset_bytes * (3 + (passes - 1) * (3 - kept)) / 3;
    const bool is_in_l2 = stream.dataset_bytes <= (4U << 20U);
    return {.l2_load_bytes = loaded, .dram_load_bytes = is_in_l2 ? stream.dataset_bytes + of_others : loaded};
  });
  const BandwidthFinding finding = found_bandwidth(device);
  const auto& served = finding.evidence.leaves.at("L1").details.served_by_dataset;
  ASSERT_GT(served.size(), 10U);
  EXPECT_EQ(served.front().dataset_bytes, std::uint64_t{32} << 10U);
  EXPECT_EQ(served.back().dataset_bytes, std::uint64_t{8} << 20U);
  for (const model::ServedShares& each : served) {
    const std::uint64_t of_sm = each.dataset_bytes / Streams::sms;
    const double l1 = of_sm <= (64U << 10U) ? 1 : of_sm <= (128U << 10U) ? 1.0 / 3 : 0;
    const double dram = each.dataset_bytes <= (4U << 20U) ? 0 : 1;
    EXPECT_NEAR(each.l1, l1, 2e-3) << each.dataset_bytes;
    EXPECT_NEAR(each.l2, 1 - l1 - dram, 2e-3) << each.dataset_bytes;
    EXPECT_NEAR(each.dram, dram, 2e-3) << each.dataset_bytes;
  }
}

// L2 and memory take stores equally fast.
TEST(InferBandwidth, CountersTellThatL2TakesStores) {
  const auto law = [](const Stream& stream) {
    return stream.work == StreamWork::store && stream.path == StreamPath::global_cg ? seconds_at(stream, 400)
                                                                                    : plain_law(stream);
  };
  Streams blind(law);
  EXPECT_EQ(status(found_bandwidth(blind), "L2_store"), EvidenceStatus::unknown);
  for (const bool goes_on : {false, true}) {
    Streams device(law);
    device.count_by([goes_on](const Stream& stream) -> model::CacheTraffic {
      const std::uint64_t bytes = model::bytes_moved(stream);
      const bool is_store = stream.work == StreamWork::store;
      const std::uint64_t to_memory = goes_on || stream.dataset_bytes > (4U << 20U) ? bytes : 0;
      return {.l2_load_bytes = is_store ? 0 : bytes,
              .l2_store_bytes = is_store ? bytes : 0,
              .dram_load_bytes = is_store ? 0 : to_memory,
              .dram_store_bytes = is_store ? to_memory : 0};
    });
    const BandwidthFinding finding = found_bandwidth(device);
    EXPECT_EQ(status(finding, "L2_store"), goes_on ? EvidenceStatus::unknown : EvidenceStatus::resolved);
    EXPECT_NEAR(bytes_per_second(finding, "L2_store"), goes_on ? 0 : 400e9, 1e9);
    EXPECT_EQ(status(finding, "DRAM_store"), EvidenceStatus::resolved);
  }
}

TEST(InferBandwidth, WhatIsNotCountedIsTold) {
  Streams device(plain_law);
  const BandwidthFinding finding = found_bandwidth(device);
  const model::EvidenceDetails& details = finding.evidence.leaves.at("L1").details;
  EXPECT_TRUE(details.served_by_dataset.empty());
  ASSERT_EQ(details.not_counted.size(), 1U);
  EXPECT_EQ(status(finding, "L1"), EvidenceStatus::resolved);
}

// Recordings from before anybody asked, or blocks that are too large.
TEST(InferBandwidth, WhatIsRefusedIsLeftOutOfTheSurface) {
  Streams old([](const Stream& stream) { return plain_law(stream); });
  old.refuse_where([](const Stream& stream) { return stream.blocks == 1; });
  const BandwidthFinding nothing = found_bandwidth(old);
  EXPECT_EQ(status(nothing, "L1"), EvidenceStatus::resolved);
  EXPECT_FALSE(nothing.evidence.leaves.at("L1").details.one_sm_surface);
  Streams small([](const Stream& stream) { return plain_law(stream); });
  small.refuse_where([](const Stream& stream) {
    return stream.blocks == 1 && (stream.element_bits == 32 || stream.block_threads == 1024);
  });
  const BandwidthFinding finding = found_bandwidth(small);
  EXPECT_EQ(finding.evidence.leaves.at("L1").details.one_sm_surface->element_bits, 64U);
  EXPECT_TRUE(point_at(finding, "L1", 16, 8));
  EXPECT_FALSE(point_at(finding, "L1", 32, 1));
}

// The latencies of the description come out.
TEST(InferBandwidth, SurfacesOfAPublishedGpuBeginAtItsLatencies) {
  model::DeviceDescription description = model::read_description("configs/devices/gtx960.yaml");
  description.caches.at("L2").latency_cycles = {.hit = 210, .miss = 370};
  const auto device = probe::open_virtual(description, "virtual:gtx960", 1);
  const BandwidthFinding finding = found_bandwidth(*device);
  ASSERT_TRUE(point_at(finding, "L2_load", 1, 1));
  EXPECT_NEAR(point_at(finding, "L2_load", 1, 1)->cycles, 210, 1);
  ASSERT_TRUE(point_at(finding, "DRAM_load", 1, 8));
  EXPECT_NEAR(point_at(finding, "DRAM_load", 1, 8)->cycles, 370, 1);
}

TEST(InferBandwidth, APeakThatStillRisesIsNone) {
  // Twice the outstanding elements, twice the bytes: no end is seen.
  Streams device([](const Stream& stream) {
    const double outstanding =
        1e-4 * stream.blocks * stream.block_threads * stream.elements_in_flight * stream.element_bits / Streams::sms;
    return stream.path == StreamPath::shared ? seconds_at(stream, outstanding) : plain_law(stream);
  });
  const BandwidthFinding finding = found_bandwidth(device);
  EXPECT_EQ(status(finding, "shared"), EvidenceStatus::ambiguous);
  EXPECT_FALSE(finding.bandwidth.at("shared").best);
  EXPECT_FALSE(finding.evidence.leaves.at("shared").alternatives.empty());
  EXPECT_EQ(status(finding, "L1"), EvidenceStatus::resolved);
}

TEST(InferBandwidth, ADeviceThatSlowsDownIsNotResolved) {
  double pace = 1;
  Streams device([&pace](const Stream& stream) {
    pace *= 1.002;
    return pace * plain_law(stream);
  });
  const BandwidthFinding finding = found_bandwidth(device);
  for (const auto& [memory, leaf] : finding.evidence.leaves) {
    EXPECT_NE(leaf.status, EvidenceStatus::resolved) << memory;
  }
}

TEST(InferBandwidth, MemoryThatIsNoSlowerThanItsCacheLeavesTheCacheUnknown) {
  Streams device([](const Stream& stream) { return seconds_at(stream, 100); });
  const BandwidthFinding finding = found_bandwidth(device);
  EXPECT_EQ(status(finding, "L2_load"), EvidenceStatus::unknown);
  EXPECT_EQ(status(finding, "L1"), EvidenceStatus::unknown);
  EXPECT_EQ(status(finding, "DRAM_load"), EvidenceStatus::resolved);
}

TEST(InferBandwidth, MemoryWhoseLargestDatasetsDifferIsUnknown) {
  Streams device([](const Stream& stream) {
    return seconds_at(stream, stream.path == StreamPath::global_cg
                                  ? 1e6 / std::sqrt(static_cast<double>(stream.dataset_bytes))
                                  : 2000);
  });
  EXPECT_EQ(status(found_bandwidth(device), "DRAM_load"), EvidenceStatus::unknown);
}

TEST(InferBandwidth, SmallElementsMayBeSlower) {
  Streams device([](const Stream& stream) {
    return plain_law(stream) * (stream.path == StreamPath::texture && stream.element_bits == 32 ? 2 : 1);
  });
  const BandwidthFinding finding = found_bandwidth(device);
  const auto& by_bits = finding.bandwidth.at("texture").by_element_bits;
  ASSERT_EQ(by_bits.size(), 3U);
  EXPECT_NEAR(by_bits[0].bytes_per_second, 1000e9, 1e9);
  EXPECT_NEAR(by_bits[1].bytes_per_second, 2000e9, 1e9);
}

TEST(InferBandwidth, WithoutANumberOfSmsNothingIsKnown) {
  Streams device(plain_law);
  device.hide_sm_count();
  const BandwidthFinding finding = found_bandwidth(device);
  EXPECT_EQ(finding.questions, 0U);
  EXPECT_EQ(status(finding, "DRAM_load"), EvidenceStatus::unknown);
}

TEST(InferBandwidth, KeepsWhatWasKnownWhenTheDeviceFails) {
  Streams device(plain_law);
  device.fail_after(400);
  const BandwidthFinding finding = found_bandwidth(device);
  EXPECT_TRUE(finding.ended_early);
  EXPECT_EQ(status(finding, "L2_load"), EvidenceStatus::resolved);
  EXPECT_EQ(status(finding, "constant"), EvidenceStatus::unknown);
  Streams dead(plain_law);
  dead.fail_after(0);
  EXPECT_THROW(found_bandwidth(dead), DeviceError);
}

// Peaks, capacities and noise at random: what is resolved is within two per cent.
TEST(InferBandwidth, RandomDevicesAreNeverWrong) {
  constexpr unsigned devices = 100;
  const unsigned first_seed = 20261122;
  std::size_t resolved = 0;
  for (unsigned seed = first_seed; seed < first_seed + devices; ++seed) {
    std::mt19937_64 random(seed);
    const auto uniform = [&random](double least, double most) {
      return std::exp(std::uniform_real_distribution(std::log(least), std::log(most))(random));
    };
    const double dram = uniform(50, 5000);
    const std::map<std::string, double> peaks{{"L1", dram * uniform(2, 30)},
                                              {"texture", dram * uniform(2, 30)},
                                              {"shared", dram * uniform(2, 30)},
                                              {"constant", dram * uniform(2, 30)},
                                              {"L2_load", dram * uniform(0.8, 6)},
                                              {"L2_copy", dram * uniform(0.8, 6)},
                                              {"DRAM_load", dram},
                                              {"DRAM_copy", dram * uniform(0.6, 1)},
                                              {"shared_store", dram * uniform(2, 30)},
                                              {"L2_store", dram * uniform(0.8, 6)},
                                              {"DRAM_store", dram * uniform(0.6, 1)}};
    const double l1_bytes = uniform(16e3, 256e3);
    const double l2_bytes = uniform(512e3, 100e6);
    const double noise = uniform(1e-4, 1e-2);
    Streams device([&](const Stream& stream) {
      const auto memory = [&]() -> std::string {
        if (stream.path == StreamPath::shared) {
          return stream.work == StreamWork::store ? "shared_store" : "shared";
        }
        if (stream.path == StreamPath::constant) {
          return "constant";
        }
        const auto bytes = static_cast<double>(stream.dataset_bytes);
        if (stream.path != StreamPath::global_cg && bytes <= l1_bytes) {
          return stream.path == StreamPath::texture ? "texture" : "L1";
        }
        return (bytes <= l2_bytes ? "L2_" : "DRAM_") + std::string(to_string(stream.work));
      };
      return seconds_at(stream, peaks.at(memory())) * (1 + std::abs(std::normal_distribution(0.0, noise)(random)));
    });
    const BandwidthFinding finding = found_bandwidth(device);
    for (const auto& [memory, peak] : peaks) {
      if (status(finding, memory) == EvidenceStatus::resolved) {
        ++resolved;
        EXPECT_NEAR(bytes_per_second(finding, memory), peak * 1e9, peak * 2e7) << "seed " << seed << ' ' << memory;
      }
    }
  }
  EXPECT_GT(resolved, devices * 11 * 8 / 10);
}

}  // namespace
}  // namespace gpuinfer::infer
