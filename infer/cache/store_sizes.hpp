// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "infer/cache/random_lines.hpp"

namespace gpuinfer::infer {

// One of the sizes that a store can have.
struct StoreSize {
  std::optional<std::uint32_t> carveout_kb = {};  // none: that which the device has by itself
  std::uint64_t onset_lines = 0;                  // of a contiguous array
  std::uint64_t present_lines = 0;                // of a sample of many

  [[nodiscard]] model::Circumstances circumstances() const {
    return {.warm_target = {}, .shared_memory_kb = carveout_kb, .unit = {}};
  }
  [[nodiscard]] std::string name() const;
};

struct StoreSizes {
  StoreSize own;
  std::vector<StoreSize> offered;  // by carve-outs
  StoreSize smallest;              // of all these
  StoreSize largest;
};

// Of sizes that measure the same the own one comes first, then those that are offered first.
[[nodiscard]] StoreSizes sizes_by(std::uint64_t StoreSize::*measure, StoreSize own, std::vector<StoreSize> offered);

// `own_onset_bytes`: so much of a contiguous array fits without a carve-out. Throws NoSweptStore where more lines fit
// than can be followed.
[[nodiscard]] StoreSizes measure_store_sizes(Interrogator& device, RandomLines& lines, std::uint64_t own_onset_bytes);

}  // namespace gpuinfer::infer
