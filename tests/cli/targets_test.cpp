// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/targets.hpp"

#include <gtest/gtest.h>

#include "model/errors.hpp"

namespace gpuinfer::cli {
namespace {

using Names = std::vector<std::string>;

class TwoCaches final : public model::Answerer {
 public:
  TwoCaches() {
    facts_.source = "exec:two";
    facts_.targets = {"L1tex", "L2"};
  }
  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }
  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    return std::vector<model::Answer>(questions.size(), {.latency_cycles = {}, .refusal = "there is no such path"});
  }

 private:
  model::DeviceFacts facts_;
};

TEST(Targets, AreKnownInAnySpellingOnce) {
  EXPECT_EQ(spelled_targets(Names{"l1TEX", "L1tex", "ALL"}), (Names{"L1tex", "all"}));
  EXPECT_THROW(static_cast<void>(spelled_targets(Names{"L9"})), InputError);
}

TEST(Targets, OfADescriptionComeInTheOrderOfTheList) {
  model::DeviceDescription profile;
  for (const char* name : {"ConstL1", "L1TLB", "L1tex", "L2", "another"}) {
    profile.caches[name];
  }
  EXPECT_EQ(described_targets(profile, "file", {}), (Names{"L1tex", "ConstL1", "L2", "L1TLB", "another"}));
}

TEST(Targets, AllIsWhatTheDeviceOffers) {
  TwoCaches device;
  EXPECT_EQ(offered_targets(Names{"L2", "all"}, device), (Names{"L2", "L1tex"}));
}

TEST(Targets, TheDeviceSaysWhyItDoesNotOfferOne) {
  TwoCaches device;
  try {
    static_cast<void>(offered_targets(Names{"ConstL1"}, device));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "--target: ConstL1 is not offered by exec:two, which offers L1tex, L2; it says: there is no such path");
  }
}

}  // namespace
}  // namespace gpuinfer::cli
