#version 460
// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#extension GL_ARB_shader_clock : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#ifdef KNOWS_UNIT
#extension GL_NV_shader_sm_builtins : require
#endif

// One workgroup of one invocation plays one list of accesses. Compiled with and without knowing the unit it runs on
// (KNOWS_UNIT); all else is specialized.
layout(local_size_x = 1) in;

layout(constant_id = 0) const uint chunk_accesses = 1024;
layout(constant_id = 1) const uint windows = 1;
layout(constant_id = 2) const uint constants = 1024;  // in groups of four words
layout(constant_id = 3) const uint path = 0;          // LoadPath
layout(constant_id = 4) const bool nothing = false;   // all but the load

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Word { uint value; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer WordPastL1 { uint value; };

layout(push_constant, scalar) uniform Launch {
  uint64_t begin;      // of the buffer, which is all zeros
  uint64_t seats;      // of each list: its first access, how many it has, how many of them are the warm-up
  uint64_t places;     // of each workgroup, written: the unit, how many accesses it played
  uint64_t latencies;  // in cycles as the clock counts them, where the access stands in the lists
  uint words;          // of the buffer
  uint zero;
  uint from;           // a multiple of chunk_accesses: those before it were played already
  uint to;             // no access from here on
} launch;

// The lists, in words from the begin of the buffer. Through uniform buffers, so that they pass through no cache of data.
layout(set = 0, binding = 0, scalar) uniform List { uint words[chunk_accesses]; } lists[windows];

layout(set = 0, binding = 1, scalar) uniform Constants { uvec4 words[constants]; } constant;
layout(set = 0, binding = 2) uniform utextureBuffer texels;

// Accesses, and then their latencies.
shared uint chunk[chunk_accesses];

uint word_at(uint64_t table, uint number) { return atomicOr(Word(table + 4 * uint64_t(number)).value, 0); }

void put(uint64_t table, uint number, uint word) { atomicExchange(Word(table + 4 * uint64_t(number)).value, word); }

uint load(uint word) {
  if (path == 2) {
    return nothing ? word & launch.zero : constant.words[word >> 2][word & 3];
  }
  if (path == 3) {
    return nothing ? word & launch.zero : texelFetch(texels, int(word)).x;
  }
  const uint64_t address = launch.begin + 4 * uint64_t(word);
  if (nothing) {
    return uint(address) & launch.zero;
  }
  return path == 1 ? WordPastL1(address).value : Word(address).value;
}

void main() {
#ifdef KNOWS_UNIT
  const uint unit = gl_SMIDNV;
#else
  const uint unit = 0;
#endif
  const uint first = word_at(launch.seats, 3 * unit);
  const uint accesses = min(word_at(launch.seats, 3 * unit + 1), launch.to);
  const uint warm = word_at(launch.seats, 3 * unit + 2);
  uint value = 0;
  uint played = launch.from;
  if (played > 0 && word_at(launch.places, 2 * gl_WorkGroupID.x + 1) != played) {
    return;
  }
  while (played < accesses) {
    const uint window = (first + played) / chunk_accesses;
    const uint count = min(accesses - played, chunk_accesses);
    for (uint i = 0; i < count; ++i) {
      chunk[i] = lists[window].words[i];
    }
    uint i = 0;
    while (i < count) {
      // The value of the access before is always 0, which only the memory knows: it makes this access wait for that
      // one. To compare it waits for the list, so that the place is known before the clock is read.
      uint word = chunk[i] + value;
      if (word >= launch.words) {
        break;
      }
      const uint start = clock2x32ARB().x;
      // The place depends on the first clock, and the second clock is read only where the value allows it: no compiler
      // can move either of them over the load.
      word += start & launch.zero;
      value = load(word);
      chunk[i] = value;
      if (value != 0) {
        break;
      }
      const uint stop = clock2x32ARB().x;
      chunk[i] = stop - start;
      ++i;
    }
    for (uint k = warm > played ? warm - played : 0; k < i; ++k) {
      put(launch.latencies, first + played + k, chunk[k]);
    }
    played += i;
    if (i < count) {
      break;
    }
  }
  put(launch.places, 2 * gl_WorkGroupID.x, unit);
  put(launch.places, 2 * gl_WorkGroupID.x + 1, played);
}
