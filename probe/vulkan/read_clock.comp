#version 460
// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#extension GL_ARB_shader_clock : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

// Readings of the clock one after another, as many as launch.words says.
layout(local_size_x = 1) in;

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
  for (uint i = 0; i < launch.words; ++i) {
    // Each store waits for the one before, which takes longer than a cache.
    const uint reading = clock2x32ARB().x;
    atomicExchange(Cell(launch.latencies + 4 * uint64_t(i)).value, reading);
  }
}
