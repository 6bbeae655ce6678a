// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/explain_by_store.hpp"

#include <string>

#include "infer/asking/disturbance.hpp"
#include "infer/cache/swept_store.hpp"
#include "infer/policy/policy_questions.hpp"

namespace gpuinfer::infer {

namespace {

SweptStoreFit search_store(Interrogator& asker, const CacheClaims& sizes) {
  model::CacheDescription known;
  known.onset_bytes = sizes.onset_bytes.value;
  known.line_bytes = sizes.line_bytes.value;
  known.sector_bytes = sizes.sector_bytes.value;
  known.latency_cycles = *sizes.latency_cycles.value;
  try {
    return find_swept_store(asker, known);
  } catch (const QuestionRefused& refused) {
    asker.learned(refused.reason());
    return {};
  }
}

CacheClaims claims_of(const CacheClaims& sizes, const SweptStoreFit& fit, std::size_t questions) {
  const model::CacheDescription& cache = *fit.cache;
  CacheClaims claims{.capacity_bytes = {.value = cache.capacity_bytes, .questions = questions},
                     .onset_bytes = sizes.onset_bytes,
                     .line_bytes = sizes.line_bytes,
                     .sector_bytes = sizes.sector_bytes,
                     .ways = {.value = cache.ways, .questions = questions, .bound = fit.bound_of_index},
                     .index = {.value = cache.index, .questions = questions, .bound = fit.bound_of_index},
                     .replacement = {.value = cache.replacement,
                                     .questions = questions,
                                     .bound = fit.bound_of_policy,
                                     .details = fit.policy_details},
                     .latency_cycles = sizes.latency_cycles};
  claims.store_lines = {.value = cache.store_lines, .questions = questions};
  claims.sweep = {.value = cache.sweep, .questions = questions};
  if (!cache.carveouts.empty()) {
    claims.carveouts = {.value = cache.carveouts, .questions = questions, .trials = questions};
  }
  claims.exercised_bits = cache.exercised_bits;
  claims.prediction = fit.verification.evidence;
  claims.predicted_trials = fit.verification.evidence.accesses;
  return claims;
}

}  // namespace

bool may_have_store(const Interrogator& asker, const CacheClaims& claims, const Doubts& doubts) {
  return claims.predicted_trials == 0 && !asker.buffer().nearer_bytes && !doubts.contains(Doubt::levels_unclear) &&
         claims.line_bytes.value && claims.onset_bytes.value && start_of(asker) == SetStart::empty;
}

StoreEvidence explain_by_store(Interrogator& asker, const model::Answerer& device, CacheClaims& claims) {
  const std::size_t questions_before = asker.questions_asked();
  const SweptStoreFit fit = search_store(asker, claims);
  if (!fit.cache || (disturbance_of(device) && !verify_side_by_side(asker, *fit.cache).holds)) {
    return fit.shows_store ? StoreEvidence::seen : StoreEvidence::none;
  }
  claims = claims_of(claims, fit, asker.questions_asked() - questions_before);
  return StoreEvidence::proven;
}

}  // namespace gpuinfer::infer
