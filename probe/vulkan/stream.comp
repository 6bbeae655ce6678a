#version 460
// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

// Reads launch.words from launch.begin on, all invocations together.
layout(local_size_x = 64) in;

layout(buffer_reference, scalar, buffer_reference_align = 16) coherent buffer Four { uvec4 values; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Cell { uint value; };

// As in play.comp.
layout(push_constant, scalar) uniform Launch {
  uint64_t begin;
  uint64_t list;
  uint64_t places;
  uint64_t latencies;
  uint64_t end;
  uint words;
  uint zero;
  uint from;
  uint to;
} launch;

void main() {
  const uint fours = launch.words / 4;
  uvec4 any = uvec4(0);
  for (uint i = gl_GlobalInvocationID.x; i < fours; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    any |= Four(launch.begin + 16 * uint64_t(i)).values;
  }
  // The memory is all zeros, which only it knows.
  if (any != uvec4(0)) {
    Cell(launch.latencies).value = any.x;
  }
}
