// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

// The shaders as SPIR-V, compiled with the program.
namespace gpuinfer::probe::vulkan {

// How a word is loaded, as play.comp counts it.
enum class LoadPath : std::uint32_t {
  global = 0,    // by its address
  past_l1 = 1,   // the same, coherent
  constant = 2,  // from a uniform buffer
  texel = 3,     // from a uniform texel buffer
  texel_2d = 4,  // from a two-dimensional image of raster_width x raster_height words
};

// As play.comp has them: word number x + raster_width * y is the texel (x, y).
inline constexpr std::uint32_t raster_width = 2048;
inline constexpr std::uint32_t raster_height = 2048;

// `knows_unit`: for devices with VK_NV_shader_sm_builtins.
[[nodiscard]] std::span<const std::uint32_t> play_shader(bool knows_unit);
[[nodiscard]] std::span<const std::uint32_t> clock_shader();
[[nodiscard]] std::span<const std::uint32_t> contend_shader();
// 1, 2 or 4 words.
[[nodiscard]] std::span<const std::uint32_t> load_shared_shader(std::uint32_t element_words);
[[nodiscard]] std::span<const std::uint32_t> set_aside_shader();
[[nodiscard]] std::span<const std::uint32_t> stream_shader();

}  // namespace gpuinfer::probe::vulkan
