// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/hierarchy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <list>
#include <optional>
#include <set>

#include "model/errors.hpp"
#include "model/random.hpp"
#include "tests/model/configured_devices.hpp"

namespace gpuinfer::model {
namespace {

constexpr std::uint64_t megabyte = 1U << 20U;
constexpr std::uint64_t large_page_bytes = 2 * megabyte;

// Offset of the n-th line of 128 bytes of a page: no two of the pages of a test are loaded at the same place.
constexpr std::uint64_t line_of(std::uint64_t page, std::uint64_t n) { return page * large_page_bytes + n * 128; }

// One line in each of the pages 0, 1, ..., the p-th line in page p.
AccessSequence pages(std::uint64_t count) {
  AccessSequence sequence;
  for (std::uint64_t page = 0; page < count; ++page) {
    sequence.push_back(line_of(page, page));
  }
  return sequence;
}

AccessSequence joined(std::initializer_list<AccessSequence> parts) {
  AccessSequence whole;
  for (const AccessSequence& part : parts) {
    whole.insert(whole.end(), part.begin(), part.end());
  }
  return whole;
}

class Path {
 public:
  Path(const DeviceDescription& device, const std::string& name)
      : latencies_(device, name), simulator_(device, name, 1) {}

  std::vector<AccessClass> classes(const AccessSequence& warm, const AccessSequence& record,
                                   StartState state = StartState::clean) {
    return classes_of(simulator_, {.target = "", .state = state, .warm = warm, .record = record}, Address{0});
  }

  std::vector<double> cycles(const AccessSequence& warm, const AccessSequence& record,
                             StartState state = StartState::clean) {
    std::vector<double> cycles;
    for (const AccessClass& access : classes(warm, record, state)) {
      cycles.push_back(latencies_.of(access).cycles);
    }
    return cycles;
  }

  // Of one load after `warm`.
  ClassLatency latency(const AccessSequence& warm, std::uint64_t offset) {
    return latencies_.of(classes(warm, {offset}).front());
  }

 private:
  PathLatencies latencies_;
  HierarchySimulator simulator_;
};

void expect_published(const ClassLatency& latency, AccessPattern pattern, double cycles) {
  EXPECT_EQ(latency.pattern, pattern) << to_string(pattern);
  EXPECT_EQ(latency.cycles, cycles) << to_string(pattern);
  EXPECT_FALSE(latency.derived) << to_string(pattern);
}

void expect_derived(const ClassLatency& latency, double cycles) {
  EXPECT_EQ(latency.pattern, std::nullopt);
  EXPECT_EQ(latency.cycles, cycles);
  EXPECT_TRUE(latency.derived);
}

// Mei & Chu 2014, table 3, for a path that begins with the L2. The sequences rest on section 4.2 alone: 16 pages fit
// the first TLB, an LRU; 65 consecutive ones the second, and among 72 every one of its sets has one page too many, so
// that a lap over them leaves none of them where the next lap would find it.
void expect_patterns_of_l2(Path& path, const std::array<double, 5>& cycles) {
  expect_published(path.latency({0}, 0), AccessPattern::P1, cycles[0]);
  expect_published(path.latency(pages(17), 0), AccessPattern::P2, cycles[1]);
  for (const double each : path.cycles(pages(72), pages(72))) {
    EXPECT_EQ(each, cycles[2]);
  }
  expect_published(path.latency(pages(72), 0), AccessPattern::P3, cycles[2]);
  expect_published(path.latency({0}, 32), AccessPattern::P4, cycles[3]);
  expect_published(path.latency({}, 0), AccessPattern::P5, cycles[4]);
  expect_published(path.latency(pages(16), 16 * large_page_bytes), AccessPattern::P5, cycles[4]);
  // Data in memory with its translation in the second TLB: P4 + (P2 - P1).
  expect_derived(path.latency(pages(17), 32), cycles[3] + cycles[1] - cycles[0]);
}

TEST(Hierarchy, KeplerHasThePublishedLatencies) {
  Path path(configured_device("gtx780"), "global");
  expect_patterns_of_l2(path, {230, 236, 289, 371, 734});
}

TEST(Hierarchy, FermiWithItsL1OffHasThePublishedLatencies) {
  Path path(configured_device("gtx560ti"), "global_l1_off");
  expect_patterns_of_l2(path, {371, 398, 482, 639, 1245});
}

// 2,048 lines at the end of a page: 64 for each set of four ways of Fermi's L1, enough to empty it but for a chance of
// 10^-5, and for the L2 not more than two lines in a set of 16.
AccessSequence emptied_l1(std::uint64_t page) { return cold_pass(page * large_page_bytes + megabyte, 256 << 10U, 128); }

TEST(Hierarchy, FermiWithItsL1OnHasThePublishedLatencies) {
  Path path(configured_device("gtx560ti"), "global");
  expect_published(path.latency({0}, 0), AccessPattern::P1, 116);
  expect_published(path.latency(joined({pages(17), emptied_l1(16)}), 0), AccessPattern::P2, 404);
  expect_published(path.latency(joined({pages(72), emptied_l1(71)}), 0), AccessPattern::P3, 488);
  expect_published(path.latency({0}, 128), AccessPattern::P4, 655);
  expect_published(path.latency({}, 0), AccessPattern::P5, 1259);
}

TEST(Hierarchy, FermiWithItsL1OnGoesBeyondThePatterns) {
  Path path(configured_device("gtx560ti"), "global");
  // A miss in the first TLB costs 398 - 371 cycles without the L1, so a hit in both TLB and L2 404 - 27.
  expect_derived(path.latency(joined({{0}, emptied_l1(0)}), 0), 377);
  expect_derived(path.latency(pages(17), line_of(0, 100)), 655 + 27);
  // The lines of these pages are in other sets than line 0, which stays in the L1 while its page leaves the first TLB.
  EXPECT_EQ(path.classes(pages(17), {0}).front(), (AccessClass{.cache = 0, .translation = Translation::not_needed}));
  expect_published(path.latency(pages(17), 0), AccessPattern::P1, 116);
}

TEST(Hierarchy, KeplerSwitchesBetweenPageTables) {
  Path path(configured_device("gtx780"), "global");
  constexpr std::uint64_t window = 512 * megabyte;
  expect_published(path.latency({0}, window), AccessPattern::P6, 1000);
  EXPECT_EQ(
      path.cycles({}, {0, window - large_page_bytes, window, window + large_page_bytes, 2 * window, large_page_bytes}),
      (std::vector<double>{734, 734, 1000, 734, 1000, 1000}));
  // What a TLB has needs no page table, and leaves the active one as it is.
  EXPECT_EQ(path.cycles({}, {0, window, 0, 32, window + large_page_bytes}),
            (std::vector<double>{734, 1000, 230, 371, 734}));
  // Data in the L2, translation in no TLB and in the other window: P3 + (P6 - P5).
  expect_derived(path.latency(joined({pages(72), {window}}), 0), 289 + 1000 - 734);
}

TEST(Hierarchy, TheWindowOutlivesAnInvalidation) {
  Path path(configured_device("gtx780"), "global");
  constexpr std::uint64_t window = 512 * megabyte;
  EXPECT_EQ(path.cycles({}, {0}), (std::vector<double>{734}));
  EXPECT_EQ(path.cycles({}, {window, 0}, StartState::invalidated), (std::vector<double>{1000, 1000}));
  EXPECT_EQ(path.cycles({}, {0, window + 4}, StartState::keep), (std::vector<double>{230, 230}));
  EXPECT_EQ(path.cycles({}, {window}), (std::vector<double>{734}));
}

// The chase with which the authors show all patterns at once (supplement, section 5.2,
// Pattern_design_kepler_Maxwell.txt): up to 1568 MB in steps of 32 MB, on to 1599 MB in steps of 1 MB, from the second
// element on in steps of 32 MB again, and round and round in the line where that ends. Of its 65 pages, 13 are not in
// the second TLB any more when they come again, as measured (pattern_demo_Kepler.xlsx), if the array begins eight pages
// after that of the sheet from which the map of the TLB is. Where the window of page tables changes as well, no pattern
// is met.
TEST(Hierarchy, KeplerRunsThePatternChaseOfTheAuthors) {
  using enum AccessPattern;
  const AccessSequence chase = non_uniform_stride(std::array{
      StrideSegment{.first = 0, .stride_bytes = 32 * megabyte, .count = 50},
      StrideSegment{.first = 1569 * megabyte, .stride_bytes = megabyte, .count = 31},
      StrideSegment{.first = 4, .stride_bytes = 32 * megabyte, .count = 50},
      StrideSegment{.first = 1568 * megabyte + 8, .stride_bytes = 4, .count = 6},
  });
  const DeviceDescription device = configured_device("gtx780");
  const PathLatencies latencies(device, "global");
  AccessSequence eight_pages_on = chase;
  std::ranges::transform(chase, eight_pages_on.begin(), [](std::uint64_t at) { return at + 8 * large_page_bytes; });
  const auto classes = Path(device, "global").classes({}, eight_pages_on);
  const std::set<std::uint64_t> walked{192, 288, 480, 640, 864, 928, 1152, 1376, 1440};
  const std::set<std::uint64_t> walked_in_another_window{0, 576, 1088, 1536};
  for (std::size_t i = 0; i < chase.size(); ++i) {
    const std::uint64_t at_megabyte = chase[i] / megabyte;
    std::optional<AccessPattern> expected = P1;
    if (i < 50) {
      expected = i != 0 && at_megabyte % 512 == 0 ? P6 : P5;
    } else if (i < 81) {
      expected = at_megabyte % 2 == 0 ? P5 : P4;
    } else if (i < 131 && walked_in_another_window.contains(at_megabyte)) {
      expected = std::nullopt;
    } else if (i < 131) {
      expected = walked.contains(at_megabyte) ? P3 : P2;
    }
    EXPECT_EQ(latencies.of(classes[i]).pattern, expected) << "access " << i << " at " << chase[i];
  }
}

CacheDescription lru_cache(std::uint64_t line_bytes, std::vector<std::uint32_t> ways, const IndexFunction& index) {
  CacheDescription cache;
  cache.line_bytes = cache.sector_bytes = line_bytes;
  cache.ways = std::move(ways);
  cache.index = index;
  cache.replacement = Replacement{.policy = "lru", .parameters = {}, .equivalent = {}};
  return cache;
}

constexpr PatternLatencyCycles latencies_in_tens{10, 20, 30, 40, 50, 60};

// L1 of two lines, L2 of eight, TLBs of one and two pages of 4 KB.
DeviceDescription small_device() {
  DeviceDescription device;
  device.caches["L1"] = lru_cache(32, {2}, BitsIndex{});
  device.caches["L2"] = lru_cache(32, {2, 2, 2, 2}, BitsIndex{{5, 12}});
  device.caches["TLB1"] = lru_cache(4096, {1}, BitsIndex{});
  device.caches["TLB2"] = lru_cache(4096, {2}, BitsIndex{});
  device.memory_latency_cycles = latencies_in_tens;
  device.paths["both"] = {.caches = {"L1", "L2"},
                          .tlbs = {"TLB1", "TLB2"},
                          .translated_from = {},
                          .page_window_bytes = {},
                          .memory_latency_cycles = {}};
  device.paths["data"] = {
      .caches = {"L2"}, .tlbs = {}, .translated_from = {}, .page_window_bytes = {}, .memory_latency_cycles = {}};
  return device;
}

TEST(Hierarchy, APathWithoutTlbsKnowsHitsAndMisses) {
  Path path(small_device(), "data");
  EXPECT_EQ(path.cycles({}, {0, 4, 32, 0}), (std::vector<double>{40, 10, 40, 10}));
}

TEST(Hierarchy, FarPartitionsTakeLonger) {
  DeviceDescription device = small_device();
  device.caches["L2"].partitions = Partitions{.index = BitsIndex{{7}}, .near = 0, .far_cycles = 200};
  const AccessSequence sequence{0, 128, 0, 128};
  EXPECT_EQ(Path(device, "data").cycles({}, sequence), (std::vector<double>{40, 40, 10, 210}));
  device.caches["L2"].partitions->near = 1;
  EXPECT_EQ(Path(device, "data").cycles({}, sequence), (std::vector<double>{40, 40, 210, 10}));

  Path path(device, "data");
  EXPECT_EQ(path.classes({0, 128}, {0, 128}),
            (std::vector<AccessClass>{{.cache = 0, .far = true}, {.cache = 0, .far = false}}));
  const ClassLatency far = path.latency({0}, 0);
  EXPECT_EQ(far.pattern, AccessPattern::P1);
  EXPECT_TRUE(far.derived);

  device.caches["L2"].partitions->keeps_copies = true;
  EXPECT_EQ(Path(device, "data").cycles({}, sequence), (std::vector<double>{40, 40, 10, 10}));
}

TEST(Hierarchy, TheFirstCacheSaysWhatAHitInTheNextOneTakes) {
  DeviceDescription device = small_device();
  device.paths["both"].tlbs = {};
  device.caches["L1"].latency_cycles.miss = 17;
  // Three lines in an L1 of two.
  EXPECT_EQ(Path(device, "both").cycles({0, 32, 4096}, {0, 0}), (std::vector<double>{17, 10}));
}

// The path as it stands in the header, one access after the other.
struct TextbookPath {
  std::list<std::uint64_t> l1;
  std::array<std::list<std::uint64_t>, 4> l2;
  std::list<std::uint64_t> tlb1;
  std::list<std::uint64_t> tlb2;
  std::optional<std::uint64_t> window;
  bool translates_all = true;
  std::uint64_t window_bytes = 0;

  static bool hits(std::list<std::uint64_t>& set, std::uint64_t line, std::size_t ways) {
    const auto found = std::find(set.begin(), set.end(), line);
    const bool hit = found != set.end();
    if (hit) {
      set.erase(found);
    } else if (set.size() == ways) {
      set.pop_back();
    }
    set.push_front(line);
    return hit;
  }

  Translation translate(std::uint64_t address) {
    if (hits(tlb1, address / 4096, 1)) {
      return Translation::first_tlb;
    }
    if (hits(tlb2, address / 4096, 2)) {
      return Translation::second_tlb;
    }
    const bool other_window = window && *window != address / window_bytes;
    window = address / window_bytes;
    return other_window ? Translation::walk_with_switch : Translation::walk;
  }

  AccessClass load(std::uint64_t address) {
    AccessClass access;
    if (translates_all) {
      access.translation = translate(address);
    }
    if (hits(l1, address / 32, 2)) {
      access.cache = 0;
      return access;
    }
    if (!translates_all) {
      access.translation = translate(address);
    }
    if (hits(l2.at((address >> 5U & 1U) | (address >> 11U & 2U)), address / 32, 2)) {
      access.cache = 1;
      access.far = address % 16384 >= 8192;
    }
    return access;
  }
};

TEST(Hierarchy, AgreesWithTheTextbookOnRandomSequences) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    DeviceDescription device = small_device();
    TextbookPath textbook;
    textbook.translates_all = random.below(2) == 0;
    textbook.window_bytes = std::uint64_t{4096} << random.below(3);
    if (!textbook.translates_all) {
      device.paths["both"].translated_from = "L2";
    }
    device.paths["both"].page_window_bytes = textbook.window_bytes;
    device.caches["L2"].partitions = Partitions{.index = BitsIndex{{13}}, .near = 0, .far_cycles = 1};
    // Long enough to be taken in several blocks.
    AccessSequence sequence(10000);
    std::uint64_t page = 0;
    for (std::uint64_t& address : sequence) {
      page = random.below(3) == 0 ? random.below(5) : page;
      address = page * 4096 + random.below(3) * 32;
    }
    std::vector<AccessClass> expected(sequence.size());
    std::transform(sequence.begin(), sequence.end(), expected.begin(),
                   [&](std::uint64_t address) { return textbook.load(address); });
    HierarchySimulator simulator(device, "both", seed);
    std::vector<AccessClass> played(sequence.size());
    simulator.play(sequence, played);
    const auto [mine, theirs] = std::mismatch(played.begin(), played.end(), expected.begin());
    EXPECT_EQ(mine, played.end()) << "access " << mine - played.begin();
  }
}

template <class Work>
std::string refusal(const Work& work) {
  try {
    work();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no refusal";
}

TEST(Hierarchy, RefusesPathsThatCannotBePlayed) {
  DeviceDescription device = small_device();
  const auto of_simulator = [&](const std::string& path) {
    return refusal([&] { static_cast<void>(HierarchySimulator(device, path, 1)); });
  };
  EXPECT_EQ(of_simulator("local"), "paths.local: is not described; describe it or name another path");
  device.caches["L2"].ways.reset();
  EXPECT_EQ(of_simulator("data").find("paths.data: caches.L2.ways: is null"), 0U) << of_simulator("data");
  device.memory_latency_cycles.reset();
  EXPECT_EQ(refusal([&] {
              static_cast<void>(PathLatencies(device, "data"));
            }).find("paths.data.memory_latency_cycles: is null, and so is that of the device;"),
            0U);
}

TEST(Hierarchy, RefusesClassesThatNothingIsKnownOf) {
  DeviceDescription device = small_device();
  const auto of_class = [&](const AccessClass& access) {
    return refusal([&] { static_cast<void>(PathLatencies(device, "both").of(access)); });
  };
  const AccessClass l1_hit_without_tlb{.cache = 0, .translation = Translation::second_tlb};
  EXPECT_EQ(of_class(l1_hit_without_tlb).find("paths.both: data in L1, translation in TLB2 has no published latency"),
            0U)
      << of_class(l1_hit_without_tlb);
  const AccessClass l2_hit{.cache = 1, .translation = Translation::first_tlb};
  EXPECT_EQ(of_class(l2_hit).find("paths.both: data in L2, translation in TLB1 has no published latency; describe"), 0U)
      << of_class(l2_hit);
  // The latencies of the device cannot be those of the path with its L1 and of the one without.
  device.paths["without_l1"] = device.paths["both"];
  device.paths["without_l1"].caches = {"L2"};
  EXPECT_NE(of_class(l2_hit), "no refusal");
  device.paths["without_l1"].memory_latency_cycles = latencies_in_tens;
  EXPECT_EQ(of_class(l2_hit), "no refusal");

  device.memory_latency_cycles->at(2).reset();
  const AccessClass walk{.cache = 1, .translation = Translation::walk_with_switch};
  EXPECT_EQ(of_class(walk),
            "paths.both: data in L2, translation in walk and a window switch needs memory_latency_cycles.P3, which is "
            "null; give it a value");
}

TEST(Hierarchy, RefusesAddressesOutsideATable) {
  DeviceDescription device = small_device();
  const TableIndex table{.granule_bytes = 4096, .sets_of = {0, 1}, .origin = 0, .range_bytes = 8192};
  device.caches["L2"].partitions = Partitions{.index = table, .near = 0, .far_cycles = 1};
  const auto outside = [&] {
    return refusal([&] { static_cast<void>(Path(device, "data").classes({8192}, {8192})); });
  };
  EXPECT_EQ(outside().find("caches.L2.partitions.index: address 8192 lies outside"), 0U) << outside();
  device.caches["L2"].ways = {2, 2};
  device.caches["L2"].index = table;
  EXPECT_EQ(outside().find("caches.L2.index: address 8192 lies outside"), 0U) << outside();
}

}  // namespace
}  // namespace gpuinfer::model
