// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// How the sets of a cache lie in banks, and in which order a pointer sweeps the sets of each, from the order in which
// lines go from a store that is full (docs/method.md). Sets have names here, vectors over GF(2) as an XOR index
// without its order has them: some linear functions of a name tell the bank, others the place in the bank, and with a
// constant added these are the bits of the place.
namespace gpuinfer::infer {

// From one clean start: loads of lines in such sets, none of which overflows. Of the lines of a set the first one goes
// first, and no other need be clear.
struct StoreRun {
  struct Load {
    std::uint32_t set = 0;
    bool is_clear = true;
    std::optional<std::size_t> gone_by;  // the load with which it went; none: it stayed
  };
  std::vector<Load> loads;
};

struct SweepOrder {
  std::vector<std::uint32_t> bank_rows;      // masks over the bits of a set's name
  std::vector<std::uint32_t> position_rows;  // the lowest bit of the place first
  std::uint32_t position_constant = 0;
  std::uint32_t lines_of_bank = 0;  // so many are there before the first go
  std::uint32_t most_at_once = 0;   // that the first load that was too many drove out of a bank

  [[nodiscard]] std::uint32_t banks() const { return std::uint32_t{1} << bank_rows.size(); }
  [[nodiscard]] std::uint32_t bank_of(std::uint32_t set) const;
};

// `set_bits`: of a name. None: `reason` says what contradicts, and is empty where more runs are needed.
[[nodiscard]] std::optional<SweepOrder> fit_sweep_order(const std::vector<StoreRun>& runs, unsigned set_bits,
                                                        std::string& reason);

}  // namespace gpuinfer::infer
