// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the table wrong: a target that goes to another inference than its name or its buffer asks for, or
// whose values stand elsewhere than its section of a profile does.
#include "infer/studies.hpp"

#include <gtest/gtest.h>

#include <string>

#include "model/description/sections.hpp"

namespace gpuinfer::infer {
namespace {

TEST(Studies, NameAndBufferTellHowATargetIsFoundOut) {
  model::DeviceFacts facts;
  facts.own_buffers["Texture2D"].raster = model::Raster{};
  facts.own_buffers["Instruction"].piece_bytes = 128;
  for (const char* of_a_cpu : {"L1D", "dTLB", "L2"}) {
    facts.own_buffers[of_a_cpu].averages_laps = true;
  }
  EXPECT_EQ(study_of("L1tex", facts).recorded_as, "");
  EXPECT_EQ(study_of("L2TLB", facts).recorded_as, "");
  EXPECT_EQ(study_of("Texture2D", facts).recorded_as, "texels");
  EXPECT_EQ(study_of("Instruction", facts).recorded_as, "pieces of code");
  EXPECT_EQ(study_of("Kernels", facts).recorded_as, "what many threads do at once");
  EXPECT_EQ(study_of("dTLB", facts).recorded_as, "averages over laps");
  EXPECT_NE(&study_of("dTLB", facts), &study_of("L1D", facts));
  EXPECT_NE(&study_of("L2", facts), &study_of("L1D", facts));
  // The same names on a device that answers single loads.
  EXPECT_EQ(&study_of("L2", {}), &study_of("L1tex", {}));
  // Only caches are proven by fresh questions.
  EXPECT_TRUE(study_of("L1tex", facts).proves_itself);
  EXPECT_TRUE(study_of("L1D", facts).proves_itself);
  EXPECT_FALSE(study_of("Texture2D", facts).proves_itself);
  EXPECT_FALSE(study_of("Shared", facts).proves_itself);
}

TEST(Studies, SayWhatHasToBeFoundOutBefore) {
  model::PathDescription path;
  path.caches = {"L2"};
  path.tlbs = {"L1TLB", "L2TLB"};
  EXPECT_EQ(needed_before("Latency", path), (Needed{"L2", "L1TLB", "L2TLB"}));
  EXPECT_EQ(needed_before("Latency"), Needed{});
  EXPECT_EQ(needed_before("Kernels", path), (Needed{"L1tex", "Bandwidth"}));
  EXPECT_EQ(needed_before("L1tex", path), Needed{});
}

TEST(Studies, WhatIsFoundOutStandsInTheSectionOfItsTarget) {
  model::DeviceFacts facts;
  facts.own_buffers["Texture2D"].raster = model::Raster{};
  facts.own_buffers["Instruction"].piece_bytes = 128;
  for (const char* target : {"L1tex", "Texture2D", "Instruction"}) {
    model::DeviceDescription profile;
    study_of(target, facts).leave_open(profile, target, {});
    EXPECT_NE(model::section_with(model::sections(), profile, target), nullptr) << target;
  }
  for (const auto& section : model::sections()) {
    // Tables of named values have no place for what is not known.
    if (!section.target.empty() && section.target != "Bandwidth" && section.target != "Kernels" &&
        section.target != "Fetch") {
      const std::string target(section.target);
      model::DeviceDescription profile;
      study_of(target, facts).leave_open(profile, target, {});
      EXPECT_EQ(section.names(profile), std::vector{std::string(section.key)}) << target;
    }
  }
}

TEST(Studies, WhatWasAskedIsKeptWhereNothingIsKnown) {
  model::DeviceFacts facts;
  facts.own_buffers["Texture2D"].raster = model::Raster{};
  facts.own_buffers["Instruction"].piece_bytes = 128;
  model::DeviceDescription measured;
  measured.textures["Texture2D"] = {.texel_bytes = 4, .width = 2048, .height = 512, .line_texels = {{8, 4}}};
  measured.code["Instruction"] = {.piece_bytes = 128, .levels = {{{.fits_bytes = {}, .cycles = 30}}}};
  model::DeviceDescription profile;
  study_of("Texture2D", facts).leave_open(profile, "Texture2D", measured);
  study_of("Instruction", facts).leave_open(profile, "Instruction", measured);
  EXPECT_EQ(profile.textures.at("Texture2D").width, 2048U);
  EXPECT_EQ(profile.textures.at("Texture2D").height, 512U);
  EXPECT_FALSE(profile.textures.at("Texture2D").line_texels);
  EXPECT_EQ(profile.code.at("Instruction").piece_bytes, 128U);
  EXPECT_FALSE(profile.code.at("Instruction").levels);
}

}  // namespace
}  // namespace gpuinfer::infer
