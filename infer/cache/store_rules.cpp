// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/store_rules.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "infer/asking/stream.hpp"
#include "model/policies/lru.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

using model::CacheDescription;
using model::Store;

// Of those that miss, how lines come that are written to.
std::vector<Store> rules_of_misses(const CacheDescription& cache) {
  const std::uint64_t line = *cache.line_bytes;
  const std::uint64_t sector = *cache.sector_bytes;
  std::vector<Store> rules;
  const auto add = [&](bool allocates, std::optional<std::uint64_t> granule, std::optional<bool> fetches) {
    rules.push_back({.allocate = allocates, .write = {}, .granule_bytes = granule, .fetches = fetches, .touches = {}});
  };
  add(false, {}, {});
  for (std::uint64_t granule = sector; granule <= line && line % granule == 0; granule *= 2) {
    add(true, granule, true);
  }
  for (std::uint64_t granule = model::load_bytes; granule <= sector && sector % granule == 0; granule *= 2) {
    add(true, granule, false);
  }
  return rules;
}

using Predicted = std::vector<PredictedLoad>;

std::size_t pairs_told_apart(const std::vector<Predicted>& predicted) {
  std::size_t pairs = 0;
  for (std::size_t a = 0; a < predicted.size(); ++a) {
    pairs +=
        static_cast<std::size_t>(std::count_if(predicted.begin(), predicted.begin() + static_cast<std::ptrdiff_t>(a),
                                               [&](const Predicted& other) { return differ(other, predicted[a]); }));
  }
  return pairs;
}

class RuleSearch {
 public:
  RuleSearch(Interrogator& device, const CacheDescription& cache, TriedRules tried, const char* stream_name)
      : device_(&device), cache_(&cache), question_(tried.question), histories_(tried.histories),
        most_wrong_(tried.most_wrong), random_(stream(device.settings(), stream_name)) {
    for (Store& rule : tried.rules) {
      alive_.push_back({.rule = std::move(rule), .contradictions = 0});
    }
  }

  // False: after all sequences that may be asked some are still told apart.
  [[nodiscard]] bool narrow() {
    const int most_questions = most_wrong_ == 0 ? 60 : 200;
    constexpr int futile_rounds = 5;
    int futile = 0;
    for (int questions = 0; questions < most_questions && futile < futile_rounds && alive_.size() > 1;) {
      const auto best = best_question();
      if (!best) {
        ++futile;
        continue;
      }
      futile = 0;
      ++questions;
      const std::vector<Reading> readings = ask_mixed(*device_, best->question);
      for (std::size_t i = 0; i < alive_.size(); ++i) {
        alive_[i].contradictions += judged(best->predicted[i], readings).wrong;
      }
      loads_ +=
          static_cast<double>(std::ranges::count_if(readings, [](Reading each) { return each != Reading::unclear; }));
      drop_refuted();
    }
    return alive_.size() <= 1 || futile == futile_rounds;
  }

  [[nodiscard]] std::vector<Store> alive() const {
    std::vector<Store> rules;
    std::ranges::transform(alive_, std::back_inserter(rules), &Hypothesis::rule);
    return rules;
  }

 private:
  struct Hypothesis {
    Store rule;
    std::size_t contradictions = 0;
  };

  struct Candidate {
    FreshQuestion question;
    std::vector<Predicted> predicted;  // by hypothesis
  };

  void drop_refuted() {
    // A single access may have been misread. Where a few are otherwise than the right rule predicts, and those after
    // one of them with it, that rule has the fewest by far in sequences that tell rules apart.
    constexpr double behind_the_best = 12;
    double most = 1;
    if (most_wrong_ > 0) {
      const std::size_t fewest = std::ranges::min(alive_, {}, &Hypothesis::contradictions).contradictions;
      most = std::min(static_cast<double>(fewest) + behind_the_best, behind_the_best + most_wrong_ * loads_);
    }
    std::erase_if(alive_, [&](const Hypothesis& each) { return static_cast<double>(each.contradictions) > most; });
  }

  std::optional<Candidate> best_question() {
    constexpr std::array footprints{0.5, 1.2, 1.5, 2.0, 3.0};
    constexpr std::size_t many_rules = 256;  // which any sequence tells apart, and which take long to simulate
    constexpr double footprint_of_many = 1.5;
    // Rules of cleaning that are alike differ hardly anywhere.
    constexpr std::size_t few_rules = 32;
    const std::size_t accesses = most_wrong_ > 0 && alive_.size() <= few_rules ? 1200 : 240;
    std::optional<Candidate> best;
    std::size_t most_pairs = 0;
    const auto tried =
        alive_.size() > many_rules ? std::span(&footprint_of_many, 1) : std::span<const double>(footprints);
    for (const double footprint : tried) {
      const std::size_t sets = 1 + random_.below(2);
      Candidate candidate{
          .question = question_over_sets(*device_, *cache_, question_, sets, footprint, accesses, everywhere, random_),
          .predicted = {}};
      for (const Hypothesis& each : alive_) {
        candidate.predicted.push_back(
            predicted_loads(*device_, with_rule(*cache_, each.rule), candidate.question, histories_));
      }
      if (const std::size_t pairs = pairs_told_apart(candidate.predicted); pairs > most_pairs) {
        most_pairs = pairs;
        best = std::move(candidate);
      }
    }
    return best;
  }

  Interrogator* device_;
  const CacheDescription* cache_;
  QuestionOfPool question_;
  std::uint64_t histories_;
  double most_wrong_;
  model::Random random_;
  std::vector<Hypothesis> alive_;
  double loads_ = 0;  // that were read
};

}  // namespace

std::vector<Store> rules_of_stores(const CacheDescription& cache) {
  std::vector<Store> rules;
  for (const Store& of_miss : rules_of_misses(cache)) {
    for (const bool touches : {false, true}) {
      rules.push_back(of_miss);
      rules.back().touches = touches;
    }
    rules.push_back(of_miss);
    rules.back().evicts = true;
  }
  return rules;
}

std::vector<Store> cleaning_rules_of_stores(const CacheDescription& cache) {
  constexpr std::uint32_t most_ways = 32;
  const std::uint32_t ways = std::ranges::max(*cache.ways);
  if (cache.replacement->policy != model::Lru::name || ways > most_ways) {
    return {};
  }
  std::vector<Store> rules;
  for (Store rule : rules_of_misses(cache)) {
    if (!*rule.allocate) {
      continue;
    }
    rule.touches = true;
    rule.write = model::Write::back;
    // Where nothing is ever written in part that limit shows nowhere.
    const bool is_partial = !*rule.fetches && *rule.granule_bytes > model::load_bytes;
    for (std::uint32_t dirty = 1; dirty <= ways; ++dirty) {
      for (std::uint32_t partial = 1; partial <= (is_partial ? ways : 1); ++partial) {
        rule.cleaning = {.dirty_lines = dirty, .partial_lines = partial};
        rules.push_back(rule);
      }
    }
  }
  return rules;
}

CacheDescription with_rule(CacheDescription cache, const Store& rule) {
  cache.store = rule;
  return cache;
}

// What chance decides otherwise once in so many times hardly decides two of three answers so.
std::uint64_t histories_of(const CacheDescription& cache, std::uint64_t where_chance_rules) {
  constexpr std::uint64_t of_starts = 24;
  return model::is_deterministic(*cache.replacement) ? of_starts : where_chance_rules;
}

FoundRules search_rules(Interrogator& device, const CacheDescription& cache, TriedRules tried,
                        const char* stream_name) {
  RuleSearch search(device, cache, std::move(tried), stream_name);
  const bool is_narrow = search.narrow();
  return {.rules = search.alive(), .is_narrow = is_narrow};
}

}  // namespace gpuinfer::infer
