// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "infer/asking/level_classifier.hpp"
#include "infer/policy/coin_walk.hpp"
#include "model/coin_set.hpp"
#include "model/replacement.hpp"

namespace gpuinfer::infer {

// Shares of accesses.
struct MisreadRates {
  double of_hits = 0;
  double of_misses = 0;
};

// What an answer says under a policy and a chance of the rare side of the coin.
struct ExplainedByCoins {
  double log_likelihood = 0;
  double rare = 0;  // expected number of coins that fell so
  double coins = 0;
  std::size_t surprises = 0;  // accesses that no coins explain, but misreads alone
  std::size_t accesses = 0;   // that were followed
};

// Another place than in front, into which a share of the lines goes that the coin lets stay.
struct Elsewhere {
  std::size_t place = 0;  // counted from the line accessed last
  double share = 0;
};

// The likelihood of what was read in one set, summed over all coins (forward algorithm: Rabiner, Proc. IEEE 77(2),
// 1989, section III.A).
class CoinFilter {
 public:
  // `chance`: of the rare side, between 0 and 1.
  CoinFilter(const model::Replacement& policy, std::uint32_t ways, double chance, MisreadRates rates,
             Elsewhere elsewhere)
      : rule_(policy, ways), chance_(chance), elsewhere_(elsewhere), rates_(rates) {}

  // `readings`: one for each recorded access. Explains the first `accesses`; else those before the coins that are open
  // become too many to be followed, because to leave some out would favour the side on which coins fall more often.
  [[nodiscard]] ExplainedByCoins explain(const CoinWalk& walk, const std::vector<Reading>& readings,
                                         std::optional<std::size_t> accesses);

 private:
  // What the set of a path holds lies in sets_, at the place that the path has in paths_.
  struct Path {
    double weight = 1;
    double rare = 0;
    double coins = 0;
  };
  struct Slot {
    std::uint64_t hash = 0;
    std::optional<std::uint32_t> place;  // in paths_
  };

  [[nodiscard]] model::CoinSet::Line* set_of(std::size_t path) { return sets_.data() + path * numbers_; }
  void start(const std::vector<model::CoinSet::Line>& warm);
  void access(model::CoinSet::Line line, Reading reading);
  void merge();
  void keep_heaviest(std::size_t count);

  model::CoinRule rule_;
  std::size_t numbers_ = rule_.numbers();
  double chance_;
  Elsewhere elsewhere_;
  MisreadRates rates_;
  std::vector<Path> paths_;
  std::vector<model::CoinSet::Line> sets_;
  std::size_t lines_ = 0;    // in each of the sets: coins decide which are present, not how many
  std::vector<Slot> slots_;  // of a table of hashes, twice as many as paths
};

}  // namespace gpuinfer::infer
