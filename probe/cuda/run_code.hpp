// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// What the kernels that run straight-line code get. Each is in a module of its own, as it is long.
namespace gpuinfer::probe::cuda {

// The code, in pieces that are timed one by one.
inline constexpr std::uint32_t code_pieces = 192;
// Of run_code: bytes of code, clocks and stores included.
inline constexpr std::uint32_t code_piece_bytes = 1024;
// Of run_immediates: bytes of constants, of which each piece uses the first word. No line of constants is shorter.
inline constexpr std::uint32_t immediate_piece_bytes = 64;

struct CodeLaunch {
  std::uint32_t* blocks = nullptr;  // on the GPU; counts those on the SM that is asked for, each of which runs the code
  std::uint32_t* cycles = nullptr;  // of each piece of each recorded lap
  std::uint32_t pieces = 0;         // of a lap, from the first one on; at least one
  std::uint32_t warm_laps = 0;
  std::uint32_t laps = 0;  // recorded
  std::uint32_t sm = 0;
  float factor = 0;  // which the compiler does not know
};

}  // namespace gpuinfer::probe::cuda
