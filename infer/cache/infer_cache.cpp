// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/infer_cache.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/disturbance.hpp"
#include "infer/asking/ending.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/cache/aliases.hpp"
#include "infer/cache/claim_sizes.hpp"
#include "infer/cache/conclude.hpp"
#include "infer/cache/conflicts.hpp"
#include "infer/cache/find_sets.hpp"
#include "infer/cache/prove.hpp"
#include "infer/cache/stores.hpp"
#include "infer/cache/swept_store.hpp"
#include "infer/circumstances/circumstances.hpp"
#include "infer/circumstances/claim_circumstances.hpp"
#include "infer/policy/policy_questions.hpp"
#include "infer/policy/replacement_fit.hpp"
#include "infer/slices/claim_slices.hpp"

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
void count_sets(Interrogator& asker, Conflicts& conflicts, FoundSets& sets, CacheClaims& claims, const Doubts& doubts) {
  check_without_policy(asker, conflicts, *claims.line_bytes.value, *claims.sector_bytes.value, sets);
  claim_sets(sets, claims);
  claims.sets_are_counted = !sets.refuted() && !doubts.contains(Doubt::levels_unclear);
}

// One strategy: sets, each with the lines that the index sends there and with one policy.
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
  claims.replacement = counted(asker, [&] { return replacement_of(asker, sets->single_sets); });
  asker.report("verification on fresh sequences", 0.9);
  if (claims.index.value && claims.replacement.value && !doubts.contains(Doubt::undescribed)) {
    prove(asker, device, *sets, claims, doubts);
  } else {
    predict_as_well_as_possible(asker, claims, doubts);
  }
  // Who leaves a set may be what was not predicted; how many lines of which fit is another matter. No flood shows which
  // lines stay for ever, though, and take room from all others.
  if (sets->index.value && !sets->packings.failed() && claims.predicted_trials == 0 &&
      !(claims.replacement.value && asker.starts_flooded())) {
    count_sets(asker, conflicts, *sets, claims, doubts);
  }
}

enum class Store : std::uint8_t { none, seen, proven };

// The other one: more tags than lines of data, if loads evict several lines at once. `claims`: of its sizes; if it
// is proven, all of it.
Store explain_by_store(Interrogator& asker, const model::Answerer& device, CacheClaims& claims) {
  const CacheClaims sizes = claims;
  const std::size_t questions_before = asker.questions_asked();
  SweptStoreFit fit;
  try {
    model::CacheDescription known;
    known.onset_bytes = sizes.onset_bytes.value;
    known.line_bytes = sizes.line_bytes.value;
    known.sector_bytes = sizes.sector_bytes.value;
    known.latency_cycles = *sizes.latency_cycles.value;
    fit = find_swept_store(asker, known);
  } catch (const QuestionRefused& refused) {
    asker.learned(std::string("the device refused a question: ") + refused.what());
  }
  if (!fit.cache || (disturbance_of(device) && !verify_side_by_side(asker, *fit.cache).holds)) {
    return fit.shows_store ? Store::seen : Store::none;
  }
  const std::size_t questions = asker.questions_asked() - questions_before;
  claims = {.capacity_bytes = {.value = fit.cache->capacity_bytes, .questions = questions},
            .onset_bytes = sizes.onset_bytes,
            .line_bytes = sizes.line_bytes,
            .sector_bytes = sizes.sector_bytes,
            .ways = {.value = fit.cache->ways, .questions = questions, .bound = fit.bound_of_index},
            .index = {.value = fit.cache->index, .questions = questions, .bound = fit.bound_of_index},
            .replacement = {.value = fit.cache->replacement,
                            .questions = questions,
                            .bound = fit.bound_of_policy,
                            .details = std::move(fit.policy_details)},
            .latency_cycles = sizes.latency_cycles};
  claims.store_lines = {.value = fit.cache->store_lines, .questions = questions};
  claims.sweep = {.value = fit.cache->sweep, .questions = questions};
  if (!fit.cache->carveouts.empty()) {
    claims.carveouts = {.value = fit.cache->carveouts, .questions = questions, .trials = questions};
  }
  claims.exercised_bits = fit.cache->exercised_bits;
  claims.prediction = fit.verification.evidence;
  claims.predicted_trials = fit.verification.evidence.accesses;
  return Store::proven;
}

bool may_have_store(const Interrogator& asker, const CacheClaims& claims, const Doubts& doubts) {
  return claims.predicted_trials == 0 && !asker.buffer().nearer_bytes && !doubts.contains(Doubt::levels_unclear) &&
         claims.line_bytes.value && claims.onset_bytes.value && start_of(asker) == SetStart::empty;
}

bool claims_nothing(const CacheClaims& claims) {
  bool nothing = true;
  for_each_claim(claims, [&](std::string_view /*leaf*/, const auto& claim, auto /*member*/) {
    nothing = nothing && !claim.value && claim.alternatives.empty();
  });
  return nothing;
}

// At the smallest of several sizes a few hundred loads tell whether one of them evicts several lines; at the only
// one it may take more than to look for sets. Where a store is looked for first, sets that are none need not be.
bool store_comes_first(const Interrogator& asker) { return !asker.facts().shared_memories_kb.empty(); }

// Sector, onset and line, as far as there are any; behind a nearer level, all that hits and misses tell.
void claim_sizes(Interrogator& asker, Conflicts& conflicts, CacheClaims& claims, Doubts& doubts) {
  if (claim_sector(asker, claims, doubts)) {
    conflicts.go_downwards();
  }
  if (!claims.sector_bytes.value) {
    doubts.try_emplace(Doubt::unproven, claims.sector_bytes.reason);
    return;
  }
  if (asker.starts_flooded()) {
    doubts[Doubt::started_flooded] = "no question began with an empty cache";
  }
  asker.report("capacity at which misses begin", 0.05);
  claim_onset(asker, conflicts, claims);
  if (!claims.onset_bytes.value) {
    doubts.try_emplace(Doubt::unproven, claims.onset_bytes.reason);
  }
  if (asker.buffer().nearer_bytes) {
    claim_outer_sets(asker, claims);
    if (claims.onset_bytes.value) {
      confirm_onset_elsewhere(asker, conflicts, claims, doubts);
      doubts.try_emplace(Doubt::unproven, "masked by the level in front of it");
    }
  } else if (claims.onset_bytes.value) {
    claim_line(asker, conflicts, claims, doubts);
  }
}

bool is_explained(const CacheClaims& claims) { return claims.predicted_trials > 0 || claims.sets_are_counted; }

// Lines of which too many fit, or none of which can be told from a hit, may be such as tags of a few bits take for each
// other.
bool may_have_aliases(const Asker& asker, const CacheClaims& claims) {
  return !is_explained(claims) && !asker.starts_flooded() && !asker.buffer().nearer_bytes && !asker.buffer().raster;
}

// Nothing has proven the line, and nothing speaks for longer ones than a sector.
bool may_tell_lines(const Interrogator& asker, const CacheClaims& claims, const Doubts& doubts) {
  const bool has_none = !claims.line_bytes.value && !asker.buffer().nearer_bytes;
  return !is_explained(claims) && claims.sector_bytes.value &&
         (has_none || claims.line_bytes.value == claims.sector_bytes.value) && !asker.starts_flooded() &&
         !doubts.contains(Doubt::levels_unclear);
}

// What was taken for a line may be several, where nothing that followed from it explains the cache.
bool may_be_several_lines(const Interrogator& asker, const CacheClaims& claims, const Doubts& doubts) {
  return !is_explained(claims) && claims.line_bytes.value && claims.sector_bytes.value && claims.onset_bytes.value &&
         *claims.line_bytes.value > *claims.sector_bytes.value && !claims.line_bytes.stands_alone &&
         !asker.starts_flooded() && !asker.buffer().nearer_bytes && !asker.buffer().raster &&
         !doubts.contains(Doubt::levels_unclear);
}

// What comes along with some misses would take room that no load of the pool shows.
bool may_tell_room(const Interrogator& asker, const CacheClaims& claims, const Doubts& doubts) {
  return !is_explained(claims) && claims.line_bytes.stands_alone && !asker.starts_flooded() &&
         !asker.buffer().nearer_bytes && !asker.buffer().raster && !doubts.contains(Doubt::levels_unclear) &&
         !doubts.contains(Doubt::undescribed);
}

std::optional<Bytes> alias_distance_of(Asker& asker) {
  asker.inquire("loads of two places half a buffer apart, together and alone",
                "tags of a few bits would take one for the other");
  std::optional<Bytes> distance;
  try {
    distance = find_alias_distance(asker);
  } catch (const QuestionRefused&) {
    asker.learned("not recorded");
    return std::nullopt;
  }
  asker.learned(distance ? "places " + std::to_string(*distance) + " bytes apart are taken for the same one"
                         : "they are told apart");
  return distance;
}

}  // namespace

CacheFinding infer_cache(model::Answerer& device, const std::string& target, const Settings& settings) {
  const Doubts at_first{{Doubt::onset_unconfirmed, "no set was seen to overflow there"}};
  std::optional<Asker> asker(std::in_place, device, target, settings);
  std::optional<Interrogator> reader;
  std::optional<Conflicts> conflicts;
  CacheClaims claims;
  Doubts doubts = at_first;
  Ending ending;
  const auto go_through = [&](auto stages) {
    if (auto reason = infer::go_through(
            ending, [&] { return claims_nothing(claims); }, stages)) {
      doubts.try_emplace(Doubt::unproven, *reason);
      doubts.try_emplace(Doubt::cut_short, *std::move(reason));
    }
  };
  Spans spans = Spans::coarse;
  const auto try_sizes = [&] {
    if (auto classifier = claim_latency(*asker, spans, claims, ending.warnings)) {
      reader.emplace(*std::move(asker), *std::move(classifier));
      claim_sizes(*reader, conflicts.emplace(*reader, settings.seed), claims, doubts);
    } else {
      doubts.try_emplace(Doubt::unproven, claims.latency_cycles.reason);
    }
  };
  go_through(try_sizes);
  Store store = Store::none;
  const auto try_store = [&] {
    if (may_have_store(*reader, claims, doubts)) {
      store = explain_by_store(*reader, device, claims);
      claims.sets_are_counted = claims.sets_are_counted && store == Store::none;
    }
  };
  const auto try_sets = [&] {
    if (!claims.line_bytes.value || reader->buffer().nearer_bytes || store == Store::proven) {
      return;
    }
    if (store == Store::seen) {
      doubts.try_emplace(Doubt::unproven,
                         "loads evict several lines at once, as from a store apart from the tags, of "
                         "which no complete description could be verified");
      predict_as_well_as_possible(*reader, claims, doubts);
    } else {
      explain_by_sets(*reader, device, *conflicts, claims, doubts);
    }
  };
  // Where a store is looked for first, sets are not looked for in vain.
  const bool begins_with_store = reader && store_comes_first(*reader);
  if (begins_with_store) {
    go_through(try_store);
  }
  if (reader) {
    go_through(try_sets);
  }
  const auto start_again = [&] {
    if (reader) {
      asker.emplace(std::move(static_cast<Asker&>(*reader)));
      conflicts.reset();
      reader.reset();
    }
    claims = {};
    doubts = at_first;
    ending.warnings.clear();
  };
  bool meets_another = false;
  if (reader && doubts.contains(Doubt::levels_unclear) && !ending.ended_early) {
    go_through([&] { meets_another = meets_another_level(*reader); });
  }
  if (meets_another) {
    start_again();
    spans = Spans::fine;
    go_through(try_sizes);
    if (reader) {
      go_through(try_sets);
    }
  }
  std::optional<Bytes> alias_distance;
  if (store == Store::none && !ending.ended_early && may_have_aliases(reader ? *reader : *asker, claims)) {
    go_through([&] { alias_distance = alias_distance_of(reader ? *reader : *asker); });
  }
  if (alias_distance) {
    start_again();
    asker->stay_within(*alias_distance);
    doubts[Doubt::undescribed] =
        "places " + std::to_string(*alias_distance) +
        " bytes apart are taken for the same one, so no more bytes than these were asked about";
    go_through(try_sizes);
    if (reader) {
      go_through(try_sets);
    }
  }
  if (reader && !begins_with_store) {
    go_through(try_store);
  }
  if (reader && store != Store::proven && may_tell_lines(*reader, claims, doubts)) {
    go_through([&] { claim_line_of_one_sector(*reader, claims); });
  }
  if (reader && store == Store::none && may_be_several_lines(*reader, claims, doubts)) {
    go_through([&] { doubt_long_line(*reader, claims, doubts); });
  }
  if (reader && store == Store::none && may_tell_room(*reader, claims, doubts)) {
    go_through([&] { claim_room(*reader, claims); });
  }
  if (reader) {
    go_through([&] { claim_circumstances(*reader, claims, ending.warnings); });
    go_through([&] { claim_slices(*reader, claims); });
    go_through([&] { claim_stores(*reader, claims); });
  }
  if (conflicts && conflicts->met_unexplained_misses()) {
    doubts.try_emplace(Doubt::onset_unconfirmed,
                       "lines that fit together in the end have missed before, more often than misreads explain");
  }
  RunLog& log = reader ? static_cast<RunLog&>(*reader) : *asker;
  log.report("done", 1.0);
  if (auto disturbance = disturbance_of(device)) {
    doubts.emplace(Doubt::disturbed, *std::move(disturbance));
  }
  CacheFinding finding = conclude(claims, doubts);
  finding.cache.carveout_kb = own_carveout_kb(device.facts(), target);
  static_cast<Ending&>(finding) = std::move(ending);
  finding.evidence.inquiries = log.inquiries();
  finding.questions = log.questions_asked();
  finding.accesses = log.accesses_asked();
  return finding;
}

}  // namespace gpuinfer::infer
