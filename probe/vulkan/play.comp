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

// The first invocation of each workgroup plays one list of accesses. Compiled with and without knowing the unit it runs
// on (KNOWS_UNIT); all else is specialized. Lists come past the cache that is asked, and latencies go out by additions
// that nobody waits for, which need no line of it.
layout(local_size_x_id = 0) in;

layout(constant_id = 1) const uint chunk_accesses = 1024;   // in shared memory at a time
layout(constant_id = 2) const uint window_accesses = 1024;  // of the lists, in a uniform buffer
layout(constant_id = 3) const uint units = 1;
layout(constant_id = 4) const uint constants = 4096;  // words
layout(constant_id = 5) const uint path = 0;          // LoadPath
layout(constant_id = 6) const bool nothing = false;   // all but the load
layout(constant_id = 7) const uint warm_path = 0;     // of the warm-up

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Word { uint value; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer WordPastL1 { uint value; };

layout(push_constant, scalar) uniform Launch {
  uint64_t begin;      // of the buffer, which is all zeros
  uint64_t list;       // the lists once more, by their address
  uint64_t places;     // of each workgroup, zeros: the unit and how many accesses it played are added
  uint64_t latencies;  // in cycles as the clock counts them, added where the access stands in the lists
  uint64_t end;        // of the buffer
  uint words;          // of the buffer
  uint zero;
  uint from;           // those before it were played already
  uint to;             // no access from here on
} launch;

// The lists, in words from the begin of the buffer.
layout(set = 0, binding = 0, scalar) uniform List { uint words[window_accesses]; } lists[8];

layout(set = 0, binding = 1, scalar) uniform Constants { uint words[constants]; } constant;
layout(set = 0, binding = 2) uniform utextureBuffer texels;

// Of the list of each unit.
struct Seat {
  uint first;
  uint accesses;
  uint warm;  // how many of them are the warm-up, of which nothing is recorded
};
layout(set = 0, binding = 3, scalar) uniform Seats { Seat of_unit[units]; } seats;

shared uint chunk[chunk_accesses];

// Compilers for GPUs of NVIDIA go through the cache of uniform buffers only where they know the number of the buffer.
uint word_of(uint access) {
  const uint i = access % window_accesses;
#ifdef KNOWS_UNIT
  switch (access / window_accesses) {
    case 0: return lists[0].words[i];
    case 1: return lists[1].words[i];
    case 2: return lists[2].words[i];
    case 3: return lists[3].words[i];
    case 4: return lists[4].words[i];
    case 5: return lists[5].words[i];
    case 6: return lists[6].words[i];
    default: return lists[7].words[i];
  }
#else
  return lists[access / window_accesses].words[i];
#endif
}

// `late` is 0, which is not known before.
uint load(uint by, uint word, uvec2 address, uint late) {
  if (by == 2) {
    return constant.words[word | late];
  }
  if (by == 3) {
    return texelFetch(texels, int(word | late)).x;
  }
  address.x |= late;
  return by == 1 ? WordPastL1(packUint2x32(address)).value : Word(packUint2x32(address)).value;
}

void put(uint64_t table, uint number, uint word) { atomicAdd(Word(table + 4 * uint64_t(number)).value, word); }

void main() {
#ifdef KNOWS_UNIT
  const uint unit = gl_SMIDNV;
#else
  const uint unit = 0;
#endif
  if (gl_LocalInvocationIndex != 0) {
    return;
  }
  const Seat seat = seats.of_unit[unit];
  const uint accesses = min(seat.accesses, launch.to);
  if (launch.from > 0 && WordPastL1(launch.places + 8 * uint64_t(gl_WorkGroupID.x) + 4).value != launch.from) {
    return;
  }
  uint value = 0;
  uint played = launch.from;
  while (played < accesses) {
    const uint warm = played < seat.warm ? seat.warm - played : 0;
    // As many as there is room for the latencies of.
    const uint count = min(accesses - played, warm + chunk_accesses);
    uint i = 0;
    while (i < count) {
      // The value of the access before is always 0, which only the memory knows: it makes this access wait for that
      // one. To compare it waits for the list, so that the place is known before the clock is read.
      // Constants come through that cache themselves, so their list has to come another way.
      const uint access = seat.first + played + i;
      const uint word = (path == 2 ? WordPastL1(launch.list + 4 * uint64_t(access)).value : word_of(access)) + value;
      if (word >= launch.words) {
        break;
      }
      const uint64_t place = launch.begin + 4 * uint64_t(word);
      if (place >= launch.end) {
        break;
      }
      const uvec2 address = unpackUint2x32(place);
      if (warm_path != path && i < warm) {
        value = load(warm_path, word, address, 0);
        if (value != 0) {
          break;
        }
        ++i;
        continue;
      }
      const uint slot = i < warm ? 0 : i - warm;
      const uint start = clock2x32ARB().x;
      // The place depends on the first clock, by bits that are always 0, and the second clock is read only where the
      // value allows it: no compiler can move either of them over the load.
      const uint late = start & launch.zero;
      value = nothing ? word | late : load(path, word, address, late);
      chunk[slot] = value;
      if (value != 0) {
        break;
      }
      const uint stop = clock2x32ARB().x;
      chunk[slot] = stop - start;
      ++i;
    }
    for (uint k = warm; k < i; ++k) {
      put(launch.latencies, seat.first + played + k, chunk[k - warm]);
    }
    played += i;
    if (i < count) {
      break;
    }
  }
  put(launch.places, 2 * gl_WorkGroupID.x, launch.from == 0 ? unit : 0);
  put(launch.places, 2 * gl_WorkGroupID.x + 1, played - launch.from);
}
