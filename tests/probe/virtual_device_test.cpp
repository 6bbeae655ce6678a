// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/virtual_device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "tests/probe/descriptions.hpp"
#include "tests/probe/scratch.hpp"

namespace gpuinfer::probe {
namespace {

using model::Question;
using model::StartState;

std::vector<float> latencies(model::Answerer& device, const Question& question) {
  const model::Answer answer = device.ask({&question, 1}).front();
  EXPECT_FALSE(answer.refusal.has_value()) << *answer.refusal;
  return answer.latency_cycles;
}

std::string refusal(model::Answerer& device, const Question& question) {
  return device.ask({&question, 1}).front().refusal.value_or("");
}

Question question(const std::string& target, StartState state, model::AccessSequence warm,
                  model::AccessSequence record) {
  return {.target = target, .state = state, .warm = std::move(warm), .record = std::move(record)};
}

Question many_hits(std::size_t accesses) {
  return question("L1tex", StartState::clean, {0}, model::AccessSequence(accesses));
}

TEST(VirtualDevice, SaysWhatItIs) {
  const auto device = open_virtual(small_device(), "virtual:small", 7);
  EXPECT_EQ(device->facts().name, "Small");
  EXPECT_EQ(device->facts().source, "virtual:small");
  EXPECT_EQ(device->facts().sm_count, 2U);
  EXPECT_EQ(device->facts().targets, std::vector<std::string>{"L1tex"});
  EXPECT_EQ(device->facts().buffer.bytes, 64U << 20U);
  EXPECT_EQ(device->facts().buffer.address, model::Address{0});
  EXPECT_EQ(device->facts().provenance.at("seed"), "7");
  EXPECT_TRUE(device->disturbances().empty());
}

TEST(VirtualDevice, HasRoomToOverflowCachesOfLargePages) {
  model::DeviceDescription description = small_device();
  model::CacheDescription tlb = small_cache();
  tlb.capacity_bytes = 65ULL << 21U;
  tlb.line_bytes = tlb.sector_bytes = 2U << 20U;
  tlb.ways = {65};
  tlb.index = model::ModuloIndex{.granule_bytes = 2U << 20U, .sets_count = 1};
  description.caches["L2TLB"] = tlb;
  EXPECT_EQ(open_virtual(description, "virtual:small", 1)->facts().buffer.bytes, 1ULL << 30U);
}

TEST(VirtualDevice, AnswersHitsAndMissesOfItsCache) {
  const auto device = open_virtual(small_device(), "virtual:small", 1);
  EXPECT_EQ(latencies(*device, question("L1tex", StartState::clean, {}, {0, 4, 32, 0})),
            (std::vector<float>{200, 100, 200, 100}));
}

// 5 x 16 sets of one way: lines hit as long as they differ in the four parities or in the term modulo 5.
TEST(VirtualDevice, PlaysACacheWhoseSetsAreATuple) {
  model::DeviceDescription description = small_device();
  model::CacheDescription cache = small_cache();
  const std::uint64_t line_bytes = *cache.line_bytes;
  const auto first_bit = static_cast<std::uint32_t>(std::countr_zero(line_bytes));
  const auto bit = [&](std::uint32_t number) { return line_bytes << number; };
  cache.ways = std::vector<std::uint32_t>(80, 1);
  cache.capacity_bytes = 80 * line_bytes;
  cache.index =
      model::HashIndex{.row_masks = {bit(0), bit(1), bit(2) | bit(7), bit(3)},
                       .constant = 0,
                       .terms = {{.modulo = 5, .shift = first_bit + 4, .weights = {3}, .row_masks = {bit(8)}}}};
  description.caches["L1tex"] = cache;
  const auto device = open_virtual(description, "virtual:small", 1);
  const auto hits = [&](std::uint64_t line, std::uint64_t other) {
    return latencies(*device, question("L1tex", StartState::clean, {line * line_bytes, other * line_bytes},
                                       {line * line_bytes})) == std::vector<float>{100};
  };
  model::AccessSequence contiguous(80);
  for (std::size_t line = 0; line < contiguous.size(); ++line) {
    contiguous[line] = line * line_bytes;
  }
  EXPECT_EQ(latencies(*device, question("L1tex", StartState::clean, contiguous, contiguous)),
            std::vector<float>(80, 100));
  EXPECT_FALSE(hits(0, 5 * 16));  // the term goes round
  EXPECT_TRUE(hits(0, 4 * 16));
  EXPECT_TRUE(hits(0, 128 + 4));    // bits 2 and 7 cancel, but 8 is 3 mod 5
  EXPECT_TRUE(hits(0, 256));        // 16 + 3 is 4 mod 5
  EXPECT_FALSE(hits(0, 256 + 16));  // 17 + 3 is 0 mod 5
}

// Addresses 0 to 63 lie in part 0, 64 to 127 in part 1; a set has 8 lines, each 128 bytes apart. All times by hand.
TEST(VirtualDevice, PlaysNearAndFarPartsOfACache) {
  model::DeviceDescription description = small_device();
  description.caches["L2"] = small_cache();
  description.caches["L2"].partitions = model::Partitions{.index = model::BitsIndex{{6}},
                                                          .near = 0,
                                                          .far_cycles = 30,
                                                          .sms = {{model::ComputeUnit{0}}, {model::ComputeUnit{1}}}};
  const auto asked = [&description](const std::vector<std::pair<std::uint32_t, model::AccessSequence>>& by_sm) {
    const auto device = open_virtual(description, "virtual:small", 1);
    Question each = question("L2", StartState::flooded, {}, {});
    std::vector<float> cycles;
    for (const auto& [sm, offsets] : by_sm) {
      each.record = offsets;
      each.circumstances.unit = model::ComputeUnit{sm};
      cycles = latencies(*device, each);
      each.state = StartState::keep;
    }
    return cycles;
  };
  EXPECT_EQ(asked({{0, {0, 64, 0, 64, 68}}}), (std::vector<float>{200, 200, 100, 130, 130}));
  EXPECT_EQ(asked({{0, {0, 64}}, {1, {0, 64, 0, 64}}}), (std::vector<float>{130, 100, 130, 100}));

  description.caches["L2"].partitions->keeps_copies = true;
  EXPECT_EQ(asked({{0, {0, 64, 0, 64}}}), (std::vector<float>{200, 200, 100, 100}));
  EXPECT_EQ(asked({{0, {0, 64}}, {1, {0, 64, 0, 64}}}), (std::vector<float>{130, 100, 100, 100}));
  EXPECT_EQ(asked({{0, {0, 64}}, {1, {0, 64}}, {0, {0, 64}}}), (std::vector<float>{100, 100}));
  // Line 0 has to go for the eight that come, and with it the copy near SM 1.
  const model::AccessSequence eight{128, 256, 384, 512, 640, 768, 896, 1024};
  EXPECT_EQ(asked({{0, {0}}, {1, {0}}, {0, eight}, {0, {0}}, {1, {0, 0}}}), (std::vector<float>{130, 100}));
  // So it does for what empties the cache.
  const auto device = open_virtual(description, "virtual:small", 1);
  Question by_other = question("L2", StartState::clean, {0}, {0});
  by_other.circumstances.unit = model::ComputeUnit{1};
  EXPECT_EQ(latencies(*device, by_other), std::vector<float>{100}) << "what an SM brought is near it";
  EXPECT_EQ(latencies(*device, question("L2", StartState::clean, {0}, {0})), std::vector<float>{100});
  by_other.state = StartState::keep;
  by_other.warm.clear();
  EXPECT_EQ(latencies(*device, by_other), std::vector<float>{130});
}

TEST(VirtualDevice, OfASmThatIsNotToldThePartNearIsTheOneThatIsCalledSo) {
  model::DeviceDescription description = small_device();
  description.caches["L2"] = small_cache();
  description.caches["L2"].partitions =
      model::Partitions{.index = model::BitsIndex{{6}}, .near = 1, .far_cycles = 30, .sms = {{model::ComputeUnit{0}}}};
  const auto device = open_virtual(description, "virtual:small", 1);
  Question asked = question("L2", StartState::clean, {0, 64}, {0, 64});
  EXPECT_EQ(latencies(*device, asked), (std::vector<float>{130, 100}));
  asked.circumstances.unit = model::ComputeUnit{0};
  EXPECT_EQ(latencies(*device, asked), (std::vector<float>{100, 130}));
  asked.circumstances.unit = model::ComputeUnit{1};
  EXPECT_EQ(latencies(*device, asked), (std::vector<float>{130, 100}));
}

TEST(VirtualDevice, KeepsAndClearsItsStatePerCache) {
  model::DeviceDescription description = small_device();
  description.caches["ReadOnly"] = small_cache();
  const auto device = open_virtual(description, "virtual:small", 1);
  EXPECT_EQ(latencies(*device, question("L1tex", StartState::clean, {0}, {32})), std::vector<float>{200});
  EXPECT_EQ(latencies(*device, question("ReadOnly", StartState::keep, {}, {0})), std::vector<float>{200});
  EXPECT_EQ(latencies(*device, question("L1tex", StartState::keep, {}, {0, 32})), (std::vector<float>{100, 100}));
  EXPECT_EQ(latencies(*device, question("L1tex", StartState::invalidated, {}, {0})), std::vector<float>{200});
  EXPECT_EQ(latencies(*device, question("L1tex", StartState::clean, {}, {0})), std::vector<float>{200});
}

TEST(VirtualDevice, JitterHasTheDeviationThatWasAskedFor) {
  model::DeviceDescription description = small_device();
  description.noise = model::NoiseDescription{.jitter_cycles = 3};
  const auto device = open_virtual(description, "virtual:small", 1);
  constexpr std::size_t accesses = 100000;
  double sum = 0;
  double squares = 0;
  for (const float cycles : latencies(*device, many_hits(accesses))) {
    EXPECT_EQ(cycles, std::round(cycles));
    sum += cycles;
    squares += (cycles - 100.0) * (cycles - 100.0);
  }
  EXPECT_NEAR(sum / accesses, 100, 0.05);
  // Rounding to whole cycles adds a twelfth.
  EXPECT_NEAR(squares / accesses, 9 + 1.0 / 12, 0.2);
}

TEST(VirtualDevice, OutliersAndMisreadsComeAsOftenAsAskedFor) {
  model::DeviceDescription description = small_device();
  description.noise =
      model::NoiseDescription{.outlier_probability = 0.01, .outlier_cycles = 400, .misread_probability = 0.05};
  const auto device = open_virtual(description, "virtual:small", 1);
  constexpr std::size_t accesses = 100000;
  const std::vector<float> cycles = latencies(*device, many_hits(accesses));
  const auto share = [&](float value) {
    return static_cast<double>(std::count(cycles.begin(), cycles.end(), value)) / accesses;
  };
  EXPECT_NEAR(share(100), 0.95 * 0.99, 0.004);
  EXPECT_NEAR(share(200), 0.05 * 0.99, 0.004);
  EXPECT_NEAR(share(500), 0.95 * 0.01, 0.002);
  EXPECT_NEAR(share(600), 0.05 * 0.01, 0.0005);
}

TEST(VirtualDevice, LatenciesAreNeverNegative) {
  model::DeviceDescription description = small_device();
  description.noise = model::NoiseDescription{.jitter_cycles = 1000};
  const auto device = open_virtual(description, "virtual:small", 1);
  const std::vector<float> cycles = latencies(*device, many_hits(1000));
  EXPECT_EQ(*std::min_element(cycles.begin(), cycles.end()), 0);
}

TEST(VirtualDevice, TheSeedDecidesAndOtherCachesDoNot) {
  model::DeviceDescription description = small_device();
  description.caches["L1tex"].replacement->policy = "random";
  description.caches["ReadOnly"] = description.caches["L1tex"];
  description.noise = model::NoiseDescription{.jitter_cycles = 3};
  const auto chase = [](const std::string& target) {
    return question(target, StartState::keep, {}, model::cyclic(2048, 32, 1000));
  };
  const auto first = open_virtual(description, "virtual:small", 1);
  const auto same = open_virtual(description, "virtual:small", 1);
  const auto other = open_virtual(description, "virtual:small", 2);
  const std::vector<float> of_first = latencies(*first, chase("L1tex"));
  EXPECT_NE(latencies(*same, chase("ReadOnly")), of_first);
  EXPECT_EQ(latencies(*same, chase("L1tex")), of_first);
  EXPECT_NE(latencies(*other, chase("L1tex")), of_first);
}

TEST(VirtualDevice, RefusesWhatIsNullAndNamesIt) {
  model::DeviceDescription description = small_device();
  description.caches["L2"] = small_cache();
  description.caches["L2"].index.reset();
  const auto device = open_virtual(description, "virtual:small", 1);
  EXPECT_EQ(device->facts().targets, std::vector<std::string>{"L1tex"});
  EXPECT_TRUE(contains(refusal(*device, question("L2", StartState::clean, {}, {0})), "caches.L2.index is null"));
  EXPECT_TRUE(contains(refusal(*device, question("Shared", StartState::clean, {}, {0})), "has no cache Shared"));

  description.caches.erase("L1tex");
  EXPECT_TRUE(contains(message_of<InputError>([&] { (void)open_virtual(description, "virtual:small", 1); }),
                       "virtual:small: caches.L2.index is null"));
}

TEST(VirtualDevice, RefusesLoadsOutsideTheBufferAndOutsideATable) {
  model::DeviceDescription description = small_device();
  description.caches["L1tex"].index =
      model::TableIndex{.granule_bytes = 32, .sets_of = {0, 1, 2, 3}, .origin = 0, .range_bytes = 128};
  const auto device = open_virtual(description, "virtual:small", 1);
  const std::uint64_t end = device->facts().buffer.bytes;
  EXPECT_TRUE(contains(refusal(*device, question("L1tex", StartState::clean, {}, {end})), "inside the buffer"));
  EXPECT_TRUE(contains(refusal(*device, question("L1tex", StartState::clean, {end - 3}, {})), "inside the buffer"));
  EXPECT_TRUE(contains(refusal(*device, question("L1tex", StartState::clean, {}, {2})), "multiples of 4"));
  EXPECT_TRUE(contains(refusal(*device, question("L1tex", StartState::clean, {}, {128})), "caches.L1tex.index"));
}

model::DeviceDescription device_with_path() {
  model::DeviceDescription description = small_device();
  description.caches["TLB"] = small_cache();
  description.caches["TLB"].line_bytes = description.caches["TLB"].sector_bytes = 4096;
  description.caches["TLB"].ways = {2};
  description.caches["TLB"].index = model::BitsIndex{};
  description.paths["global"] = {.caches = {"L1tex"},
                                 .tlbs = {"TLB"},
                                 .translated_from = {},
                                 .page_window_bytes = 1ULL << 30U,
                                 .memory_latency_cycles = model::PatternLatencyCycles{10, {}, 30, 40, 50, 60}};
  return description;
}

TEST(VirtualDevice, AnswersForItsPathOfMemory) {
  const auto device = open_virtual(device_with_path(), "virtual:small", 1);
  EXPECT_EQ(device->facts().targets, (std::vector<std::string>{"L1tex", "TLB", "Latency"}));
  EXPECT_EQ(device->facts().buffer.bytes, 2ULL << 30U) << "room for two windows of page tables";
  EXPECT_EQ(latencies(*device, question("Latency", StartState::clean, {}, {0, 0, 32, 4096, 8192, 0, 1ULL << 30U})),
            (std::vector<float>{50, 10, 40, 50, 50, 30, 60}));
  EXPECT_EQ(latencies(*device, question("Latency", StartState::keep, {}, {0, 4096})), (std::vector<float>{10, 40}));
  EXPECT_EQ(latencies(*device, question("L1tex", StartState::keep, {}, {0})), std::vector<float>{200})
      << "the path has caches of its own";
}

TEST(VirtualDevice, ThePathHasTheNoiseOfTheDevice) {
  model::DeviceDescription description = device_with_path();
  description.noise = model::NoiseDescription{.misread_probability = 0.05};
  const auto device = open_virtual(description, "virtual:small", 1);
  constexpr std::size_t accesses = 100000;
  const std::vector<float> cycles =
      latencies(*device, question("Latency", StartState::clean, {0}, model::AccessSequence(accesses)));
  EXPECT_NEAR(static_cast<double>(std::count(cycles.begin(), cycles.end(), 40)) / accesses, 0.05, 0.004);
  EXPECT_EQ(std::count(cycles.begin(), cycles.end(), 10) + std::count(cycles.begin(), cycles.end(), 40), accesses);
}

TEST(VirtualDevice, RefusesWhatItsPathHasNoLatencyFor) {
  model::DeviceDescription description = device_with_path();
  description.paths["global"].memory_latency_cycles->at(4).reset();
  const auto device = open_virtual(description, "virtual:small", 1);
  EXPECT_TRUE(contains(refusal(*device, question("Latency", StartState::clean, {}, {0})),
                       "paths.global: data in memory, translation in walk needs memory_latency_cycles.P5"));
  EXPECT_EQ(latencies(*device, question("Latency", StartState::clean, {0}, {0})), std::vector<float>{10});

  description.caches["TLB"].index.reset();
  const auto without = open_virtual(description, "virtual:small", 1);
  EXPECT_EQ(without->facts().targets, std::vector<std::string>{"L1tex"});
  EXPECT_TRUE(contains(refusal(*without, question("Latency", StartState::clean, {}, {0})),
                       "paths.global: caches.TLB.index: is null"));
}

Question through(const std::string& warm_target, const std::string& target) {
  Question asked = question(target, StartState::clean, {0, 32, 64}, {0, 32, 64});
  asked.circumstances.warm_target = warm_target;
  return asked;
}

TEST(VirtualDevice, PathsThatShareACacheFindEachOthersLines) {
  model::DeviceDescription description = small_device();
  description.caches["ReadOnly"] = description.caches["Texture"] = small_cache();
  description.caches["ReadOnly"].latency_cycles.hit = 120;
  description.caches["L1tex"].shared_with = {"ReadOnly"};
  description.caches["ReadOnly"].shared_with = {"L1tex"};
  description.caches["Texture"].shared_with.emplace();
  const auto device = open_virtual(description, "virtual:small", 1);
  EXPECT_EQ(device->facts().warm_targets, (std::vector<std::string>{"L1tex", "ReadOnly", "Texture"}));
  EXPECT_EQ(latencies(*device, through("L1tex", "ReadOnly")), (std::vector<float>{120, 120, 120}));
  EXPECT_EQ(latencies(*device, through("ReadOnly", "L1tex")), (std::vector<float>{100, 100, 100}));
  EXPECT_EQ(latencies(*device, through("Texture", "L1tex")), (std::vector<float>{200, 200, 200}));
  EXPECT_EQ(latencies(*device, through("L1tex", "Texture")), (std::vector<float>{200, 200, 200}));
}

TEST(VirtualDevice, StoresAsItIsDescribed) {
  model::DeviceDescription description = small_device();
  model::CacheDescription& cache = description.caches.at("L1tex");
  Question stored = question("L1tex", StartState::clean, {0}, {0, 32});
  stored.circumstances.stores = {0};
  EXPECT_TRUE(open_virtual(description, "virtual:small", 1)->facts().stored_targets.empty());
  EXPECT_TRUE(contains(refusal(*open_virtual(description, "virtual:small", 1), stored), "caches.L1tex.store is null"));

  cache.store = model::Store{
      .allocate = true, .write = model::Write::back, .granule_bytes = {}, .fetches = true, .touches = true};
  cache.latency_cycles.dirty_miss = 260;
  description.caches["L1D"] = small_cache();
  const auto device = open_virtual(description, "virtual:small", 1);
  EXPECT_EQ(device->facts().stored_targets, std::vector<std::string>{"L1tex"});
  EXPECT_EQ(latencies(*device, stored), (std::vector<float>{100, 200}));
  stored.circumstances.stores = {0, 1};
  EXPECT_EQ(latencies(*device, stored), (std::vector<float>{0, 200})) << "nobody waits for a store";
  stored.target = "L1D";
  EXPECT_TRUE(contains(refusal(*device, stored), "caches.L1D.store is null"));

  // As many lines as fit are stored to; they go first.
  Question pass = question("L1tex", StartState::clean, model::cold_pass(0, 1024, 32), model::cold_pass(1024, 2048, 32));
  for (std::uint32_t i = 0; i < 32; ++i) {
    pass.circumstances.stores.push_back(i);
  }
  const std::vector<float> cycles = latencies(*device, pass);
  EXPECT_EQ(std::ranges::count(cycles, 260.0F), 32);
  EXPECT_EQ(std::ranges::count(cycles, 200.0F), 32);
}

TEST(VirtualDevice, ACarveOutLeavesTheWaysThatAreDescribed) {
  model::DeviceDescription description = small_device();
  description.caches["L1tex"].carveouts = {
      {.carveout_kb = 16, .onset_bytes = {}, .resident_bytes = {}, .ways = {{2, 2, 2, 2}}},
      {.carveout_kb = 48, .onset_bytes = 96, .resident_bytes = {}, .ways = {}}};
  const auto device = open_virtual(description, "virtual:small", 1);
  EXPECT_EQ(device->facts().shared_memories_kb, std::vector<std::uint32_t>{16});
  Question laps = question("L1tex", StartState::clean, model::cyclic(512, 32, 32), model::cyclic(512, 32, 16));
  EXPECT_EQ(latencies(*device, laps), std::vector<float>(16, 100));
  laps.circumstances.shared_memory_kb = 16;
  EXPECT_EQ(latencies(*device, laps), std::vector<float>(16, 200));
  laps.circumstances.shared_memory_kb = 48;
  EXPECT_TRUE(contains(refusal(*device, laps), "48 KB"));
  laps.circumstances = {.warm_target = {}, .shared_memory_kb = {}, .unit = model::ComputeUnit{1}};
  EXPECT_EQ(latencies(*device, laps), std::vector<float>(16, 100));
  laps.circumstances.unit = model::ComputeUnit{2};
  EXPECT_TRUE(contains(refusal(*device, laps), "SM 2"));
}

TEST(VirtualDevice, CodeRunsAsFastAsTheNearestLevelThatHasIt) {
  model::DeviceDescription description;
  description.code["Instruction"] = {
      .piece_bytes = 512, .levels = {{{.fits_bytes = 1024, .cycles = 50}, {.fits_bytes = {}, .cycles = 90}}}};
  description.code["unknown"].piece_bytes = 64;
  const auto device = open_virtual(description, "virtual:code", 1);
  EXPECT_EQ(device->facts().targets, std::vector<std::string>{"Instruction"});
  EXPECT_EQ(device->facts().buffer_of("Instruction").piece_bytes, 512U);
  EXPECT_EQ(latencies(*device, question("Instruction", StartState::keep, {}, {0, 512, 0, 512, 1024, 512, 0})),
            (std::vector<float>{90, 90, 50, 50, 90, 50, 90}));
  EXPECT_EQ(refusal(*device, question("unknown", StartState::keep, {}, {0})),
            "code.unknown.levels is null and a simulation needs it; give it a value");
}

// Two rows of two texels to a sector of 16 bytes.
TEST(VirtualDevice, TexelsLieAsTheLevelsSay) {
  model::DeviceDescription description = small_device();
  description.caches.at("L1tex").line_bytes = description.caches.at("L1tex").sector_bytes = 16;
  description.textures["Texture2D"] = {
      .texel_bytes = 4, .width = 8, .height = 4, .levels = {{{.width = 2, .height = 2}}}, .cache = "L1tex"};
  description.textures["unknown"] = {.texel_bytes = 4, .width = 8, .height = 4, .cache = "L1tex"};
  const auto device = open_virtual(description, "virtual:small", 1);
  EXPECT_EQ(device->facts().targets, (std::vector<std::string>{"L1tex", "Texture2D"}));
  EXPECT_EQ(device->facts().buffer_of("Texture2D").raster, (model::Raster{.texel_bytes = 4, .width = 8, .height = 4}));
  const auto texel = [](std::uint64_t x, std::uint64_t y) { return 4 * (x + 8 * y); };
  const std::vector<float> cycles = latencies(*device, question("Texture2D", StartState::clean, {texel(2, 2)},
                                                                {texel(3, 3), texel(2, 3), texel(4, 2), texel(2, 1)}));
  EXPECT_EQ(cycles[0], cycles[1]);
  EXPECT_GT(cycles[2], cycles[1]);
  EXPECT_GT(cycles[3], cycles[1]);
  EXPECT_EQ(refusal(*device, question("unknown", StartState::clean, {}, {0})),
            "textures.unknown.levels is null and a simulation needs it; give it a value");
  EXPECT_NE(refusal(*device, question("Texture2D", StartState::clean, {}, {128})), "");
  const std::vector<std::uint64_t> texels{texel(0, 0), texel(1, 0), texel(0, 1), texel(3, 3)};
  EXPECT_EQ(device->places_of("Texture2D", texels), (std::vector<std::uint64_t>{0, 4, 8, 92}));
  EXPECT_EQ(device->places_of("L1tex", texels), std::nullopt);
}

TEST(VirtualDevice, CarriesOutWorkloadsOfWhatItDescribes) {
  const auto description = model::parse_description(R"(
schema: gpuinfer/1
device: {sm_count: 4}
shared_memory: {banks: 32, bank_width_bytes: 4, row_bytes: 128, latency_cycles: {broadcast: 30, per_way: 2}}
bandwidth: {DRAM_load: {bytes_per_second: 1.0e9, elements_per_sm_clock: 1, element_bits: 32}}
)",
                                                    "d.yaml");
  const auto device = open_virtual(description, "virtual:d", 1);
  EXPECT_EQ(device->facts().targets, (std::vector<std::string>{"Shared", "Bandwidth"}));
  const std::vector<model::Workload> workloads{
      model::strided(8, 4, 3), model::ConcurrentLoads{},
      model::Stream{.path = model::StreamPath::global_cg, .dataset_bytes = 1024, .block_threads = 1024, .runs = 2},
      model::Stream{.path = model::StreamPath::texture, .work = model::StreamWork::copy, .dataset_bytes = 1024},
      model::strided(2, 4, 1)};
  const std::vector<model::Timing> timings = device->time(workloads);
  EXPECT_EQ(timings[0].cycles, (std::vector<double>{32, 32, 32}));
  EXPECT_TRUE(timings[0].seconds.empty());
  EXPECT_TRUE(timings[1].refusal);
  EXPECT_EQ(timings[2].seconds, (std::vector<double>{4096e-9, 4096e-9}));
  EXPECT_EQ(timings[3].refusal, "bandwidth.DRAM_copy is null and a simulation needs it; give it a value");
  EXPECT_TRUE(timings[4].refusal);
  const Question question{.target = "Shared", .state = StartState::keep, .warm = {}, .record = {0}};
  EXPECT_TRUE(device->ask({&question, 1}).front().refusal);
}

TEST(VirtualDevice, ADroppedL2LeavesMemory) {
  const auto description = model::parse_description(R"(
schema: gpuinfer/1
device: {sm_count: 4}
caches: {L2: {capacity_bytes: 4096}}
bandwidth:
  L2_load: {bytes_per_second: 4.0e9, elements_per_sm_clock: 1, element_bits: 32}
  DRAM_load: {bytes_per_second: 1.0e9, elements_per_sm_clock: 1, element_bits: 32}
)",
                                                    "d.yaml");
  const auto device = open_virtual(description, "virtual:d", 1);
  model::Stream stream{.path = model::StreamPath::global_cg, .dataset_bytes = 1024, .block_threads = 1024, .blocks = 4};
  std::vector<model::Workload> workloads{stream};
  stream.drops_l2 = true;
  workloads.emplace_back(stream);
  const std::vector<model::Timing> timings = device->time(workloads);
  EXPECT_DOUBLE_EQ(timings[1].seconds.front(), 4 * timings[0].seconds.front());
}

}  // namespace
}  // namespace gpuinfer::probe
