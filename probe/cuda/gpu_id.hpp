// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpuinfer::probe::cuda {

// SHA-256 (FIPS 180-4, section 6.2). Here rather than from a library, since one short text is all that it is for, and
// nothing is to be kept secret by it against whoever can try all serial numbers: those are never hashed.
[[nodiscard]] std::array<std::uint8_t, 32> sha256(std::string_view message);

// What tells GPUs apart without saying which one it is: the first 64 bits of the SHA-256 of the UUID, in the form in
// which nvidia-smi shows it (GPU-01234567-89ab-...), as 16 hexadecimal digits.
[[nodiscard]] std::string gpu_id(std::string_view uuid);

}  // namespace gpuinfer::probe::cuda
