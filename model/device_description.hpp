// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/bandwidth.hpp"
#include "model/cluster.hpp"
#include "model/evidence_details.hpp"
#include "model/index_function.hpp"
#include "model/kernel_results.hpp"
#include "model/outstanding.hpp"
#include "model/replacement.hpp"
#include "model/shared_memory.hpp"

// The schema `gpuinfer/1` as values: what is inferred, what a virtual device is made of, what exporters read.
// An optional without a value is a leaf that is not known (`null` in YAML), never zero.
namespace gpuinfer::model {

struct LatencyCycles {
  std::optional<double> hit;   // median as timed
  std::optional<double> miss;  // median of a hit in the next level
  // Median of the same where a line that stores have written has to go for it; none: as any other miss.
  std::optional<double> dirty_miss = {};

  bool operator==(const LatencyCycles&) const = default;
};

// When lines are prefetched: with every line that is missed, with every access, or once two accesses in a row went as
// many lines further as the ones before, and then as many lines further again.
enum class PrefetchOn { miss, access, stride };

// What a miss brings.
struct Fill {
  std::optional<unsigned> prefetch_lines;  // how many lines further come along; not known: taken for none
  PrefetchOn prefetch_on = PrefetchOn::miss;
  std::optional<std::uint64_t> fetch_bytes;  // aligned block of a line that a missed sector brings; none: the sector

  [[nodiscard]] unsigned lines_ahead() const { return prefetch_lines.value_or(0); }

  bool operator==(const Fill&) const = default;
};

// When the next level sees what a store has written: once the line has to go, or at once.
enum class Write : std::uint8_t { back, through };

// Dirty lines under LRU that are cleaned before they have to go. An access to a set sets off what these say, and of a
// full set whose oldest line is dirty, that this line is cleaned as well, unless it is the one that is accessed: it is
// written back, or completed. A line is completed by fetching what is missing of granules that were written in part; it
// is clean then, and the youngest. A line makes room only where no older one of the set is clean; where all are dirty
// the oldest does.
struct Cleaning {
  // With so many dirty lines in the set, those written in part aside, the oldest of them is written back.
  std::uint32_t dirty_lines = 1;
  // With so many lines in the set that were written in part, the oldest of them is completed, unless it is accessed.
  std::uint32_t partial_lines = 1;

  bool operator==(const Cleaning&) const = default;
};

// What a store does, to the line and to the granule in it that it writes to. What is not known has no value.
struct Store {
  std::optional<bool> allocate;  // one that misses brings its line, or the missing part of a line that is there
  std::optional<Write> write;
  // What of a line stores make readable by itself. Where they fetch: so much comes with one that misses; none: as much
  // as a load brings. Where they do not: so much has to be written before loads find it without the next level.
  std::optional<std::uint64_t> granule_bytes;
  std::optional<bool> fetches;            // one that brings a line brings what it does not write as well
  std::optional<bool> touches;            // one to a line that is there is a hit to the replacement policy
  bool evicts = false;                    // one to a line that is there makes it go
  std::optional<Cleaning> cleaning = {};  // none: lines are dirty until they go

  bool operator==(const Store&) const = default;
};

// What loads with hints do to the replacement order of a set under LRU.
struct Hints {
  // A line that was loaded to be evicted first goes before all others, the oldest such line before the rest, until a
  // load without a hint finds it. Else the hint does nothing.
  bool first_goes_next = false;
  // A load that is to leave the order unchanged does, where it finds its line. Else the hint does nothing.
  bool unchanged_keeps_place = false;
  // Lines that were loaded to be evicted last go only where all others are gone, but no more than so many of a set:
  // with one more the oldest of them is as any other from then on, in its place. 0: the hint does nothing.
  std::uint32_t protected_ways = 0;
  bool loads_unprotect = false;  // a load with another hint, or with none, that finds such a line makes it as any other

  bool operator==(const Hints&) const = default;
};

// How many ways of a set are protected where up to so many bytes are set aside for lines that are evicted last.
struct SetAside {
  std::uint64_t bytes = 0;
  std::uint32_t protected_ways = 0;

  bool operator==(const SetAside&) const = default;
};

// What happens where there are more tags than lines of data (`store_lines`). Sets of consecutive numbers make a bank,
// and the banks share the store evenly. While a bank holds as many lines as it has room for, every access to it sends a
// pointer on from set to set, and of each set that it finds occupied the line goes that is next there. The pointer
// stands still after so many lines; when it has nothing before it up to the last set of the bank, it begins anew. A
// line that the access waits for, as it misses, stays, but counts; a new line does not count where it would be the
// first.
struct Sweep {
  std::uint32_t banks = 1;
  std::uint32_t lines_on_hit = 1;
  std::uint32_t lines_on_replacement = 1;  // when the access evicted a line of its set
  std::uint32_t lines_on_fill = 1;         // when it did not
  bool keeps_hit_line = false;             // a line that is hit stays, too, and counts

  bool operator==(const Sweep&) const = default;
};

// A second cache with the same lines that answers as fast: what misses in the first is looked for in it and, where it
// misses there too, brought into both.
struct Twin {
  std::vector<std::uint32_t> ways;
  IndexFunction index;
  Replacement replacement;

  bool operator==(const Twin&) const = default;
};

// A cache in parts, as the L2 of GPUs where some of it is further from an SM than the rest.
struct Partitions {
  IndexFunction index;     // address -> partition
  std::uint32_t near = 0;  // the one that is close to the SM that loads
  double far_cycles = 0;   // what a hit in any other one takes longer
  // Profiles: the SMs to which each partition is the near one, whether a far line is found in the near one from its
  // second load on, inside which aligned blocks the index tells partitions apart (from one block to the next they may
  // be swapped), and what is present near an SM on average while it loads uniformly random lines from more than
  // fits: an interval of 95 %.
  std::vector<ComputeUnits> sms = {};
  bool keeps_copies = false;
  std::optional<std::uint64_t> block_bytes = {};
  std::optional<std::array<double, 2>> resident_bytes = {};

  bool operator==(const Partitions&) const = default;
};

// Which slice of an outer cache a line lies in. Atomic additions by many SMs to two lines of one slice wait for one
// another.
struct SliceIndex {
  IndexFunction index;  // address -> slice
  // Profiles: inside which aligned blocks the index tells slices apart. From one block to the next parities may flip,
  // and numbers shift and count some of their parities the other way.
  std::optional<std::uint64_t> block_bytes = {};
  double apart_cycles = 0;     // of contended pairs in two slices
  double together_cycles = 0;  // in one

  bool operator==(const SliceIndex&) const = default;
};

// How long SMs take for lines that are at home in each slice of an outer cache: hits of single loads.
struct SliceDistances {
  std::vector<ComputeUnits> sms;            // groups: two SMs of one differ by as many cycles at all slices
  std::vector<std::vector<double>> cycles;  // of each group on average, to each slice
  std::vector<double> mean_cycles;          // of each SM, to all slices on average

  bool operator==(const SliceDistances&) const = default;
};

// What an SM of these groups takes to each slice.
[[nodiscard]] std::vector<double> cycles_to_slices(const SliceDistances& distances, ComputeUnit sm);

// The same cache while an SM sets aside so much of its memory as shared memory.
struct Carveout {
  std::uint32_t carveout_kb = 0;             // as asked for
  std::optional<std::uint64_t> onset_bytes;  // the contiguous array above which misses begin
  // What is present on average during uniformly random loads from more than fits: an interval of 95 %.
  std::optional<std::array<double, 2>> resident_bytes;
  std::optional<std::vector<std::uint32_t>> ways;  // of virtual devices
  std::optional<std::uint64_t> store_lines = {};   // where the store has room for fewer lines than there are tags

  bool operator==(const Carveout&) const = default;
};

struct CacheDescription {
  CacheDescription();
  CacheDescription(const CacheDescription&);
  CacheDescription(CacheDescription&&) noexcept;
  CacheDescription& operator=(const CacheDescription&);
  CacheDescription& operator=(CacheDescription&&) noexcept;
  ~CacheDescription();

  std::optional<std::uint64_t> capacity_bytes;
  // Set aside as shared memory at this size; other sizes are `carveouts`.
  std::optional<std::uint32_t> carveout_kb = {};
  std::optional<std::uint64_t> onset_bytes;  // the contiguous array above which misses begin
  std::optional<std::uint64_t> store_lines;  // lines of data held, where that is fewer than the tags
  std::optional<std::uint64_t> line_bytes;
  std::optional<std::uint64_t> sector_bytes;       // what is valid or not by itself
  std::optional<std::vector<std::uint32_t>> ways;  // one entry for each set
  std::optional<IndexFunction> index;
  std::optional<std::vector<unsigned>> exercised_bits;  // address bits that took part in finding the index
  std::optional<Replacement> replacement;
  Fill fill;
  std::optional<Store> store;
  std::optional<Hints> hints = {};
  std::optional<std::vector<SetAside>> set_asides = {};  // by bytes, in ascending order
  // Virtual devices: lines that a cache beside this one keeps of those that had to go, the most recent ones (Jouppi,
  // ISCA 1990). A load that finds its line there takes as long as a hit, and the line goes back to its set.
  std::optional<std::uint64_t> victim_lines;
  std::optional<Twin> twin;    // virtual devices
  std::optional<Sweep> sweep;  // where store_lines is given
  LatencyCycles latency_cycles;
  std::optional<Partitions> partitions;
  std::optional<std::uint32_t> slices = {};  // how many
  std::optional<SliceIndex> slice_index = {};
  std::optional<std::vector<std::uint32_t>> slice_ways = {};  // of each set of one slice
  std::optional<SliceDistances> slice_distances = {};
  std::vector<Carveout> carveouts;
  // Targets whose loads find the lines that loads of this one brought.
  std::optional<std::vector<std::string>> shared_with;
  // What is present on average during uniformly random loads from more than fits: an interval of 95 %.
  std::optional<std::array<double, 2>> resident_bytes;
  // Profiles: the SMs that have one such cache in common, a list for each of them.
  std::vector<ComputeUnits> shared_by_sms;
  std::vector<std::string> assumed;  // leaves of a virtual device that no source gives

  bool operator==(const CacheDescription&) const;
};

// The index is one of blocks, each of which adds what nobody knows: of lines of two of them it says nothing.
[[nodiscard]] inline bool has_index_of_blocks(const CacheDescription& cache) {
  return cache.index && cache.slice_index && cache.slice_index->block_bytes;
}

// The cache while so much is set aside as shared memory; none: the description does not say what it is like then.
[[nodiscard]] std::optional<CacheDescription> at_carveout(const CacheDescription& cache, std::uint32_t carveout_kb);

// Why a leaf of a cache has the value it has.
enum class EvidenceStatus { resolved, ambiguous, unknown };

[[nodiscard]] std::string_view to_string(EvidenceStatus status);

// A value of any leaf in the form in which it stands in a description, for alternatives: `{policy: lru}`, `32`, `null`.
using FlowYaml = std::string;

// What random loads exclude that all went as the value says: departures more frequent than `departures_below`, with the
// confidence `at`.
struct DepartureBound {
  double departures_below = 1;
  double at = 0;

  bool operator==(const DepartureBound&) const = default;
};

struct LeafEvidence {
  EvidenceStatus status = EvidenceStatus::unknown;
  std::optional<double> confidence;  // probability that the value is right, where it could be estimated
  std::size_t experiments = 0;       // questions that bear on this leaf
  std::vector<FlowYaml> alternatives;
  std::string reason;                   // for ambiguous and unknown: what is missing
  std::string decided_by;               // the experiment that would decide
  std::optional<DepartureBound> bound;  // of a policy, an index and sets
  EvidenceDetails details;

  bool operator==(const LeafEvidence&) const = default;
};

// How the finished description predicts fresh random sequences that took no part in the fit.
struct PredictionEvidence {
  std::optional<double> agreement;        // share of accesses predicted right; none for a stochastic cache
  std::optional<double> voted_agreement;  // the same after a vote over repeated questions
  std::optional<double> p_value;  // of miss counts and victims, for a stochastic cache; of the misreads otherwise
  std::size_t accesses = 0;
  std::size_t sequences = 0;
  std::size_t outliers = 0;  // latencies that are neither a hit nor a miss, left out of the agreement
  // What was assumed for the leaves that are not known, where the description itself could not predict.
  std::optional<FlowYaml> assuming;

  bool operator==(const PredictionEvidence&) const = default;
};

// One step of an inference: what was asked, why this came next, and what is known since.
struct Inquiry {
  std::string asked;
  std::string why;
  std::string learned;
  std::size_t questions = 0;
  std::size_t accesses = 0;
  // Hypotheses that were alive before and after, where they could be counted.
  std::optional<std::size_t> hypotheses_before;
  std::optional<std::size_t> hypotheses_after;

  bool operator==(const Inquiry&) const = default;
};

struct CacheEvidence {
  CacheEvidence();
  CacheEvidence(const CacheEvidence&);
  CacheEvidence(CacheEvidence&&) noexcept;
  CacheEvidence& operator=(const CacheEvidence&);
  CacheEvidence& operator=(CacheEvidence&&) noexcept;
  ~CacheEvidence();

  std::map<std::string, LeafEvidence> leaves;  // by leaf name: capacity_bytes, line_bytes, ..., latency_cycles
  std::optional<PredictionEvidence> prediction;
  std::vector<Inquiry> inquiries;  // in the order in which they were made

  bool operator==(const CacheEvidence&) const;
};

// The access patterns of Mei & Chu 2014 (table 3), by where data / translation in the first / in the second TLB were
// found: P1 hit / hit, P2 hit / miss / hit, P3 hit / miss / miss, P4 miss / hit, P5 miss / miss / miss, and P6, which
// is P5 with a switch between page tables.
enum class AccessPattern : std::uint8_t { P1, P2, P3, P4, P5, P6 };
inline constexpr std::array<std::string_view, 6> pattern_names{"P1", "P2", "P3", "P4", "P5", "P6"};

[[nodiscard]] std::string_view to_string(AccessPattern pattern);

// One for each pattern.
using PatternLatencyCycles = std::array<std::optional<double>, pattern_names.size()>;

// What an access passes through: model/hierarchy.hpp plays it.
struct PathDescription {
  std::vector<std::string> caches;  // data caches, in the order in which they are looked up
  std::vector<std::string> tlbs;    // the same of the translations
  // The first of `caches` that is looked up with a translated address; what is found before needs no translation. None:
  // all of them.
  std::optional<std::string> translated_from;
  std::optional<std::uint64_t> page_window_bytes;  // what the active page tables cover; none: everything
  // Of a device that does not say whether it has such windows. Not in descriptions.
  bool page_window_is_unknown = false;
  std::optional<PatternLatencyCycles> memory_latency_cycles;  // none: those of the device

  bool operator==(const PathDescription&) const = default;
};

enum class TileOrder : std::uint8_t { linear, morton };

struct TileLevel {
  std::uint64_t width = 1;  // in tiles of the level below; the lowest level: in texels
  std::uint64_t height = 1;
  TileOrder order = TileOrder::linear;

  bool operator==(const TileLevel&) const = default;
};

// An aligned block of texels.
struct TexelBlock {
  std::uint64_t width = 1;  // in texels
  std::uint64_t height = 1;

  bool operator==(const TexelBlock&) const = default;
};

[[nodiscard]] std::string to_string(const TexelBlock& block);  // 4 x 2

// Where the texels of a two-dimensional texture lie: model/texel_layout.hpp.
struct TextureDescription {
  std::uint64_t texel_bytes = 4;
  std::uint64_t width = 1;  // in texels
  std::uint64_t height = 1;
  // Which texels lie in one sector, and in one line, of the cache that they are read through.
  std::optional<TexelBlock> sector_texels = {};
  std::optional<TexelBlock> line_texels = {};
  std::optional<std::vector<TileLevel>> levels = {};  // from the inside out; empty: row by row
  std::optional<std::string> cache = {};              // through which it is read
  LatencyCycles latency_cycles = {};

  bool operator==(const TextureDescription&) const = default;
};

// Laps over straight-line code that fits.
struct CodeLevel {
  std::optional<std::uint64_t> fits_bytes = {};  // none: however long the code is
  double cycles = 0;                             // of one piece

  bool operator==(const CodeLevel&) const = default;
};

// How fast one warp runs straight-line code in laps, by its length.
struct CodeDescription {
  std::uint64_t piece_bytes = 1;  // what is timed at a time; instructions that could be issued one a cycle
  std::optional<std::vector<CodeLevel>> levels = {};  // the fastest first; the last one alone fits any length

  bool operator==(const CodeDescription&) const = default;
};

struct NoiseDescription {
  double jitter_cycles = 0;  // standard deviation
  double outlier_probability = 0;
  double outlier_cycles = 0;
  double misread_probability = 0;  // a hit reads as a miss or a miss as a hit

  bool operator==(const NoiseDescription&) const = default;
};

struct DeviceDescription {
  DeviceDescription();
  DeviceDescription(const DeviceDescription&);
  DeviceDescription(DeviceDescription&&) noexcept;
  DeviceDescription& operator=(const DeviceDescription&);
  DeviceDescription& operator=(DeviceDescription&&) noexcept;
  ~DeviceDescription();

  struct Device {
    std::string name;
    std::string source;
    std::optional<std::string> compute_capability;
    std::optional<unsigned> sm_count;
    std::map<std::string, std::string> provenance;  // profiles: driver, carve-out in force, ...

    bool operator==(const Device&) const = default;
  };

  Device device;
  std::map<std::string, CacheDescription> caches;      // by target name: L1tex, L1D, L2TLB, ...
  std::map<std::string, PathDescription> paths;        // by name: global, ...; of `caches`
  std::map<std::string, TextureDescription> textures;  // by name: Texture2D, ...
  std::map<std::string, CodeDescription> code;         // by name: Instruction
  std::optional<SharedMemoryDescription> shared_memory;
  std::optional<PatternLatencyCycles> memory_latency_cycles;
  std::optional<OutstandingDescription> outstanding;
  BandwidthDescription bandwidth;
  KernelResults kernels;  // profiles only
  std::optional<ClusterDescription> cluster;
  FetchResults fetches;
  std::optional<NoiseDescription> noise;          // virtual devices only
  std::map<std::string, CacheEvidence> evidence;  // profiles only: by name of what stands above, or by its key

  bool operator==(const DeviceDescription&) const;
};

}  // namespace gpuinfer::model
