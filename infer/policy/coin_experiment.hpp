// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "infer/asking/conflict_class.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/policy/coin_filter.hpp"
#include "infer/policy/coin_walk.hpp"
#include "model/random.hpp"
#include "model/replacement.hpp"
#include "model/trace.hpp"

namespace gpuinfer::infer {

struct CoinAnswer {
  std::size_t set = 0;  // its place among the sets
  CoinWalk walk;
  std::vector<Reading> readings;
  std::optional<std::size_t> usable_accesses;  // the first ones, where more cannot be followed under all policies
};

// Asks sets for walks that show coins, and compares the answers with those of simulated sets.
class CoinExperiment {
 public:
  // `sets`, which outlive it, have more lines than ways each.
  CoinExperiment(Interrogator& device, const std::vector<const ConflictClass*>& sets, model::Random random);

  void set_turns(std::size_t turns) { turns_ = turns; }

  // Whether it is known which line lies in which way when the rounds of a walk begin.
  [[nodiscard]] bool knows_ways() const { return knows_ways_; }

  // What a flood leaves, the first accesses of a walk evict.
  [[nodiscard]] model::Question question_of(const ConflictClass& set, const CoinWalk& walk) const;

  // Of a walk over the first set, but for those before its rounds.
  [[nodiscard]] double least_accesses() const;

  // Answers of all sets in turn; every fourth from an empty set, if so wished and possible.
  [[nodiscard]] std::vector<CoinAnswer> ask(std::size_t answers, bool some_from_empty);

  // Whether a long question, of so many walks in one, has the same answer each time: then no coin is tossed.
  [[nodiscard]] bool answers_repeat(std::size_t walks);

  [[nodiscard]] ExplainedByCoins explain(const CoinAnswer& answer, const model::Replacement& policy, double chance,
                                         Elsewhere elsewhere = {}) const;

  // Likelihoods can be compared where they are those of the same accesses.
  void keep_what_is_usable(std::vector<CoinAnswer>& answers, const model::Replacement& policy, double chance) const;

  [[nodiscard]] double log_likelihood(const std::vector<CoinAnswer>& answers, const model::Replacement& policy,
                                      double chance) const;

  [[nodiscard]] std::uint32_t ways_of(const CoinAnswer& answer) const { return (*sets_)[answer.set]->ways; }

  // The same answers, of sets that toss such coins.
  [[nodiscard]] std::vector<CoinAnswer> simulate(const std::vector<CoinAnswer>& answers,
                                                 const model::Replacement& policy);

  // p-value of the worst of seven statistics. Under the policy, the answer of the device is one of five of a kind with
  // four simulated ones. How often accesses are misread is known within limits only: what was taken for a hit in the
  // calibration may have been evicted by chance.
  [[nodiscard]] double fit(const std::vector<CoinAnswer>& answers, const model::Replacement& policy) const;

 private:
  static constexpr std::size_t simulated = 4;
  static constexpr std::size_t statistics = 7;

  // Accesses of a set that leave it in a state that is known.
  [[nodiscard]] std::vector<model::CoinSet::Line> warm_of(const ConflictClass& set) const;

  [[nodiscard]] double fit(const std::vector<CoinAnswer>& answers, const model::Replacement& policy,
                           MisreadRates rates) const;

  [[nodiscard]] CoinAnswer simulate(const CoinAnswer& answer, const model::Replacement& policy, MisreadRates rates,
                                    model::Random& random) const;

  // Likelihood, coins, misses, misses in the first half, places for two spreads, and surprises.
  [[nodiscard]] std::array<double, statistics> measure(const CoinAnswer& answer, const model::Replacement& policy,
                                                       double chance) const;

  // A coin that falls in turn rather than by chance has the right number of rare sides, too evenly spread.
  static void add_spread(std::array<std::array<double, statistics>, simulated + 1>& of);

  Interrogator* device_;
  const std::vector<const ConflictClass*>* sets_;
  model::Random random_;
  MisreadRates rates_;
  bool knows_ways_;
  std::size_t turns_ = 12;
  std::size_t next_set_ = 0;
};

}  // namespace gpuinfer::infer
