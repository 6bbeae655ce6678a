// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/latency/chase_design.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

// What differs by no more than rounding to whole cycles explains is the same.
inline constexpr double rounding_cycles = 0.75;

// What a walk of page tables costs more where the walk before it was in another window of addresses. Both kinds of
// walks are to the same pages, loaded as lately and in as many windows: two runs of pages in turn, or one after the
// other.
struct WindowEffect {
  std::uint64_t window_bytes = 0;  // aligned to that
  double more_cycles = 0;
  double error_cycles = 0;  // standard
  std::size_t freedom = 0;  // degrees, of the error
};

struct PageWindows {
  bool is_decided = false;
  std::optional<std::uint64_t> window_bytes;  // none where it is decided: nothing is switched
  std::string reason;                         // unless there are windows
  std::size_t walks = 0;                      // that could have shown otherwise
};

// `effects`: by ascending window; `walk_cycles`: of a walk to memory. There are windows where from one size on all cost
// clearly more than a small part of a walk, and none where all cost less and nothing for sure.
[[nodiscard]] PageWindows conclude_windows(std::span<const WindowEffect> effects, double walk_cycles);

// Looks for windows of page tables of which one is active at a time (Mei & Chu 2014, section 4.2), from two pages to
// half of what is loaded. The designer is of the path, and knows of no window. Throws AskingEnded, QuestionRefused,
// DeviceError.
[[nodiscard]] PageWindows find_page_windows(Asker& device, ChaseDesigner& designer, model::Random random);

}  // namespace gpuinfer::infer
