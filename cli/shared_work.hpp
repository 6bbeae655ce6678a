// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/exit_status.hpp"
#include "cli/ranks.hpp"
#include "infer/recordings/scorer.hpp"

// Who scores hypotheses: threads, and the ranks of an MPI job.
namespace gpuinfer::cli {

// At most `jobs` threads; none given: one for each core. Each calls at_times() before every hypothesis: what that
// throws ends the scoring.
[[nodiscard]] infer::Scorer scorer_on_threads(
    std::optional<std::size_t> jobs, std::function<void()> at_times = [] {});

// One of the ranks that work together. Each runs the same search on the same recordings, so that all ask for the same
// scores at the same time; a rank finds out its share of them and gets the others. A rank that fails says so in place
// of its share, and all end; one whose time is over likewise.
class SharedWork {
 public:
  explicit SharedWork(Ranks& ranks) : ranks_(&ranks) {}

  // Runs work() on all ranks and returns what it returned here. When it throws on any rank, the same exception, of the
  // first of these ranks, comes out on all of them.
  [[nodiscard]] ExitStatus run(const std::function<ExitStatus()>& work);

  // Whether this one speaks for all.
  [[nodiscard]] bool is_first() const { return ranks_->rank() == 0; }

  // As of the ranks.
  void watch(std::chrono::duration<double> patience, std::function<void(std::size_t)> on_loss) {
    ranks_->watch(patience, std::move(on_loss));
  }

  // Scores one hypothesis out of as many as there are ranks, by `own`, which outlives the scorer.
  [[nodiscard]] infer::Scorer scorer(infer::Scorer own);

  // What holds on the first rank holds on all of them: for what need not be the same, such as the time.
  [[nodiscard]] bool agree(bool holds);

  // Hypotheses that each rank has scored, by rank.
  [[nodiscard]] std::vector<std::size_t> hypotheses_of_ranks();

 private:
  [[nodiscard]] std::vector<std::string> gather(const std::string& own);

  Ranks* ranks_;
  std::size_t hypotheses_ = 0;  // scored by this rank
  std::size_t first_rank_ = 0;  // takes the first of the next ones
};

}  // namespace gpuinfer::cli
