// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "infer/cache/fresh_questions.hpp"
#include "model/device_description.hpp"
#include "model/random.hpp"

// Sequences of loads and stores, what a description predicts of their loads, and what these say.
namespace gpuinfer::infer {

// Some `accesses` to words of the pool's lines, which come back soon and late: single loads and stores, and stores to
// one word or several in a row with a load of one of them, or of a word that lies 1, 2, 4, .. words away.
[[nodiscard]] FreshQuestion mixed_question(const Interrogator& device, const model::CacheDescription& cache, Pool pool,
                                           std::size_t accesses, model::Random& random);

// So many single accesses to lines of the pool by chance, so that many miss one after the other while lines are dirty:
// a load, or a store of a word, of the first word of a sector or of a word in it.
[[nodiscard]] FreshQuestion scattered_question(const Interrogator& device, const model::CacheDescription& cache,
                                               Pool pool, std::size_t accesses, model::Random& random);

// One of the two above of at most so many sets, and of ten accesses to each line at least: such a walk fills the sets
// in a few hundred accesses.
using QuestionOfPool = FreshQuestion (*)(const Interrogator&, const model::CacheDescription&, Pool, std::size_t,
                                         model::Random&);
[[nodiscard]] FreshQuestion question_over_sets(const Interrogator& device, const model::CacheDescription& cache,
                                               QuestionOfPool question, std::size_t sets, double footprint,
                                               std::size_t accesses, StrideExponent lying, model::Random& random);

// After all else the pool has to be asked for: these accesses, of which those of `stores` (places in `record`,
// ascending) are stores.
[[nodiscard]] FreshQuestion question_with_stores(const Interrogator& device, Pool pool, AccessSequence record,
                                                 const std::vector<std::uint32_t>& stores);

// Of a recorded access, as far as it depends neither on chance nor on what was there before, in so many histories.
struct PredictedLoad {
  std::optional<bool> misses = {};           // none for stores
  std::optional<bool> victim_is_dirty = {};  // none where no line has to go

  auto operator<=>(const PredictedLoad&) const = default;
};
[[nodiscard]] std::vector<PredictedLoad> predicted_loads(const Interrogator& device,
                                                         const model::CacheDescription& cache,
                                                         const FreshQuestion& fresh, std::uint64_t histories);

// Some load that both are certain of misses by one of them only.
[[nodiscard]] bool differ(const std::vector<PredictedLoad>& a, const std::vector<PredictedLoad>& b);

// What each recorded access is by as many answers as votes need. A latency beyond that of misses counts as one: a line
// that has to be written back may take as long. Stores are unclear.
[[nodiscard]] std::vector<Reading> ask_mixed(Interrogator& device, const FreshQuestion& question);

// The same by a single answer: what stores or hints do now and then only, votes do not show.
[[nodiscard]] std::vector<Reading> ask_mixed_once(Interrogator& device, const FreshQuestion& question);

// Loads of which the prediction is certain, and the reading clear.
struct JudgedLoads {
  std::size_t loads = 0;
  std::size_t misses = 0;  // of them, predicted ones
  std::size_t wrong = 0;   // of them, read otherwise than predicted

  JudgedLoads& operator+=(const JudgedLoads& more);
};
[[nodiscard]] JudgedLoads judged(const std::vector<PredictedLoad>& predicted, const std::vector<Reading>& readings);

// Whether so many single readings may be wrong by misreads alone.
[[nodiscard]] bool misreads_explain(const LevelClassifier& classifier, const JudgedLoads& judged);

}  // namespace gpuinfer::infer
