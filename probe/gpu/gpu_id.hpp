// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gpuinfer::probe::gpu {

// SHA-256 (FIPS 180-4, section 6.2). Here rather than from a library, since one short text is all that it is for, and
// nothing is to be kept secret by it against whoever can try all serial numbers: those are never hashed.
[[nodiscard]] std::array<std::uint8_t, 32> sha256(std::string_view message);

// GPU-01234567-89ab-cdef-0123-456789abcdef, as nvidia-smi has it.
[[nodiscard]] std::string uuid_text(std::span<const std::byte, 16> uuid);

// What tells GPUs apart without saying which one it is: the first 64 bits of the SHA-256 of the UUID, as
// uuid_text() has it, as 16 hexadecimal digits. CUDA and Vulkan show the same UUID.
[[nodiscard]] std::string gpu_id(std::string_view uuid);

}  // namespace gpuinfer::probe::gpu
