// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/asking/leaves.hpp"
#include "model/device_description.hpp"

// Decides which levels laps over code of every length show. Asks nothing.
namespace gpuinfer::infer {

// Laps over so many bytes of straight-line code.
struct CodeLaps {
  std::uint64_t bytes = 0;
  std::vector<double> cycles;  // of every piece of the recorded laps; not empty
};

struct CodeVerdict {
  LeafVerdict leaf = {};
  std::optional<std::vector<model::CodeLevel>> levels = {};  // unless it is open
  std::string learned = {};
};

// Of two rounds of the same lengths, ascending and `step_bytes` apart.
[[nodiscard]] CodeVerdict conclude_code(std::span<const CodeLaps> first, std::span<const CodeLaps> second,
                                        std::uint64_t step_bytes);

}  // namespace gpuinfer::infer
