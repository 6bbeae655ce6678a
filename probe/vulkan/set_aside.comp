#version 460
// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#extension GL_ARB_shader_clock : require

// Nearly no shared memory, where play.comp has much: a unit that takes both from one memory sets up its L1 anew between
// them. Stays long enough for every workgroup of the launch to have found a unit.
layout(local_size_x = 1) in;

void main() {
  const uint stay_cycles = 10000;
  const uint start = clock2x32ARB().x;
  while (clock2x32ARB().x - start < stay_cycles) {
  }
}
