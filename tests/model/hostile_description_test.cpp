// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "model/cache_simulator.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/hierarchy.hpp"
#include "model/yaml_limits.hpp"

// Descriptions that mean harm. Each gets one sentence.
namespace gpuinfer::model {
namespace {

std::string error_of(const std::string& yaml) {
  try {
    static_cast<void>(parse_description(yaml, "hostile.yaml"));
  } catch (const InputError& error) {
    std::string message = error.what();
    EXPECT_TRUE(message.starts_with("hostile.yaml:") && message.find('\n') == std::string::npos) << message;
    return message;
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

bool says(const std::string& message, std::string_view part) { return message.find(part) != std::string::npos; }

const std::string begin = "schema: gpuinfer/1\n";

TEST(HostileDescription, IsNotNestedWithoutEnd) {
  for (const std::string& deep : {"evidence: " + std::string(100'000, '['), "evidence: " + std::string(100'000, '{')}) {
    const std::string message = error_of(begin + deep);
    EXPECT_TRUE(says(message, ":2: lists and maps are nested more than 64 deep")) << message;
  }
  std::string blocks = "evidence:";
  for (int i = 0; i < 10'000; ++i) {
    blocks += " -";
  }
  error_of(begin + blocks + " 1");
}

TEST(HostileDescription, DoesNotMultiplyByAliases) {
  std::string bomb = begin + "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char letter = 'b'; letter < 'j'; ++letter) {
    bomb += std::string(1, letter) + ": &" + letter + " [";
    for (int i = 0; i < 9; ++i) {
      bomb += std::string("*") + static_cast<char>(letter - 1) + ", ";
    }
    bomb += "]\n";
  }
  EXPECT_TRUE(says(error_of(bomb), ":2: anchors and aliases are not read"));
}

TEST(HostileDescription, HasAnEnd) {
  EXPECT_TRUE(says(error_of(std::string(most_description_bytes + 1, '#')), "is longer than 16777216 bytes"));
  try {
    static_cast<void>(read_description("/dev/zero"));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_TRUE(says(error.what(), "/dev/zero: is longer than 16777216 bytes")) << error.what();
  }
}

TEST(HostileDescription, NumbersStayInTheirRange) {
  for (const char* value : {"nan", ".nan", "inf", "-1", "1e999", "1e10", "0x10", "99999999999999999999"}) {
    const std::string message = error_of(begin + "noise: {jitter_cycles: " + value + "}\n");
    EXPECT_TRUE(says(message, "not a number from 0 to 1.0e+09")) << message;
  }
  EXPECT_TRUE(says(error_of(begin + "caches: {C: {ways: [4294967296]}}\n"), "not a whole number from 1 to 67108864"));
  EXPECT_TRUE(says(error_of(begin + "caches: {C: {ways: [67108864, 67108864]}}\n"), "lines, more than 67108864"));
}

TEST(HostileDescription, NothingInItIsRun) {
  EXPECT_TRUE(says(error_of(begin + "device: !!python/object/apply:os.system [\"touch hostile\"]\n"), "the tag"));
  EXPECT_FALSE(std::filesystem::exists("hostile"));
}

TEST(HostileDescription, NamesInItDoNotBreakTheSentence) {
  EXPECT_TRUE(
      says(error_of(begin + "caches: {\"a\\n b\": {nothing: 1}}\n"), ": caches.a? b.nothing: is not a known key"));
  EXPECT_TRUE(says(error_of(begin + "caches: {C: {replacement: {policy: \"l\\n\\0u\"}}}\n"), "`l??u` is not known"));
  EXPECT_TRUE(says(error_of(begin + "caches: {" + std::string(most_key_bytes + 1, 'c') + ": {}}\n"),
                   ":2: a key has more than 128 bytes"));
  try {
    static_cast<void>(HierarchySimulator(DeviceDescription{}, "a\nb", 1));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_TRUE(says(error.what(), "paths.a?b: is not described")) << error.what();
  }
}

}  // namespace
}  // namespace gpuinfer::model
