#version 460
// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#extension GL_ARB_shader_clock : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_samplerless_texture_functions : require
#ifdef KNOWS_UNIT
#extension GL_NV_shader_sm_builtins : require
#endif

// The first invocation of each workgroup plays one list of accesses. Compiled with and without knowing the unit it runs
// on (KNOWS_UNIT); all else is specialized. Lists come past the cache that is asked. Latencies go out by additions that
// nobody waits for, which need no line of it; since they may need room, the registers of all invocations keep latencies
// as long as they can.
layout(local_size_x_id = 0) in;

layout(constant_id = 0) const uint invocations = 1;
layout(constant_id = 1) const uint chunk_accesses = 1024;   // whose latencies are in shared memory at a time
layout(constant_id = 2) const uint window_accesses = 1024;  // of the lists, in a uniform buffer
layout(constant_id = 3) const uint units = 1;
layout(constant_id = 4) const uint constants = 4096;  // words
layout(constant_id = 5) const uint path = 0;          // LoadPath
layout(constant_id = 6) const bool nothing = false;   // all but the load
layout(constant_id = 7) const uint warm_path = 0;     // of the warm-up

// Of each invocation, with two latencies in each.
const uint kept_words = 8;

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
layout(set = 0, binding = 4) uniform utexture2D raster;
const uint raster_width = 2048;

// Of the list of each unit.
struct Seat {
  uint first;
  uint accesses;
  uint warm;  // how many of them are the warm-up, of which nothing is recorded
};
layout(set = 0, binding = 3, scalar) uniform Seats { Seat of_unit[units]; } seats;

// Accesses that are played until all invocations take a latency each, or the only one puts them all out.
const uint at_a_time = invocations > 1 ? invocations : chunk_accesses;
// And until the latencies go out.
const uint turns = invocations > 1 ? 2 * kept_words : 1;

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

// Constants come through the cache of lists themselves, so their list has to come another way.
uint listed(uint access) {
  return path == 2 || warm_path == 2 ? WordPastL1(launch.list + 4 * uint64_t(access)).value : word_of(access);
}

// `late` is 0, which is not known before.
uint load(uint by, uint word, uvec2 address, uint late) {
  if (by == 2) {
    return constant.words[word | late];
  }
  if (by == 3) {
    return texelFetch(texels, int(word | late)).x;
  }
  if (by == 4) {
    return texelFetch(raster, ivec2(address.x | late, address.y), 0).x;
  }
  address.x |= late;
  return by == 1 ? WordPastL1(packUint2x32(address)).value : Word(packUint2x32(address)).value;
}

void put(uint64_t table, uint number, uint word) { atomicAdd(Word(table + 4 * uint64_t(number)).value, word); }

bool is_outside(uint word) { return word >= launch.words || launch.begin + 4 * uint64_t(word) >= launch.end; }

// Or the texel.
uvec2 address_of(uint by, uint word) {
  return by == 4 ? uvec2(word % raster_width, word / raster_width) : unpackUint2x32(launch.begin + 4 * uint64_t(word));
}

// By the first invocation: plays from access `i` of the list to `end`, with latencies to shared memory from access
// `first` on, and returns where it ended, sooner than it should if the buffer is not all zeros. `zero` is 0, which no
// compiler knows.
uint play_chunk(Seat seat, uint i, uint first, uint end, uint zero) {
  uint value = zero;
  while (i < end) {
    // The value of the access before is always 0, which only the memory knows: it makes this access wait for that
    // one. To compare it waits for the list, so that the place is known before the clock is read.
    const uint word = listed(seat.first + i) + value;
    if (is_outside(word)) {
      break;
    }
    const uvec2 address = address_of(path, word);
    if (warm_path != path && i < seat.warm) {
      value = load(warm_path, word, address_of(warm_path, word), 0);
      if (value != 0) {
        break;
      }
      ++i;
      continue;
    }
    const uint slot = i < first ? 0 : i - first;
    const uint start = clock2x32ARB().x;
    // The place depends on the first clock, by bits that are always 0, and the second clock is read only where the
    // value allows it: no compiler can move either of them over the load.
    const uint late = start & zero;
    value = nothing ? word | late : load(path, word, address, late);
    chunk[slot] = value;
    if (value != 0) {
      break;
    }
    const uint stop = clock2x32ARB().x;
    chunk[slot] = stop - start;
    ++i;
  }
  return i;
}

void main() {
#ifdef KNOWS_UNIT
  const uint unit = gl_SMIDNV;
#else
  const uint unit = 0;
#endif
  const uint me = invocations == 1 ? 0 : gl_LocalInvocationIndex;
  const Seat seat = seats.of_unit[unit];
  const uint accesses = min(seat.accesses, launch.to);
  const uint64_t place = launch.places + 8 * uint64_t(gl_WorkGroupID.x);
  if (launch.from > 0 && WordPastL1(place + 4).value != launch.from) {
    return;
  }
#ifdef KNOWS_UNIT
  // Compilers for GPUs of NVIDIA must not know that all invocations have the same, since they read the clock otherwise
  // then, in another time; those for GPUs of AMD must, for constants to come through the cache of scalars.
  const uint zero = launch.zero & WordPastL1(place).value;
#else
  const uint zero = launch.zero;
#endif
  uint played = launch.from;
  // The warm-up is played before the first of those that are recorded.
  uint begin = max(launch.from, seat.warm);
  do {
    uint kept[kept_words];
    [[unroll]] for (uint k = 0; k < kept_words; ++k) {
      kept[k] = 0;
    }
    uint turn = 0;
    do {
      const uint first = begin + turn * at_a_time;
      barrier();
      if (me == 0) {
        played = play_chunk(seat, played, first, min(accesses, first + at_a_time), zero);
      }
      barrier();
      const uint latency = min(chunk[me], 0xFFFF);
      [[unroll]] for (uint k = 0; k < kept_words; ++k) {
        kept[k] |= k == turn / 2 ? latency << 16 * (turn % 2) : 0;
      }
      ++turn;
    } while (turn < turns && begin + turn * at_a_time < accesses);
    if (invocations == 1) {
      for (uint i = begin; i < played; ++i) {
        put(launch.latencies, seat.first + i, chunk[i - begin]);
      }
    } else {
      [[unroll]] for (uint k = 0; k < 2 * kept_words; ++k) {
        const uint i = begin + k * at_a_time + me;
        if (i < accesses) {
          put(launch.latencies, seat.first + i, kept[k / 2] >> 16 * (k % 2) & 0xFFFF);
        }
      }
    }
    begin += turns * at_a_time;
  } while (begin < accesses);
  if (me == 0) {
    put(launch.places, 2 * gl_WorkGroupID.x, launch.from == 0 ? unit : 0);
    put(launch.places, 2 * gl_WorkGroupID.x + 1, played - launch.from);
  }
}
