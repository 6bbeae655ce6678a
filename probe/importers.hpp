// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "model/array_timing.hpp"
#include "model/set_sequence.hpp"
#include "model/trace.hpp"

// Recordings in other people's forms. All throw InputError with file and line. Texts do not say which load path was
// timed: the target of their questions is empty.
namespace gpuinfer::probe {

// Mei & Chu: sections of a header `=====... 12.03 KB array, loop 4096*1 times====`, `NEXT latency` rows with NEXT in
// 4-byte words, and perhaps a footer of ====; one trace for each. The access of a row is the predecessor of NEXT in a
// chase of one stride. The warm-up is the same chase run once before from element 0, where the first row is where such
// a run ends; a section headed `cold` that begins at element 0 has none; else start_is_known is false.
[[nodiscard]] std::vector<model::Trace> read_mei(const std::filesystem::path& file);

// CSV `offset,latency`, an optional header line, # comments; the start state is not known.
[[nodiscard]] model::Trace read_csv(const std::filesystem::path& file);

// Raw rows of MT4G (Vanecek et al., "MT4G: A Tool for Reliable Auto-Discovery of NVIDIA and AMD GPU Compute and Memory
// Topologies"), one trace for each row that has a latency, in three forms:
//   stride,size,latency,...  an array of so many bytes that was chased round once in such steps, with the latencies of
//                            what came next; where the size is no multiple of the stride, the chase comes to a word
//                            between its loads, from which it goes on with the first one ("Line Size")
//   size,latency,...         the same in steps that a line `# stride BYTES` names
//   stride,latency,...       such steps from an empty cache on, without the first load ("Fetch Granularity")
// MT4G itself leaves out the first load: it is missing where there is one latency less than a power of two from 32 on,
// or than the array has steps. A header line that begins with `size`, `stride,size` or `stride` says which form it is.
// Without one, first numbers 4 apart from at most 64 on are strides; where every second number is four times the first
// or more, and larger than all others of its row, these are stride and size. The cache is taken to be empty before, as
// it is after a kernel was launched.
[[nodiscard]] std::vector<model::Trace> read_mt4g(const std::filesystem::path& file);

// Rows of MT4G that are no traces: `size,latency,...` where no line names the stride ("Size"), and rows of one latency,
// which is a mean. Empty: the file holds others.
[[nodiscard]] std::vector<model::ArrayTiming> read_array_timings(const std::filesystem::path& file);

// Sequences over one set with their hits, in the notation of nanoBench (Abel & Reineke, ISPASS 2020, section VI):
//
//   <wbinvd> B0 B1? B2 B0? -> 1
//   <wbinvd> B0 B1 B0? B2? -> HIT MISS
//
// Words are lines of the set, those with `?` are counted, and <wbinvd>, with which each sequence begins, empties the
// set. Behind the arrow stands how many of the counted accesses hit, or HIT or MISS (H, M) for each. # comments.
[[nodiscard]] std::vector<model::SetSequence> read_set_sequences(const std::filesystem::path& file);

// True where the first line that is no comment has such an arrow.
[[nodiscard]] bool holds_set_sequences(const std::filesystem::path& file);

// Traces in any of the above forms, or every trace of an archive; by content, not by name.
[[nodiscard]] std::vector<model::Trace> read_traces(const std::filesystem::path& file);

}  // namespace gpuinfer::probe
