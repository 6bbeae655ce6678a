// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/prove.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "infer/asking/disturbance.hpp"
#include "infer/asking/stream.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/cache/further_sets.hpp"
#include "infer/cache/known_outcomes.hpp"
#include "infer/cache/prediction.hpp"
#include "infer/cache/rare_departures.hpp"
#include "infer/cache/set_map.hpp"
#include "infer/policy/replacement_fit.hpp"
#include "model/description_yaml.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

void fail(Verification& verification, std::string reason) {
  verification.holds = false;
  verification.reason = std::move(reason);
}

// Victim frequencies, too, must come out again on questions that took no part in the fit.
void check_fresh_victims(Interrogator& asker, const std::vector<ConflictClass>& sets, const model::Replacement& policy,
                         Verification& verification) {
  constexpr std::size_t fewest_victims = 1500;
  constexpr std::size_t victims_of_way = 20;
  const ConflictClass& set = *std::ranges::max_element(sets, {}, &ConflictClass::ways);
  const std::size_t victims = std::max(fewest_victims, victims_of_way * set.ways);
  for (int attempt = 0; attempt < 2; ++attempt) {
    // The smallest of seven p-values is small seven times as often as one is.
    const double p_value = std::min(1.0, 7 * fresh_victims_fit(asker, set, policy, victims));
    verification.evidence.p_value = attempt == 0 ? std::min(*verification.evidence.p_value, p_value) : p_value;
    if (p_value > least_p_value) {
      verification.holds = true;
      verification.trials += victims;
      return;
    }
    fail(verification, "victims on fresh chases do not fit: p = " + std::to_string(p_value));
  }
}

// So must they whichever lines of the set are in play. What only looks like a set, such as lines of data apart from
// their tags, chooses otherwise among lines that lie so far apart. In small samples first, since most strides show
// nothing.
void check_victims_under_strides(Interrogator& asker, const model::CacheDescription& cache,
                                 Verification& verification) {
  constexpr std::array<std::size_t, 2> victims{200, 1500};
  constexpr std::array<double, 2> rarer_than{0.01, 1e-4};
  const LinesOfSets lines(asker, *cache.index, *cache.line_bytes);
  std::vector<std::uint32_t> wanted = *cache.ways;
  std::ranges::transform(wanted, wanted.begin(),
                         [&](std::uint32_t ways) { return lines_for_fresh_victims(asker, *cache.replacement, ways); });
  model::Random random = stream(asker.settings(), "victims under strides");
  asker.inquire("victims among lines that lie 2, 4, 8, .. lines apart", "lines of one set are all alike");
  for (unsigned exponent = 1;; ++exponent) {
    const std::vector<Offsets> drawn = lines.draw_strided(wanted, exponent, random);
    std::vector<std::uint32_t> filled;
    for (std::uint32_t set = 0; set < wanted.size(); ++set) {
      if (wanted[set] > 2 && drawn[set].size() == wanted[set]) {
        filled.push_back(set);
      }
    }
    if (filled.empty()) {
      break;
    }
    const std::uint32_t set = filled[random.below(filled.size())];
    const ConflictClass apart{.lines = drawn[set], .ways = (*cache.ways)[set]};
    const auto is_odd = [&](std::size_t sample) {
      return fresh_victims_fit(asker, apart, *cache.replacement, victims[sample]) < rarer_than[sample];
    };
    if (is_odd(0) && is_odd(1)) {
      fail(verification, "the victims among lines that lie " + std::to_string(1U << exponent) +
                             " lines apart are others than among their neighbours");
      verification.contradicted = true;
      break;
    }
  }
  asker.learned(verification.holds ? "they are drawn alike" : verification.reason);
}

// Somebody else's loads may have split a line into what looked like several.
void check_lines_side_by_side(Interrogator& asker, const model::CacheDescription& cache, Verification& verification) {
  asker.inquire("fresh random sequences over lines side by side",
                "something touched answers, and a line of twice the size would show there");
  const Verification neighbours = verify_side_by_side(asker, cache);
  asker.learned(neighbours.holds ? "the description predicts them, too" : neighbours.reason);
  if (!neighbours.holds) {
    fail(verification, neighbours.reason);
  }
}

// A recording holds no answers to these questions: then the sequences before say how rare a departure may be.
void exclude_departures(Interrogator& asker, const model::CacheDescription& cache, DepartureTally& tally,
                        Verification& verification) {
  asker.inquire("chases over one line more than each set has ways, and sets that are full of lines in use",
                "one fill in hundreds may do otherwise, which a sum over all loads hides among misreads");
  std::optional<Contradiction> contradiction;
  bool is_refused = false;
  bool departs_again = false;
  try {
    contradiction = search_departures(asker, cache, tally);
    if (!contradiction && tally.events() > 0) {
      // Misreads that are more frequent than was known look like departures, too. Somebody else's loads would not come
      // again.
      look_at_misreads(asker);
      DepartureTally again(asker, cache);
      contradiction = search_departures(asker, cache, again);
      departs_again = again.events() > 0;
      tally = std::move(again);
    }
  } catch (const QuestionRefused&) {
    is_refused = true;
  }
  const double below = tally.departures_below();
  if (contradiction) {
    fail(verification, std::move(contradiction->sentence));
    verification.contradicted = true;
    verification.contradicting_lines = std::move(contradiction->lines);
  } else if (departs(asker, tally)) {
    asker.learned("it does so but for " + share_text(tally.departing_share()));
    return;
  } else if (departs_again) {
    fail(verification, "of " + std::to_string(tally.fills()) +
                           " fills a few depart, again when asked once more, which misreads do not explain");
    verification.contradicted = true;
  } else if (is_refused && below > most_departures) {
    fail(verification,
         "what was recorded excludes no departures below one in " + model::whole_text(1 / below) + " fills");
  }
  asker.learned(verification.holds ? "no more than one fill in " + model::whole_text(1 / below) + " departs (" +
                                         std::to_string(tally.fills()) + " were judged)"
                                   : verification.reason);
}

void check_that_it_lasts(Interrogator& asker, const model::CacheDescription& cache, Verification& verification) {
  asker.inquire("one of the fresh random sequences once more", "by now another policy may be at work");
  if (!is_as_described_still(asker, cache)) {
    fail(verification,
         "a sequence that the description predicted was answered otherwise when it was asked again later");
    verification.contradicted = true;
  }
  asker.learned(verification.holds ? "it is as it was" : verification.reason);
}

Verification verify_all(Interrogator& asker, const model::Answerer& device, const FoundSets& sets,
                        const model::CacheDescription& cache, DepartureTally& tally) {
  asker.inquire("fresh random sequences over lines from everywhere",
                "only what predicts answers that took no part in the fit is resolved");
  Verification verification = verify(asker, cache, &tally);
  asker.learned(verification.holds ? "the description predicts them" : verification.reason);
  if (verification.holds && sets.packings.failed()) {
    fail(verification, "packings of lines that should just fill every set do not behave so; " + sets.ways.tested);
  }
  if (verification.holds && !model::is_deterministic(*cache.replacement)) {
    check_fresh_victims(asker, sets.single_sets, *cache.replacement, verification);
  }
  if (verification.holds && !model::is_deterministic(*cache.replacement)) {
    check_victims_under_strides(asker, cache, verification);
  }
  if (verification.holds && *cache.onset_bytes > *cache.capacity_bytes) {
    fail(verification, std::to_string(*cache.onset_bytes) + " contiguous bytes fit, and these sets hold " +
                           std::to_string(*cache.capacity_bytes));
  }
  if (verification.holds && disturbance_of(device)) {
    check_lines_side_by_side(asker, cache, verification);
  }
  if (verification.holds && model::is_deterministic(*cache.replacement) &&
      misreads_are_independent(asker.classifier())) {
    exclude_departures(asker, cache, tally, verification);
    if (verification.holds) {
      check_that_it_lasts(asker, cache, verification);
    }
  }
  return verification;
}

}  // namespace

Offsets prove(Interrogator& asker, const model::Answerer& device, const FoundSets& sets, CacheClaims& claims,
              Doubts& doubts) {
  if (asker.starts_flooded() && !covers_buffer(*claims.index.value, asker.buffer())) {
    doubts[Doubt::unproven] =
        "the flood before each question goes beyond what is known of the index, so nothing can be predicted";
    return {};
  }
  const model::CacheDescription cache = claimed_cache(claims);
  DepartureTally tally(asker, cache);
  Verification verification = verify_all(asker, device, sets, cache, tally);
  claims.prediction = verification.evidence;
  if (verification.holds) {
    claims.predicted_trials = verification.trials;
    const double odd_lines_below = tally.odd_lines_below();
    if (model::is_deterministic(*cache.replacement)) {
      if (departs(asker, tally)) {
        describe_departing(tally, claims.replacement);
      } else {
        // A policy may treat a few lines unlike all others.
        claims.replacement.bound = bound_of(std::max(tally.departures_below(), odd_lines_below));
      }
    }
    claims.index.bound = claims.ways.bound = bound_of(odd_lines_below);
    if (!covers_buffer(*claims.index.value, asker.buffer())) {
      if (const auto reason = why_further_sets(asker, cache)) {
        claims.ways = {.alternatives = {*claims.ways.value}, .reason = *reason, .questions = claims.ways.questions};
        claims.capacity_bytes = {
            .alternatives = {*claims.capacity_bytes.value}, .reason = *reason, .questions = claims.ways.questions};
      }
    }
    return {};
  }
  claims.replacement.details.deterministic.emplace();
  doubts[Doubt::unproven] = doubts[Doubt::mispredicted] = verification.reason;
  if (verification.contradicted) {
    doubts[Doubt::contradicted] = verification.reason;
  }
  if (verification.levels_in_doubt) {
    doubts[Doubt::levels_unclear] = verification.reason;
  }
  return std::move(verification.contradicting_lines);
}

void predict_as_well_as_possible(Interrogator& asker, CacheClaims& claims, Doubts& doubts) {
  model::CacheDescription assumed = claimed_cache(claims);
  std::string assuming;
  if (!assumed.index || !assumed.ways) {
    assumed.index = model::BitsIndex{};
    assumed.ways = {static_cast<std::uint32_t>(std::max<Bytes>(1, *assumed.onset_bytes / *assumed.line_bytes))};
    assuming = "ways: " + model::to_flow_yaml(*assumed.ways) + ", ";
  }
  const auto [policy, verification] = predict_best(asker, assumed, model::plain_policies(*assumed.ways));
  if (verification.levels_in_doubt) {
    doubts[Doubt::unproven] = doubts[Doubt::levels_unclear] = verification.reason;
  }
  claims.prediction = verification.evidence;
  claims.prediction->p_value.reset();
  claims.prediction->assuming = "{" + assuming + "replacement: " + model::to_flow_yaml(policy) + "}";
}

}  // namespace gpuinfer::infer
