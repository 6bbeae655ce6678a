#version 460
// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#extension GL_ARB_shader_clock : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

// All workgroups, one on each unit, add zero to words at both places of a pair, pair after pair. Two of the rows of
// invocations go to each place; one invocation of a row, with so many additions under way, keeps a slice busy.
const uint rows = 4;
const uint row_invocations = 32;
const uint most_pairs = 1024;
layout(local_size_x = 128) in;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Word { uint value; };

// As in play.comp.
layout(push_constant, scalar) uniform Launch {
  uint64_t begin;      // of the buffer, which is all zeros
  uint64_t list;       // words of the buffer, two of each pair
  uint64_t places;     // zero: how often a workgroup was ready
  uint64_t latencies;  // zeros: cycles of all workgroups together, of each pair
  uint64_t end;
  uint words;  // of the list
  uint zero;
  uint from;
  uint to;
} launch;

shared uint cycles[most_pairs];
shared uint sinks[rows];

void wait_for_all(uint target) {
  barrier();
  if (gl_LocalInvocationIndex == 0) {
    atomicAdd(Word(launch.places).value, 1);
    while (atomicOr(Word(launch.places).value, launch.zero) < target) {
    }
  }
  barrier();
}

uint word_of(uint number) { return Word(launch.list + 4 * uint64_t(number)).value; }

void main() {
  const uint pairs = launch.words / 2;
  const uint row = gl_LocalInvocationIndex / row_invocations;
  const bool adds = gl_LocalInvocationIndex % row_invocations == 0;
  // The first pair comes twice, as at first it is slow because of the code.
  for (uint round = 0; round <= pairs; ++round) {
    const uint pair = round == 0 ? 0 : round - 1;
    const uint64_t address = launch.begin + 4 * uint64_t(word_of(2 * pair + row % 2));
    wait_for_all((round + 1) * gl_NumWorkGroups.x);
    const uint start = clock2x32ARB().x;
    if (adds) {
      // The place depends on the first clock, by bits that are always 0.
      Word word = Word(address + 4 * uint64_t(start & launch.zero));
      const uint a = atomicAdd(word.value, launch.zero);
      const uint b = atomicAdd(word.value, launch.zero);
      const uint c = atomicAdd(word.value, launch.zero);
      const uint d = atomicAdd(word.value, launch.zero);
      const uint e = atomicAdd(word.value, launch.zero);
      const uint f = atomicAdd(word.value, launch.zero);
      const uint g = atomicAdd(word.value, launch.zero);
      const uint h = atomicAdd(word.value, launch.zero);
      sinks[row] = a + b + c + d + e + f + g + h;
    }
    barrier();
    // What was added to is zero, which only the memory knows.
    const uint stop = clock2x32ARB().x + (sinks[0] & sinks[1]);
    if (gl_LocalInvocationIndex == 0) {
      cycles[pair] = stop - start;
    }
  }
  barrier();
  for (uint pair = gl_LocalInvocationIndex; pair < pairs; pair += gl_WorkGroupSize.x) {
    atomicAdd(Word(launch.latencies + 4 * uint64_t(pair)).value, cycles[pair]);
  }
}
