// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/vulkan/shaders.hpp"

namespace gpuinfer::probe::vulkan {
namespace {

// What glslc writes.
constexpr std::uint32_t contend[] =
#include <contend.inc>
    ;
constexpr std::uint32_t load_shared_1[] =
#include <load_shared_1.inc>
    ;
constexpr std::uint32_t load_shared_2[] =
#include <load_shared_2.inc>
    ;
constexpr std::uint32_t load_shared_4[] =
#include <load_shared_4.inc>
    ;
constexpr std::uint32_t play[] =
#include <play.inc>
    ;
constexpr std::uint32_t play_knowing_unit[] =
#include <play_knowing_unit.inc>
    ;
constexpr std::uint32_t read_clock[] =
#include <read_clock.inc>
    ;
constexpr std::uint32_t set_aside[] =
#include <set_aside.inc>
    ;
constexpr std::uint32_t stream[] =
#include <stream.inc>
    ;

}  // namespace

std::span<const std::uint32_t> play_shader(bool knows_unit) {
  return knows_unit ? std::span<const std::uint32_t>(play_knowing_unit) : play;
}

std::span<const std::uint32_t> clock_shader() { return read_clock; }
std::span<const std::uint32_t> contend_shader() { return contend; }
std::span<const std::uint32_t> load_shared_shader(std::uint32_t element_words) {
  switch (element_words) {
    case 1:
      return load_shared_1;
    case 2:
      return load_shared_2;
    default:
      return load_shared_4;
  }
}

std::span<const std::uint32_t> set_aside_shader() { return set_aside; }
std::span<const std::uint32_t> stream_shader() { return stream; }

}  // namespace gpuinfer::probe::vulkan
