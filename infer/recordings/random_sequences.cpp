// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/random_sequences.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <unordered_set>

#include "infer/asking/statistics.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/recordings/conclusion.hpp"
#include "infer/recordings/growing_chases.hpp"
#include "infer/recordings/index_space.hpp"
#include "infer/recordings/misread_check.hpp"
#include "infer/recordings/trace_fit.hpp"
#include "model/description_yaml.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;
using model::Measured;
using model::Trace;

constexpr double unbelievable_share = 1e-4;  // of answers that differ
constexpr std::uint64_t most_fills_per_line = 8;
constexpr std::size_t accesses_of_sample = 6000;
constexpr std::size_t most_lines = 65'536;
constexpr std::size_t most_splits = 6;

constexpr const char* few_lines_experiment =
    "a random walk from a clean start over twice as many lines as the cache holds, at least 100 loads for each line";
constexpr const char* device_experiment = "an inference on the device itself, which asks for what is missing";

bool starts_clean(const Trace& trace) {
  return trace.start_is_known && trace.question.state == model::StartState::clean;
}

// Which part of the recorded accesses counts.
enum class PartOfTrace { all, first_two_thirds, last_third };

Played played(const ReadTrace& read, model::Address address_of_buffer, PartOfTrace part, const LongLoop& loop) {
  const model::Question& question = read.trace->question;
  Played played;
  for (const model::AccessSequence* sequence : {&question.warm, &question.record}) {
    for (const std::uint64_t offset : *sequence) {
      loop.step();
      played.addresses.push_back(number_of(address_of_buffer + offset));
    }
  }
  played.measured.resize(question.warm.size(), Measured::unclear);
  const std::size_t accesses = read.readings.size();
  // What was there before is evicted, or touched again, in a few rounds.
  constexpr std::size_t rounds_unseen = 8;
  const std::unordered_set<std::uint64_t> distinct(question.record.begin(), question.record.end());
  const std::size_t unseen = starts_clean(*read.trace) ? 0 : std::min(accesses / 3, rounds_unseen * distinct.size());
  const std::size_t two_thirds = unseen + (accesses - unseen) * 2 / 3;
  const std::size_t first = part == PartOfTrace::last_third ? two_thirds : unseen;
  const std::size_t last = part == PartOfTrace::first_two_thirds ? two_thirds : accesses;
  for (std::size_t i = 0; i < accesses; ++i) {
    loop.step();
    const Reading reading = i >= first && i < last ? read.readings[i] : Reading::unclear;
    played.measured.push_back(reading == Reading::unclear ? Measured::unclear
                              : reading == Reading::miss  ? Measured::miss
                                                          : Measured::hit);
  }
  return played;
}

std::vector<Played> played(const ReadTraces& all, PartOfTrace part) {
  std::vector<Played> recordings;
  for (const ReadTrace& read : all.traces) {
    recordings.push_back(played(read, all.address_of_buffer, part, all.loop));
  }
  return recordings;
}

struct Differing {
  std::size_t different = 0;
  std::size_t compared = 0;
};

Differing differing(const ReadTrace& a, const ReadTrace& b) {
  Differing differing;
  for (std::size_t i = 0; i < a.readings.size(); ++i) {
    if (a.readings[i] != Reading::unclear && b.readings[i] != Reading::unclear) {
      ++differing.compared;
      differing.different += a.readings[i] != b.readings[i] ? 1U : 0U;
    }
  }
  return differing;
}

// The same sequence from the same start must give the same answer; misreads are no excuse for more than so much.
bool answers_differ(const ReadTraces& all, const RecordedLeaves& leaves) {
  for (std::size_t a = 0; a < all.traces.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const Trace& one = *all.traces[a].trace;
      const Trace& other = *all.traces[b].trace;
      if (one.question != other.question || !starts_clean(one) || !starts_clean(other)) {
        continue;
      }
      const auto [different, compared] = differing(all.traces[a], all.traces[b]);
      if (binomial_upper_tail(different, compared, 2 * most_misread) < unbelievable_share) {
        const std::string what = "the same sequence from a clean start was answered differently in " +
                                 std::to_string(different) + " of " + std::to_string(compared) + " accesses";
        leaves.log(other.name + " and " + one.name, "they hold the same question twice", what);
        leaves.open_description(EvidenceStatus::unknown, what + ": victims are random, or depend on something unseen",
                                "an inference on the device itself, which watches the victims of single sets");
        leaves["replacement"].details.deterministic = false;
        return true;
      }
    }
  }
  return false;
}

// What seems to be a fill may be two lines of which one is brought ahead of time.
void doubt_sectors(const RecordedLeaves& leaves) {
  std::optional<std::uint64_t>& sector_bytes = leaves.cache().sector_bytes;
  if (sector_bytes) {
    leaves.open("sector_bytes", EvidenceStatus::ambiguous,
                "nothing explains the misses, so that a fill may be several lines",
                "an inference on the device itself, which looks for lines that are brought ahead of time",
                {std::to_string(*sector_bytes)});
    sector_bytes.reset();
  }
}

// Never says that it is time to stop: that comes as AskingEnded, as what is cut short proves nothing.
std::function<bool()> in_time(const Settings& settings) {
  return [&settings] {
    check_time(settings);
    return false;
  };
}

// Of too many lines for a look at all pairs.
std::vector<LineSplit> guess_by_index(const SetSimulation& simulation, const Settings& settings, const Scorer& scorer,
                                      const RecordedLeaves& leaves) {
  IndexGuess guess = guess_splits_by_index(simulation, most_splits, scorer, in_time(settings));
  leaves.log("index functions for lines of " + std::to_string(simulation.line_bytes()) + " bytes",
             std::to_string(simulation.lines().size()) + " lines are too many for a look at all pairs of them",
             "some sets are predicted best by " + std::to_string(guess.splits.size()) + " functions", guess.hypotheses,
             guess.splits.size());
  return std::move(guess.splits);
}

// Lines of one size, as sets may be made of them.
struct LineSize {
  std::uint64_t line_bytes = 0;
  std::vector<LineSplit> splits;
  double share_wrong = 1;  // of a few accesses, by the best of them
};

// Of one, two, four and eight fills, as far as something explains them.
std::vector<LineSize> line_sizes(std::span<const Played> training, const ConflictScores& scores, const ReadTraces& all,
                                 const Settings& settings, const Scorer& scorer, const RecordedLeaves& leaves) {
  const bool has_few_lines = scores.fills().size() <= ConflictScores::most_fills;
  std::vector<LineSize> sizes;
  for (std::uint64_t fills = 1; fills <= most_fills_per_line; fills *= 2) {
    check_time(settings);
    const std::uint64_t line_bytes = fills * all.fill.bytes;
    settings.on_progress({.finding = "sets of lines of " + std::to_string(line_bytes) + " bytes",
                          .done = 0.1 + 0.05 * static_cast<double>(fills),
                          .questions = 0,
                          .accesses = 0});
    const SetSimulation sample =
        has_few_lines ? SetSimulation::of_beginning(training, line_bytes, all.fill.bytes, accesses_of_sample)
                      : SetSimulation(training, line_bytes, all.fill.bytes);
    if (!has_few_lines && (sample.lines().size() <= ConflictScores::most_fills / most_fills_per_line ||
                           sample.lines().size() > most_lines)) {
      continue;
    }
    std::vector<LineSplit> splits = has_few_lines
                                        ? scores.guess_splits(line_bytes, most_splits, [&] { check_time(settings); })
                                        : guess_by_index(sample, settings, scorer, leaves);
    if (const auto fit = fit_recordings(splits, sample, Care::quick, scorer, [&] { check_time(settings); })) {
      sizes.push_back({.line_bytes = line_bytes,
                       .splits = std::move(splits),
                       .share_wrong = static_cast<double>(fit->wrong) / static_cast<double>(sample.judged() + 1)});
    }
  }
  return sizes;
}

// Caches that may have made the recordings, the best first, for lines of several sizes.
struct Fits {
  std::vector<TraceFit> fits;
  std::size_t judged = 0;  // accesses that they were found from
  std::size_t fills = 0;   // that these load

  [[nodiscard]] bool is_enough() const {
    constexpr std::size_t enough_per_fill = 100;
    return judged > enough_per_fill * fills;
  }
  [[nodiscard]] std::string longer_walk() const {
    return "a random walk from a clean start over the same " + std::to_string(fills) + " fills, " +
           std::to_string(3 * (judged + 1000)) + " loads or more";
  }
};

Fits find_fits(const ReadTraces& all, const Settings& settings, const Scorer& scorer, const RecordedLeaves& leaves) {
  constexpr std::size_t fewest_per_line = 20;
  const std::vector<Played> training = played(all, PartOfTrace::first_two_thirds);
  const ConflictScores scores(training, all.fill.bytes, in_time(settings));
  Fits found{.fits = {}, .fills = scores.fills().size()};
  std::size_t loads = 0;
  for (const ReadTrace& read : all.traces) {
    loads += read.readings.size();
  }
  if (found.fills > ConflictScores::most_fills &&
      (found.fills > most_fills_per_line * most_lines || loads < fewest_per_line * found.fills)) {
    return found;
  }
  const std::vector<LineSize> sizes = line_sizes(training, scores, all, settings, scorer, leaves);
  double least = 1;
  for (const LineSize& size : sizes) {
    least = std::min(least, size.share_wrong);
  }
  for (const LineSize& size : sizes) {
    // Lines of the wrong size show in a part of the accesses.
    if (size.share_wrong > 2 * least + most_misread) {
      continue;
    }
    const SetSimulation simulation(training, size.line_bytes, all.fill.bytes);
    if (auto fit = fit_recordings(size.splits, simulation, Care::thorough, scorer, [&] { check_time(settings); })) {
      found.judged = simulation.judged();
      found.fits.push_back(std::move(*fit));
    }
  }
  std::ranges::stable_sort(found.fits, {}, &TraceFit::wrong);
  return found;
}

std::size_t outliers_in(const ReadTraces& all) {
  std::size_t outliers = 0;
  for (const ReadTrace& read : all.traces) {
    outliers += static_cast<std::size_t>(std::ranges::count(read.readings, Reading::unclear));
  }
  return outliers;
}

// Does the best fit predict what took no part in finding it?
bool predicts_the_rest(const Fits& found, std::span<const Played> played_all, const ReadTraces& all,
                       const Settings& settings, const Scorer& scorer, const RecordedLeaves& leaves) {
  constexpr std::size_t fewest_held_out = 100;
  const TraceFit& best = found.fits.front();
  const std::vector<Played> rest = played(all, PartOfTrace::last_third);
  const SetSimulation held_out(rest, best.line_bytes, all.fill.bytes);
  const std::size_t wrong = wrong_of(best, held_out, scorer);
  const std::size_t judged = held_out.judged();
  const double share = judged == 0 ? 1.0 : static_cast<double>(wrong) / static_cast<double>(judged);
  const double misread = std::clamp(wilson_interval(best.wrong, std::max<std::size_t>(1, found.judged)).second,
                                    fewest_misread_share, most_misread);
  const double p = binomial_upper_tail(wrong, judged, misread);
  std::string doubt = judged < fewest_held_out ? "too few accesses are left to check it" : "";
  if (doubt.empty() && share > 1e-3 && p <= least_p_value) {
    doubt = "it gets " + model::percent_text(share) + " of the accesses wrong that it was not fitted to";
  }
  if (doubt.empty()) {
    doubt = doubt_in_errors(best, SetSimulation(played_all, best.line_bytes, all.fill.bytes),
                            [&] { check_time(settings); });
  }
  leaves.log("the last third of every recording", "it took no part in finding the sets and the policy",
             std::to_string(wrong) + " of " + std::to_string(judged) + " accesses are predicted wrong by sets of " +
                 std::to_string(best.line_bytes) + "-byte lines under " + model::to_text(best.policy) +
                 (doubt.empty() ? "" : "; " + doubt));
  if (!doubt.empty()) {
    leaves.open_description(EvidenceStatus::unknown, "no description explains the misses; of the best one, " + doubt,
                            found.is_enough() ? device_experiment : found.longer_walk());
    return false;
  }
  leaves.finding().evidence.prediction = model::PredictionEvidence{.agreement = 1 - share,
                                                                   .voted_agreement = {},
                                                                   .p_value = p,
                                                                   .accesses = judged,
                                                                   .sequences = rest.size(),
                                                                   .outliers = outliers_in(all),
                                                                   .assuming = {}};
  return true;
}

// Caches of lines of one to eight fills, by what arrays that grow line by line show.
Fits fits_by_growth(const ReadTraces& all, const Settings& settings, const Scorer& scorer,
                    const RecordedLeaves& leaves) {
  const std::vector<Played> training = played(all, PartOfTrace::first_two_thirds);
  Fits found;
  for (std::uint64_t fills = 1; fills <= most_fills_per_line; fills *= 2) {
    check_time(settings);
    const std::uint64_t line_bytes = fills * all.fill.bytes;
    const std::optional<Growth> growth = growth_of(all, line_bytes);
    if (!growth) {
      continue;
    }
    const LineSplit& split = growth->split;
    leaves.log("chases over arrays that grow by a line of " + std::to_string(line_bytes) + " bytes",
               "what begins to miss with a new line lies in its set",
               std::to_string(split.lines.size()) + " lines in " + std::to_string(split.sets()) + " sets");
    const SetSimulation simulation(training, line_bytes, all.fill.bytes);
    if (auto fit = fit_recordings({&split, 1}, simulation, Care::thorough, scorer, [&] { check_time(settings); })) {
      found.judged = simulation.judged();
      found.fills = split.lines.size() * fills;
      found.fits.push_back(std::move(*fit));
    }
  }
  std::ranges::stable_sort(found.fits, {}, &TraceFit::wrong);
  return found;
}

// What growing arrays show of sets that overflow, whatever the policy.
void state_growth(const ReadTraces& all, const RecordedLeaves& leaves) {
  const std::optional<Growth> growth = growth_of(all, all.fill.bytes);
  if (!growth || !std::ranges::all_of(growth->ways, [](const auto& ways) { return ways.has_value(); })) {
    return;
  }
  std::vector<std::uint32_t> ways;
  std::ranges::transform(growth->ways, std::back_inserter(ways), [](const auto& of_set) { return *of_set; });
  leaves.open("ways", EvidenceStatus::ambiguous,
              "every set overflows with one line more than these, under a policy that nothing explains",
              device_experiment, {model::to_flow_yaml(ways)});
  auto& details = leaves["index"].details;
  details.sets = growth->split.sets();
  details.lines_assigned = growth->split.lines.size();
}

// Whether the best of them explains the recordings; what follows from it.
Outcome describe(Fits found, const ReadTraces& all, const Settings& settings, const Scorer& scorer,
                 const RecordedLeaves& leaves) {
  const std::vector<Played> played_all = played(all, PartOfTrace::all);
  if (!predicts_the_rest(found, played_all, all, settings, scorer, leaves)) {
    return found.is_enough() ? Outcome::unexplained : Outcome::too_short;
  }
  settings.on_progress({.finding = "alternatives", .done = 0.7, .questions = 0, .accesses = 0});
  const std::string longer_walk = found.longer_walk();
  const Explanation explanation = explain(std::move(found.fits), played_all, all, scorer);
  conclude(explanation, all, longer_walk, scorer, leaves);
  return Outcome::described;
}

}  // namespace

Outcome infer_random_sequences(const ReadTraces& all, const Settings& settings, const Scorer& scorer,
                               const RecordedLeaves& leaves) {
  if (answers_differ(all, leaves)) {
    doubt_sectors(leaves);
    return Outcome::unexplained;
  }
  Fits found = find_fits(all, settings, scorer, leaves);
  if (found.fits.empty()) {
    leaves.open_description(EvidenceStatus::unknown,
                            "the recordings hold too many lines, or too few misses, to look for sets",
                            few_lines_experiment);
    return Outcome::too_short;
  }
  const Outcome outcome = describe(std::move(found), all, settings, scorer, leaves);
  if (outcome == Outcome::unexplained) {
    doubt_sectors(leaves);
  }
  return outcome;
}

Outcome infer_growing_chases(const ReadTraces& all, const Settings& settings, const Scorer& scorer,
                             const RecordedLeaves& leaves) {
  Fits found = fits_by_growth(all, settings, scorer, leaves);
  if (found.fits.empty()) {
    return Outcome::too_short;
  }
  const Outcome outcome = describe(std::move(found), all, settings, scorer, leaves);
  if (outcome != Outcome::described) {
    state_growth(all, leaves);
  }
  return outcome;
}

}  // namespace gpuinfer::infer
