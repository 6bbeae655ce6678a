// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/comparing/description_difference.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/description_yaml.hpp"

namespace gpuinfer::infer {
namespace {

model::DeviceDescription described(const std::string& sections) {
  return model::parse_description("schema: gpuinfer/1\ndevice: {name: one, source: test}\n" + sections, "test");
}

struct Parts {
  std::string ways = "[4, 4, 4, 4]";
  std::string index = "{kind: bits, bits: [6, 7]}";
  std::string policy = "{policy: lru}";
  std::string latency = "{hit: 30, miss: 200}";
  std::string more{};
};

model::DeviceDescription cache(const Parts& parts) {
  return described("caches:\n  L1tex:\n    line_bytes: 64\n    sector_bytes: 32\n    ways: " + parts.ways +
                   "\n    index: " + parts.index + "\n    replacement: " + parts.policy +
                   "\n    latency_cycles: " + parts.latency + "\n" + parts.more);
}

LeafDifference difference_of(const std::string& leaf, const model::DeviceDescription& a,
                             const model::DeviceDescription& b) {
  const std::vector<LeafDifference> found = differences(a, b);
  const auto at = std::ranges::find(found, leaf, &LeafDifference::leaf);
  if (at == found.end()) {
    ADD_FAILURE() << leaf << " was not compared";
    return {};
  }
  return *at;
}

Verdict verdict_of(const std::string& leaf, const Parts& a, const Parts& b) {
  const LeafDifference forth = difference_of(leaf, cache(a), cache(b));
  EXPECT_EQ(forth.verdict, difference_of(leaf, cache(b), cache(a)).verdict) << leaf << ": " << forth.note;
  return forth.verdict;
}

Verdict index_verdict(const std::string& a, const std::string& b) {
  return verdict_of("index", {.index = a}, {.index = b});
}

TEST(DescriptionDifference, NothingDiffersFromItself) {
  for (const LeafDifference& leaf : differences(cache({}), cache({}))) {
    EXPECT_TRUE(leaf.verdict == Verdict::same || leaf.verdict == Verdict::open) << leaf.leaf;
  }
}

model::DeviceDescription carved(const std::string& carveout_kb, const std::string& leaves) {
  model::DeviceDescription description = cache({.more = "    " + leaves + "\n"});
  description.device.provenance["carveout_kb_asked"] = carveout_kb;
  return description;
}

TEST(DescriptionDifference, SizesAtTwoCarveOutsAreComparedAtOne) {
  const std::string list = "carveouts: [{carveout_kb: 8, onset_bytes: 1024}, {carveout_kb: 16, onset_bytes: 512}]";
  const auto small = carved("16", "onset_bytes: 512\n    " + list);
  const LeafDifference same = difference_of("onset_bytes", small, carved("8", "onset_bytes: 1024\n    " + list));
  EXPECT_EQ(same.verdict, Verdict::same);
  EXPECT_EQ(same.note, "at a carve-out of 16 KB");
  const LeafDifference other = difference_of("onset_bytes", small, carved("8", "onset_bytes: 960"));
  EXPECT_EQ(other.verdict, Verdict::differs);
  EXPECT_EQ(other.note, "-64 (-6.25 %), at a carve-out of 8 KB");
  EXPECT_EQ(difference_of("onset_bytes", small, carved("32", "onset_bytes: 960")).verdict, Verdict::open);
}

TEST(DescriptionDifference, SetNumbersAreOnlyNames) {
  const std::string bits = "{kind: bits, bits: [6, 7]}";
  EXPECT_EQ(index_verdict(bits, "{kind: bits, bits: [7, 6]}"), Verdict::same);
  EXPECT_EQ(index_verdict(bits, "{kind: xor, rows: [[6, 7], [7]], constant: 3}"), Verdict::same);
  EXPECT_EQ(index_verdict(bits, "{kind: modulo, granule_bytes: 64, sets: 4}"), Verdict::same);
  EXPECT_EQ(index_verdict(bits, "{kind: table, granule_bytes: 64, sets_of: [2, 0, 3, 1]}"), Verdict::same);
  EXPECT_EQ(index_verdict(bits, "{kind: bits, bits: [6, 8]}"), Verdict::differs);
  EXPECT_EQ(index_verdict(bits, "{kind: xor, rows: [[6, 8], [7]], constant: 0}"), Verdict::differs);
  EXPECT_EQ(index_verdict(bits, "{kind: table, granule_bytes: 64, sets_of: [2, 0, 3, 1, 1, 0, 3, 2]}"),
            Verdict::differs);
  EXPECT_EQ(index_verdict("{kind: xor, rows: [[6, 9], [7, 8]], constant: 0}",
                          "{kind: xor, rows: [[6, 7, 8, 9], [6, 9]], constant: 0}"),
            Verdict::same);
}

// The order of rows and terms, a constant, and weights that differ by the modulo are names, too.
TEST(DescriptionDifference, HighAddressBitsAreTold) {
  const auto hash = [](const std::string& bit) {
    return "{kind: hash, rows: [[6, " + bit +
           "], [7]], constant: 0, terms: [{modulo: 1, shift: 6, weights: [], rows: []}]}";
  };
  EXPECT_EQ(index_verdict(hash("45"), hash("46")), Verdict::differs);
  EXPECT_EQ(index_verdict(hash("45"), hash("45")), Verdict::same);
}

// A pointer goes from set to set, wherever it begins.
TEST(DescriptionDifference, TheOrderOfSetsTellsWhereAPointerSweepsThem) {
  const auto swept = [](const std::string& index) {
    return Parts{
        .index = index,
        .more =
            "    store_lines: 12\n    sweep: {banks: 1, lines_on_hit: 0, lines_on_replacement: 1, lines_on_fill: 1}\n"};
  };
  const Parts usual = swept("{kind: bits, bits: [6, 7]}");
  EXPECT_EQ(verdict_of("index", usual, swept("{kind: bits, bits: [7, 6]}")), Verdict::differs);
  EXPECT_EQ(verdict_of("index", usual, swept("{kind: xor, rows: [[6], [6, 7]], constant: 0}")), Verdict::differs);
  EXPECT_EQ(verdict_of("index", usual, swept("{kind: xor, rows: [[6], [7]], constant: 2}")), Verdict::same);
  EXPECT_EQ(verdict_of("index", usual, swept("{kind: table, granule_bytes: 64, sets_of: [1, 2, 3, 0]}")),
            Verdict::same);
}

TEST(DescriptionDifference, APartThatDoesNotStandIsWhatItIsThen) {
  const auto with = [](const std::string& more) { return Parts{.more = "    " + more + "\n"}; };
  EXPECT_EQ(verdict_of("store", with("store: {allocate: true}"), with("store: {allocate: true, evicts: true}")),
            Verdict::differs);
  EXPECT_EQ(verdict_of("store", with("store: {allocate: true}"), with("store: {allocate: true, evicts: false}")),
            Verdict::same);
  EXPECT_EQ(
      verdict_of("fill", with("fill: {prefetch_lines: 1}"), with("fill: {prefetch_lines: 1, prefetch_on: stride}")),
      Verdict::differs);
  EXPECT_EQ(verdict_of("fill", with("fill: {prefetch_lines: null, fetch_bytes: 64}"),
                       with("fill: {prefetch_lines: 1, prefetch_on: stride}")),
            Verdict::less_certain);
  EXPECT_EQ(verdict_of("fill", with("fill: {prefetch_lines: 1}"), with("fill: {prefetch_lines: 1, fetch_bytes: 64}")),
            Verdict::less_certain);
}

TEST(DescriptionDifference, ChanceThatMakesNoDifferenceIsNone) {
  const auto drawn = [](const std::string& policy, const std::string& ways = "[4, 4, 4, 4]") {
    return Parts{.ways = ways, .policy = policy};
  };
  EXPECT_EQ(verdict_of("replacement", drawn("{policy: random}"),
                       drawn("{policy: weighted_random, victim_weights: [2, 2, 2, 2]}")),
            Verdict::same);
  EXPECT_EQ(verdict_of("replacement", drawn("{policy: random}"),
                       drawn("{policy: weighted_random, victim_weights: [2, 2, 2, 3]}")),
            Verdict::differs);
  EXPECT_EQ(
      verdict_of("replacement", drawn("{policy: random}", "[1, 1, 1, 1]"), drawn("{policy: lru}", "[1, 1, 1, 1]")),
      Verdict::same);
  EXPECT_EQ(verdict_of("replacement", drawn("{policy: random}"), drawn("{policy: bip, one_in: 16}")), Verdict::differs);
}

TEST(DescriptionDifference, HashesAreTheSameWhereTheySplitAlike) {
  const auto verdict = [](const std::string& a, const std::string& b) {
    const std::string ways = "{sets: 30, each: 1}";
    return verdict_of("index", {.ways = ways, .index = a}, {.ways = ways, .index = b});
  };
  const std::string three = "{modulo: 3, shift: 7, weights: [1, 2], rows: [[9, 12], [10]]}";
  const std::string five = "{modulo: 5, shift: 8, weights: [], rows: []}";
  const std::string hash = "{kind: hash, rows: [[6, 11]], constant: 0, terms: [" + three + ", " + five + "]}";
  EXPECT_EQ(verdict(hash, "{kind: hash, rows: [[11, 6]], constant: 1, terms: [" + five + ", " + three + "]}"),
            Verdict::same);
  const auto with = [&](const std::string& term) {
    return "{kind: hash, rows: [[6, 11]], terms: [" + term + ", " + five + "]}";
  };
  EXPECT_EQ(verdict(hash, with("{modulo: 3, shift: 7, weights: [5, 4], rows: [[10], [9, 12]]}")), Verdict::same);
  EXPECT_EQ(verdict(hash, with("{modulo: 3, shift: 7, weights: [2, 2], rows: [[9, 12], [10]]}")), Verdict::differs);
  EXPECT_EQ(verdict(hash, with("{modulo: 3, shift: 7, weights: [1, 2], rows: [[9, 13], [10]]}")), Verdict::differs);
  EXPECT_EQ(verdict(hash, with("{modulo: 3, shift: 6, weights: [1, 2], rows: [[9, 12], [10]]}")), Verdict::differs);
  // Other kinds may split alike.
  EXPECT_EQ(index_verdict("{kind: bits, bits: [6, 7]}", "{kind: hash, rows: [[6, 7], [7]], constant: 2, terms: []}"),
            Verdict::same);
  EXPECT_EQ(index_verdict("{kind: modulo, granule_bytes: 64, sets: 4}",
                          "{kind: hash, rows: [], terms: [{modulo: 4, shift: 6, weights: [], rows: []}]}"),
            Verdict::same);
}

TEST(DescriptionDifference, AddressBitsThatTookNoPartMakeNoDifference) {
  const std::string plain = "{kind: bits, bits: [6, 7], exercised_bits: [6, 7, 8, 9]}";
  EXPECT_EQ(index_verdict(plain, "{kind: xor, rows: [[6, 12], [7]], constant: 0}"), Verdict::same);
  EXPECT_EQ(index_verdict(plain, "{kind: xor, rows: [[6, 9], [7]], constant: 0}"), Verdict::differs);
}

TEST(DescriptionDifference, UnequalSetsAreFoundByTheirAddresses) {
  const Parts plain{.ways = "[1, 2, 3, 4]"};
  EXPECT_EQ(verdict_of("ways", plain, {.ways = "[1, 3, 2, 4]", .index = "{kind: bits, bits: [7, 6]}"}), Verdict::same);
  EXPECT_EQ(verdict_of("ways", plain, {.ways = "[1, 2, 3, 4]", .index = "{kind: bits, bits: [7, 6]}"}),
            Verdict::differs);
  EXPECT_EQ(verdict_of("ways", plain, {.ways = "[1, 2, 3, 5]"}), Verdict::differs);
}

TEST(DescriptionDifference, SlicesAreComparedWhereTheSetsOfAllAreNotKnown) {
  const auto sliced = [](const char* ways) {
    return described(std::string("caches:\n  L2:\n    ways: null\n    slice_ways: ") + ways + "\n");
  };
  EXPECT_EQ(difference_of("slice_ways", sliced("[16, 16]"), sliced("[16, 16]")).verdict, Verdict::same);
  EXPECT_EQ(difference_of("slice_ways", sliced("[16, 16]"), sliced("[8, 8]")).verdict, Verdict::differs);
}

TEST(DescriptionDifference, DistancesOfSlicesAreTheSameWhateverTheirNumbers) {
  const auto distant = [](const char* cycles) {
    return described(
        std::string("caches:\n  L2:\n    slice_distances: {sms: [[0], [1]], mean_cycles: [300, 300], cycles: ") +
        cycles + "}\n");
  };
  // Three numbers and a parity below them.
  const auto known = distant("[[200, 400, 220, 420, 260, 460], [500, 300, 520, 320, 560, 360]]");
  const auto verdict = [&](const char* cycles) {
    return difference_of("slice_distances", known, distant(cycles)).verdict;
  };
  EXPECT_EQ(verdict("[[201, 399, 220, 420, 260, 460], [500, 300, 520, 320, 560, 360]]"), Verdict::same);
  EXPECT_EQ(verdict("[[220, 420, 260, 460, 200, 400], [520, 320, 560, 360, 500, 300]]"), Verdict::same)
      << "numbers that begin elsewhere";
  EXPECT_EQ(verdict("[[400, 200, 420, 220, 460, 260], [300, 500, 320, 520, 360, 560]]"), Verdict::same)
      << "a parity that is flipped";
  EXPECT_EQ(verdict("[[200, 400, 220, 420, 260, 480], [500, 300, 520, 320, 560, 360]]"), Verdict::differs);
  EXPECT_EQ(verdict("[[220, 420, 260, 460, 200, 400], [500, 300, 520, 320, 560, 360]]"), Verdict::differs)
      << "one row begins elsewhere";
  EXPECT_EQ(verdict("[[200, 400, 220, 420], [500, 300, 520, 320]]"), Verdict::differs);
}

TEST(DescriptionDifference, TablesTooLargeForAnyCacheAreComparedAsTheyStand) {
  // By all numberings this would take a quarter of a minute.
  const auto wide = [](const char* last) {
    std::string sms;
    std::string rows;
    std::string means;
    for (int sm = 0; sm < 32; ++sm) {
      sms += (sm == 0 ? "[" : ", [") + std::to_string(sm) + "]";
      means += sm == 0 ? "200" : ", 200";
      rows += sm == 0 ? "[" : "], [";
      for (int slice = 1; slice < 1024; ++slice) {
        rows += "200, ";
      }
      rows += sm == 31 ? last : "200";
    }
    return described("caches:\n  L2:\n    slice_distances: {sms: [" + sms + "], mean_cycles: [" + means +
                     "], cycles: [" + rows + "]]}\n");
  };
  EXPECT_EQ(difference_of("slice_distances", wide("200"), wide("201")).verdict, Verdict::same);
  EXPECT_EQ(difference_of("slice_distances", wide("200"), wide("300")).verdict, Verdict::differs);
}

TEST(DescriptionDifference, AddressBitsAreComparedWithoutAnIndex) {
  const auto bits = [](const char* list) {
    return described(std::string("caches:\n  L2:\n    index: {kind: null, exercised_bits: ") + list + "}\n");
  };
  EXPECT_EQ(difference_of("index", bits("[7, 8]"), bits("[7, 8]")).verdict, Verdict::same);
  EXPECT_EQ(difference_of("index", bits("[7, 8]"), bits("[7, 9]")).verdict, Verdict::differs);
}

TEST(DescriptionDifference, PoliciesThatBehaveAlikeAreTheSame) {
  const std::string two = "[2, 2, 2, 2]";
  EXPECT_EQ(verdict_of("replacement", {.ways = two}, {.ways = two, .policy = "{policy: plru}"}), Verdict::same);
  EXPECT_EQ(verdict_of("replacement", {}, {.policy = "{policy: plru}"}), Verdict::differs);
  EXPECT_EQ(verdict_of("replacement", {.policy = "{policy: plru}"}, {.policy = "{policy: plru, order: reversed}"}),
            Verdict::same);
  EXPECT_EQ(verdict_of("replacement", {}, {.policy = "{policy: random}"}), Verdict::differs);
  const LeafDifference fifo = difference_of("replacement", cache({}), cache({.policy = "{policy: fifo}"}));
  // Line 4 replaces line 1 under LRU and line 0 under FIFO.
  EXPECT_EQ(fifo.note, "the last of 0 1 2 3 0 4 1 tells them apart in a set of 4 ways");
}

TEST(DescriptionDifference, OnlyProportionsOfWeightsMeanAnything) {
  const auto weighted = [](const std::string& weights) {
    return Parts{.policy = "{policy: weighted_random, victim_weights: " + weights + "}"};
  };
  EXPECT_EQ(verdict_of("replacement", weighted("[1, 3, 1, 1]"), weighted("[2, 6, 2, 2]")), Verdict::same);
  EXPECT_EQ(verdict_of("replacement", weighted("[1, 3, 1, 1]"), weighted("[1, 2, 1, 1]")), Verdict::differs);
  Parts measured = weighted("[1, 2, 1, 1]");
  measured.more =
      "evidence:\n  L1tex:\n    replacement: {status: resolved, victim_probability_intervals: "
      "[[0.1, 0.3], [0.3, 0.55], [0.1, 0.3], [0.1, 0.3]]}\n";
  EXPECT_EQ(verdict_of("replacement", weighted("[1, 3, 1, 1]"), measured), Verdict::same);
  EXPECT_EQ(verdict_of("replacement", weighted("[1, 30, 1, 1]"), measured), Verdict::differs);
}

TEST(DescriptionDifference, LatenciesDifferBySoMuch) {
  const LeafDifference latency = difference_of("latency_cycles", cache({}), cache({.latency = "{hit: 33, miss: 200}"}));
  EXPECT_EQ(latency.verdict, Verdict::differs);
  EXPECT_EQ(latency.note, "hit +3 (+10 %)");
  EXPECT_EQ(verdict_of("latency_cycles", {}, {.latency = "{hit: 30, miss: 203}"}), Verdict::same);
  EXPECT_EQ(verdict_of("latency_cycles", {}, {.latency = "{hit: 30, miss: 197}"}), Verdict::same);
  EXPECT_EQ(verdict_of("latency_cycles", {}, {.latency = "{hit: 30, miss: 205}"}), Verdict::differs);
  EXPECT_EQ(verdict_of("latency_cycles", {}, {.latency = "{hit: 30, miss: null}"}), Verdict::less_certain);
  EXPECT_EQ(verdict_of("latency_cycles", {.latency = "{hit: 31, miss: 200}"}, {.latency = "{hit: 30, miss: null}"}),
            Verdict::differs);
}

TEST(DescriptionDifference, IntervalsDifferWhenTheyDoNotOverlap) {
  const auto resident = [](const std::string& interval) {
    return Parts{.more = "    resident_bytes: " + interval + "\n"};
  };
  EXPECT_EQ(verdict_of("resident_bytes", resident("[100, 200]"), resident("[190, 300]")), Verdict::same);
  EXPECT_EQ(verdict_of("resident_bytes", resident("[100, 200]"), resident("[201, 300]")), Verdict::differs);
}

TEST(DescriptionDifference, WhatOnlyOneKnowsIsLessCertain) {
  const auto ambiguous = [](const std::string& alternative) {
    return Parts{.policy = "null",
                 .more = "evidence:\n  L1tex:\n    replacement: {status: ambiguous, alternatives: [" + alternative +
                         "], reason: test}\n"};
  };
  EXPECT_EQ(verdict_of("replacement", {}, ambiguous("{policy: fifo}")), Verdict::less_certain);
  EXPECT_EQ(difference_of("replacement", cache({}), cache(ambiguous("{policy: fifo}"))).note,
            "the second says ambiguous, and this is none of its alternatives");
  EXPECT_EQ(difference_of("replacement", cache({.policy = "{policy: plru, order: reversed}"}),
                          cache(ambiguous("{policy: fifo}, {policy: plru}")))
                .note,
            "the second says ambiguous, this among others");
  EXPECT_EQ(verdict_of("replacement", {.policy = "null"}, ambiguous("{policy: fifo}")), Verdict::open);
  const std::vector<LeafDifference> one_sided = differences(cache({}), described("caches: {}\n"));
  ASSERT_EQ(one_sided.size(), 1U);
  EXPECT_EQ(one_sided.front().verdict, Verdict::less_certain);
  EXPECT_EQ(one_sided.front().note, "only in the first");
}

TEST(DescriptionDifference, BandwidthsAreComparedAsFarAsTheySpread) {
  const auto bandwidth = [](const std::string& bytes_per_second, const std::string& details) {
    return described(
        "caches: {}\nbandwidth:\n  shared: {bytes_per_second: " + bytes_per_second +
        ", elements_per_sm_clock: 32, element_bits: 32}\n" +
        (details.empty() ? "" : "evidence:\n  bandwidth:\n    shared: {status: resolved, " + details + "}\n"));
  };
  const auto verdict = [](const auto& a, const auto& b) { return difference_of("shared", a, b).verdict; };
  const auto measured = bandwidth("1e12", "spread: 0.01, asked_again_gb_per_second: 1005");
  EXPECT_EQ(verdict(measured, bandwidth("1.014e12", "")), Verdict::same);
  EXPECT_EQ(verdict(measured, bandwidth("1.03e12", "")), Verdict::differs);
  EXPECT_EQ(verdict(measured, bandwidth("1.03e12", "spread: 0.02")), Verdict::same);
  const auto quiet = bandwidth("1e12", "spread: 0.0001, asked_again_gb_per_second: 1000");
  EXPECT_EQ(verdict(quiet, bandwidth("1.007e12", "spread: 0.0001")), Verdict::same);
  EXPECT_EQ(verdict(quiet, bandwidth("1.02e12", "spread: 0.0001")), Verdict::differs);
  EXPECT_EQ(verdict(bandwidth("1e12", ""), bandwidth("1.0001e12", "")), Verdict::differs);
}

TEST(DescriptionDifference, CarveoutsGoByTheirKilobytes) {
  const auto with = [](const std::string& carveouts) { return Parts{.more = "    carveouts: " + carveouts + "\n"}; };
  const Parts both = with("[{carveout_kb: 8, onset_bytes: 1024}, {carveout_kb: 16, onset_bytes: 512}]");
  EXPECT_EQ(verdict_of("carveouts", both, both), Verdict::same);
  EXPECT_EQ(verdict_of("carveouts", both, with("[{carveout_kb: 16, onset_bytes: 512}]")), Verdict::less_certain);
  EXPECT_EQ(difference_of("carveouts", cache(both), cache(with("[{carveout_kb: 16, onset_bytes: 576}]"))).note,
            "carveout_kb 16 onset_bytes +64 (+12.5 %)");
}

}  // namespace
}  // namespace gpuinfer::infer
