// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "infer/recordings/trace_partition.hpp"
#include "model/replacement.hpp"

namespace gpuinfer::infer {

// Recordings under a supposed size of lines and sectors, set by set: what one set of lines does depends on nothing
// outside it. The recordings outlive it. Its functions may be called by several threads at once.
class SetSimulation {
 public:
  // Throws InputError when there are 2^32 accesses or more.
  SetSimulation(std::span<const Played> recordings, std::uint64_t line_bytes, std::uint64_t sector_bytes);

  // The same with no more than the first judged accesses of each recording, about `accesses` in all. Where a recording
  // would get fewer than `fewest`, some that are evenly apart get a fourth of all, and the others none.
  [[nodiscard]] static SetSimulation of_beginning(std::span<const Played> recordings, std::uint64_t line_bytes,
                                                  std::uint64_t sector_bytes, std::size_t accesses,
                                                  std::size_t fewest = 200);
  [[nodiscard]] SetSimulation beginning(std::size_t accesses, std::size_t fewest = 200) const {
    return of_beginning(recordings_, line_bytes_, sector_bytes_, accesses, fewest);
  }

  [[nodiscard]] std::uint64_t line_bytes() const { return line_bytes_; }
  [[nodiscard]] std::size_t judged() const { return judged_; }
  // That were loaded, ascending.
  [[nodiscard]] const std::vector<std::uint64_t>& lines() const { return lines_; }

  // How a set of so many ways under a policy fares.
  struct Supposed {
    std::uint32_t ways = 1;
    model::Replacement policy;
  };

  static constexpr std::size_t does_not_fit = std::numeric_limits<std::size_t>::max() / 4;

  // Judged accesses to these lines that each supposition predicts otherwise; does_not_fit where the policy cannot have
  // so many ways. A number above `most` says no more than that there are more than `most`: what is that wrong is not
  // played to the end.
  [[nodiscard]] std::vector<std::size_t> wrong(std::span<const std::uint64_t> lines,
                                               std::span<const Supposed> suppositions,
                                               std::size_t most = does_not_fit) const;

  struct Best {
    std::size_t supposition = 0;
    std::size_t wrong = 0;
  };

  // The first of those that get fewest wrong; none when each gets more than `most` wrong, or does not fit.
  [[nodiscard]] std::optional<Best> best(std::span<const std::uint64_t> lines, std::span<const Supposed> suppositions,
                                         std::size_t most = does_not_fit) const;

  struct Counts {
    std::size_t judged = 0;
    std::size_t misses = 0;
  };
  [[nodiscard]] Counts counts(std::span<const std::uint64_t> lines) const {
    return counts_of_first(accesses_.size(), lines);
  }

  // The same as counts() and wrong(), of about the first `accesses` to these lines.
  [[nodiscard]] Counts counts_of_first(std::size_t accesses, std::span<const std::uint64_t> lines) const;
  [[nodiscard]] std::vector<std::size_t> wrong_of_first(std::size_t accesses, std::span<const std::uint64_t> lines,
                                                        std::span<const Supposed> suppositions) const {
    return wrong_before(end_of_first(accesses, lines), lines, suppositions);
  }

  // A judged access beside its prediction.
  struct Prediction {
    std::uint64_t line = 0;
    std::optional<std::uint32_t> age;  // accesses to the set since the last one of this line; none: it is the first
    bool miss = false;                 // predicted
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
  // `lengths`: by recording, accesses that are looked at.
  SetSimulation(std::span<const Played> recordings, const std::vector<std::size_t>& lengths, std::uint64_t line_bytes,
                std::uint64_t sector_bytes);

  // Accesses are numbered through all recordings; those from `end` on are left out.
  [[nodiscard]] std::vector<std::uint32_t> accesses_to(std::span<const std::uint64_t> lines, std::uint32_t end) const;
  [[nodiscard]] std::size_t count_accesses_to(std::span<const std::uint64_t> lines) const;
  [[nodiscard]] std::span<const std::uint32_t> accesses_to_line(std::uint64_t line) const;

  // Where to stop in order to have about so many accesses to these lines.
  [[nodiscard]] std::uint32_t end_of_first(std::size_t accesses, std::span<const std::uint64_t> lines) const;

  // The same as wrong(), of accesses before `end`.
  [[nodiscard]] std::vector<std::size_t> wrong_before(std::uint32_t end, std::span<const std::uint64_t> lines,
                                                      std::span<const Supposed> suppositions) const;

  // Calls visit(recording, access in it) in order.
  template <class Visit>
  void for_each_access(std::span<const std::uint64_t> lines, std::uint32_t end, const Visit& visit) const;
  template <class Visit>
  void simulate(std::span<const std::uint64_t> lines, const Supposed& supposed, const Visit& visit) const;

  std::span<const Played> recordings_;
  std::uint64_t line_bytes_;
  std::uint64_t sector_bytes_;
  std::size_t judged_ = 0;
  std::vector<std::uint32_t> first_of_recording_;  // and the end of the last one
  std::vector<std::uint64_t> lines_;               // ascending
  std::vector<std::uint32_t> first_of_line_;       // in accesses_, and the end of the last one
  std::vector<std::uint32_t> accesses_;            // line by line, ascending
};

}  // namespace gpuinfer::infer
