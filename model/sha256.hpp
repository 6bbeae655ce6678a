// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gpuinfer::model {

// SHA-256 (FIPS 180-4, section 6.2), for telling apart what is equal from what is not. Here rather than from a library,
// since nothing is kept secret by it.
[[nodiscard]] std::array<std::uint8_t, 32> sha256(std::span<const std::byte> message);

}  // namespace gpuinfer::model
