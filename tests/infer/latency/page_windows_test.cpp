// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/latency/page_windows.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

// What would prove it wrong: windows where nothing is switched, none where something is, or another size.
namespace gpuinfer::infer {
namespace {

constexpr double walk_cycles = 1000;

std::vector<WindowEffect> effects_of(const std::vector<double>& more_cycles, double error_cycles = 1) {
  std::vector<WindowEffect> effects;
  std::uint64_t window_bytes = 1U << 20U;
  for (const double more : more_cycles) {
    effects.push_back({.window_bytes = window_bytes, .more_cycles = more, .error_cycles = error_cycles, .freedom = 30});
    window_bytes *= 2;
  }
  return effects;
}

TEST(ConcludeWindows, DecidesByWhatGoingToAndFroCosts) {
  struct Case {
    std::string what;
    std::vector<WindowEffect> effects;
    bool is_decided;
    std::optional<std::uint64_t> window_bytes;
  };
  const std::vector<Case> cases{
      {"nothing was met", {}, false, {}},
      {"nothing costs anything", effects_of({0, 0.5, -0.4, 0.1}), true, {}},
      {"from the third on", effects_of({0, 0.5, 260, 255}), true, 4U << 20U},
      {"from the first on", effects_of({250, 260, 255}), true, 1U << 20U},
      {"not in the largest ones", effects_of({0, 260, 0}), false, {}},
      {"in one before the others", effects_of({260, 0, 260}), false, {}},
      {"a little, for sure", effects_of({0, 9, 9}), false, {}},
      {"a little, not for sure", effects_of({0, 2, 2}), true, {}},
      {"too few walks", effects_of({0, 0, 260}, 100), false, {}},
  };
  for (const Case& each : cases) {
    const PageWindows found = conclude_windows(each.effects, walk_cycles);
    EXPECT_EQ(found.is_decided, each.is_decided) << each.what;
    EXPECT_EQ(found.window_bytes, each.window_bytes) << each.what;
    EXPECT_EQ(found.reason.empty(), each.window_bytes.has_value()) << each.what;
  }
}

}  // namespace
}  // namespace gpuinfer::infer
