// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/infer_traces.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/ending.hpp"
#include "infer/asking/written_leaf.hpp"
#include "infer/recordings/cyclic_hypotheses.hpp"
#include "infer/recordings/model_free.hpp"
#include "infer/recordings/random_sequences.hpp"
#include "infer/recordings/recorded.hpp"
#include "infer/recordings/trace_levels.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;
using model::Trace;

std::vector<ReadTrace> read(std::span<const Trace> traces, const TraceLevels& levels, const LongLoop& loop) {
  std::vector<ReadTrace> read_traces;
  for (const Trace& trace : traces) {
    ReadTrace& read = read_traces.emplace_back(ReadTrace{.trace = &trace, .readings = {}});
    for (const float latency : trace.latency_cycles) {
      loop.step();
      read.readings.push_back(levels.read(latency));
    }
  }
  return read_traces;
}

// Levels that the hits themselves fall into, as far apart as half of what hits and misses are, or the farther one half
// as far again as the nearer one, which parts of one cache are not; none: they are one level.
std::optional<model::LatencyCycles> levels_within_hits(const std::vector<float>& latencies,
                                                       const model::LatencyCycles& levels) {
  constexpr std::size_t fewest_of_level = 50;  // one in so many
  const double half_way = (*levels.hit + *levels.miss) / 2;
  std::vector<float> hits;
  std::ranges::copy_if(latencies, std::back_inserter(hits), [&](float latency) { return latency < half_way; });
  const TraceLevels within(hits, {});
  const auto hit = within.hit_median_cycles();
  const auto miss = within.miss_median_cycles();
  if (!hit || !miss) {
    return std::nullopt;
  }
  const double apart = *miss - *hit;
  if (2 * apart < *levels.miss - *levels.hit && 2 * apart < *hit) {
    return std::nullopt;
  }
  const auto are = [&](Reading reading) {
    return static_cast<std::size_t>(
        std::ranges::count_if(hits, [&](float latency) { return within.read(latency) == reading; }));
  };
  const bool are_many = std::min(are(Reading::hit), are(Reading::miss)) * fewest_of_level > latencies.size();
  return are_many ? std::optional(model::LatencyCycles{.hit = hit, .miss = miss}) : std::nullopt;
}

// All that may be hits and misses, the nearest first.
std::vector<model::LatencyCycles> possible_levels(const std::vector<float>& latencies,
                                                  const model::LatencyCycles& farthest) {
  std::vector<model::LatencyCycles> levels{farthest};
  while (const auto nearer = levels_within_hits(latencies, levels.front())) {
    levels.insert(levels.begin(), *nearer);
  }
  return levels;
}

// What takes longer than so many cycles misses.
std::vector<ReadTrace> read_at(double most_of_hit, std::span<const Trace> traces) {
  std::vector<ReadTrace> read_traces;
  for (const Trace& trace : traces) {
    ReadTrace& read = read_traces.emplace_back(ReadTrace{.trace = &trace, .readings = {}});
    for (const float latency : trace.latency_cycles) {
      read.readings.push_back(latency > most_of_hit ? Reading::miss : Reading::hit);
    }
  }
  return read_traces;
}

// Which of three latencies or more are hits is not known, so what follows from any is an alternative.
void state_many_levels(std::span<const Trace> traces, model::Address address_of_buffer,
                       std::span<const model::LatencyCycles> guides, const RecordedLeaves& leaves) {
  leaves.cache().latency_cycles = {};
  std::vector<std::string> levels;
  std::vector<std::string> fills;
  for (const model::LatencyCycles& guide : guides) {
    levels.push_back(written_leaf("latency_cycles", &model::CacheDescription::latency_cycles, guide));
    CacheFinding supposed;
    const ReadTraces all{.traces = read_at((*guide.hit + *guide.miss) / 2, traces),
                         .address_of_buffer = address_of_buffer};
    if (const FillSize fill = find_fill(all, RecordedLeaves(supposed, traces.size()));
        fill.is_known && (fills.empty() || fills.back() != std::to_string(fill.bytes))) {
      fills.push_back(std::to_string(fill.bytes));
    }
  }
  const std::string reason = std::string("the loads take ") + (guides.size() == 2 ? "three" : "more than three") +
                             " times, so which of them hit is not known";
  const char* const decided_by = "recordings of an array that fits the cache, and of one a little larger";
  leaves.open_description(EvidenceStatus::unknown, reason, decided_by);
  leaves.open("latency_cycles", EvidenceStatus::ambiguous, reason, decided_by, levels);
  leaves.open("sector_bytes", fills.empty() ? EvidenceStatus::unknown : EvidenceStatus::ambiguous, reason, decided_by,
              fills);
}

// One or two loads that took long are no median, whatever the others say.
void doubt_few_loads(std::span<const ReadTrace> traces, const RecordedLeaves& leaves) {
  constexpr std::ptrdiff_t fewest = 4;
  std::ptrdiff_t hits = 0;
  std::ptrdiff_t misses = 0;
  for (const ReadTrace& read : traces) {
    hits += std::ranges::count(read.readings, Reading::hit);
    misses += std::ranges::count(read.readings, Reading::miss);
  }
  if (leaves["latency_cycles"].status == EvidenceStatus::resolved && std::min(hits, misses) < fewest) {
    const model::LatencyCycles found = std::exchange(leaves.cache().latency_cycles, {});
    leaves.open("latency_cycles", EvidenceStatus::ambiguous,
                "there are no more than " + std::to_string(std::min(hits, misses)) + " loads of one of the two levels",
                {}, {written_leaf("latency_cycles", &model::CacheDescription::latency_cycles, found)});
  }
}

// Random sequences that are too short for a check on accesses that were held out prove nothing.
void doubt_description(const RecordedLeaves& leaves) {
  const model::CacheDescription found = std::exchange(leaves.cache(), {});
  leaves.cache().sector_bytes = found.sector_bytes;
  leaves.cache().onset_bytes = found.onset_bytes;
  leaves.cache().latency_cycles = found.latency_cycles;
  const auto doubt = [&](const char* leaf, auto member) {
    if (found.*member) {
      leaves.open(leaf, EvidenceStatus::ambiguous, "too few accesses are left to check it",
                  "the same recordings, ten times as long", {written_leaf(leaf, member, found.*member)});
    }
  };
  doubt("capacity_bytes", &model::CacheDescription::capacity_bytes);
  doubt("line_bytes", &model::CacheDescription::line_bytes);
  doubt("ways", &model::CacheDescription::ways);
  doubt("index", &model::CacheDescription::index);
  doubt("replacement", &model::CacheDescription::replacement);
}

// What a part of the hypotheses explains, or a part of the accesses, is not proven.
void leave_unexplained(const std::string& why, const RecordedLeaves& leaves) {
  const std::string reason = stopped_early(why);
  const model::CacheDescription found = std::exchange(leaves.cache(), {});
  leaves.cache().latency_cycles = found.latency_cycles;
  leaves.cache().onset_bytes = found.onset_bytes;
  leaves.finding().evidence.prediction.reset();
  leaves.open_description(EvidenceStatus::unknown, reason, with_more_time);
  std::vector<std::string> fills;
  if (found.sector_bytes) {
    fills.push_back(std::to_string(*found.sector_bytes));
  }
  if (!leaves.finding().evidence.leaves.contains("latency_cycles")) {
    leaves.open("latency_cycles", EvidenceStatus::unknown, reason, with_more_time);
  }
  leaves.open("sector_bytes", fills.empty() ? EvidenceStatus::unknown : EvidenceStatus::ambiguous, reason,
              with_more_time, std::move(fills));
}

// By random sequences where there are any, and else, or where these are too short, by warm cyclic chases.
void explain_traces(const ReadTraces& all, const Settings& settings, const Scorer& scorer,
                    const RecordedLeaves& leaves) {
  const bool has_random_sequences = !std::ranges::all_of(all.traces, &ReadTrace::is_cyclic);
  const Outcome outcome =
      has_random_sequences ? infer_random_sequences(all, settings, scorer, leaves) : Outcome::too_short;
  if (outcome == Outcome::described) {
    return;
  }
  const FillFates fates = fates_of(all);
  state_fates(fates, all, leaves);
  const bool has_warm_chases =
      std::ranges::any_of(all.traces, [](const ReadTrace& read) { return read.is_warm && read.is_cyclic; });
  if (outcome == Outcome::unexplained) {
    return;
  }
  if (has_warm_chases) {
    if (!explain_cyclic(all, fates, settings, scorer, leaves) && !has_random_sequences) {
      static_cast<void>(infer_growing_chases(all, settings, scorer, leaves));
    }
    if (has_random_sequences) {
      doubt_description(leaves);
    }
  } else if (!has_random_sequences) {
    leaves.open_description(EvidenceStatus::unknown, "no recording goes back to lines that it is known to have loaded",
                            "a chase round an array, with a round before it that is not recorded");
  }
}

// Throws AskingEnded, and leaves what it had found.
void find_in(std::span<const Trace> traces, model::Address address_of_buffer, const Settings& settings,
             const Scorer& scorer, const RecordedLeaves& leaves) {
  const LongLoop loop(settings);
  std::vector<float> latencies;
  for (const Trace& trace : traces) {
    latencies.insert(latencies.end(), trace.latency_cycles.begin(), trace.latency_cycles.end());
  }
  check_time(settings);
  const TraceLevels levels(latencies, {});
  check_time(settings);
  if (!state_levels(levels, leaves)) {
    return;
  }
  if (const auto possible = possible_levels(latencies, leaves.cache().latency_cycles); possible.size() > 1) {
    state_many_levels(traces, address_of_buffer, possible, leaves);
    return;
  }
  ReadTraces all{.traces = read(traces, levels, loop), .address_of_buffer = address_of_buffer, .loop = loop};
  settings.on_progress({.finding = "fill granularity", .done = 0.1, .questions = 0, .accesses = 0});
  try {
    all.fill = find_fill(all, leaves);
    classify(all);
    state_footprints(all, leaves);
    explain_traces(all, settings, scorer, leaves);
  } catch (const AskingEnded&) {
    doubt_few_loads(all.traces, leaves);
    throw;
  }
  doubt_few_loads(all.traces, leaves);
}

}  // namespace

CacheFinding infer_traces(std::span<const Trace> traces, model::Address address_of_buffer, const Settings& settings,
                          const Scorer& scorer) {
  CacheFinding finding;
  finding.questions = traces.size();
  for (const Trace& trace : traces) {
    finding.accesses += trace.latency_cycles.size();
  }
  const RecordedLeaves leaves(finding, traces.size());
  leaves.open_description_and_fill(EvidenceStatus::unknown,
                                   "the recordings hold no pair of hits and misses that could tell");
  try {
    find_in(traces, address_of_buffer, settings, scorer, leaves);
  } catch (const AskingEnded& ended) {
    finding.ended_early = true;
    leave_unexplained(ended.what(), leaves);
  }
  return finding;
}

}  // namespace gpuinfer::infer
