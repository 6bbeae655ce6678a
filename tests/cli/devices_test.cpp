// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "cli/devices/kind.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {
namespace {

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(parse_device(text));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(DeviceAddress, TheFirstColonEndsTheKind) {
  const DeviceAddress device = parse_device("exec:ssh node gpuinfer serve --device cuda:0");
  EXPECT_EQ(device.kind->name, "exec");
  EXPECT_EQ(device.rest, "ssh node gpuinfer serve --device cuda:0");
  EXPECT_EQ(device.faults, std::nullopt);
}

TEST(DeviceAddress, FaultsAreNoKind) {
  const DeviceAddress device = parse_device("faulty:lost@80,drift@1:virtual:a:b.yaml");
  EXPECT_EQ(device.kind->name, "virtual");
  EXPECT_EQ(device.rest, "a:b.yaml");
  EXPECT_EQ(device.faults, "lost@80,drift@1");
}

TEST(DeviceAddress, IsWrittenAsItWasRead) {
  for (const char* text : {"cuda:1", "host", "auto", "recorded:/a b/c.h5", "faulty:lost@1:host", "exec::"}) {
    EXPECT_EQ(to_text(parse_device(text)), text);
  }
}

TEST(DeviceAddress, WhatIsNoneSaysWhatCanBeWritten) {
  for (const char* text : {"", ":", "gtx780", "CUDA:0", "cuda", "cuda:", "host:", "host:1", "auto:gpu", "faulty:lost@1",
                           "faulty:lost@1:", "faulty:lost@1:gtx780", "faulty:lost@1:faulty:lost@2:host"}) {
    const std::string error = error_of(text);
    EXPECT_TRUE(
        error.starts_with("--device: `" + std::string(text) + "` is not a device; write cuda:N, vulkan:N, host, "))
        << error;
    EXPECT_TRUE(error.ends_with(", gpu or auto")) << error;
  }
}

TEST(DeviceKinds, EachOpensOrStandsForAnother) {
  std::set<std::string_view> names;
  for (const DeviceKind& kind : device_kinds()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_EQ(kind.name.find(':'), std::string_view::npos);
    EXPECT_NE(kind.open == nullptr, kind.choose == nullptr) << kind.name;
    EXPECT_TRUE(kind.choose == nullptr || kind.rest.empty()) << kind.name;
    // `gpu` takes the first that is listed.
    EXPECT_TRUE(kind.gpus == nullptr || kind.list != nullptr) << kind.name;
  }
}

TEST(DeviceKinds, WhatIsListedCanBeNamed) {
  std::set<std::string> seen;
  for (const DeviceKind& kind : device_kinds()) {
    for (const ListedDevice& device : kind.list == nullptr ? std::vector<ListedDevice>{} : kind.list()) {
      EXPECT_EQ(parse_device(device.address).kind, &kind);
      EXPECT_TRUE(seen.insert(device.address).second) << device.address;
    }
  }
  EXPECT_TRUE(seen.contains("virtual:gtx780"));
}

TEST(DeviceKinds, OnlySomeTakeACarveOut) {
  try {
    static_cast<void>(open_device({.device = parse_device("virtual:gtx780"), .carveout_kb = 8}));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "--carveout: goes with cuda:N, vulkan:N or ssh:HOST:DEVICE, and virtual:gtx780 is none; leave it out");
  }
}

TEST(DeviceKinds, AListOfThemReadsAsASentence) {
  const auto either = [](const std::set<std::string_view>& names) {
    return either_of(device_kinds(),
                     [&](const DeviceKind& kind) { return names.contains(kind.name) ? std::string(kind.name) : ""; });
  };
  EXPECT_EQ(either({}), "");
  EXPECT_EQ(either({"host"}), "host");
  EXPECT_EQ(either({"host", "cuda"}), "cuda or host");
  EXPECT_EQ(either({"host", "cuda", "auto"}), "cuda, host or auto");
}

}  // namespace
}  // namespace gpuinfer::cli
