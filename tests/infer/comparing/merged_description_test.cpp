// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/comparing/merged_description.hpp"

#include <gtest/gtest.h>

#include "model/description_yaml.hpp"
#include "model/errors.hpp"

namespace gpuinfer::infer {
namespace {

Piece piece(const std::string& file, const std::string& provenance, const std::string& sections) {
  return {.file = file,
          .description = model::parse_description("schema: gpuinfer/1\ndevice: {name: one, source: " + file +
                                                      ", sm_count: 4, provenance: {" + provenance + "}}\n" + sections,
                                                  file)};
}

std::string cache(const std::string& name, const std::string& leaves, const std::string& evidence) {
  return "caches:\n  " + name + ": {line_bytes: 64, " + leaves + "}\nevidence:\n  " + name +
         ": {line_bytes: {status: resolved}, " + evidence + "}\n";
}

Piece l1(const std::string& file, const std::string& leaves = "sector_bytes: 32",
         const std::string& evidence = "sector_bytes: {status: resolved, experiments: 7}") {
  return piece(file, "driver: \"13\", carveout_kb_asked: \"8\", gpu_id: aa", cache("L1tex", leaves, evidence));
}

std::string refusal(const Piece& first, const Piece& second) {
  try {
    static_cast<void>(merge_pieces(std::vector{first, second}));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(MergedDescription, SectionsComeTogetherWithTheirEvidenceAndProvenance) {
  const Piece l2 = piece("l2.yaml", "driver: \"13\", carveout_kb_asked: \"228\", gpu_id: aa",
                         cache("L2", "sector_bytes: 32", "sector_bytes: {status: resolved}"));
  const MergedDescription merged = merge_pieces(std::vector{l1("l1.yaml"), l2});
  EXPECT_EQ(merged.description.caches.at("L1tex").sector_bytes, 32);
  EXPECT_TRUE(merged.description.caches.contains("L2"));
  EXPECT_EQ(merged.description.evidence.at("L1tex").leaves.at("sector_bytes").experiments, 7);
  EXPECT_TRUE(merged.unidentified.empty());
  const std::map<std::string, std::string> expected{{"driver", "13"},
                                                    {"gpu_id", "aa"},
                                                    {"L1tex.carveout_kb_asked", "8"},
                                                    {"L1tex.source", "l1.yaml"},
                                                    {"L2.carveout_kb_asked", "228"},
                                                    {"L2.source", "l2.yaml"}};
  EXPECT_EQ(merged.description.device.provenance, expected);
  EXPECT_EQ(merged.description.device.source, "merged");
}

TEST(MergedDescription, IsTheSameInOneStepAndInTwo) {
  const Piece l2 = piece("l2.yaml", "gpu_id: aa", cache("L2", "sector_bytes: 32", "sector_bytes: {status: resolved}"));
  const Piece l3 = piece("l3.yaml", "gpu_id: aa", cache("L3", "sector_bytes: 64", "sector_bytes: {status: resolved}"));
  const Piece both{.file = "both", .description = merge_pieces(std::vector{l1("l1.yaml"), l2}).description};
  EXPECT_EQ(merge_pieces(std::vector{both, l3}).description,
            merge_pieces(std::vector{l1("l1.yaml"), l2, l3}).description);
}

TEST(MergedDescription, ALeafIsOfThePieceThatKnowsIt) {
  const std::string open = "sector_bytes: null, latency_cycles: {hit: 30, miss: 200}";
  const Piece one = l1("one.yaml", open, "sector_bytes: {status: unknown, reason: late}");
  for (const auto& pieces : {std::vector{one, l1("two.yaml")}, std::vector{l1("two.yaml"), one}}) {
    const model::DeviceDescription merged = merge_pieces(pieces).description;
    EXPECT_EQ(merged.caches.at("L1tex").sector_bytes, 32);
    EXPECT_EQ(merged.caches.at("L1tex").latency_cycles.hit, 30);
    EXPECT_EQ(merged.evidence.at("L1tex").leaves.at("sector_bytes").experiments, 7);
  }
}

TEST(MergedDescription, ValuesThatContradictAreRefused) {
  EXPECT_EQ(refusal(l1("a.yaml"), l1("b.yaml", "sector_bytes: 64", "sector_bytes: {status: resolved}")),
            "b.yaml: L1tex.sector_bytes is 64, and what was merged before it says 32; leave one of them out");
}

TEST(MergedDescription, ARuleThatOneHasAndTheOtherHasNotContradicts) {
  EXPECT_NE(
      refusal(l1("a.yaml", "store: {allocate: true}", ""), l1("b.yaml", "store: {allocate: true, evicts: true}", "")),
      "");
  EXPECT_EQ(refusal(l1("a.yaml", "store: null", ""), l1("b.yaml", "store: {allocate: true, evicts: true}", "")), "");
}

TEST(MergedDescription, TimedValuesSpreadFromRunToRun) {
  const auto timed = [](const std::string& file, const std::string& miss) {
    return l1(file, "latency_cycles: {hit: 30, miss: " + miss + "}", "latency_cycles: {status: resolved}");
  };
  EXPECT_EQ(refusal(timed("a.yaml", "200"), timed("b.yaml", "212")), "");
  EXPECT_NE(refusal(timed("a.yaml", "200"), timed("b.yaml", "260")), "");
}

TEST(MergedDescription, OtherDevicesAreRefusedAndUnknownOnesTold) {
  Piece other = l1("other.yaml");
  other.description.device.provenance["gpu_id"] = "bb";
  EXPECT_EQ(refusal(l1("a.yaml"), other),
            "other.yaml: is of another device, one bb, than a.yaml, one aa; merge what is of one");
  other.description.device.provenance.erase("gpu_id");
  EXPECT_EQ(merge_pieces(std::vector{l1("a.yaml"), other}).unidentified, std::vector<std::string>{"other.yaml"});
  other.description.device.sm_count = 5;
  EXPECT_NE(refusal(l1("a.yaml"), other), "");
}

// What was merged before says it in its sections.
TEST(MergedDescription, AnIdentityInOneSectionIsTheOneOfTheDevice) {
  Piece unknown = piece("u.yaml", "", cache("L2", "sector_bytes: 32", "sector_bytes: {status: resolved}"));
  const Piece both{.file = "both", .description = merge_pieces(std::vector{l1("a.yaml"), unknown}).description};
  Piece other = l1("other.yaml");
  other.description.device.provenance["gpu_id"] = "bb";
  EXPECT_NE(refusal(both, other), "");
}

// In either order.
void expect_of_both(const Piece& first, const Piece& second, const std::string& leaves, const std::string& evidence) {
  const Piece expected = l1("expected.yaml", leaves, evidence);
  for (const auto& pieces : {std::vector{first, second}, std::vector{second, first}}) {
    const model::DeviceDescription merged = merge_pieces(pieces).description;
    EXPECT_EQ(merged.caches, expected.description.caches);
    EXPECT_EQ(merged.evidence, expected.description.evidence);
  }
}

TEST(MergedDescription, PartsOfALeafComeTogether) {
  const std::string resolved = "{status: resolved, experiments: 3}";
  expect_of_both(l1("a.yaml", "latency_cycles: {hit: 30, miss: null}",
                    "latency_cycles.hit: " + resolved + ", latency_cycles.miss: {status: unknown, reason: late}"),
                 l1("b.yaml", "latency_cycles: {hit: null, miss: 200}",
                    "latency_cycles.hit: {status: unknown, reason: late}, latency_cycles.miss: " + resolved),
                 "latency_cycles: {hit: 30, miss: 200}",
                 "latency_cycles.hit: " + resolved + ", latency_cycles.miss: " + resolved);
  const std::string open_store =
      "store: " + resolved + ", store.write: {status: ambiguous, alternatives: [back, through]}";
  expect_of_both(l1("a.yaml", "store: {allocate: true, write: null}", open_store),
                 l1("b.yaml", "store: {allocate: true, write: back}", "store: " + resolved),
                 "store: {allocate: true, write: back}", "store: " + resolved);
  // Nothing is known of the second, and so the first's reasons stay with it.
  expect_of_both(l1("a.yaml", "store: {allocate: true, write: null}", open_store),
                 l1("b.yaml", "store: null", "store: {status: unknown, reason: late}"),
                 "store: {allocate: true, write: null}", open_store);
}

TEST(MergedDescription, PartsBesideAnIndexHangOnIt) {
  const auto parts = [](const std::string& file, const std::string& bit, const std::string& more) {
    return l1(file, "partitions: {index: {kind: bits, bits: [" + bit + "]}, near: 0, far_cycles: 20" + more + "}", "");
  };
  const std::string more = ", block_bytes: 65536";
  EXPECT_EQ(merge_pieces(std::vector{parts("a.yaml", "12", ""), parts("b.yaml", "12", more)}).description.caches,
            parts("a.yaml", "12", more).description.caches);
}

TEST(MergedDescription, WhatIsProvenGoesBeforeWhatIsNot) {
  const std::string resolved = "sector_bytes: {status: resolved, experiments: 3}, latency_cycles: {status: resolved}";
  expect_of_both(
      l1("a.yaml", "sector_bytes: 32, latency_cycles: {hit: 30, miss: 200}, ways: [4]", "ways: {status: resolved}"),
      l1("b.yaml", "sector_bytes: 32, latency_cycles: {hit: 31, miss: 205}", resolved),
      "sector_bytes: 32, latency_cycles: {hit: 31, miss: 205}, ways: [4]", resolved + ", ways: {status: resolved}");
  expect_of_both(l1("a.yaml", "ways: [4], sector_bytes: null", "ways: {status: resolved}"),
                 l1("b.yaml", "sector_bytes: null", "sector_bytes: {status: ambiguous, alternatives: [16, 32]}"),
                 "ways: [4], sector_bytes: null",
                 "ways: {status: resolved}, sector_bytes: {status: ambiguous, alternatives: [16, 32]}");
}

TEST(MergedDescription, WhatOnePieceAssumesStaysAssumedUntilAnotherKnowsIt) {
  const Piece assumes = l1("a.yaml",
                           "ways: [4], replacement: {policy: lru}, latency_cycles: {hit: 30, miss: 200}, "
                           "assumed: [replacement, latency_cycles.miss]",
                           "ways: {status: resolved}");
  for (const bool first : {true, false}) {
    const Piece open = l1("b.yaml", "sector_bytes: 32");
    const Piece knows = l1("b.yaml", "replacement: {policy: lru}", "replacement: {status: resolved}");
    const auto assumed_with = [&](const Piece& other) {
      return merge_pieces(first ? std::vector{assumes, other} : std::vector{other, assumes})
          .description.caches.at("L1tex")
          .assumed;
    };
    EXPECT_EQ(assumed_with(open), (std::vector<std::string>{"replacement", "latency_cycles.miss"}));
    EXPECT_EQ(assumed_with(knows), std::vector<std::string>{"latency_cycles.miss"});
  }
}

TEST(MergedDescription, SizesAtTwoCarveOutsAreNotPutTogether) {
  const std::string list = "carveouts: [{carveout_kb: 8, onset_bytes: 6400}]";
  const Piece capacity = l1("a.yaml", "carveout_kb: 8, capacity_bytes: 6400, onset_bytes: null, " + list,
                            "capacity_bytes: {status: resolved}, onset_bytes: {status: unknown, reason: late}");
  const Piece onset =
      l1("b.yaml", "carveout_kb: 16, capacity_bytes: null, onset_bytes: 3200", "onset_bytes: {status: resolved}");
  for (const auto& pieces : {std::vector{capacity, onset}, std::vector{onset, capacity}}) {
    const model::CacheDescription merged = merge_pieces(pieces).description.caches.at("L1tex");
    EXPECT_EQ(merged.carveout_kb, 8);
    EXPECT_EQ(merged.capacity_bytes, 6400);
    EXPECT_EQ(merged.onset_bytes, std::nullopt);
  }
  const auto asked = [](const std::string& kb, const std::string& leaves) {
    return piece(kb, "carveout_kb_asked: \"" + kb + "\"", cache("L1tex", leaves, ""));
  };
  const Piece of_8 = asked("8", "capacity_bytes: 6400, sector_bytes: 32");
  for (const auto& pieces :
       {std::vector{of_8, asked("16", "onset_bytes: 3200")}, std::vector{asked("16", "onset_bytes: 3200"), of_8}}) {
    const model::DeviceDescription merged = merge_pieces(pieces).description;
    EXPECT_EQ(merged.caches.at("L1tex").onset_bytes, std::nullopt);
    EXPECT_EQ(merged.device.provenance.at("carveout_kb_asked"), "8");
  }
}

TEST(MergedDescription, WhatNeedsALeafThatStaysOpenStaysOpen) {
  const std::string sets = "ways: [2, 2], index: {kind: bits, bits: [6]}, ";
  const Piece of_8 =
      l1("a.yaml", sets + "carveout_kb: 8, onset_bytes: 128, carveouts: [{carveout_kb: 8, onset_bytes: 128}]", "");
  const Piece of_16 = l1("b.yaml",
                         sets +
                             "carveout_kb: 16, store_lines: 3, sweep: {banks: 1, lines_on_hit: 0, "
                             "lines_on_replacement: 1, lines_on_fill: 1}",
                         "");
  for (const auto& pieces : {std::vector{of_8, of_16}, std::vector{of_16, of_8}}) {
    const model::CacheDescription merged = merge_pieces(pieces).description.caches.at("L1tex");
    EXPECT_EQ(merged.carveout_kb == 8, !merged.sweep);
  }
}

TEST(MergedDescription, SetsOfOtherNumbersAreNotPutTogether) {
  const std::string index = "index: {kind: bits, bits: [6]}";
  for (const std::string other : {"ways: [1, 2]", "ways: [1, 2], index: {kind: xor, rows: [[6]], constant: 1}"}) {
    const Piece unequal = l1("a.yaml", other, "ways: {status: resolved}");
    const Piece indexed =
        l1("b.yaml", index + ", sector_bytes: 32, latency_cycles: {hit: 30, miss: 200}", "index: {status: resolved}");
    for (const auto& pieces : {std::vector{unequal, indexed}, std::vector{indexed, unequal}}) {
      const model::CacheDescription merged = merge_pieces(pieces).description.caches.at("L1tex");
      EXPECT_FALSE(merged.ways && merged.index == indexed.description.caches.at("L1tex").index) << other;
    }
  }
  // Of equal sets none has to be told from another.
  const model::DeviceDescription merged =
      merge_pieces(std::vector{l1("a.yaml", "ways: [2, 2]", "ways: {status: resolved}"),
                               l1("b.yaml", index, "index: {status: resolved}")})
          .description;
  EXPECT_TRUE(merged.caches.at("L1tex").ways && merged.caches.at("L1tex").index);
}

TEST(MergedDescription, AnIndexIsOfThePieceThatSpeaksOfMoreAddressBits) {
  const std::string narrow = "index: {kind: xor, rows: [[6, 8]], constant: 0, exercised_bits: [6, 8]}";
  const std::string wide = "index: {kind: xor, rows: [[6, 8, 9]], constant: 0, exercised_bits: [6, 8, 9]}";
  expect_of_both(l1("a.yaml", narrow, "index: {status: resolved}"), l1("b.yaml", wide, "index: {status: resolved}"),
                 wide, "index: {status: resolved}");
}

TEST(MergedDescription, OnlyCyclesSpreadWhereTheyAreFew) {
  const auto weighted = [](const std::string& weights) {
    return l1("a.yaml", "ways: [2], replacement: {policy: weighted_random, victim_weights: " + weights + "}", "");
  };
  EXPECT_EQ(refusal(weighted("[1, 3]"), weighted("[1, 3.1]")), "");
  EXPECT_NE(refusal(weighted("[1, 3]"), weighted("[1, 1]")), "");
}

TEST(MergedDescription, WhatOnlyOneSaysOfTheDeviceIsKept) {
  Piece silent = l1("a.yaml");
  silent.description.device.sm_count.reset();
  EXPECT_EQ(merge_pieces(std::vector{silent, l1("b.yaml")}).description.device.sm_count, 4U);
}

}  // namespace
}  // namespace gpuinfer::infer
