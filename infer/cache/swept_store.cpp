// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/swept_store.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "infer/asking/stream.hpp"
#include "infer/cache/full_store.hpp"
#include "infer/cache/hashed_sets.hpp"
#include "infer/cache/no_swept_store.hpp"
#include "infer/cache/random_lines.hpp"
#include "infer/cache/store_sizes.hpp"
#include "infer/cache/sweep_rule.hpp"
#include "infer/cache/tag_store.hpp"

namespace gpuinfer::infer {

namespace {

void report_store(Interrogator& device, const char* what, double done) {
  device.report("decoupled tag and data stores", done, what);
}

model::CacheDescription with_tags(model::CacheDescription cache, const TagStore& tags, const SweepOrder& order) {
  cache.ways = tags.ways_of_sets();
  cache.index = index_of(tags.sets, order);
  cache.exercised_bits = tags.sets.bits;
  return cache;
}

model::CacheDescription with_rule(model::CacheDescription cache, SweepRule rule) {
  cache.replacement = std::move(rule.policy);
  cache.sweep = rule.sweep;
  return cache;
}

// Of both together.
void add_evidence(model::PredictionEvidence& evidence, const model::PredictionEvidence& more) {
  evidence.accesses += more.accesses;
  evidence.sequences += more.sequences;
  evidence.outliers += more.outliers;
  evidence.agreement = std::min(*evidence.agreement, *more.agreement);
  evidence.voted_agreement = std::min(*evidence.voted_agreement, *more.voted_agreement);
  evidence.p_value = std::min(*evidence.p_value, *more.p_value);
}

Verification verify_all_sizes(Interrogator& device, const model::CacheDescription& cache,
                              const std::vector<StoreSize>& offered, DepartureTally& departures) {
  device.inquire("fresh random sequences over lines from everywhere, at every size",
                 "only what predicts answers that took no part in the fit is resolved");
  Verification verification = verify(device, cache, &departures);
  for (const StoreSize& size : offered) {
    if (!verification.holds) {
      break;
    }
    const Under circumstances(device, size.circumstances());
    const model::CacheDescription cache_at_size = *model::at_carveout(cache, *size.carveout_kb);
    departures.go_on_with(cache_at_size);
    const Verification at_size = verify(device, cache_at_size, &departures);
    add_evidence(verification.evidence, at_size.evidence);
    if (!at_size.holds) {
      verification.holds = false;
      verification.reason = "at " + size.name() + ", " + at_size.reason;
    }
  }
  departures.go_on_with(cache);
  return verification;
}

}  // namespace

SweptStoreFit find_swept_store(Interrogator& device, const model::CacheDescription& known) {
  SweptStoreFit fit;
  try {
    RandomLines lines(device.buffer(), *known.line_bytes, stream(device.settings(), "swept store"));
    report_store(device, "sizes", 0.2);
    const StoreSizes sizes = measure_store_sizes(device, lines, *known.onset_bytes);
    report_store(device, "lines that go at once", 0.28);
    const std::size_t lines_when_full = count_lines_when_full(device, lines, sizes.smallest);
    report_store(device, "sets", 0.32);
    const HashedSets sets = find_hashed_sets(device, lines, sizes.largest);
    fit.shows_store = true;
    report_store(device, "ways and policy", 0.55);
    TagStore tags = find_tag_store(device, lines, sizes.largest, sets, known);
    report_store(device, "sweep", 0.6);
    const SweepOrder order = find_sweep_order(device, lines, sizes.smallest, tags, lines_when_full);
    report_store(device, "numbers of lines", 0.85);
    model::CacheDescription cache = with_tags(known, tags, order);
    cache = with_rule(cache, find_sweep_rule(device, lines, sizes.smallest, tags, order, cache));
    cache = with_store_lines(device, lines, sizes, tags, std::move(cache));
    report_store(device, "fresh sequences", 0.9);
    DepartureTally departures(device, cache);
    fit.verification = verify_all_sizes(device, cache, sizes.offered, departures);
    fit.policy_details = std::move(tags.policy_details);
    fit.bound_of_policy = bound_of(departures.departures_below());
    fit.bound_of_index = bound_of(departures.odd_lines_below());
    fit.reason = fit.verification.reason;
    device.learned(fit.verification.holds ? "the description predicts them" : fit.reason);
    if (fit.verification.holds) {
      fit.cache = std::move(cache);
    }
  } catch (const NoSweptStore& missing) {
    fit.reason = missing.what();
    device.learned(fit.reason);
  } catch (const Undecided& open) {
    fit.reason = open.what();
    device.learned(fit.reason);
  }
  return fit;
}

}  // namespace gpuinfer::infer
