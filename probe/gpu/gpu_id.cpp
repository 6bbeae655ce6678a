// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/gpu/gpu_id.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "model/sha256.hpp"

namespace gpuinfer::probe::gpu {

namespace {

void append_hexadecimal(std::string& text, unsigned byte) {
  constexpr std::string_view digits = "0123456789abcdef";
  text += digits[byte >> 4U];
  text += digits[byte & 0xfU];
}

}  // namespace

std::string uuid_text(std::span<const std::byte, 16> uuid) {
  constexpr std::array<std::size_t, 4> hyphens_before{4, 6, 8, 10};
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    text += std::ranges::find(hyphens_before, i) == hyphens_before.end() ? "" : "-";
    append_hexadecimal(text, std::to_integer<unsigned>(uuid[i]));
  }
  return text;
}

std::string gpu_id(std::string_view uuid) {
  constexpr std::size_t id_bytes = 8;
  const std::array<std::uint8_t, 32> digest = model::sha256(std::as_bytes(std::span(uuid)));
  std::string text;
  for (std::size_t i = 0; i < id_bytes; ++i) {
    append_hexadecimal(text, digest.at(i));
  }
  return text;
}

}  // namespace gpuinfer::probe::gpu
