// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/infer_kernels.hpp"

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
#include <utility>
#include <variant>
#include <vector>

#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/kernels.hpp"
#include "probe/virtual_device.hpp"
#include "tests/infer/timed_device.hpp"

namespace gpuinfer::infer {
namespace {

using model::DeviceDescription;
using model::EvidenceStatus;
using model::KernelRun;

constexpr std::size_t rows = model::kernel_names.size() * model::kernel_variants.size();

// There is room for small matrices only, so that they are soon played: of 128 x 128, and of 64 x 64.
constexpr std::uint64_t small_bytes = 128U << 10U;
constexpr std::uint64_t smallest_bytes = 32U << 10U;

KernelFinding found_kernels(model::Answerer& device, const DeviceDescription& known) {
  return infer_kernels(device, "Kernels", known, Settings{});
}

EvidenceStatus status(const KernelFinding& finding, const std::string& row) {
  return finding.evidence.leaves.at(row).status;
}

std::string name_of(const KernelRun& run) { return model::name_of(run.kernel, run.variant); }

// A device that is nothing but a law for seconds.
class Kernels final : public foreign::TimedDevice<KernelRun> {
 public:
  using Law = std::function<double(const KernelRun&)>;

  explicit Kernels(Law law, std::uint64_t bytes = small_bytes) : law_(std::move(law)) {
    facts_.own_buffers["Kernels"] = {.bytes = bytes};
  }

  void say_l2_bytes(const std::string& bytes) { facts_.provenance["l2_bytes"] = bytes; }
  void refuse(const std::string& row) { refused_ = row; }
  using Counter = std::function<model::CacheTraffic(const KernelRun&)>;
  void count_by(Counter counter) { counter_ = std::move(counter); }

 protected:
  model::Timing timing_of(const KernelRun& run) override {
    if (name_of(run) == refused_) {
      return refused("there is no such texture");
    }
    return {.cycles = std::vector(run.runs, 1.0),
            .seconds = std::vector(run.runs, law_(run)),
            .counted = run.is_counted && counter_ ? std::optional(counter_(run)) : std::nullopt};
  }

 private:
  Law law_;
  Counter counter_;
  std::string refused_;
};

DeviceDescription some_device() {
  DeviceDescription device;
  device.device.sm_count = 4;
  device.caches["L1tex"].capacity_bytes = 32U << 10U;
  device.caches["L2"].capacity_bytes = 1U << 20U;
  const auto set = [&device](const char* name, double gigabytes_per_second) {
    device.bandwidth[name].best = model::ElementBandwidth{.bytes_per_second = gigabytes_per_second * 1e9};
  };
  set("L1", 1000);
  set("texture", 800);
  set("L2_load", 200);
  set("L2_copy", 300);
  set("DRAM_load", 100);
  set("DRAM_copy", 90);
  return device;
}

struct Truth {
  std::string dominant;
  double seconds = 0;
};

// By the roofline: the level that takes longest.
Truth truth_of(const DeviceDescription& device, const KernelRun& run) {
  const model::KernelTraffic traffic = traffic_of(device, run);
  const auto gigabytes_per_second = [&device](const char* name) {
    const auto& best = device.bandwidth.at(name).best;
    return best ? best->bytes_per_second : 0;
  };
  const std::map<std::string, double> seconds{
      {"L1", static_cast<double>(traffic.asked.plain) / gigabytes_per_second("L1")},
      {"texture", static_cast<double>(traffic.asked.texture) / gigabytes_per_second("texture")},
      {"L2", static_cast<double>(traffic.l2_load_bytes + traffic.l2_store_bytes) /
                 std::max(gigabytes_per_second("L2_load"), gigabytes_per_second("L2_copy"))},
      {"DRAM", static_cast<double>(traffic.dram_load_bytes + traffic.dram_store_bytes) /
                   std::max(gigabytes_per_second("DRAM_load"), gigabytes_per_second("DRAM_copy"))}};
  const auto slowest = std::max_element(seconds.begin(), seconds.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  return {.dominant = slowest->first, .seconds = slowest->second};
}

KernelRun run_of(const std::string& name, std::uint32_t size = 128) {
  const std::size_t dot = name.find('.');
  return {.kernel = model::kernel_name_from(name.substr(0, dot)).value(),
          .variant = model::kernel_variant_from(name.substr(dot + 1)).value(),
          .size = size};
}

// Bandwidths, and how far the kernels are from them, at random. The caches hold as much as is known, or half to twice
// as much: whatever is resolved is right all the same.
void find_random_devices(double most_times) {
  constexpr unsigned devices = 25;
  const unsigned first_seed = 20261122;
  std::size_t resolved = 0;
  for (unsigned seed = first_seed; seed < first_seed + devices; ++seed) {
    std::mt19937_64 random(seed);
    const auto uniform = [&random](double least, double most) {
      return std::exp(std::uniform_real_distribution(std::log(least), std::log(most))(random));
    };
    DeviceDescription known = some_device();
    for (auto& [name, bandwidth] : known.bandwidth) {
      bandwidth.best->bytes_per_second *= uniform(0.2, 5);
    }
    const double times = uniform(1 / most_times, most_times);
    known.caches["L1tex"].capacity_bytes = static_cast<std::uint64_t>(uniform(1e3, 128e3));
    known.caches["L2"].capacity_bytes = static_cast<std::uint64_t>(uniform(4e3, 1e6));
    DeviceDescription real = known;
    for (auto& [name, cache] : real.caches) {
      cache.capacity_bytes = static_cast<std::uint64_t>(static_cast<double>(*cache.capacity_bytes) * times);
    }
    const double slowness = uniform(1, 3);
    Kernels device([&](const KernelRun& run) { return slowness * truth_of(real, run).seconds; }, smallest_bytes);
    const KernelFinding finding = found_kernels(device, known);
    EXPECT_EQ(finding.evidence.leaves.size(), rows);
    for (const auto& [name, result] : finding.kernels) {
      ++resolved;
      const Truth truth = truth_of(real, run_of(name, result.size));
      EXPECT_EQ(status(finding, name), EvidenceStatus::resolved) << "seed " << seed << ' ' << name;
      EXPECT_EQ(result.dominant, truth.dominant) << "seed " << seed << ' ' << name;
      EXPECT_NEAR(result.share, 1 / slowness, 0.12 / slowness) << "seed " << seed << ' ' << name;
      EXPECT_NEAR(result.seconds, slowness * truth.seconds, 1e-3 * result.seconds) << "seed " << seed << ' ' << name;
      if (most_times == 1) {
        EXPECT_NEAR(result.share, 1 / slowness, 1e-3) << "seed " << seed << ' ' << name;
      }
    }
    if (most_times == 1) {
      EXPECT_TRUE(finding.warnings.empty()) << "seed " << seed << ": " << to_text(finding.warnings.front());
    }
  }
  EXPECT_GT(resolved, devices * rows / 2);
}

TEST(InferKernels, RandomBandwidthsGiveTheirRoofline) { find_random_devices(1); }

TEST(InferKernels, CachesThatAreNotAsAssumedDoNotMislead) { find_random_devices(2); }

// Offers less memory than the device has.
class SmallMemory final : public model::Answerer {
 public:
  explicit SmallMemory(std::unique_ptr<model::Answerer> device) : device_(std::move(device)), facts_(device_->facts()) {
    facts_.own_buffers["Kernels"].bytes = small_bytes;
  }
  const model::DeviceFacts& facts() const override { return facts_; }
  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    return device_->ask(questions);
  }
  std::vector<model::Timing> time(std::span<const model::Workload> workloads) override {
    return device_->time(workloads);
  }

 private:
  std::unique_ptr<model::Answerer> device_;
  model::DeviceFacts facts_;
};

TEST(InferKernels, AVirtualGpuIsAtItsPeaks) {
  const DeviceDescription known = model::read_description("configs/devices/gtx960.yaml");
  SmallMemory device(probe::open_virtual(known, "virtual:gtx960", 1));
  ASSERT_EQ(device.facts().targets, (std::vector<std::string>{"Bandwidth", "Kernels"}));
  const KernelFinding finding = found_kernels(device, known);
  EXPECT_TRUE(finding.warnings.empty());
  const model::KernelResult& gemm = finding.kernels.at("gemm.plain");
  EXPECT_EQ(gemm.size, 128U);
  EXPECT_EQ(gemm.dominant, "L1");
  EXPECT_NEAR(gemm.share, 1, 1e-3);
  // Two loads in each of 128 steps, and one of c.
  EXPECT_EQ(gemm.level_bytes.at("L1"), 128U * 128 * (2 * 128 + 1) * 4);
  EXPECT_NEAR(gemm.seconds, 128.0 * 128 * (2 * 128 + 1) * 4 / 718e9, 1e-8);
  EXPECT_EQ(finding.kernels.at("fdtd_step1.plain").dominant, "DRAM");
  EXPECT_EQ(finding.kernels.at("syrk.texture_scalar").dominant, "texture");
}

TEST(InferKernels, AShareOfMoreThanAllSaysThatThePeakIsWrong) {
  const DeviceDescription real = some_device();
  Kernels device([&real](const KernelRun& run) { return truth_of(real, run).seconds; });
  ASSERT_EQ(found_kernels(device, real).kernels.at("fdtd_step1.plain").dominant, "DRAM");
  DeviceDescription known = real;
  known.bandwidth["DRAM_load"].best->bytes_per_second *= 0.8;
  known.bandwidth["DRAM_copy"].best->bytes_per_second *= 0.8;
  const KernelFinding finding = found_kernels(device, known);
  EXPECT_EQ(status(finding, "fdtd_step1.plain"), EvidenceStatus::ambiguous);
  EXPECT_FALSE(finding.kernels.contains("fdtd_step1.plain"));
  ASSERT_FALSE(finding.warnings.empty());
  EXPECT_EQ(to_text(finding.warnings.front()),
            "fdtd_step1.plain: it moves 100 GB/s through DRAM, 125 % of the 80 GB/s that are its peak, so this peak "
            "is wrong; ask for Bandwidth again");
  EXPECT_FALSE(finding.all_resolved());
  // What does not depend on it is as before.
  EXPECT_EQ(finding.kernels.at("gemm.plain").dominant, "L1");
}

TEST(InferKernels, AShareOfMoreThanAllMayBeThatOfCachesThatHoldMore) {
  DeviceDescription real = some_device();
  real.bandwidth["L2_load"].best->bytes_per_second = 2e9;
  real.bandwidth["L2_copy"].best->bytes_per_second = 2e9;
  Kernels device([&real](const KernelRun& run) { return truth_of(real, run).seconds; });
  DeviceDescription known = real;
  known.caches["L1tex"].capacity_bytes = 20U << 10U;
  const KernelFinding finding = found_kernels(device, known);
  const auto warning = std::ranges::find_if(
      finding.warnings, [](const Warning& each) { return std::get<WrongPeak>(each).kernel == "syr2k.plain"; });
  ASSERT_NE(warning, finding.warnings.end());
  EXPECT_FALSE(std::get<WrongPeak>(*warning).is_sure);
  EXPECT_NE(to_text(*warning).find("or its caches hold more than was assumed"), std::string::npos);
  EXPECT_EQ(status(finding, "syr2k.plain"), EvidenceStatus::ambiguous);
}

// Caches that hold a quarter of what is known, which counters tell and the simulator cannot.
TEST(InferKernels, WhatTheDeviceCountsIsBelieved) {
  const DeviceDescription known = some_device();
  DeviceDescription real = known;
  real.bandwidth["L2_load"].best->bytes_per_second = 150e9;
  real.bandwidth["L2_copy"].best->bytes_per_second = 150e9;
  real.caches["L1tex"].capacity_bytes = 1U << 10U;
  DeviceDescription said = known;
  said.bandwidth = real.bandwidth;
  const auto law = [&real](const KernelRun& run) { return truth_of(real, run).seconds; };
  Kernels counting(law);
  counting.count_by([&real](const KernelRun& run) -> model::CacheTraffic {
    return traffic_of(real, run);  // NOLINT(cppcoreguidelines-slicing): counters do not see the rest
  });
  const KernelFinding finding = found_kernels(counting, said);
  const std::string row = "syrk.plain";
  ASSERT_NE(truth_of(real, run_of(row)).dominant, truth_of(said, run_of(row)).dominant);
  ASSERT_TRUE(finding.kernels.contains(row)) << finding.evidence.leaves.at(row).reason;
  EXPECT_EQ(finding.kernels.at(row).dominant, truth_of(real, run_of(row)).dominant);
  EXPECT_NEAR(finding.kernels.at(row).share, 1, 1e-3);
  EXPECT_EQ(finding.kernels.at(row).level_bytes.at("L2"), traffic_of(real, run_of(row)).by_level().at("L2"));
  EXPECT_TRUE(finding.evidence.leaves.at(row).details.simulated_over_counted.has_value());
  Kernels blind(law);
  EXPECT_FALSE(found_kernels(blind, said).evidence.leaves.at(row).details.simulated_over_counted.has_value());
}

TEST(InferKernels, LevelsThatAreAsCloseAsEachOtherAreNotToldApart) {
  DeviceDescription known = some_device();
  const model::KernelTraffic traffic = traffic_of(known, run_of("gemm.plain"));
  known.bandwidth["L2_load"].best->bytes_per_second = 0;
  known.bandwidth["L2_copy"].best->bytes_per_second = 0.98 * known.bandwidth["L1"].best->bytes_per_second *
                                                      static_cast<double>(traffic.by_level().at("L2")) /
                                                      static_cast<double>(traffic.by_level().at("L1"));
  known.caches["L1tex"].capacity_bytes = 32U << 10U;
  Kernels device([&known](const KernelRun& run) { return truth_of(known, run).seconds; });
  const KernelFinding finding = found_kernels(device, known);
  EXPECT_EQ(status(finding, "gemm.plain"), EvidenceStatus::ambiguous);
  EXPECT_GE(finding.evidence.leaves.at("gemm.plain").alternatives.size(), 2U);
}

TEST(InferKernels, ADeviceThatSlowsDownIsNotResolved) {
  const DeviceDescription known = some_device();
  double pace = 1;
  Kernels device([&](const KernelRun& run) {
    pace *= 1.06;
    return pace * truth_of(known, run).seconds;
  });
  const KernelFinding finding = found_kernels(device, known);
  EXPECT_TRUE(finding.kernels.empty());
  EXPECT_EQ(status(finding, "gemm.plain"), EvidenceStatus::ambiguous);
}

TEST(InferKernels, WithoutBandwidthsNothingIsAsked) {
  Kernels device([](const KernelRun&) { return 1e-3; });
  DeviceDescription known = some_device();
  known.bandwidth.clear();
  const KernelFinding finding = found_kernels(device, known);
  EXPECT_EQ(finding.questions, 0U);
  EXPECT_TRUE(finding.kernels.empty());
  EXPECT_NE(finding.evidence.leaves.at("gemm.plain").reason.find("ask for Bandwidth"), std::string::npos);
}

TEST(InferKernels, WithoutAPeakOrACacheTheRowIsUnknown) {
  Kernels device([](const KernelRun&) { return 1e-3; });
  DeviceDescription known = some_device();
  known.bandwidth["texture"].best.reset();
  const KernelFinding no_texture = found_kernels(device, known);
  EXPECT_EQ(status(no_texture, "gemm.plain"), EvidenceStatus::resolved);
  EXPECT_EQ(status(no_texture, "gemm.texture_scalar"), EvidenceStatus::unknown);
  known = some_device();
  known.caches.erase("L2");
  const KernelFinding no_l2 = found_kernels(device, known);
  EXPECT_TRUE(no_l2.kernels.empty());
  EXPECT_NE(no_l2.evidence.leaves.at("gemm.plain").reason.find("caches.L2.capacity_bytes"), std::string::npos);
  EXPECT_EQ(no_l2.questions, 0U);
  device.say_l2_bytes("1048576");
  EXPECT_EQ(found_kernels(device, known).kernels.at("gemm.plain"),
            found_kernels(device, some_device()).kernels.at("gemm.plain"));
}

TEST(InferKernels, ARefusedKernelLeavesTheOthers) {
  const DeviceDescription known = some_device();
  Kernels device([&known](const KernelRun& run) { return truth_of(known, run).seconds; });
  device.refuse("gemm.texture_vector");
  const KernelFinding finding = found_kernels(device, known);
  EXPECT_EQ(status(finding, "gemm.texture_vector"), EvidenceStatus::unknown);
  EXPECT_EQ(status(finding, "mm3_kernel1.texture_vector"), EvidenceStatus::resolved);
}

TEST(InferKernels, KeepsWhatWasKnownWhenTheDeviceFails) {
  const DeviceDescription known = some_device();
  const auto law = [&known](const KernelRun& run) { return truth_of(known, run).seconds; };
  Kernels device(law);
  device.fail_after(36);
  const KernelFinding finding = found_kernels(device, known);
  EXPECT_TRUE(finding.ended_early);
  EXPECT_EQ(status(finding, "gemm.plain"), EvidenceStatus::resolved);
  EXPECT_EQ(status(finding, "syr2k.plain"), EvidenceStatus::unknown);
  Kernels dead(law);
  dead.fail_after(0);
  EXPECT_THROW(found_kernels(dead, known), DeviceError);
}

// What reaches the memory of a large kernel takes seconds to count.
TEST(InferKernels, EndsWhileALargeKernelIsSimulated) {
  const DeviceDescription known = some_device();
  constexpr std::uint64_t bytes = 4ULL << 30U;
  Kernels device([&known](const KernelRun& run) { return truth_of(known, run).seconds; }, bytes);
  std::size_t looks = 0;
  Settings settings;
  settings.stop_requested = [&looks] { return ++looks > 3; };
  const KernelFinding finding = infer_kernels(device, "Kernels", known, settings);
  EXPECT_TRUE(finding.ended_early);
  EXPECT_EQ(finding.questions, 0U);
  EXPECT_EQ(finding.evidence.leaves.at("gemm.plain").reason, "not asked: it was interrupted");
}

}  // namespace
}  // namespace gpuinfer::infer
