// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policies/qlru.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

Parameters variant(const std::string& name) { return {{"variant", name}}; }

using Ages = std::vector<std::uint32_t>;

// The ages by way stand beside the accesses that make them.
TEST(Qlru, H11_M1_R0_U0) {
  OneSet<Qlru> set(4, variant("H11_M1_R0_U0"));
  EXPECT_EQ(set.state(), (Ages{3, 3, 3, 3}));
  EXPECT_EQ(set.play("abc"), "---");
  EXPECT_EQ(set.state(), (Ages{1, 1, 1, 3}));
  EXPECT_EQ(set.play("d"), "-");  // 1 1 1 1, and all grow to 3
  EXPECT_EQ(set.state(), (Ages{3, 3, 3, 3}));
  EXPECT_EQ(set.play("a"), "+");
  EXPECT_EQ(set.state(), (Ages{1, 3, 3, 3}));
  EXPECT_EQ(set.play("a"), "+");
  EXPECT_EQ(set.state(), (Ages{0, 3, 3, 3}));
  EXPECT_EQ(set.play("efg"), "bcd");  // 0 1 1 1, and all grow by 2
  EXPECT_EQ(set.state(), (Ages{2, 3, 3, 3}));
  EXPECT_EQ(set.play("a"), "+");
  EXPECT_EQ(set.state(), (Ages{1, 3, 3, 3}));
  EXPECT_EQ(set.play("h"), "e");
}

TEST(Qlru, H00_M1_R2_U1TakesTheHighestAndSparesTheLast) {
  OneSet<Qlru> set(4, variant("H00_M1_R2_U1"));
  EXPECT_EQ(set.play("abcd"), "----");
  EXPECT_EQ(set.state(), (Ages{3, 3, 3, 1}));
  EXPECT_EQ(set.play("efg"), "cba");
  EXPECT_EQ(set.state(), (Ages{1, 3, 3, 3}));
  EXPECT_EQ(set.play("h"), "d");
}

TEST(Qlru, H11_M1_R1_U2GrowsByOneAndMayHaveToTakeWay0) {
  OneSet<Qlru> set(4, variant("H11_M1_R1_U2"));
  EXPECT_EQ(set.play("abcd"), "----");
  EXPECT_EQ(set.state(), (Ages{2, 2, 2, 2}));
  EXPECT_EQ(set.play("e"), "a");  // 1 2 2 2, and all grow by 1
  EXPECT_EQ(set.state(), (Ages{2, 3, 3, 3}));
  EXPECT_EQ(set.play("f e g h i"), "b + c d e");
}

TEST(Qlru, H21_M2_R0_U0_UMOGrowsOnlyOnAMiss) {
  OneSet<Qlru> set(4, variant("H21_M2_R0_U0_UMO"));
  EXPECT_EQ(set.play("abcd"), "----");
  EXPECT_EQ(set.state(), (Ages{2, 2, 2, 2}));
  EXPECT_EQ(set.play("e"), "a");
  EXPECT_EQ(set.state(), (Ages{2, 3, 3, 3}));
  EXPECT_EQ(set.play("b"), "+");
  EXPECT_EQ(set.state(), (Ages{2, 2, 3, 3}));
  EXPECT_EQ(set.play("b"), "+");
  EXPECT_EQ(set.state(), (Ages{2, 1, 3, 3}));
  EXPECT_EQ(set.play("b fg"), "+ cd");
  EXPECT_EQ(set.state(), (Ages{2, 0, 2, 2}));
  EXPECT_EQ(set.play("h"), "e");
  EXPECT_EQ(set.state(), (Ages{2, 1, 3, 3}));
  EXPECT_EQ(set.play("i"), "f");
}

TEST(Qlru, H00_M0_R1_U3_UMOSparesNobody) {
  OneSet<Qlru> set(3, variant("H00_M0_R1_U3_UMO"));
  EXPECT_EQ(set.play("abc"), "---");
  EXPECT_EQ(set.state(), (Ages{0, 0, 0}));
  EXPECT_EQ(set.play("d"), "a");
  EXPECT_EQ(set.state(), (Ages{0, 1, 1}));
  EXPECT_EQ(set.play("e"), "d");
  EXPECT_EQ(set.state(), (Ages{0, 2, 2}));
  EXPECT_EQ(set.play("f"), "b");
  EXPECT_EQ(set.state(), (Ages{1, 0, 3}));
  EXPECT_EQ(set.play("g"), "c");
}

TEST(Qlru, H20HalvesAnAgeOf3AndM3LeavesNewLinesOld) {
  OneSet<Qlru> set(3, variant("H20_M3_R0_U0"));
  EXPECT_EQ(set.play("abc d e"), "--- a d");
  EXPECT_EQ(set.play("e"), "+");
  EXPECT_EQ(set.state(), (Ages{2, 3, 3}));
  EXPECT_EQ(set.play("e f"), "+ b");
  EXPECT_EQ(set.state(), (Ages{0, 3, 3}));
}

TEST(Qlru, WithoutAnAgeOf3R0TakesWay0AndR2TheHighest) {
  EXPECT_EQ(OneSet<Qlru>(1, variant("H00_M0_R0_U1")).play("a b c"), "- a b");
  OneSet<Qlru> highest(2, variant("H00_M2_R2_U1"));
  EXPECT_EQ(highest.play("ab"), "--");
  EXPECT_EQ(highest.state(), (Ages{3, 2}));
  EXPECT_EQ(highest.play("a"), "+");  // 0 2: b grows to 3
  EXPECT_EQ(highest.state(), (Ages{0, 3}));
  EXPECT_EQ(highest.play("b"), "+");  // 0 0: a grows to 3
  EXPECT_EQ(highest.state(), (Ages{3, 0}));
  EXPECT_EQ(highest.play("c"), "a");  // 2 0: c was accessed last and has the largest age, so b grows to 1 only
  EXPECT_EQ(highest.state(), (Ages{2, 1}));
  EXPECT_EQ(highest.play("d"), "b");
}

TEST(Qlru, ThereAre320Variants) {
  std::set<std::string> names;
  for (const Replacement& guess : Qlru::guesses({4})) {
    EXPECT_EQ(policy_refusal<Qlru>(guess.parameters), "");
    names.insert(std::get<std::string>(guess.parameters.at("variant")));
  }
  EXPECT_EQ(names.size(), 320U);
  EXPECT_TRUE(names.contains("H00_M0_R0_U0"));
  EXPECT_TRUE(names.contains("H21_M3_R1_U3_UMO"));
  EXPECT_FALSE(names.contains("H00_M0_R0_U2"));
}

TEST(Qlru, RefusesWhatIsNoVariant) {
  for (const std::string name :
       {"", "H", "lru", "H01_M0_R0_U0", "H22_M0_R0_U0", "H30_M0_R0_U0", "H11_M4_R0_U0", "H11_M1_R3_U0", "H11_M1_R0_U2",
        "H11_M1_R2_U3", "H11_M1_R1_U4", "H11_M1_R1_U0_", "H11_M1_R1_U0_UM", "H11_M1_R1_U0_UMO_UMO", "H11-M1-R1-U0",
        "QLRU_H11_M1_R1_U0", "H11_M:_R0_U0"}) {
    EXPECT_TRUE(policy_refusal<Qlru>(variant(name)).starts_with("variant: `" + name + "` is not known")) << name;
  }
  EXPECT_TRUE(policy_refusal<Qlru>({}).starts_with("variant: is missing"));
  EXPECT_TRUE(policy_refusal<Qlru>({{"variant", std::int64_t{11}}}).starts_with("variant: "));
  EXPECT_TRUE(policy_refusal<Qlru>({{"bits", std::int64_t{2}}}).starts_with("bits: "));
}

}  // namespace
}  // namespace gpuinfer::model
