// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/ending.hpp"
#include "infer/asking/finding.hpp"
#include "infer/asking/level_classifier.hpp"
#include "infer/asking/settings.hpp"
#include "model/trace.hpp"

namespace gpuinfer::infer {

// What a miss brings.
struct FillSize {
  std::uint64_t bytes = 4;
  bool is_known = false;  // false: at most so much
};

// A recording whose recorded accesses were read as hits and misses. The trace outlives it.
struct ReadTrace {
  const model::Trace* trace = nullptr;
  std::vector<Reading> readings;
  bool is_cyclic = false;  // the same offsets over and over in the same order, or each of them once
  bool is_warm = false;    // from a known start, and what is recorded was loaded before: a miss is no first touch
};

// What is said of what nobody had the time for.
[[nodiscard]] std::string stopped_early(const std::string& why);
inline constexpr const char* with_more_time = "the same with more time";

// As check_time(), for loops over many accesses: looks at the clock in one of many steps. The settings outlive it.
class LongLoop {
 public:
  LongLoop() = default;
  explicit LongLoop(const Settings& settings) : settings_(&settings) {}

  void step() const {
    constexpr std::size_t steps_between = std::size_t{1} << 16U;
    if (++steps_ % steps_between == 0 && settings_ != nullptr) {
      check_time(*settings_);
    }
  }

 private:
  const Settings* settings_ = nullptr;  // none: nobody waits
  mutable std::size_t steps_ = 0;
};

// All recordings of one load path; addresses are their offsets plus address_of_buffer.
struct ReadTraces {
  std::vector<ReadTrace> traces;
  model::Address address_of_buffer = {};
  FillSize fill = {};
  LongLoop loop = {};  // of whoever goes through the accesses
};

// Sets is_cyclic and is_warm of each, by the size of a fill.
void classify(ReadTraces& all);

// So many misses among so many accesses may be misreads.
[[nodiscard]] inline std::size_t few_misreads(std::size_t accesses) { return 1 + accesses / 2000; }

// What is said of the leaves of a finding that rests on recordings. The finding outlives it.
class RecordedLeaves {
 public:
  RecordedLeaves(CacheFinding& finding, std::size_t recordings) : finding_(&finding), recordings_(recordings) {}

  [[nodiscard]] CacheFinding& finding() const { return *finding_; }
  [[nodiscard]] model::CacheDescription& cache() const { return finding_->cache; }
  model::LeafEvidence& operator[](const std::string& leaf) const { return finding_->evidence.leaves[leaf]; }

  void resolve(const std::string& leaf) const;
  void open(const std::string& leaf, model::EvidenceStatus status, std::string reason, std::string decided_by = {},
            std::vector<std::string> alternatives = {}) const;
  // The leaves that a description of sets and policy has, but for sector_bytes.
  void open_description(model::EvidenceStatus status, const std::string& reason,
                        const std::string& decided_by = {}) const;
  // All of them.
  void open_description_and_fill(model::EvidenceStatus status, const std::string& reason,
                                 const std::string& decided_by = {}) const;
  model::Inquiry& log(std::string asked, std::string why, std::string learned, std::optional<std::size_t> before = {},
                      std::optional<std::size_t> after = {}) const;

 private:
  CacheFinding* finding_;
  std::size_t recordings_;
};

}  // namespace gpuinfer::infer
