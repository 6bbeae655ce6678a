// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

// Figures of the papers that `simulate --figure` draws, and how each is made:
//   Mei, Zhao, Liu, Chu: Benchmarking the Memory Hierarchy of Modern GPUs (NPC 2014); Mei, Chu: Dissecting GPU Memory
//   Hierarchy through Microbenchmarking (TPDS 2017), numbered as in its supplement; Lashgar, Salehi, Baniasadi (HEART
//   2015); Konstantinidis, Cotronis (PDP 2016)
namespace gpuinfer::cli {

// Which line goes to which set and way of a cache.
struct CacheMapFigure {
  const char* target;
};
// A lap through arrays of growing size, access by access; `curve` as --curve has it.
struct CachePatternFigure {
  const char* target;
  const char* curve;
};
// Miss rates of arrays of growing size.
struct MissRateFigure {
  const char* target;
  std::uint64_t from_bytes;
  std::uint64_t to_bytes;
  std::uint64_t step_bytes;
};
// Cycles of a load from shared memory, by the stride between lanes in words.
struct BankConflictFigure {};
// Cycles of the loads of a block, by its threads, and their variance over three neighbours.
struct ThreadLatencyFigure {
  std::uint32_t loads_per_thread;
  std::uint32_t threads_per_line;
};
// Bytes of a copy that L2 spares memory, by those that are loaded and stored.
struct CopyFigure {};
// Gigabytes per second of copies past L2, by blocks: series by elements that a thread asks for at once x threads.
struct CopyRateFigure {};
// Gigabytes per second out of caches, by the size of the dataset. So many threads fill an SM: CUDA C Programming Guide,
// table of compute capabilities.
struct DatasetFigure {
  std::uint32_t threads_of_sm;
};
// What share of the bytes L1, L2 and memory serve, by the size of the dataset.
struct TrafficFigure {
  std::uint32_t threads_of_sm;
};
// Gigabytes per second out of shared memory and constants, by the size of elements.
struct ElementFigure {};
// What kernels draw of the peaks: a table.
struct KernelTable {};

struct PaperFigure {
  std::string_view name;
  std::string_view shows;
  std::variant<CacheMapFigure, CachePatternFigure, MissRateFigure, BankConflictFigure, ThreadLatencyFigure, CopyFigure,
               CopyRateFigure, DatasetFigure, TrafficFigure, ElementFigure, KernelTable>
      made;
};

inline constexpr std::uint32_t fermi_threads_of_sm = 1536;
inline constexpr std::uint32_t later_threads_of_sm = 2048;

inline constexpr std::array paper_figures{
    PaperFigure{"mei2014:3", "miss patterns of L1tex", CachePatternFigure{"L1tex", "pattern:12288,12800,32"}},
    PaperFigure{"mei2014:5", "bank conflicts", BankConflictFigure{}},
    PaperFigure{"mei2014:7", "bank conflicts", BankConflictFigure{}},
    PaperFigure{"mei2014:8", "map of L1D", CacheMapFigure{"L1D"}},
    PaperFigure{"mei2014:9", "miss rates of L1D", MissRateFigure{"L1D", 16384, 24576, 128}},
    PaperFigure{"mei2014:10", "map of L2TLB", CacheMapFigure{"L2TLB"}},
    PaperFigure{"mei2014:11", "miss rates of L2TLB", MissRateFigure{"L2TLB", 134217728, 150994944, 2097152}},
    PaperFigure{"mei2014:12", "map of L1tex", CacheMapFigure{"L1tex"}},
    PaperFigure{"mei2017:7", "map of L1tex", CacheMapFigure{"L1tex"}},
    PaperFigure{"mei2017:8", "map of L2TLB", CacheMapFigure{"L2TLB"}},
    PaperFigure{"mei2017:9", "miss rates of L2TLB", MissRateFigure{"L2TLB", 134217728, 150994944, 2097152}},
    PaperFigure{"mei2017:10", "map of L1D", CacheMapFigure{"L1D"}},
    PaperFigure{"mei2017:11", "miss rates of L1D", MissRateFigure{"L1D", 16384, 24576, 128}},
    PaperFigure{"mei2017:section5.1", "copies of global memory", CopyRateFigure{}},
    PaperFigure{"lashgar2015:1", "1 load per thread", ThreadLatencyFigure{1, 1}},
    PaperFigure{"lashgar2015:2", "copies in L2 and past it", CopyFigure{}},
    PaperFigure{"lashgar2015:3", "1 load per thread", ThreadLatencyFigure{1, 1}},
    PaperFigure{"lashgar2015:4", "2 loads per thread", ThreadLatencyFigure{2, 1}},
    PaperFigure{"lashgar2015:5", "1 load per thread, 2 threads on a line", ThreadLatencyFigure{1, 2}},
    PaperFigure{"lashgar2015:6", "2 loads per thread, 4 threads on a line", ThreadLatencyFigure{2, 4}},
    PaperFigure{"lashgar2015:7", "4 loads per thread, 8 threads on a line", ThreadLatencyFigure{4, 8}},
    PaperFigure{"lashgar2015:8", "1 load per thread", ThreadLatencyFigure{1, 1}},
    PaperFigure{"lashgar2015:9", "2 loads per thread", ThreadLatencyFigure{2, 1}},
    PaperFigure{"lashgar2015:10", "3 loads per thread", ThreadLatencyFigure{3, 1}},
    PaperFigure{"konstantinidis2016:3", "bandwidth by dataset (Fermi)", DatasetFigure{fermi_threads_of_sm}},
    PaperFigure{"konstantinidis2016:4", "bandwidth by dataset (Kepler)", DatasetFigure{later_threads_of_sm}},
    PaperFigure{"konstantinidis2016:5", "bandwidth by dataset (Maxwell)", DatasetFigure{later_threads_of_sm}},
    PaperFigure{"konstantinidis2016:6", "bytes served by L1, L2, memory", TrafficFigure{fermi_threads_of_sm}},
    PaperFigure{"konstantinidis2016:7", "bandwidth by elements", ElementFigure{}},
    PaperFigure{"konstantinidis2016:table4", "kernels against peaks", KernelTable{}}};

}  // namespace gpuinfer::cli
