// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a row of the table below that comes out otherwise; a doubt that makes something more
// certain; a value that is not resolved and not null; or a resolved leaf without the confidence that its trials give.
#include "infer/cache/conclude.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;

constexpr std::array doubts_of_a_column{Doubt::mispredicted,      Doubt::contradicted,   Doubt::levels_unclear,
                                        Doubt::onset_unconfirmed, Doubt::line_uncertain, Doubt::started_flooded,
                                        Doubt::disturbed,         Doubt::cut_short,      Doubt::undescribed};

// A claim for each leaf; each could have been refuted by 8 trials.
CacheClaims all_claimed() {
  CacheClaims claims;
  claims.capacity_bytes.value = 4096;
  claims.onset_bytes.value = 4096;
  claims.line_bytes.value = 32;
  claims.sector_bytes.value = 32;
  claims.ways.value = {64, 64};
  claims.index.value = model::BitsIndex{.bits = {5}};
  claims.replacement.value = model::Replacement{.policy = "lru", .parameters = {}, .equivalent = {}};
  claims.latency_cycles.value = model::LatencyCycles{.hit = 100, .miss = 200};
  claims.store_lines = {.value = 100};
  claims.sweep = {.value = model::Sweep{}};
  claims.partitions.emplace().value.emplace();
  claims.carveouts.emplace().value.emplace();
  claims.shared_with = {.value = std::vector<std::string>{"ReadOnly"}};
  claims.resident_bytes = {.value = std::array{4000.0, 4200.0}};
  claims.shared_by_sms.emplace().value.emplace();
  claims.sms.emplace().value.emplace();
  claims.exercised_bits = {5, 6, 7};
  for_each_claim(claims, [](std::string_view /*leaf*/, auto& claim, auto /*member*/) {
    claim.questions = 5;
    claim.trials = 8;
  });
  return claims;
}

enum class Proof { none, counted_sets, prediction };

CacheClaims claimed(Proof proof) {
  CacheClaims claims = all_claimed();
  claims.sets_are_counted = proof == Proof::counted_sets;
  claims.predicted_trials = proof == Proof::prediction ? 998 : 0;
  return claims;
}

char letter_of(EvidenceStatus status) {
  return status == EvidenceStatus::resolved ? 'R' : status == EvidenceStatus::ambiguous ? 'a' : '-';
}

struct Row {
  const char* leaf;
  const char* without_proof;
  const char* with_counted_sets;
  const char* with_prediction;
};

// R resolved, a ambiguous, - unknown. The first column is without a doubt, then come those of doubts_of_a_column.
constexpr std::array table{
    //                  mis con lev ons lin flo dis cut und
    Row{"capacity_bytes", "aaaaaaaaaa", "RRRRRRRaRR", "RRRRRRRRRR"},
    Row{"onset_bytes", "RaRaaRaaRR", "RaRaaRaaRR", "RRRRRRRRRR"},
    Row{"line_bytes", "RaRaaaaaRR", "RRRRRRRaRR", "RRRRRRRRRR"},
    Row{"sector_bytes", "RRRaRRRaRR", "RRRaRRRaRR", "RRRRRRRRRR"},
    Row{"ways", "aaaaaaaaaa", "RRRRRRRaRR", "RRRRRRRRRR"},
    Row{"index", "aaaaaaaaaa", "RRRRRRRaRR", "RRRRRRRRRR"},
    Row{"replacement", "aa-aaaaaaa", "aa-aaaaaaa", "RRRRRRRRRR"},
    Row{"store_lines", "aaaaaaaaaa", "aaaaaaaaaa", "RRRRRRRRRR"},
    Row{"sweep", "aaaaaaaaaa", "aaaaaaaaaa", "RRRRRRRRRR"},
    Row{"latency_cycles", "RRR-RRRaRR", "RRR-RRRaRR", "RRR-RRRaRR"},
    Row{"partitions", "RRRRRRRaRR", "RRRRRRRaRR", "RRRRRRRaRR"},
    Row{"carveouts", "RRRRRRRaRR", "RRRRRRRaRR", "RRRRRRRaRR"},
    Row{"shared_with", "RRRRRRRaRR", "RRRRRRRaRR", "RRRRRRRaRR"},
    Row{"resident_bytes", "RRRRRRRaRR", "RRRRRRRaRR", "RRRRRRRaRR"},
    Row{"shared_by_sms", "RRRRRRRaRR", "RRRRRRRaRR", "RRRRRRRaRR"},
    Row{"sms", "RRRRRRRaRR", "RRRRRRRaRR", "RRRRRRRaRR"},
};

TEST(Conclude, EveryDoubtAndEveryLeaf) {
  for (const Proof proof : {Proof::none, Proof::counted_sets, Proof::prediction}) {
    std::map<std::string, std::string> found;
    const auto add_column = [&](const Doubts& doubts) {
      const CacheFinding finding = conclude(claimed(proof), doubts);
      EXPECT_EQ(finding.evidence.leaves.size(), table.size());
      for (const auto& [leaf, evidence] : finding.evidence.leaves) {
        found[leaf] += letter_of(evidence.status);
      }
    };
    add_column({});
    for (const Doubt doubt : doubts_of_a_column) {
      add_column({{doubt, "seen"}});
    }
    for (const Row& row : table) {
      EXPECT_EQ(found[row.leaf], proof == Proof::none           ? row.without_proof
                                 : proof == Proof::counted_sets ? row.with_counted_sets
                                                                : row.with_prediction)
          << row.leaf << ", proof " << static_cast<int>(proof);
    }
  }
}

TEST(Conclude, WhatStandsAloneIsOpenOnlyWhereAnswersWereTouched) {
  CacheClaims claims = claimed(Proof::none);
  for_each_claim(claims, [](std::string_view /*leaf*/, auto& claim, auto /*member*/) { claim.stands_alone = true; });
  for (const Doubt doubt : doubts_of_a_column) {
    for (const auto& [leaf, evidence] : conclude(claims, {{doubt, "seen"}}).evidence.leaves) {
      EXPECT_EQ(evidence.status, doubt == Doubt::disturbed ? EvidenceStatus::ambiguous : EvidenceStatus::resolved)
          << leaf << ", doubt " << static_cast<int>(doubt);
    }
  }
}

// Of all sets of doubts: what one of them leaves open stays so when others come.
TEST(Conclude, NoDoubtMakesMoreCertain) {
  constexpr unsigned subsets = 1U << doubts_of_a_column.size();
  for (const Proof proof : {Proof::none, Proof::counted_sets, Proof::prediction}) {
    const CacheClaims claims = claimed(proof);
    std::vector<CacheFinding> findings;
    for (unsigned subset = 0; subset < subsets; ++subset) {
      Doubts doubts;
      for (std::size_t i = 0; i < doubts_of_a_column.size(); ++i) {
        if ((subset >> i & 1U) != 0) {
          doubts.emplace(doubts_of_a_column[i], "seen");
        }
      }
      findings.push_back(conclude(claims, doubts));
      for (std::size_t i = 0; i < doubts_of_a_column.size(); ++i) {
        if ((subset >> i & 1U) == 0) {
          continue;
        }
        for (const auto& [leaf, evidence] : findings[subset ^ (1U << i)].evidence.leaves) {
          EXPECT_GE(findings[subset].evidence.leaves.at(leaf).status, evidence.status) << leaf << ' ' << subset;
        }
      }
    }
  }
}

TEST(Conclude, WhatIsNotResolvedIsNullAndAnAlternative) {
  const CacheFinding finding =
      conclude(claimed(Proof::none), {{Doubt::unproven, "nothing fits"}, {Doubt::disturbed, "a reset came."}});
  EXPECT_EQ(finding.cache, model::CacheDescription{});
  const auto& leaves = finding.evidence.leaves;
  EXPECT_EQ(leaves.at("ways").alternatives, std::vector<model::FlowYaml>{"[64, 64]"});
  EXPECT_EQ(leaves.at("index").alternatives, std::vector<model::FlowYaml>{"{kind: bits, bits: [5]}"});
  EXPECT_EQ(leaves.at("replacement").alternatives, std::vector<model::FlowYaml>{"{policy: lru}"});
  EXPECT_EQ(leaves.at("latency_cycles").alternatives, std::vector<model::FlowYaml>{"{hit: 100, miss: 200}"});
  EXPECT_EQ(leaves.at("ways").reason, "nothing fits; and meanwhile a reset came.");
  EXPECT_EQ(leaves.at("sector_bytes").reason, "not proven: it was measured, and meanwhile a reset came.");
  for (const auto& [leaf, evidence] : leaves) {
    EXPECT_FALSE(evidence.confidence.has_value()) << leaf;
  }
}

TEST(Conclude, ConfidenceCountsTheTrialsThatCouldHaveRefuted) {
  CacheClaims claims = claimed(Proof::prediction);
  EXPECT_EQ(conclude(claims, {}).evidence.leaves.at("ways").confidence, 0.999);
  EXPECT_EQ(conclude(claims, {}).evidence.leaves.at("latency_cycles").confidence, 0.9);
  EXPECT_EQ(conclude(claims, {}).evidence.leaves.at("ways").experiments, 5U);
  EXPECT_EQ(conclude(claimed(Proof::counted_sets), {}).evidence.leaves.at("ways").confidence, 0.9);
}

TEST(Conclude, FewTrialsResolveNothing) {
  CacheClaims claims = claimed(Proof::none);
  for_each_claim(claims, [](std::string_view /*leaf*/, auto& claim, auto /*member*/) {
    claim.trials = 7;
    claim.stands_alone = true;
  });
  const CacheFinding finding = conclude(claims, {});
  for (const auto& [leaf, evidence] : finding.evidence.leaves) {
    EXPECT_EQ(evidence.status, EvidenceStatus::ambiguous) << leaf;
    EXPECT_EQ(evidence.reason, "no more than 7 trials could have refuted it") << leaf;
  }
  EXPECT_FALSE(finding.cache.ways || finding.cache.line_bytes || finding.cache.replacement);
}

// Packings of lines that are too long or too short would not fit.
TEST(Conclude, SetsThatStandAreOfLinesOfThatSize) {
  CacheClaims claims = claimed(Proof::none);
  claims.line_bytes.trials = 7;
  claims.line_bytes.stands_alone = claims.ways.stands_alone = true;
  claims.ways.trials = 98;
  EXPECT_EQ(conclude(claims, {}).evidence.leaves.at("line_bytes").confidence, 0.99);
}

TEST(Conclude, ReasonsOfTheStagesStand) {
  CacheClaims claims;
  claims.onset_bytes = {.value = 4096, .trials = 8};
  claims.ways.reason = "sets are uneven";
  claims.replacement.alternatives = {{.policy = "lru", .parameters = {}, .equivalent = {}},
                                     {.policy = "fifo", .parameters = {}, .equivalent = {}}};
  claims.replacement.reason = "two are left";
  claims.latency_cycles = {.value = model::LatencyCycles{.hit = 100, .miss = {}}, .reason = "misses differ"};
  const Doubts doubts{{Doubt::unproven, "no set"}, {Doubt::cut_short, "not asked"}};
  const CacheFinding finding = conclude(claims, doubts);
  const auto& leaves = finding.evidence.leaves;
  EXPECT_EQ(leaves.at("ways").reason, "sets are uneven");
  EXPECT_EQ(leaves.at("ways").status, EvidenceStatus::unknown);
  EXPECT_EQ(leaves.at("index").reason, "not asked");
  EXPECT_EQ(leaves.at("replacement").status, EvidenceStatus::ambiguous);
  EXPECT_EQ(leaves.at("replacement").alternatives.size(), 2U);
  EXPECT_EQ(leaves.at("latency_cycles").status, EvidenceStatus::ambiguous);
  EXPECT_EQ(finding.cache.latency_cycles.hit, 100);
  EXPECT_EQ(leaves.at("capacity_bytes").status, EvidenceStatus::ambiguous);
  EXPECT_EQ(leaves.at("capacity_bytes").alternatives, std::vector<model::FlowYaml>{"4096"});
  EXPECT_FALSE(leaves.contains("sweep"));
}

TEST(Conclude, WhatWasTestedStandsWithTheDoubt) {
  CacheClaims claims = claimed(Proof::none);
  claims.ways.tested = "of 20 packings 19 fit";
  EXPECT_EQ(conclude(claims, {{Doubt::unproven, "adaptive"}}).evidence.leaves.at("ways").reason,
            "adaptive; of 20 packings 19 fit");
}

// Sets that were counted and not proven hold 128 lines, random loads find room for fewer, by little or by much.
TEST(Conclude, ACapacityIsLeftOpenWhereCountedSetsHoldNearlyAsMuch) {
  for (const std::uint64_t lines : {124U, 64U}) {
    CacheClaims claims = claimed(Proof::none);
    claims.store_lines.reset();
    claims.resident_bytes.reset();
    claims.onset_bytes = {.reason = "not asked"};
    claims.capacity_bytes = {.value = lines * 32, .questions = 5, .stands_alone = true, .trials = 1000};
    const CacheFinding finding = conclude(claims, {{Doubt::unproven, "nothing was predicted"}});
    EXPECT_NE(finding.evidence.leaves.at("ways").status, EvidenceStatus::resolved);
    EXPECT_EQ(finding.evidence.leaves.at("capacity_bytes").status,
              lines == 64 ? EvidenceStatus::resolved : EvidenceStatus::ambiguous);
  }
}

TEST(Conclude, ValuesThatCannotHoldTogetherAreLeftOpen) {
  using Break = void (*)(CacheClaims&);
  const std::map<std::set<std::string>, Break> broken{
      {{"capacity_bytes", "onset_bytes"}, [](CacheClaims& claims) { claims.onset_bytes.value = 4128; }},
      {{"capacity_bytes", "resident_bytes", "ways"},
       [](CacheClaims& claims) {
         claims.resident_bytes->value = std::array{6000.0, 7000.0};
       }},
      {{"capacity_bytes", "resident_bytes", "ways"},
       [](CacheClaims& claims) {
         claims.resident_bytes->value = std::array{3000.0, 3100.0};
       }},
      {{"capacity_bytes", "ways"},
       [](CacheClaims& claims) {
         claims.ways.value = {128};
         claims.index.value = model::BitsIndex{};
         claims.onset_bytes.value = 4064;
       }},
      {{"index", "ways"},
       [](CacheClaims& claims) {
         claims.index.value = model::BitsIndex{.bits = {5, 6}};
       }},
      {{"line_bytes", "sector_bytes"}, [](CacheClaims& claims) { claims.sector_bytes.value = 24; }}};
  for (const auto& [leaves, break_claims] : broken) {
    CacheClaims claims = claimed(Proof::prediction);
    break_claims(claims);
    const CacheFinding finding = conclude(claims, {});
    for (const auto& [leaf, evidence] : finding.evidence.leaves) {
      const bool is_open = leaves.contains(leaf);
      EXPECT_EQ(evidence.status, is_open ? EvidenceStatus::ambiguous : EvidenceStatus::resolved) << leaf;
      EXPECT_EQ(evidence.confidence.has_value(), !is_open) << leaf;
      EXPECT_EQ(evidence.alternatives.size(), is_open ? 1U : 0U) << leaf;
    }
  }
}

}  // namespace
}  // namespace gpuinfer::infer
