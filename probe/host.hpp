// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/answerer.hpp"

namespace gpuinfer::probe {

struct HostOptions {
  bool huge_pages = true;  // false: do as if there were none
  std::uint64_t seed = 1;  // of how long plays wait between laps
};

// What the CPU calls itself; none: open_host() cannot ask this kind of CPU.
[[nodiscard]] std::optional<std::string> host_name();

// What open_host() offers: none where it cannot ask.
[[nodiscard]] std::vector<std::string> host_targets();

// The CPU that runs this program, as any user may ask it, in a virtual machine too. Latencies are cycles of the time
// stamp counter. Targets: L1D, whose questions are played many times from the same start and averaged, less what an
// empty measurement takes, see host/amplification.hpp; L2, L3 and dTLB, of which laps are timed, see host/laps.hpp.
//
// Offsets count from an address 0, of which the bits above the 4 KB page are not physical, see
// host/scattered_lines.hpp; those of L2, L3 and dTLB are virtual addresses from the begin of a page of 2 MB on. States
// other than `flooded`, and for laps `keep`, are refused: `clean` is not to be had without privileges, and the others
// have no meaning for what is played many times. Throws DeviceUnavailable on a CPU other than x86-64,
// and where memory for loads or for code is refused.
[[nodiscard]] std::unique_ptr<model::Answerer> open_host(const HostOptions& options = {});

}  // namespace gpuinfer::probe
