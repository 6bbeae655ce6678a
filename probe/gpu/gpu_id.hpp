// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace gpuinfer::probe::gpu {

// GPU-01234567-89ab-cdef-0123-456789abcdef, as nvidia-smi has it.
[[nodiscard]] std::string uuid_text(std::span<const std::byte, 16> uuid);

// What tells GPUs apart without saying which one it is: the first 64 bits of the SHA-256 of the UUID, as
// uuid_text() has it, as 16 hexadecimal digits. CUDA and Vulkan show the same UUID. Serial numbers are never hashed:
// whoever can try all of them would find them out.
[[nodiscard]] std::string gpu_id(std::string_view uuid);

}  // namespace gpuinfer::probe::gpu
