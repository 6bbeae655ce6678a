// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/latency/infer_latency.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/description/evidence.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/random.hpp"
#include "probe/virtual_device.hpp"

// What would prove the inference wrong: a pattern that is resolved and is not what such an access takes, on any device,
// and whatever is wrong with what was known of it before.
namespace gpuinfer::infer {
namespace {

using model::DeviceDescription;
using model::EvidenceStatus;
using model::PatternLatencyCycles;

constexpr std::array names{"P1", "P2", "P3", "P4", "P5", "P6"};

LatencyFinding infer_the_path(model::Answerer& device, const DeviceDescription& known, std::uint64_t seed = 1) {
  Settings settings;
  settings.seed = seed;
  return infer_latency(device, "Latency", known, "global", settings);
}

std::unique_ptr<model::Answerer> open(const DeviceDescription& truth, std::uint64_t seed = 1) {
  return probe::open_virtual(truth, "virtual:tested", seed);
}

EvidenceStatus status(const LatencyFinding& finding, std::size_t pattern) {
  return finding.evidence.leaves.at(names.at(pattern)).status;
}

std::string text_of(const LatencyFinding& finding) {
  std::string text = std::to_string(finding.questions) + " questions, " + std::to_string(finding.accesses) + " loads\n";
  for (std::size_t i = 0; i < names.size(); ++i) {
    const model::LeafEvidence& leaf = finding.evidence.leaves.at(names.at(i));
    const auto& cycles = finding.memory_latency_cycles.at(i);
    text += std::string(names.at(i)) + ": " + (cycles ? std::to_string(*cycles) : "null") + " " +
            std::string(to_string(leaf.status)) + " " + leaf.reason + "\n";
    for (const auto& [key, value] : details_in_words(leaf)) {
      text.append("  ").append(key).append(": ").append(value).append("\n");
    }
  }
  return text;
}

DeviceDescription published(const std::string& name) {
  return model::read_description("configs/devices/" + name + ".yaml");
}

// As `global`, which is the path that a virtual device offers.
DeviceDescription fermi_with_l1_off() {
  DeviceDescription device = published("gtx560ti");
  device.paths["global"] = device.paths.at("global_l1_off");
  return device;
}

// Latencies are none of what is known.
DeviceDescription without_latencies(DeviceDescription device) {
  device.memory_latency_cycles.reset();
  for (auto& [name, path] : device.paths) {
    path.memory_latency_cycles.reset();
  }
  for (auto& [name, cache] : device.caches) {
    cache.latency_cycles = {};
  }
  return device;
}

void expect_found(const LatencyFinding& finding, const PatternLatencyCycles& expected) {
  EXPECT_TRUE(finding.all_resolved()) << text_of(finding);
  EXPECT_EQ(finding.memory_latency_cycles, expected) << text_of(finding);
  if (std::getenv("GPUINFER_TEST_SHOW") != nullptr) {
    std::cout << text_of(finding);
  }
}

// Every resolved pattern is what it should be, to the cycle, every other one null.
void expect_nothing_wrong(const LatencyFinding& finding, const PatternLatencyCycles& expected) {
  SCOPED_TRACE(text_of(finding));
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (finding.memory_latency_cycles.at(i)) {
      EXPECT_EQ(status(finding, i), EvidenceStatus::resolved) << names.at(i);
      EXPECT_EQ(finding.memory_latency_cycles.at(i), expected.at(i)) << names.at(i) << " is wrong";
    }
  }
}

std::size_t resolved_with_value(const LatencyFinding& finding) {
  return static_cast<std::size_t>(std::ranges::count_if(
      finding.memory_latency_cycles, [](const std::optional<double>& cycles) { return cycles.has_value(); }));
}

TEST(InferLatency, KeplerHasThePublishedPatterns) {
  const DeviceDescription kepler = published("gtx780");
  const auto device = open(kepler);
  expect_found(infer_the_path(*device, without_latencies(kepler)), {230, 236, 289, 371, 734, 1000});
}

// As of a GPU, which does not say whether page tables are switched.
DeviceDescription without_windows(DeviceDescription device) {
  device.paths["global"].page_window_bytes.reset();
  device.paths["global"].page_window_is_unknown = true;
  return device;
}

TEST(InferLatency, WindowsThatNobodySpeaksOfAreFound) {
  for (const std::uint64_t window_bytes : {64U << 20U, 512U << 20U}) {
    DeviceDescription kepler = published("gtx780");
    kepler.paths["global"].page_window_bytes = window_bytes;
    const auto device = open(kepler);
    expect_found(infer_the_path(*device, without_windows(without_latencies(kepler))), {230, 236, 289, 371, 734, 1000});
  }
}

TEST(InferLatency, WindowsThatAreNotThereAreDenied) {
  const DeviceDescription fermi = published("gtx560ti");
  const auto device = open(fermi);
  const LatencyFinding finding = infer_the_path(*device, without_windows(without_latencies(fermi)));
  expect_found(finding, {116, 404, 488, 655, 1259, {}});
  EXPECT_NE(finding.evidence.leaves.at("P6").reason.find("nothing is switched"), std::string::npos) << text_of(finding);
}

TEST(InferLatency, FermiWithItsL1OnHasThePublishedPatterns) {
  const DeviceDescription fermi = published("gtx560ti");
  const auto device = open(fermi);
  const LatencyFinding finding = infer_the_path(*device, without_latencies(fermi));
  expect_found(finding, {116, 404, 488, 655, 1259, {}});
  EXPECT_NE(finding.evidence.leaves.at("P6").reason.find("no window"), std::string::npos);
  EXPECT_EQ(finding.evidence.leaves.at("P2").details.access_class, "data in L2, translation in L2TLB");
}

TEST(InferLatency, FermiWithItsL1OffHasThePublishedPatterns) {
  const DeviceDescription fermi = fermi_with_l1_off();
  const auto device = open(fermi);
  expect_found(infer_the_path(*device, without_latencies(fermi)), {371, 398, 482, 639, 1245, {}});
}

// A cache of random make that holds about so many lines.
model::CacheDescription random_cache(model::Random& random, std::uint64_t line_bytes, std::uint64_t lines) {
  constexpr std::array policies{"lru", "lru", "fifo", "random"};
  model::CacheDescription cache;
  const std::uint32_t ways = 2U << random.below(3);
  const auto sets = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, lines / ways));
  cache.line_bytes = line_bytes;
  cache.sector_bytes = line_bytes;
  cache.ways = std::vector<std::uint32_t>(sets, ways);
  cache.capacity_bytes = line_bytes * sets * ways;
  cache.index = model::ModuloIndex{.granule_bytes = line_bytes, .sets_count = sets};
  cache.replacement =
      model::Replacement{.policy = policies.at(random.below(policies.size())), .parameters = {}, .equivalent = {}};
  return cache;
}

DeviceDescription random_device(model::Random& random) {
  DeviceDescription device;
  device.device = {.name = "random", .source = "test", .compute_capability = {}, .sm_count = {}, .provenance = {}};
  const std::uint64_t page_bytes = std::uint64_t{64U << 10U} << random.below(6);
  const std::uint64_t line_bytes = 32U << random.below(3);
  const std::uint64_t l1_tlb_entries = 4U << random.below(4);
  device.caches["L1TLB"] = random_cache(random, page_bytes, l1_tlb_entries);
  device.caches["L2TLB"] = random_cache(random, page_bytes, l1_tlb_entries * (4 + random.below(5)));
  device.caches["L2"] = random_cache(random, line_bytes, (std::uint64_t{256U << 10U} << random.below(3)) / line_bytes);
  model::PathDescription& path = device.paths["global"];
  path.caches = {"L2"};
  path.tlbs = {"L1TLB", "L2TLB"};
  const bool has_l1 = random.below(2) == 0;
  if (has_l1) {
    device.caches["L1D"] = random_cache(random, std::max<std::uint64_t>(line_bytes, 128), 64U << random.below(3));
    path.caches = {"L1D", "L2"};
    path.translated_from = "L2";
  }
  const bool has_window = random.below(2) == 0;
  if (has_window) {
    path.page_window_bytes = page_bytes * (64U << random.below(3));
  }
  const auto more = [&random](double least, std::uint64_t most) {
    return least + static_cast<double>(random.below(most));
  };
  PatternLatencyCycles cycles;
  cycles[0] = more(20, 300);
  cycles[1] = *cycles[0] + more(has_l1 ? 60 : 4, has_l1 ? 300 : 40);
  cycles[2] = *cycles[1] + more(5, 100);
  cycles[3] = *cycles[1] + more(20, 300);
  cycles[4] = std::max(*cycles[2], *cycles[3]) + more(10, 600);
  if (has_window) {
    cycles[5] = *cycles[4] + more(10, 400);
  }
  device.memory_latency_cycles = cycles;
  // A virtual device has room for four times what fits the caches that it offers, which are those with latencies. With
  // two caches, a hit in the second one and in the first TLB costs what the first one's miss does.
  for (auto& [name, cache] : device.caches) {
    cache.latency_cycles = {.hit = cycles[0], .miss = *cycles[1] - 3};
  }
  device.noise = model::NoiseDescription{.jitter_cycles = 3 * random.unit(),
                                         .outlier_probability = 0.001 * random.unit(),
                                         .outlier_cycles = 400,
                                         .misread_probability = random.below(3) == 0 ? 0.01 * random.unit() : 0};
  return device;
}

// 100 of them where GPUINFER_TEST_CACHES says so.
TEST(InferLatency, RandomDevices) {
  constexpr std::uint64_t seed = 30;
  const char* const wanted = std::getenv("GPUINFER_TEST_CACHES");
  const unsigned devices = wanted != nullptr ? static_cast<unsigned>(std::stoul(wanted)) : 2;
  model::Random random(seed);
  std::size_t resolved = 0;
  std::size_t there = 0;
  for (unsigned trial = 0; trial < devices; ++trial) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", trial " + std::to_string(trial));
    const DeviceDescription truth = random_device(random);
    const auto device = open(truth, trial + 1);
    const LatencyFinding finding = infer_the_path(*device, without_latencies(truth), trial + 1);
    expect_nothing_wrong(finding, *truth.memory_latency_cycles);
    resolved += resolved_with_value(finding);
    there += static_cast<std::size_t>(std::ranges::count_if(
        *truth.memory_latency_cycles, [](const std::optional<double>& cycles) { return cycles.has_value(); }));
    if (!finding.all_resolved()) {
      std::cout << "seed " << seed << ", trial " << trial << "\n" << text_of(finding);
    }
  }
  std::cout << resolved << " of " << there << " patterns resolved\n";
  EXPECT_GE(static_cast<double>(resolved), 0.9 * static_cast<double>(there));
}

// Something about a cache or a TLB is taken for what it is not, or not known.
std::string mistake(DeviceDescription& known, model::Random& random) {
  std::vector<std::string> names_of_caches;
  for (const auto& [name, cache] : known.caches) {
    names_of_caches.push_back(name);
  }
  const std::string name = names_of_caches[random.below(names_of_caches.size())];
  model::CacheDescription& cache = known.caches.at(name);
  const auto sets = static_cast<std::uint32_t>(cache.ways->size());
  switch (random.below(8)) {
    case 0:
      cache.ways = std::vector<std::uint32_t>(sets, cache.ways->front() * 2);
      return name + " with twice the ways";
    case 1:
      cache.ways = std::vector<std::uint32_t>(sets, cache.ways->front() / 2);
      return name + " with half the ways";
    case 2:
      cache.ways = std::vector<std::uint32_t>(sets, cache.ways->front() + 1);
      return name + " with one way more";
    case 3:
      cache.line_bytes = cache.sector_bytes = *cache.line_bytes * 2;
      cache.index = model::ModuloIndex{.granule_bytes = *cache.line_bytes, .sets_count = sets};
      return name + " with twice the line";
    case 4:
      cache.line_bytes = cache.sector_bytes = *cache.line_bytes / 2;
      cache.index = model::ModuloIndex{.granule_bytes = *cache.line_bytes, .sets_count = sets};
      return name + " with half the line";
    case 5:
      cache.replacement->policy = cache.replacement->policy == "lru" ? "fifo" : "lru";
      return name + " with another policy";
    case 6:
      cache.index.reset();
      return name + " without index";
    default:
      cache.replacement.reset();
      cache.ways.reset();
      cache.capacity_bytes.reset();
      return name + " without ways";
  }
}

TEST(InferLatency, RandomDevicesThatAreKnownWrongly) {
  constexpr std::uint64_t seed = 40;
  const char* const wanted = std::getenv("GPUINFER_TEST_CACHES");
  const unsigned devices = wanted != nullptr ? static_cast<unsigned>(std::stoul(wanted)) : 2;
  model::Random random(seed);
  for (unsigned trial = 0; trial < devices; ++trial) {
    const DeviceDescription truth = random_device(random);
    DeviceDescription known = without_latencies(truth);
    const std::string what = mistake(known, random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", trial " + std::to_string(trial) + ": " + what);
    const auto device = open(truth, trial + 1);
    const LatencyFinding finding = infer_the_path(*device, known, trial + 1);
    expect_nothing_wrong(finding, *truth.memory_latency_cycles);
  }
}

// What is known is wrong, each time in another way, and the device is the same.
TEST(InferLatency, WrongDescriptionsOfKepler) {
  const DeviceDescription kepler = published("gtx780");
  const PatternLatencyCycles truth = kepler.memory_latency_cycles.value();
  const DeviceDescription nothing = without_latencies(kepler);
  const auto one_set = [](model::CacheDescription& tlb, std::uint32_t ways) {
    tlb.ways = {ways};
    tlb.index = model::ModuloIndex{.granule_bytes = *tlb.line_bytes, .sets_count = 1};
    tlb.capacity_bytes = *tlb.line_bytes * ways;
  };
  const std::map<std::string, std::function<void(DeviceDescription&)>> mistakes{
      {"first TLB too small", [&](auto& known) { one_set(known.caches["L1TLB"], 8); }},
      {"first TLB too large", [&](auto& known) { one_set(known.caches["L1TLB"], 24); }},
      {"first TLB much too large", [&](auto& known) { one_set(known.caches["L1TLB"], 60); }},
      {"second TLB too small", [&](auto& known) { one_set(known.caches["L2TLB"], 40); }},
      {"second TLB too large", [&](auto& known) { one_set(known.caches["L2TLB"], 128); }},
      {"second TLB with another map",
       [&](auto& known) {
         known.caches["L2TLB"].index = model::ModuloIndex{.granule_bytes = 2U << 20U, .sets_count = 7};
       }},
      {"pages too long",
       [](auto& known) {
         for (const char* tlb : {"L1TLB", "L2TLB"}) {
           known.caches[tlb].line_bytes = known.caches[tlb].sector_bytes = 4U << 20U;
         }
         known.caches["L1TLB"].index = model::ModuloIndex{.granule_bytes = 4U << 20U, .sets_count = 1};
         known.caches["L2TLB"].index = model::ModuloIndex{.granule_bytes = 4U << 20U, .sets_count = 7};
       }},
      {"lines too long",
       [](auto& known) {
         known.caches["L2"].line_bytes = known.caches["L2"].sector_bytes = 64;
         known.caches["L2"].index = model::ModuloIndex{.granule_bytes = 64, .sets_count = 1024};
       }},
      {"no window", [](auto& known) { known.paths["global"].page_window_bytes.reset(); }},
      {"window too short", [](auto& known) { known.paths["global"].page_window_bytes = 256U << 20U; }},
      {"no second TLB", [](auto& known) { known.paths["global"].tlbs = {"L1TLB"}; }},
      {"no TLB at all", [](auto& known) { known.paths["global"].tlbs.clear(); }},
  };
  // All of them where GPUINFER_TEST_CACHES is set, else every third.
  const std::size_t step = std::getenv("GPUINFER_TEST_CACHES") == nullptr ? 3 : 1;
  std::size_t number = 0;
  for (const auto& [what, mistake] : mistakes) {
    if (number++ % step != 0) {
      continue;
    }
    SCOPED_TRACE(what);
    DeviceDescription known = nothing;
    mistake(known);
    const auto device = open(kepler);
    const LatencyFinding finding = infer_the_path(*device, known);
    expect_nothing_wrong(finding, truth);
    // What is left out of the description is not said to be absent.
    EXPECT_TRUE(finding.all_resolved() ||
                std::ranges::none_of(names,
                                     [&](const char* name) {
                                       const model::LeafEvidence& leaf = finding.evidence.leaves.at(name);
                                       return leaf.status == EvidenceStatus::resolved && !leaf.reason.empty();
                                     }))
        << text_of(finding);
    if (std::getenv("GPUINFER_TEST_SHOW") != nullptr) {
      std::cout << what << "\n" << text_of(finding);
    }
  }
}

// An L2 and a second TLB of which little is known, as on GPUs of today.
TEST(InferLatency, LittleThatIsKnown) {
  const DeviceDescription kepler = published("gtx780");
  DeviceDescription known = without_latencies(kepler);
  known.caches["L2"] = {};
  known.caches["L2"].sector_bytes = 32;
  const auto device = open(kepler);
  const LatencyFinding without_l2 = infer_the_path(*device, known);
  expect_nothing_wrong(without_l2, *kepler.memory_latency_cycles);
  EXPECT_EQ(without_l2.memory_latency_cycles[0], 230) << text_of(without_l2);
  EXPECT_EQ(without_l2.memory_latency_cycles[3], 371) << text_of(without_l2);
  EXPECT_EQ(without_l2.memory_latency_cycles[4], 734) << text_of(without_l2);
  EXPECT_EQ(without_l2.memory_latency_cycles[5], 1000) << text_of(without_l2);

  known = without_latencies(kepler);
  known.caches["L2"].index.reset();
  known.caches["L2TLB"].index.reset();
  known.caches["L2TLB"].ways.reset();
  const LatencyFinding without_index = infer_the_path(*device, known);
  expect_nothing_wrong(without_index, *kepler.memory_latency_cycles);
  EXPECT_GE(resolved_with_value(without_index), 4U) << text_of(without_index);

  known = without_latencies(kepler);
  known.caches.clear();
  const LatencyFinding without_all = infer_the_path(*device, known);
  expect_nothing_wrong(without_all, *kepler.memory_latency_cycles);

  known.paths.clear();
  const LatencyFinding without_path = infer_the_path(*device, known);
  EXPECT_EQ(resolved_with_value(without_path), 0U);
  EXPECT_NE(without_path.evidence.leaves.at("P1").reason.find("paths.global"), std::string::npos);
}

// What is loaded again comes back the sooner the fewer others came in between, as in hardware lists.
class RecentlyUsed {
 public:
  explicit RecentlyUsed(std::size_t most) : most_(most) {}

  bool touch(std::uint64_t key) {
    const auto found = where_.find(key);
    const bool hits = found != where_.end();
    if (hits) {
      order_.erase(found->second);
    } else if (order_.size() == most_) {
      where_.erase(order_.back());
      order_.pop_back();
    }
    order_.push_front(key);
    where_[key] = order_.begin();
    return hits;
  }

  void clear() {
    order_.clear();
    where_.clear();
  }

 private:
  std::size_t most_;
  std::list<std::uint64_t> order_;
  std::map<std::uint64_t, std::list<std::uint64_t>::iterator> where_;
};

// 4,096 lines of 64 bytes, TLBs of 8 and 64 pages of 256 KB.
class ForeignPath final : public model::Answerer {
 public:
  static constexpr std::uint64_t page_bytes = 256U << 10U;

  ForeignPath() {
    facts_.name = "foreign";
    facts_.source = "test";
    facts_.targets = {"Latency"};
    facts_.buffer.bytes = std::uint64_t{256} << 20U;
  }

  std::function<double(std::uint64_t offset, bool data, bool first_tlb, bool second_tlb)> cycles_of =
      [](std::uint64_t, bool data, bool first_tlb, bool second_tlb) {
        return (data ? 200.0 : 500.0) + (first_tlb ? 0 : second_tlb ? 20 : 90);
      };
  std::function<void()> on_start = [] {};
  bool starts_clean = true;
  bool refuses = false;
  std::size_t questions_left = 1'000'000;

  // The second TLB has so many sets for half of the buffer, and finds so many of the last pages whatever their sets
  // have room for.
  void split_second_tlb(std::size_t sets, std::size_t ways, std::size_t pages_beside) {
    facts_.buffer.bytes = 2 * sets * ways * page_bytes;
    second_tlb_.assign(sets, RecentlyUsed(ways));
    beside_second_tlb_.emplace(pages_beside);
  }
  void say_nearer_bytes(std::uint64_t bytes) {
    facts_.own_buffers["L2TLB"] = facts_.buffer;
    facts_.own_buffers["L2TLB"].nearer_bytes = bytes;
  }

  const model::DeviceFacts& facts() const override { return facts_; }
  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (questions_left-- == 0) {
        throw DeviceError("the device fell off the bus; reset it");
      }
      if (refuses || (question.state != model::StartState::keep && !starts_clean)) {
        answers.push_back({.latency_cycles = {}, .refusal = "not today; ask tomorrow"});
        continue;
      }
      if (question.state != model::StartState::keep) {
        data_.clear();
        first_tlb_.clear();
        std::ranges::for_each(second_tlb_, &RecentlyUsed::clear);
        if (beside_second_tlb_) {
          beside_second_tlb_->clear();
        }
        on_start();
      }
      for (const std::uint64_t offset : question.warm) {
        static_cast<void>(load(offset));
      }
      model::Answer& answer = answers.emplace_back();
      for (const std::uint64_t offset : question.record) {
        answer.latency_cycles.push_back(static_cast<float>(std::round(load(offset))));
      }
    }
    return answers;
  }

  static DeviceDescription described() {
    DeviceDescription known;
    const auto cache = [](std::uint64_t line_bytes, std::uint32_t lines) {
      model::CacheDescription made;
      made.line_bytes = made.sector_bytes = line_bytes;
      made.ways = {lines};
      made.index = model::ModuloIndex{.granule_bytes = line_bytes, .sets_count = 1};
      made.replacement = model::Replacement{.policy = "lru", .parameters = {}, .equivalent = {}};
      made.capacity_bytes = line_bytes * lines;
      return made;
    };
    known.caches = {{"L2", cache(64, 4096)}, {"L1TLB", cache(page_bytes, 8)}, {"L2TLB", cache(page_bytes, 64)}};
    known.paths["global"].caches = {"L2"};
    known.paths["global"].tlbs = {"L1TLB", "L2TLB"};
    return known;
  }

 private:
  double load(std::uint64_t offset) {
    const bool data = data_.touch(offset / 64);
    const std::uint64_t page = offset / page_bytes;
    const bool first = first_tlb_.touch(page);
    const bool second = first || look_up_second(page);
    return cycles_of(offset, data, first, second) + jitter_(random_);
  }

  bool look_up_second(std::uint64_t page) {
    const bool has_it = second_tlb_[page % second_tlb_.size()].touch(page);
    const bool was_recent = beside_second_tlb_ && beside_second_tlb_->touch(page);
    return has_it || was_recent;
  }

  model::DeviceFacts facts_;
  RecentlyUsed data_{4096};
  RecentlyUsed first_tlb_{8};
  std::vector<RecentlyUsed> second_tlb_{RecentlyUsed(64)};
  std::optional<RecentlyUsed> beside_second_tlb_;
  std::mt19937 random_{9};
  std::normal_distribution<double> jitter_{0, 1.5};
};

constexpr PatternLatencyCycles foreign_cycles{200, 220, 290, 500, 590, {}};

TEST(InferLatency, ForeignPathIsFound) {
  ForeignPath device;
  expect_found(infer_the_path(device, ForeignPath::described()), foreign_cycles);
}

// Nothing is ever empty: what was loaded by the question before is still there.
TEST(InferLatency, ForeignPathThatIsNeverClean) {
  ForeignPath device;
  device.starts_clean = false;
  expect_found(infer_the_path(device, ForeignPath::described()), foreign_cycles);
}

// The L2 is taken for four times as large, and for an eighth.
TEST(InferLatency, ForeignPathWithAnotherL2) {
  for (const std::uint32_t lines : {16384U, 512U}) {
    ForeignPath device;
    DeviceDescription known = ForeignPath::described();
    known.caches["L2"].ways = {lines};
    known.caches["L2"].capacity_bytes = 64 * lines;
    expect_nothing_wrong(infer_the_path(device, known), foreign_cycles);
  }
}

// A cache that nobody knows of answers every third line.
TEST(InferLatency, ForeignPathWithAnUnknownCache) {
  ForeignPath device;
  device.cycles_of = [](std::uint64_t offset, bool data, bool first_tlb, bool second_tlb) {
    const double memory = offset / 64 % 3 == 0 ? 350.0 : 500.0;
    return (data ? 200.0 : memory) + (first_tlb ? 0 : second_tlb ? 20 : 90);
  };
  const LatencyFinding finding = infer_the_path(device, ForeignPath::described());
  expect_nothing_wrong(finding, {200, 220, 290, {}, {}, {}});
  EXPECT_EQ(status(finding, 3), EvidenceStatus::ambiguous) << text_of(finding);
  EXPECT_EQ(status(finding, 4), EvidenceStatus::ambiguous) << text_of(finding);
}

// One page in five is walked in another table.
TEST(InferLatency, ForeignPathWithTwoKindsOfWalks) {
  ForeignPath device;
  device.cycles_of = [](std::uint64_t offset, bool data, bool first_tlb, bool second_tlb) {
    const double walk = offset / ForeignPath::page_bytes % 5 == 0 ? 250.0 : 90.0;
    return (data ? 200.0 : 500.0) + (first_tlb ? 0 : second_tlb ? 20 : walk);
  };
  expect_nothing_wrong(infer_the_path(device, ForeignPath::described()), {200, 220, {}, 500, {}, {}});
}

// A page table that was walked once lies in a cache from then on.
TEST(InferLatency, ForeignPathWhereTablesThatWereWalkedAreNear) {
  ForeignPath device;
  std::set<std::uint64_t> walked;
  device.cycles_of = [&walked](std::uint64_t offset, bool data, bool first_tlb, bool second_tlb) {
    const bool walks = !first_tlb && !second_tlb;
    const bool is_first = walks && walked.insert(offset / ForeignPath::page_bytes).second;
    return (data ? 200.0 : 500.0) + (first_tlb ? 0 : second_tlb ? 20 : is_first ? 400 : 90);
  };
  device.on_start = [&walked] { walked.clear(); };
  expect_found(infer_the_path(device, ForeignPath::described()), {200, 220, 290, 500, 900, {}});
}

// One table is active at a time, of 16 MB; what lies elsewhere is walked through another one, 70 cycles later.
TEST(InferLatency, ForeignPathWhereTablesAreSwitched) {
  constexpr std::uint64_t window_bytes = 16U << 20U;
  for (const bool starts_clean : {true, false}) {
    ForeignPath device;
    device.starts_clean = starts_clean;
    std::uint64_t active = 0;
    device.cycles_of = [&active](std::uint64_t offset, bool data, bool first_tlb, bool second_tlb) {
      const bool walks = !first_tlb && !second_tlb;
      const bool switches = walks && std::exchange(active, offset / window_bytes) != offset / window_bytes;
      return (data ? 200.0 : 500.0) + (first_tlb ? 0 : second_tlb ? 20 : 90) + (switches ? 70 : 0);
    };
    const LatencyFinding finding = infer_the_path(device, without_windows(ForeignPath::described()));
    expect_nothing_wrong(finding, {200, 220, 290, 500, 590, 660});
    EXPECT_EQ(finding.memory_latency_cycles[5], 660) << text_of(finding);
  }
}

// The first walk of a neighbourhood takes longer, in whatever order: nothing is switched.
TEST(InferLatency, ForeignPathWhereTheFirstWalkOfANeighbourhoodTakesLonger) {
  ForeignPath device;
  std::set<std::uint64_t> walked;
  device.cycles_of = [&walked](std::uint64_t offset, bool data, bool first_tlb, bool second_tlb) {
    const bool walks = !first_tlb && !second_tlb;
    const bool is_first = walks && walked.insert(offset / (16 * ForeignPath::page_bytes)).second;
    return (data ? 200.0 : 500.0) + (first_tlb ? 0 : second_tlb ? 20 : is_first ? 190 : 90);
  };
  device.on_start = [&walked] { walked.clear(); };
  const LatencyFinding finding = infer_the_path(device, without_windows(ForeignPath::described()));
  EXPECT_FALSE(finding.memory_latency_cycles[5]) << text_of(finding);
  EXPECT_NE(finding.evidence.leaves.at("P6").reason.find("nothing is switched"), std::string::npos) << text_of(finding);
}

// Pages of few sets of the second TLB are not walked as long as they are few, which is nothing that sets and ways say.
TEST(InferLatency, ForeignPathWhereTheLastPagesAreFoundBesideTheSecondTlb) {
  constexpr std::uint32_t sets = 512;
  constexpr std::uint32_t ways = 8;
  constexpr std::size_t pages_beside = 22;
  DeviceDescription known = ForeignPath::described();
  known.caches["L2TLB"].ways = std::vector<std::uint32_t>(sets, ways);
  known.caches["L2TLB"].index = model::ModuloIndex{.granule_bytes = ForeignPath::page_bytes, .sets_count = sets};
  for (const bool says_so : {false, true}) {
    ForeignPath device;
    device.split_second_tlb(sets, ways, pages_beside);
    if (says_so) {
      device.say_nearer_bytes(32 * ForeignPath::page_bytes);
    }
    const LatencyFinding finding = infer_the_path(device, known);
    if (says_so) {
      expect_found(finding, foreign_cycles);
    } else {
      expect_nothing_wrong(finding, {200, 220, 290, 500, 590, {}});
      EXPECT_EQ(status(finding, 2), EvidenceStatus::ambiguous) << text_of(finding);
    }
  }
}

// The first TLB costs nothing, so nothing shows that it is there.
TEST(InferLatency, ForeignPathWhereTheFirstTlbDoesNotShow) {
  ForeignPath device;
  device.cycles_of = [](std::uint64_t, bool data, bool first_tlb, bool second_tlb) {
    return (data ? 200.0 : 500.0) + (first_tlb || second_tlb ? 0 : 90);
  };
  const LatencyFinding finding = infer_the_path(device, ForeignPath::described());
  EXPECT_EQ(status(finding, 1), EvidenceStatus::ambiguous) << text_of(finding);
}

// Every load takes longer than the last one.
TEST(InferLatency, ForeignPathThatDrifts) {
  ForeignPath device;
  double drift = 0;
  device.cycles_of = [&drift](std::uint64_t, bool data, bool first_tlb, bool second_tlb) {
    drift += 0.001;
    return drift + (data ? 200.0 : 500.0) + (first_tlb ? 0 : second_tlb ? 20 : 90);
  };
  EXPECT_EQ(resolved_with_value(infer_the_path(device, ForeignPath::described())), 0U);
}

TEST(InferLatency, RefusalsAndFailures) {
  ForeignPath refusing;
  refusing.refuses = true;
  const LatencyFinding finding = infer_the_path(refusing, ForeignPath::described());
  EXPECT_EQ(resolved_with_value(finding), 0U);
  EXPECT_NE(finding.evidence.leaves.at("P1").reason.find("ask tomorrow"), std::string::npos);

  ForeignPath failing;
  failing.questions_left = 2;
  EXPECT_THROW(static_cast<void>(infer_the_path(failing, ForeignPath::described())), DeviceError);

  ForeignPath stopped;
  Settings settings;
  settings.budget_accesses = 20'000;
  const LatencyFinding partly = infer_latency(stopped, "Latency", ForeignPath::described(), "global", settings);
  EXPECT_TRUE(partly.ended_early);
  EXPECT_EQ(resolved_with_value(partly), 0U);
}

}  // namespace
}  // namespace gpuinfer::infer
