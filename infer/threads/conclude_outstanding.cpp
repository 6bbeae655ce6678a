// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/conclude_outstanding.hpp"

#include <algorithm>
#include <iterator>
#include <set>

namespace gpuinfer::infer {

namespace {

using model::ConcurrentLoads;
using model::EvidenceStatus;
using model::OutstandingKind;

OutstandingBounds bounds_of(std::vector<Curve> curves) {
  for (Curve& curve : curves) {
    curve.knee.reset();
  }
  std::vector<TableHypothesis> widest{{.kind = OutstandingKind::mshr}, {.kind = OutstandingKind::prt}};
  refute(widest, curves);
  return {.lines = widest.front().fewest_entries, .warp_loads = widest.back().fewest_entries};
}

std::string text_of(const OutstandingBounds& bounds) {
  return std::to_string(bounds.lines) + " lines and " + std::to_string(bounds.warp_loads) + " loads of warps at once";
}

OutstandingVerdict without_knee(const OutstandingPlots& plots) {
  const OutstandingBounds bounds = bounds_of(plots.curves);
  OutstandingVerdict verdict{.at_least = bounds};
  verdict.entries = {.status = EvidenceStatus::unknown,
                     .reason = "nothing fills: at least " + text_of(bounds) + " were under way"};
  verdict.merges = {.status = EvidenceStatus::unknown, .reason = "no table is seen to fill"};
  const bool all_fit = std::ranges::any_of(plots.curves, [](const Curve& curve) {
    return curve.loads.loads_per_thread == ConcurrentLoads::most_loads && curve.loads.threads_per_line == 1 &&
           fits_for_sure(curve.cycles.back(), curve.one_load_cycles);
  });
  if (all_fit) {
    verdict.outstanding.kind = OutstandingKind::no_limit_seen;
    verdict.kind = LeafVerdict::resolved();
    verdict.trials = plots.curves.size();
    return verdict;
  }
  verdict.kind = {.status = EvidenceStatus::unknown,
                  .reason = "no plot jumps to two latencies: before a table of more than " + text_of(bounds) +
                            " could fill, the loads wait for something else, or there are no more of them"};
  return verdict;
}

OutstandingVerdict without_table(const OutstandingPlots& plots) {
  const std::string reason = "the knees do not fit one table of either kind";
  const OutstandingBounds bounds = bounds_of(plots.curves);
  return {.kind = {.status = EvidenceStatus::unknown, .reason = reason},
          .entries = {.status = EvidenceStatus::unknown,
                      .reason = reason + "; at least " + text_of(bounds) + " were under way"},
          .merges = LeafVerdict{.status = EvidenceStatus::unknown, .reason = reason},
          .at_least = bounds};
}

// Of tables that stand; the ends where there are many.
std::vector<model::FlowYaml> entries_alternatives(const std::vector<TableHypothesis>& tables) {
  constexpr std::uint32_t most_between = 8;
  std::set<std::uint32_t> numbers;
  for (const TableHypothesis& table : tables) {
    const std::uint32_t range = table.most_entries - table.fewest_entries;
    for (std::uint32_t more = 0; more <= range; more += range > most_between ? range : 1) {
      numbers.insert(table.fewest_entries + more);
    }
  }
  std::vector<model::FlowYaml> texts;
  std::ranges::transform(numbers, std::back_inserter(texts),
                         [](std::uint32_t number) { return std::to_string(number); });
  return texts;
}

OutstandingVerdict with_alternatives(const std::string& reason, const std::vector<TableHypothesis>& tables) {
  OutstandingVerdict verdict;
  verdict.kind = {.status = EvidenceStatus::ambiguous, .reason = reason};
  for (const OutstandingKind kind : TableAgreement(tables).kinds) {
    verdict.kind.alternatives.emplace_back(to_string(kind));
  }
  verdict.entries = {
      .status = EvidenceStatus::ambiguous, .reason = reason, .alternatives = entries_alternatives(tables)};
  verdict.merges = {.status = EvidenceStatus::unknown, .reason = "the kind of table is not certain"};
  return verdict;
}

// Why what is left of the tables is not yet to be believed; empty: it is.
std::string doubt_after(const OutstandingTrials& trials, const std::vector<TableHypothesis>& tables) {
  constexpr std::size_t fewest_trials = 3;
  if (trials.failed() > 0 || tables.empty()) {
    return "loads that took no part do not behave as the table predicts";
  }
  if (trials.passed() < fewest_trials) {
    return "too few knees could be predicted and looked at: " + std::to_string(trials.passed());
  }
  if (trials.beyond_l2.passed == 0 && TableAgreement(tables).kinds.contains(OutstandingKind::mshr)) {
    return "a cache of so many lines would look the same" +
           (trials.refusal.empty() ? std::string(", and no knee was seen with lines that are not in L2")
                                   : ", and the device refused lines that are not in L2: " + trials.refusal);
  }
  return {};
}

void conclude_merges(const TableAgreement& agreement, const OutstandingPlots& plots, OutstandingVerdict& verdict) {
  if (*agreement.kinds.begin() == OutstandingKind::prt) {
    return;  // an entry is a whole load of a warp
  }
  const std::uint32_t fewest = *agreement.merges.begin();
  if (agreement.merges.size() == 1 && fewest < model::warp_lanes) {
    verdict.outstanding.merges = fewest;
    verdict.merges = LeafVerdict::resolved();
    return;
  }
  if (!agreement.merges.contains(model::warp_lanes)) {
    verdict.outstanding.merges_at_least = fewest;
    verdict.merges = {.status = EvidenceStatus::ambiguous, .reason = "several numbers explain all knees"};
    for (const std::uint32_t merges : agreement.merges) {
      verdict.merges->alternatives.push_back(std::to_string(merges));
    }
    return;
  }
  std::uint32_t seen = 1;
  for (const Curve* curve : plots.knees()) {
    if (curve->loads.threads_per_line <= fewest) {
      seen = std::max(seen, curve->loads.threads_per_line);
    }
  }
  verdict.outstanding.merges_at_least = seen;
  verdict.merges = {.status = EvidenceStatus::unknown,
                    .reason = seen == model::warp_lanes
                                  ? "all threads of a warp share an entry, and no more than those load one line"
                                  : "with more than " + std::to_string(seen) +
                                        " threads on a line no knee is seen: the loads wait for something else, or "
                                        "there are too few of them"};
}

// Tables that are to be believed.
OutstandingVerdict agreement_of(const OutstandingPlots& plots) {
  const TableAgreement agreement(plots.tables);
  const std::string several = "several tables explain all knees";
  if (agreement.kinds.size() > 1) {
    return with_alternatives(several, plots.tables);
  }
  OutstandingVerdict verdict;
  verdict.outstanding.kind = *agreement.kinds.begin();
  verdict.kind = LeafVerdict::resolved();
  if (agreement.on_entries()) {
    verdict.outstanding.entries = agreement.fewest_entries;
    verdict.entries = LeafVerdict::resolved();
  } else {
    verdict.entries = {
        .status = EvidenceStatus::ambiguous, .reason = several, .alternatives = entries_alternatives(plots.tables)};
  }
  conclude_merges(agreement, plots, verdict);
  return verdict;
}

}  // namespace

std::vector<const Curve*> OutstandingPlots::knees() const {
  std::vector<const Curve*> with_knee;
  for (const Curve& curve : curves) {
    if (curve.knee) {
      with_knee.push_back(&curve);
    }
  }
  return with_knee;
}

LeafVerdict conclude_loads_per_warp(const WarpStop& stop, const OutstandingPlots& plots) {
  const OutstandingBounds bounds = bounds_of(plots.curves);
  const std::uint32_t entries_at_least = !plots.knees().empty() && !plots.tables.empty()
                                             ? TableAgreement(plots.tables).fewest_entries
                                             : std::min(bounds.lines, bounds.warp_loads);
  if (stop.loads == ConcurrentLoads::most_loads) {
    return {.status = EvidenceStatus::unknown,
            .reason = "eight loads of one warp are under way at once, and no more are asked for"};
  }
  if (!stop.repeats) {
    return {.status = EvidenceStatus::unknown,
            .reason = "one, two and three threads stop at different numbers of loads, or at no multiple of one"};
  }
  if (entries_at_least <= stop.loads) {
    return {.status = EvidenceStatus::ambiguous,
            .reason = "the warp may as well stop because the table of the SM is full"};
  }
  return LeafVerdict::resolved();
}

bool are_worth_trials(const OutstandingPlots& plots) {
  std::set<std::uint32_t> places;
  for (const Curve* curve : plots.knees()) {
    places.insert(curve->knee->fits);
  }
  return !plots.tables.empty() && places.size() > 1;
}

OutstandingVerdict conclude_outstanding(const OutstandingPlots& plots, const std::optional<OutstandingTrials>& trials) {
  if (plots.knees().empty()) {
    return without_knee(plots);
  }
  if (!trials && plots.tables.empty()) {
    return without_table(plots);
  }
  if (!trials) {
    return with_alternatives(
        "all knees are at one number of threads, which need not be a table; more loads per warp would tell",
        plots.tables);
  }
  const std::string doubt = doubt_after(*trials, plots.tables);
  OutstandingVerdict verdict = doubt.empty() ? agreement_of(plots) : with_alternatives(doubt, plots.tables);
  verdict.trials = trials->passed();
  return verdict;
}

}  // namespace gpuinfer::infer
