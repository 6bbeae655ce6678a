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

}  // namespace
}  // namespace gpuinfer::infer
