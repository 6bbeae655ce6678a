// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuinfer::model {

struct ElementBandwidth {
  std::uint32_t element_bits = 32;
  double bytes_per_second = 0;       // by all SMs, loads and stores together
  double elements_per_sm_clock = 0;  // with the clock that was in force

  bool operator==(const ElementBandwidth&) const = default;
};

// The most that comes out of a memory (Konstantinidis & Cotronis 2016, table III).
struct Bandwidth {
  std::optional<ElementBandwidth> best;
  // Ascending. Where any are listed, nothing is known of elements of other sizes; where none is, all give the best.
  std::vector<ElementBandwidth> by_element_bits;

  bool operator==(const Bandwidth&) const = default;
};

// Of elements of one size; none: it is not known.
[[nodiscard]] inline std::optional<ElementBandwidth> of_elements(const Bandwidth& bandwidth,
                                                                 std::uint32_t element_bits) {
  if (bandwidth.by_element_bits.empty()) {
    return bandwidth.best;
  }
  const auto own = std::ranges::find(bandwidth.by_element_bits, element_bits, &ElementBandwidth::element_bits);
  return own == bandwidth.by_element_bits.end() ? std::nullopt : std::optional(*own);
}

// What is loaded only, and what is copied or stored to with streaming stores.
inline constexpr std::array<std::string_view, 11> bandwidth_names{"L1",        "texture",   "shared",    "shared_store",
                                                                  "constant",  "L2_load",   "L2_copy",   "L2_store",
                                                                  "DRAM_load", "DRAM_copy", "DRAM_store"};

// By one of these names.
struct BandwidthDescription : std::map<std::string, Bandwidth> {
  // Of copies of one element by each thread: between which sizes of the dataset what L2 saves stops growing (Lashgar,
  // Salehi, Baniasadi 2015, section 3.3).
  std::optional<std::array<double, 2>> copy_knee_bytes;
  std::vector<std::string> assumed;  // names of those of a virtual device that no source gives

  bool operator==(const BandwidthDescription&) const = default;
};

}  // namespace gpuinfer::model
