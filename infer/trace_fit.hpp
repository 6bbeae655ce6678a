// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "infer/trace_partition.hpp"
#include "model/replacement.hpp"

namespace gpuinfer::infer {

// Recordings under a supposed size of lines and sectors, set by set: what one set of lines does depends on nothing
// outside it.
class SetSimulation {
 public:
  SetSimulation(std::span<const Played> recordings, std::uint64_t line_bytes, std::uint64_t sector_bytes);

  [[nodiscard]] std::uint64_t line_bytes() const { return line_bytes_; }
  [[nodiscard]] std::size_t judged() const { return judged_; }

  // The same with no more than the first judged accesses of each recording, about `accesses` in all.
  [[nodiscard]] SetSimulation beginning(std::size_t accesses) const;

  // How a set of so many ways under a policy fares.
  struct Supposed {
    std::uint32_t ways = 1;
    model::Replacement policy;
  };

  static constexpr std::size_t does_not_fit = std::numeric_limits<std::size_t>::max() / 4;

  // Judged accesses to these lines that each supposition predicts otherwise; does_not_fit where the policy cannot have
  // so many ways.
  [[nodiscard]] std::vector<std::size_t> wrong(std::span<const std::uint64_t> lines,
                                               std::span<const Supposed> suppositions) const;

  struct Counts {
    std::size_t judged = 0;
    std::size_t misses = 0;
    std::size_t returns_that_missed = 0;  // of lines that had been loaded before
  };
  [[nodiscard]] Counts counts(std::span<const std::uint64_t> lines) const;

  // A judged access beside its prediction.
  struct Prediction {
    std::uint64_t line = 0;
    std::optional<std::size_t> age;  // accesses to the set since the last one of this line; none: it is the first
    bool miss = false;               // predicted
    bool is_wrong = false;
  };

  // Judged accesses to these lines in the order in which they were played.
  [[nodiscard]] std::vector<Prediction> predictions(std::span<const std::uint64_t> lines,
                                                    const Supposed& supposed) const;

  // For each recording and access, warm-up and all, whether a miss is predicted; accesses to other lines stay as in
  // `misses`, which has the shape of the recordings.
  void predict(std::span<const std::uint64_t> lines, const Supposed& supposed,
               std::vector<std::vector<bool>>& misses) const;

 private:
  template <class Visit>
  void for_each_access(std::span<const std::uint64_t> lines, const Visit& visit) const;

  std::span<const Played> recordings_;
  std::vector<std::size_t> lengths_;  // by recording: accesses that are looked at
  std::uint64_t line_bytes_;
  std::uint64_t sector_bytes_;
  std::size_t judged_ = 0;
  std::vector<std::uint64_t> lines_;                 // ascending
  std::vector<std::vector<std::uint32_t>> line_of_;  // by recording and access: place in lines_
};

// A whole cache as it may be.
struct TraceFit {
  std::uint64_t line_bytes = 0;
  LineSplit split;
  std::vector<std::uint32_t> ways;  // by set of `split`
  model::Replacement policy;
  std::size_t wrong = 0;
};

// The cache that predicts the recordings best, found from the splits that the conflicts suggest: ways and policy by
// simulation, then lines that do not fit their set moved to where they do, as long as predictions get better. None when
// there are too many lines. `stop`: gives up early, with what it has.
enum class Care {
  quick,  // no line is moved
  thorough,
};
[[nodiscard]] std::optional<TraceFit> fit_recordings(const ConflictScores& scores, const SetSimulation& simulation,
                                                     Care care, const std::function<bool()>& stop);

// Accesses that the fit gets wrong in these recordings, which need not be those that it was found from.
[[nodiscard]] std::size_t wrong_of(const TraceFit& fit, const SetSimulation& simulation);

// What else the recordings allow: suppositions that get at most `tolerated` accesses more wrong than the fit.
struct Rivals {
  std::vector<std::pair<model::Replacement, std::vector<std::uint32_t>>> policies;  // with the ways that suit them
  std::vector<std::vector<std::uint32_t>> ways_of_set;  // by set: all numbers of ways that do, the fitted one included
  std::vector<bool> line_is_decided;                    // by line of the split: nowhere else would it do
};
[[nodiscard]] Rivals rivals_of(const TraceFit& fit, const SetSimulation& simulation, std::size_t tolerated);

}  // namespace gpuinfer::infer
