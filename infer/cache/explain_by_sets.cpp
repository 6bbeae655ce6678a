// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/explain_by_sets.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/cache/claim_sizes.hpp"
#include "infer/cache/find_sets.hpp"
#include "infer/cache/prove.hpp"
#include "infer/policy/replacement_fit.hpp"

namespace gpuinfer::infer {

namespace {

void claim_sets(const FoundSets& sets, CacheClaims& claims) {
  claims.ways = sets.ways;
  claims.index = sets.index;
  claims.exercised_bits = sets.exercised_bits;
  claim_capacity(claims);
}

// Ways and index, and single sets to experiment with. None: the reasons stand with the claims.
std::optional<FoundSets> sets_of(Interrogator& asker, Conflicts& conflicts, CacheClaims& claims, Doubts& doubts) {
  const Bytes line_bytes = *claims.line_bytes.value;
  const std::size_t onset_lines = std::max<std::size_t>(1, *claims.onset_bytes.value / line_bytes);
  asker.report("sets", 0.2);
  asker.inquire("which of the first " + std::to_string(onset_lines + 1) + " lines miss when they are loaded in turn",
                "one line too many shows the whole of the set that overflows");
  const std::size_t questions_before = asker.questions_asked();
  Partitioner partitioner(asker, conflicts, line_bytes, onset_lines);
  std::optional<ConflictClass> first = partitioner.first_set(claims.ways.reason);
  if (!first) {
    asker.learned(claims.ways.reason);
    doubts.try_emplace(Doubt::unproven, claims.ways.reason);
    return std::nullopt;
  }
  doubts.erase(Doubt::onset_unconfirmed);
  asker.learned(std::to_string(first->lines.size()) + " lines of one set, which has " + std::to_string(first->ways) +
                " ways");
  FoundSets sets = find_sets(asker, conflicts, partitioner, *std::move(first), line_bytes, onset_lines);
  sets.ways.questions = sets.index.questions = asker.questions_asked() - questions_before;
  if (!sets.ways.value) {
    doubts.try_emplace(Doubt::unproven, sets.ways.reason);
  }
  claim_sets(sets, claims);
  return sets.ways.value ? std::optional(std::move(sets)) : std::nullopt;
}

Claim<model::Replacement> replacement_of(Interrogator& asker, const std::vector<ConflictClass>& sets) {
  asker.report("replacement policy", 0.7);
  ReplacementFit fit = fit_replacement(asker, sets);
  Claim<model::Replacement> claim{.reason = fit.reason, .details = std::move(fit.details)};
  if (fit.candidates.size() == 1) {
    claim.value = std::move(fit.candidates.front());
    claim.reason.clear();
  } else {
    claim.alternatives = std::move(fit.candidates);
  }
  return claim;
}

// Counts the sets where no policy predicts what they do.
void count_sets(Interrogator& asker, Conflicts& conflicts, const Offsets& contradicting, FoundSets& sets,
                CacheClaims& claims, const Doubts& doubts) {
  check_without_policy(asker, conflicts, *claims.line_bytes.value, *claims.sector_bytes.value, contradicting, sets);
  claim_sets(sets, claims);
  claims.sets_are_counted = !sets.refuted() && !doubts.contains(Doubt::levels_unclear);
}

}  // namespace

void explain_by_sets(Interrogator& asker, const model::Answerer& device, Conflicts& conflicts, CacheClaims& claims,
                     Doubts& doubts) {
  std::optional<FoundSets> sets = sets_of(asker, conflicts, claims, doubts);
  // Among many ways, chance keeps strange lines for long: then the onset may have been wrong already.
  if (asker.floods_by_loads() && !conflicts.warms_up_longer() && (!sets || sets->packings.failed())) {
    conflicts.warm_up_longer();
    asker.report("capacity once more, after longer warm-ups", 0.05);
    claim_onset(asker, conflicts, claims);
    if (!claims.onset_bytes.value) {
      doubts.try_emplace(Doubt::unproven, claims.onset_bytes.reason);
      return;
    }
    claim_line(asker, conflicts, claims, doubts);
    sets = sets_of(asker, conflicts, claims, doubts);
  }
  if (!sets) {
    predict_as_well_as_possible(asker, claims, doubts);
    return;
  }
  claims.replacement = counted_as_trials(asker, [&] { return replacement_of(asker, sets->single_sets); });
  asker.report("verification on fresh sequences", 0.9);
  Offsets contradicting;
  if (claims.index.value && claims.replacement.value && !doubts.contains(Doubt::undescribed)) {
    contradicting = prove(asker, device, *sets, claims, doubts);
  } else {
    predict_as_well_as_possible(asker, claims, doubts);
  }
  // Who leaves a set may be what was not predicted; how many lines of which fit is another matter. No flood shows which
  // lines stay for ever, though, and take room from all others.
  if (sets->index.value && !sets->packings.failed() && claims.predicted_trials == 0 &&
      !(claims.replacement.value && asker.starts_flooded())) {
    count_sets(asker, conflicts, contradicting, *sets, claims, doubts);
  }
}

}  // namespace gpuinfer::infer
