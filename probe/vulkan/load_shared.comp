#version 460
// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#extension GL_ARB_shader_clock : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

// Each workgroup loads from shared memory as model::SharedLoads says, by elements of ELEMENT_WORDS words.
const uint lanes = 32;
const uint shared_words = 8192;
const uint loads_of_run = 64;
layout(local_size_x = lanes) in;

layout(constant_id = 6) const bool nothing = false;  // all but the loads

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Word { uint value; };

// Of a workgroup.
struct Seat {
  uint lane_offsets[lanes];  // in bytes
  uint runs;
  uint first_run;
};
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Seats { Seat of_workgroup[]; };

// As in play.comp.
layout(push_constant, scalar) uniform Launch {
  uint64_t begin;
  uint64_t list;  // seats
  uint64_t places;
  uint64_t latencies;  // zeros: cycles of each run
  uint64_t end;
  uint words;
  uint zero;
  uint from;
  uint to;
} launch;

#if ELEMENT_WORDS == 1
#define Element uint
Element element_of(uint word) { return word; }
uint first_of(Element element) { return element; }
uint others_of(Element element) { return 0; }
#elif ELEMENT_WORDS == 2
#define Element uvec2
Element element_of(uint word) { return uvec2(word, 0); }
uint first_of(Element element) { return element.x; }
uint others_of(Element element) { return element.y; }
#else
#define Element uvec4
Element element_of(uint word) { return uvec4(word, 0, 0, 0); }
uint first_of(Element element) { return element.x; }
uint others_of(Element element) { return element.y | element.z | element.w; }
#endif

shared Element memory[shared_words / ELEMENT_WORDS];

void main() {
  const uint me = gl_LocalInvocationIndex;
  const Seat seat = Seats(launch.list).of_workgroup[gl_WorkGroupID.x];
  const uint begin = seat.lane_offsets[me] / (4 * ELEMENT_WORDS);
  memory[begin] = element_of(begin);
  barrier();
  uint at = begin;
  // The first run brings the code.
  for (uint run = 0; run <= seat.runs; ++run) {
    uint others = 0;
    const uint start = clock2x32ARB().x;
    // As in play.comp, no compiler can move a reading of the clock over the loads.
    at |= start & launch.zero;
    [[unroll]] for (uint i = 0; i < loads_of_run; ++i) {
      if (nothing) {
        // What makes the index an address for a load.
        at <<= launch.zero;
      } else {
        const Element element = memory[at];
        at = first_of(element);
        others |= others_of(element);
      }
    }
    // As it is there already, which only the memory knows.
    memory[begin] = element_of(at | others);
    if ((at | others) != begin) {
      break;
    }
    const uint stop = clock2x32ARB().x;
    if (me == 0 && run > 0) {
      Word(launch.latencies + 4 * uint64_t(seat.first_run + run - 1)).value = stop - start;
    }
  }
}
