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

#include "model/index_function.hpp"
#include "model/replacement.hpp"

// The schema `gpuinfer/1` as values: what is inferred, what a virtual device is made of, what exporters read.
// An optional without a value is a leaf that is not known (`null` in YAML), never zero.
namespace gpuinfer::model {

struct LatencyCycles {
  std::optional<double> hit;   // median as timed
  std::optional<double> miss;  // median of a hit in the next level

  bool operator==(const LatencyCycles&) const = default;
};

struct CacheDescription {
  std::optional<std::uint64_t> capacity_bytes;
  std::optional<std::uint64_t> onset_bytes;  // the contiguous array above which misses begin
  std::optional<std::uint64_t> store_lines;  // lines of data held, where that is fewer than the tags
  std::optional<std::uint64_t> line_bytes;
  std::optional<std::uint64_t> sector_bytes;       // fill granularity
  std::optional<std::vector<std::uint32_t>> ways;  // one entry for each set
  std::optional<IndexFunction> index;
  std::optional<std::vector<unsigned>> exercised_bits;  // address bits that took part in finding the index
  std::optional<Replacement> replacement;
  unsigned prefetch_lines = 0;  // next lines that a miss brings along
  LatencyCycles latency_cycles;
  std::vector<std::string> assumed;  // leaves of a virtual device that no source gives

  bool operator==(const CacheDescription&) const = default;
};

// Why a leaf of a cache has the value it has.
enum class EvidenceStatus { resolved, ambiguous, unknown };

[[nodiscard]] std::string_view to_string(EvidenceStatus status);

// A value of any leaf in the form in which it stands in a description, for alternatives: `{policy: lru}`, `32`, `null`.
using FlowYaml = std::string;

struct LeafEvidence {
  EvidenceStatus status = EvidenceStatus::unknown;
  std::optional<double> confidence;  // probability that the value is right, where it could be estimated
  std::size_t experiments = 0;       // questions that bear on this leaf
  std::vector<FlowYaml> alternatives;
  std::string reason;                       // for ambiguous and unknown: what is missing
  std::string decided_by;                   // the experiment that would decide
  std::map<std::string, FlowYaml> details;  // findings of a kind of their own, e.g. victim_probability_intervals

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

struct CacheEvidence {
  std::map<std::string, LeafEvidence> leaves;  // by leaf name: capacity_bytes, line_bytes, ..., latency_cycles
  std::optional<PredictionEvidence> prediction;

  bool operator==(const CacheEvidence&) const = default;
};

struct NoiseDescription {
  double jitter_cycles = 0;  // standard deviation
  double outlier_probability = 0;
  double outlier_cycles = 0;
  double misread_probability = 0;  // a hit reads as a miss or a miss as a hit

  bool operator==(const NoiseDescription&) const = default;
};

// Top-level keys of the schema that the program carries but does not interpret.
inline constexpr std::array<std::string_view, 4> carried_keys{"shared_memory", "memory_latency_cycles", "outstanding",
                                                              "bandwidth"};

struct DeviceDescription {
  struct Device {
    std::string name;
    std::string source;
    std::optional<std::string> compute_capability;
    std::optional<unsigned> sm_count;
    std::map<std::string, std::string> provenance;  // profiles: driver, carve-out in force, ...

    bool operator==(const Device&) const = default;
  };

  Device device;
  std::map<std::string, CacheDescription> caches;  // by target name: L1tex, L1D, L2TLB, ...
  std::optional<NoiseDescription> noise;           // virtual devices only
  std::map<std::string, CacheEvidence> evidence;   // profiles only

  // By key, one of carried_keys: the value in flow form.
  std::map<std::string, std::string> carried;

  bool operator==(const DeviceDescription&) const = default;
};

}  // namespace gpuinfer::model
