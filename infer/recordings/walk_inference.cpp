// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/walk_inference.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "infer/asking/statistics.hpp"
#include "infer/cache/index_fit.hpp"
#include "infer/recordings/index_space.hpp"
#include "infer/recordings/trace_fit.hpp"
#include "model/description_yaml.hpp"
#include "model/policy_classes.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;
using model::Measured;
using model::Replacement;
using model::Trace;

constexpr double most_misread = 0.02;
constexpr double fewest_misread = 0.001;  // assumed even where none were seen
constexpr double decisive_nats = 20;
constexpr double decisive_bits = 20;
constexpr double believable = 0.01;    // p-value of the held-out accesses
constexpr double unbelievable = 1e-4;  // of answers that differ
constexpr double uneven = 0.0025;      // of how errors lie, in each of four respects
constexpr std::uint64_t most_fills_per_line = 8;
constexpr std::size_t accesses_of_sample = 6000;
constexpr std::array<const char*, 5> leaves_of_a_fit{"capacity_bytes", "line_bytes", "ways", "index", "replacement"};

Measured measured_as(Reading reading) {
  return reading == Reading::unclear ? Measured::unclear : reading == Reading::miss ? Measured::miss : Measured::hit;
}

std::string percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f %%", 100 * share);
  return text.data();
}

bool starts_clean(const Trace& trace) {
  return trace.start_is_known && trace.question.state == model::StartState::clean;
}

// Which part of the recorded accesses counts.
enum class Part { all, first_two_thirds, last_third };

class WalkInference {
 public:
  WalkInference(std::span<const ReadTrace> traces, std::uint64_t address_of_buffer, FillSize fill,
                const Settings& settings, const Scorer& scorer, CacheFinding& finding)
      : traces_(traces), address_of_buffer_(address_of_buffer), fill_(fill), settings_(&settings), scorer_(&scorer),
        finding_(&finding), all_(played(Part::all)) {}

  WalkOutcome run() {
    if (answers_differ()) {
      doubt_sectors();
      return WalkOutcome::unexplained;
    }
    find_fits();
    if (fits_.empty()) {
      open_all(EvidenceStatus::unknown, "the recordings hold too many lines, or too few misses, to look for sets",
               few_lines_experiment());
      return WalkOutcome::too_short;
    }
    if (!verify()) {
      if (is_enough_) {
        doubt_sectors();
      }
      return is_enough_ ? WalkOutcome::unexplained : WalkOutcome::too_short;
    }
    conclude();
    return WalkOutcome::described;
  }

 private:
  [[nodiscard]] bool stop() const {
    return settings_->stop_requested() ||
           (settings_->deadline && std::chrono::steady_clock::now() >= *settings_->deadline);
  }

  model::LeafEvidence& evidence(const std::string& leaf) { return finding_->evidence.leaves[leaf]; }

  void resolve(const std::string& leaf) {
    evidence(leaf).status = EvidenceStatus::resolved;
    evidence(leaf).reason.clear();
    evidence(leaf).decided_by.clear();
    evidence(leaf).alternatives.clear();
  }

  void open(const std::string& leaf, EvidenceStatus status, std::string reason, std::string decided_by,
            std::vector<std::string> alternatives = {}) {
    model::LeafEvidence& open = evidence(leaf);
    open.status = status;
    open.reason = std::move(reason);
    open.decided_by = std::move(decided_by);
    open.alternatives = std::move(alternatives);
    open.experiments = traces_.size();
  }

  void open_all(EvidenceStatus status, const std::string& reason, const std::string& decided_by) {
    for (const char* leaf : leaves_of_a_fit) {
      open(leaf, status, reason, decided_by);
    }
  }

  void log(std::string asked, std::string why, std::string learned, std::optional<std::size_t> before = {},
           std::optional<std::size_t> after = {}) {
    finding_->evidence.inquiries.push_back({.asked = std::move(asked),
                                            .why = std::move(why),
                                            .learned = std::move(learned),
                                            .questions = 0,
                                            .accesses = 0,
                                            .hypotheses_before = before,
                                            .hypotheses_after = after});
  }

  [[nodiscard]] std::vector<Played> played(Part part) const {
    std::vector<Played> all;
    for (const ReadTrace& read : traces_) {
      const model::Question& question = read.trace->question;
      Played& one = all.emplace_back();
      for (const model::AccessSequence* sequence : {&question.warm, &question.record}) {
        for (const std::uint64_t offset : *sequence) {
          one.addresses.push_back(address_of_buffer_ + offset);
        }
      }
      one.measured.resize(question.warm.size(), Measured::unclear);
      const std::size_t accesses = read.readings.size();
      // What was there before is driven out, or touched again, in a few rounds.
      constexpr std::size_t rounds_unseen = 8;
      const std::set<std::uint64_t> distinct(question.record.begin(), question.record.end());
      const std::size_t unseen =
          starts_clean(*read.trace) ? 0 : std::min(accesses / 3, rounds_unseen * distinct.size());
      const std::size_t two_thirds = unseen + (accesses - unseen) * 2 / 3;
      const std::size_t first = part == Part::last_third ? two_thirds : unseen;
      const std::size_t last = part == Part::first_two_thirds ? two_thirds : accesses;
      for (std::size_t i = 0; i < accesses; ++i) {
        one.measured.push_back(i >= first && i < last ? measured_as(read.readings[i]) : Measured::unclear);
      }
    }
    return all;
  }

  // The same sequence from the same start must give the same answer; misreads are no excuse for more than so much.
  bool answers_differ() {
    for (std::size_t a = 0; a < traces_.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (traces_[a].trace->question != traces_[b].trace->question || !starts_clean(*traces_[a].trace) ||
            !starts_clean(*traces_[b].trace)) {
          continue;
        }
        std::size_t compared = 0;
        std::size_t different = 0;
        for (std::size_t i = 0; i < traces_[a].readings.size(); ++i) {
          const Reading one = traces_[a].readings[i];
          const Reading other = traces_[b].readings[i];
          if (one != Reading::unclear && other != Reading::unclear) {
            ++compared;
            different += one != other ? 1U : 0U;
          }
        }
        if (binomial_upper_tail(different, compared, 2 * most_misread) < unbelievable) {
          const std::string what = "the same sequence from a clean start was answered differently in " +
                                   std::to_string(different) + " of " + std::to_string(compared) + " accesses";
          log(traces_[b].trace->name + " and " + traces_[a].trace->name, "they hold the same question twice", what);
          open_all(EvidenceStatus::unknown, what + ": victims are drawn by chance, or depend on something unseen",
                   "an inference on the device itself, which watches the victims of single sets");
          evidence("replacement").details["deterministic"] = "false";
          return true;
        }
      }
    }
    return false;
  }

  // What seems to be a fill may be two lines of which one is brought ahead of time.
  void doubt_sectors() {
    if (finding_->cache.sector_bytes) {
      open("sector_bytes", EvidenceStatus::ambiguous,
           "nothing explains the misses, so that a fill may be several lines",
           "an inference on the device itself, which looks for lines that are brought ahead of time",
           {std::to_string(*finding_->cache.sector_bytes)});
      finding_->cache.sector_bytes.reset();
    }
  }

  void find_fits() {
    const std::vector<Played> training = played(Part::first_two_thirds);
    const ConflictScores scores(training, fill_.bytes);
    lines_ = scores.fills().size();
    const bool has_few_lines = lines_ <= ConflictScores::most_fills;
    constexpr std::size_t most_lines = 65'536;
    constexpr std::size_t fewest_per_line = 20;
    std::size_t loads = 0;
    for (const ReadTrace& read : traces_) {
      loads += read.readings.size();
    }
    if (!has_few_lines && (lines_ > most_fills_per_line * most_lines || loads < fewest_per_line * lines_)) {
      return;
    }
    constexpr std::size_t most_splits = 6;
    std::map<std::uint64_t, std::vector<LineSplit>> splits;
    // Lines of the wrong size show in a part of the accesses.
    std::map<std::uint64_t, double> share_wrong;
    for (std::uint64_t fills = 1; fills <= most_fills_per_line && !stop(); fills *= 2) {
      const std::uint64_t line_bytes = fills * fill_.bytes;
      settings_->on_progress({.finding = "sets of lines of " + std::to_string(line_bytes) + " bytes",
                              .done = 0.1 + 0.05 * static_cast<double>(fills),
                              .questions = 0,
                              .accesses = 0});
      const SetSimulation sample =
          has_few_lines ? SetSimulation::of_beginning(training, line_bytes, fill_.bytes, accesses_of_sample)
                        : SetSimulation(training, line_bytes, fill_.bytes);
      if (!has_few_lines && (sample.lines().size() <= ConflictScores::most_fills / most_fills_per_line ||
                             sample.lines().size() > most_lines)) {
        continue;
      }
      splits[fills] =
          has_few_lines ? scores.guess_splits(line_bytes, most_splits) : guess_by_index(sample, most_splits);
      if (const auto fit = fit_recordings(splits[fills], sample, Care::quick, *scorer_, [this] { return stop(); })) {
        share_wrong[fills] = static_cast<double>(fit->wrong) / static_cast<double>(sample.judged() + 1);
      }
    }
    double least = 1;
    for (const auto& [fills, share] : share_wrong) {
      least = std::min(least, share);
    }
    for (const auto& [fills, share] : share_wrong) {
      if (share > 2 * least + most_misread) {
        continue;
      }
      const SetSimulation simulation(training, fills * fill_.bytes, fill_.bytes);
      if (auto fit = fit_recordings(splits[fills], simulation, Care::thorough, *scorer_, [this] { return stop(); })) {
        judged_in_training_ = simulation.judged();
        fits_.push_back(std::move(*fit));
      }
    }
    std::stable_sort(fits_.begin(), fits_.end(),
                     [](const TraceFit& a, const TraceFit& b) { return a.wrong < b.wrong; });
    constexpr std::size_t enough_per_line = 100;
    is_enough_ = judged_in_training_ > enough_per_line * lines_;
  }

  // Of too many lines for a look at all pairs.
  std::vector<LineSplit> guess_by_index(const SetSimulation& simulation, std::size_t most) {
    IndexGuess guess = guess_splits_by_index(simulation, most, *scorer_, [this] { return stop(); });
    log("index functions for lines of " + std::to_string(simulation.line_bytes()) + " bytes",
        std::to_string(simulation.lines().size()) + " lines are too many for a look at all pairs of them",
        "some sets are predicted best by " + std::to_string(guess.splits.size()) + " functions", guess.hypotheses,
        guess.splits.size());
    return std::move(guess.splits);
  }

  [[nodiscard]] static std::string few_lines_experiment() {
    return "a random walk from a clean start over twice as many lines as the cache holds, at least 100 loads for each "
           "line";
  }

  [[nodiscard]] std::string longer_walk() const {
    return "a random walk from a clean start over the same " + std::to_string(lines_) + " fills, " +
           std::to_string(3 * (judged_in_training_ + 1000)) + " loads or more";
  }

  // Does the best fit predict what took no part in finding it?
  bool verify() {
    const TraceFit& best = fits_.front();
    const std::vector<Played> rest = played(Part::last_third);
    const SetSimulation held_out(rest, best.line_bytes, fill_.bytes);
    const std::size_t wrong = wrong_of(best, held_out, *scorer_);
    const std::size_t judged = held_out.judged();
    const double share = judged == 0 ? 1.0 : static_cast<double>(wrong) / static_cast<double>(judged);
    const double misread = std::clamp(wilson_interval(best.wrong, std::max<std::size_t>(1, judged_in_training_)).second,
                                      fewest_misread, most_misread);
    const double p = binomial_upper_tail(wrong, judged, misread);
    constexpr std::size_t fewest_held_out = 100;
    std::string doubt = judged < fewest_held_out ? "too few accesses are left to check it" : "";
    if (doubt.empty() && share > 1e-3 && p <= believable) {
      doubt = "it gets " + percent(share) + " of the accesses wrong that it was not fitted to";
    }
    if (doubt.empty()) {
      doubt = doubt_in_errors(best);
    }
    log("the last third of every recording", "it took no part in finding the sets and the policy",
        std::to_string(wrong) + " of " + std::to_string(judged) + " accesses are predicted wrong by sets of " +
            std::to_string(best.line_bytes) + "-byte lines under " + model::to_text(best.policy) +
            (doubt.empty() ? "" : "; " + doubt));
    if (!doubt.empty()) {
      open_all(EvidenceStatus::unknown, "no description explains the misses; of the best one, " + doubt,
               is_enough_ ? "an inference on the device itself, which asks for what is missing" : longer_walk());
      return false;
    }
    std::size_t outliers = 0;
    for (const ReadTrace& read : traces_) {
      outliers += static_cast<std::size_t>(std::count(read.readings.begin(), read.readings.end(), Reading::unclear));
    }
    finding_->evidence.prediction = model::PredictionEvidence{.agreement = 1 - share,
                                                              .voted_agreement = {},
                                                              .p_value = p,
                                                              .accesses = judged,
                                                              .sequences = rest.size(),
                                                              .outliers = outliers,
                                                              .assuming = {}};
    return true;
  }

  // Accesses that ought to be misread alike: those predicted to hit, and those predicted to miss.
  struct Misread {
    std::array<std::size_t, 2> wrong{};
    std::array<std::size_t, 2> judged{};

    void add(const SetSimulation::Prediction& prediction) {
      ++judged.at(prediction.miss ? 1 : 0);
      wrong.at(prediction.miss ? 1 : 0) += prediction.is_wrong ? 1U : 0U;
    }
    [[nodiscard]] double rate(bool miss) const {
      const std::size_t kind = miss ? 1 : 0;
      return static_cast<double>(wrong.at(kind)) / static_cast<double>(std::max<std::size_t>(1, judged.at(kind)));
    }
    [[nodiscard]] std::size_t all_wrong() const { return wrong[0] + wrong[1]; }
    // Chance that so many of all the errors fall here.
    [[nodiscard]] double chance(const Misread& all) const {
      double least = 1;
      for (std::size_t kind = 0; kind < wrong.size(); ++kind) {
        const double share =
            static_cast<double>(judged.at(kind)) / static_cast<double>(std::max<std::size_t>(1, all.judged.at(kind)));
        least = std::min(least, 2 * binomial_upper_tail(wrong.at(kind), all.wrong.at(kind), share));
      }
      return least;
    }
  };

  // Misreads lie evenly over sets, lines, and the time since a line was loaded last, and one does not bring the next.
  std::string doubt_in_errors(const TraceFit& fit) {
    const SetSimulation simulation(all_, fit.line_bytes, fill_.bytes);
    const auto sets = fit.split.lines_of_sets();
    std::vector<std::vector<SetSimulation::Prediction>> of_sets;
    Misread all;
    for (std::size_t set = 0; set < sets.size(); ++set) {
      of_sets.push_back(simulation.predictions(sets[set], {.ways = fit.ways[set], .policy = fit.policy}));
      for (const SetSimulation::Prediction& prediction : of_sets.back()) {
        all.add(prediction);
      }
    }
    constexpr std::size_t fewest_to_judge = 20;
    if (all.all_wrong() < fewest_to_judge && all.all_wrong() * 1000 > simulation.judged()) {
      return std::to_string(all.all_wrong()) + " errors are too few to tell whether they are misreads";
    }
    const std::string of_all = " of its " + std::to_string(all.all_wrong()) + " errors ";
    std::map<std::uint64_t, Misread> of_line;
    double neighbours_expected = 0;
    std::size_t neighbours = 0;
    for (const auto& predictions : of_sets) {
      Misread of_set;
      for (std::size_t i = 0; i < predictions.size(); ++i) {
        of_set.add(predictions[i]);
        of_line[predictions[i].line].add(predictions[i]);
        if (i > 0) {
          neighbours_expected += all.rate(predictions[i].miss) * all.rate(predictions[i - 1].miss);
          neighbours += predictions[i].is_wrong && predictions[i - 1].is_wrong ? 1U : 0U;
        }
      }
      if (of_set.chance(all) * static_cast<double>(sets.size()) < uneven) {
        return std::to_string(of_set.all_wrong()) + of_all + "are in one set";
      }
    }
    for (const auto& [line, misread] : of_line) {
      if (misread.chance(all) * static_cast<double>(of_line.size()) < uneven) {
        return std::to_string(misread.all_wrong()) + of_all + "are of one line";
      }
    }
    if (poisson_upper_tail(neighbours, neighbours_expected) < uneven) {
      return std::to_string(neighbours) + of_all + "follow one another";
    }
    return doubt_by_age(of_sets);
  }

  // A wrong policy, or room that is counted wrong, shows in lines that were loaded a certain time ago.
  static std::string doubt_by_age(const std::vector<std::vector<SetSimulation::Prediction>>& of_sets) {
    for (const bool miss : {false, true}) {
      std::vector<std::pair<std::size_t, const SetSimulation::Prediction*>> by_age;
      Misread all;
      for (const auto& predictions : of_sets) {
        for (const SetSimulation::Prediction& prediction : predictions) {
          if (prediction.miss == miss && prediction.age) {
            by_age.emplace_back(*prediction.age, &prediction);
            all.add(prediction);
          }
        }
      }
      std::stable_sort(by_age.begin(), by_age.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      for (const std::size_t parts : {2U, 8U}) {
        for (std::size_t part = 0; part < parts; ++part) {
          Misread of_part;
          for (std::size_t i = part * by_age.size() / parts; i < (part + 1) * by_age.size() / parts; ++i) {
            of_part.add(*by_age[i].second);
          }
          if (of_part.chance(all) * static_cast<double>(2 * parts) < uneven) {
            return std::to_string(of_part.all_wrong()) + " of its " + std::to_string(all.all_wrong()) +
                   " errors where it predicts " + (miss ? "misses" : "hits") +
                   " are of lines that were loaded about equally long ago";
          }
        }
      }
    }
    return {};
  }

  // So many more errors make a description too unlikely beside the best one.
  [[nodiscard]] static std::size_t tolerated_errors(std::size_t wrong, std::size_t judged) {
    const double misread =
        std::clamp(static_cast<double>(wrong + 1) / static_cast<double>(std::max<std::size_t>(1, judged)),
                   fewest_misread, most_misread);
    return static_cast<std::size_t>(std::ceil(decisive_nats / std::log((1 - misread) / misread)));
  }

  void conclude() {
    TraceFit& best = fits_.front();
    const SetSimulation simulation(all_, best.line_bytes, fill_.bytes);
    best.wrong = wrong_of(best, simulation, *scorer_);
    const std::size_t tolerated = tolerated_errors(best.wrong, simulation.judged());
    settings_->on_progress({.finding = "alternatives", .done = 0.7, .questions = 0, .accesses = 0});
    const Rivals rivals = rivals_of(best, simulation, tolerated, *scorer_);
    log_choice_of_traces(best, tolerated);
    conclude_line(tolerated);
    conclude_replacement(rivals, best);
    conclude_sets(rivals, best, simulation, tolerated);
  }

  void conclude_line(std::size_t tolerated) {
    std::vector<std::string> possible;
    for (TraceFit& fit : fits_) {
      const SetSimulation simulation(all_, fit.line_bytes, fill_.bytes);
      if (wrong_of(fit, simulation, *scorer_) <= fits_.front().wrong + tolerated) {
        possible.push_back(std::to_string(fit.line_bytes));
      }
    }
    const std::uint64_t line_bytes = fits_.front().line_bytes;
    // Lines of several fills hold together what smaller ones would not.
    const bool smaller_are_excluded = fill_.is_known || line_bytes > fill_.bytes;
    if (possible.size() == 1 && smaller_are_excluded) {
      finding_->cache.line_bytes = line_bytes;
      resolve("line_bytes");
      return;
    }
    open("line_bytes", EvidenceStatus::ambiguous,
         possible.size() > 1 ? "no two of the loads lie close enough to tell these apart"
                             : "no two loads lie closer than that",
         "a random walk in steps of 4 bytes over an array a little larger than the cache", possible);
  }

  [[nodiscard]] static bool alike(const Replacement& a, const Replacement& b, const std::set<std::uint32_t>& ways) {
    const model::ComparisonLimits limits{.pairs_of_states = std::size_t{1} << 14U};
    return std::all_of(ways.begin(), ways.end(),
                       [&](std::uint32_t count) { return model::compare(a, b, count, limits).is_alike(); });
  }

  void conclude_replacement(const Rivals& rivals, const TraceFit& best) {
    const std::set<std::uint32_t> ways(best.ways.begin(), best.ways.end());
    std::vector<Replacement> classes;
    for (const auto& rival : rivals.policies) {
      const Replacement& policy = rival.first;
      const auto same = std::find_if(classes.begin(), classes.end(),
                                     [&](const Replacement& known) { return alike(known, policy, ways); });
      if (same == classes.end()) {
        classes.push_back(policy);
      } else {
        same->equivalent.push_back(model::to_text(policy));
      }
    }
    evidence("replacement").details["deterministic"] = "true";
    if (classes.size() == 1) {
      finding_->cache.replacement = classes.front();
      resolve("replacement");
      return;
    }
    std::vector<std::string> alternatives;
    for (const Replacement& policy : classes) {
      alternatives.push_back(model::to_flow_yaml(policy));
    }
    open("replacement", EvidenceStatus::ambiguous, "several policies explain the recordings",
         telling_sequence(classes, best), alternatives);
  }

  // A sequence on which the first two differ.
  [[nodiscard]] std::string telling_sequence(const std::vector<Replacement>& classes, const TraceFit& best) const {
    const auto widest = std::max_element(best.ways.begin(), best.ways.end());
    const auto set = static_cast<std::size_t>(widest - best.ways.begin());
    const auto lines = best.split.lines_of_sets()[set];
    const model::Comparison comparison = model::compare(classes[0], classes[1], *widest);
    if (!comparison.difference) {
      return longer_walk();
    }
    std::string text = "from a clean start, loads of";
    for (const std::uint32_t line : *comparison.difference) {
      if (line >= lines.size()) {
        return longer_walk();
      }
      text += " " + std::to_string(lines[line] - address_of_buffer_);
    }
    return text + ": the last one hits under one of " + model::to_text(classes[0]) + " and " +
           model::to_text(classes[1]) + " and misses under the other";
  }

  void conclude_sets(const Rivals& rivals, const TraceFit& best, const SetSimulation& simulation,
                     std::size_t tolerated) {
    const auto fit = decided_index(rivals, best, simulation, tolerated);
    const bool ways_are_known = std::all_of(rivals.ways_of_set.begin(), rivals.ways_of_set.end(),
                                            [](const auto& possible) { return possible.size() == 1; });
    std::vector<std::uint32_t> ways = best.ways;
    if (fit) {
      ways.clear();
      for (const std::uint32_t name : fit->name_of_set) {
        ways.push_back(best.ways[name]);
      }
      finding_->cache.index = fit->index;
      finding_->cache.exercised_bits = fit->exercised_bits;
      resolve("index");
    }
    std::uint64_t capacity_bytes = 0;
    for (const std::uint32_t count : ways) {
      capacity_bytes += count * best.line_bytes;
    }
    if (fit && ways_are_known) {
      finding_->cache.ways = ways;
      resolve("ways");
    } else {
      open("ways", EvidenceStatus::ambiguous,
           ways_are_known ? "there may be sets that no recorded line is in"
                          : "sets that hardly overflow in the recordings may hold more lines",
           ways_are_known ? "a random walk over a contiguous array twice as large as the cache" : longer_walk(),
           {model::to_flow_yaml(ways)});
    }
    if (finding_->cache.ways && finding_->cache.line_bytes) {
      finding_->cache.capacity_bytes = capacity_bytes;
      resolve("capacity_bytes");
    } else {
      open("capacity_bytes", EvidenceStatus::ambiguous, "the line, or the ways of all sets, are not certain",
           finding_->cache.ways ? evidence("line_bytes").decided_by : evidence("ways").decided_by,
           {std::to_string(capacity_bytes)});
    }
  }

  // Bits that the sets of the lines say beyond what the function could be adapted to.
  [[nodiscard]] static double surplus_bits(const IndexFit& fit, std::size_t lines, std::uint32_t sets) {
    const double of_a_set = std::log2(static_cast<double>(sets));
    const double names = std::lgamma(static_cast<double>(sets) + 1) / std::log(2.0);
    const auto bits = static_cast<double>(fit.exercised_bits.size());
    double parameters = 0;
    if (const auto* table = std::get_if<model::TableIndex>(&fit.index)) {
      parameters = of_a_set * static_cast<double>(table->sets_of.size()) + std::log2(static_cast<double>(lines));
    } else if (std::holds_alternative<model::XorIndex>(fit.index)) {
      parameters = of_a_set * bits;
    } else {
      parameters = 3 * std::log2(2 + bits) + of_a_set;
    }
    return of_a_set * static_cast<double>(lines) - names - parameters;
  }

  std::optional<IndexFit> decided_index(const Rivals& rivals, const TraceFit& best, const SetSimulation& simulation,
                                        std::size_t tolerated) {
    std::vector<AssignedLine> decided;
    for (std::size_t i = 0; i < best.split.lines.size(); ++i) {
      if (rivals.line_is_decided[i]) {
        decided.push_back({.address = best.split.lines[i], .set = best.split.set_of[i]});
      }
    }
    const std::uint32_t sets = best.split.sets();
    const auto give_up = [&](std::string reason, std::string decided_by, std::vector<std::string> alternatives) {
      open("index", EvidenceStatus::ambiguous, std::move(reason), std::move(decided_by), std::move(alternatives));
      evidence("index").details["sets"] = std::to_string(sets);
      evidence("index").details["lines_assigned"] = std::to_string(decided.size());
      return std::nullopt;
    };
    if (!finding_->cache.line_bytes) {
      return give_up("where lines may be smaller, lower bits of the address may take part",
                     evidence("line_bytes").decided_by, {});
    }
    if (decided.empty()) {
      return give_up("no line is certain to be in its set", longer_walk(), {});
    }
    const std::size_t window = contiguous_first(decided, best.line_bytes);
    std::optional<IndexFit> fit = fit_index(decided, window, best.line_bytes, sets);
    if (!fit) {
      return give_up("no index function puts every line in its set", longer_walk(), {});
    }
    const std::string found = model::to_flow_yaml(fit->index);
    if (!fit->extrapolates && window < best.split.lines.size()) {
      return give_up("a table holds for contiguous lines only", longer_walk(), {found});
    }
    if (fit->extrapolates && sets > 1 && surplus_bits(*fit, decided.size(), sets) < decisive_bits) {
      return give_up("so few lines fit many index functions",
                     "a random walk over more lines, at twice the distances that were recorded", {found});
    }
    if (decided.size() < best.split.lines.size() && !holds_for_all(*fit, best, simulation, tolerated)) {
      return give_up("lines that are not certain to be in their set do not fit the function of the others",
                     longer_walk(), {found});
    }
    if (const auto gap = unexercised_bit(fit->exercised_bits, best.line_bytes)) {
      return give_up("address bit " + std::to_string(*gap) + " is the same in all recorded lines",
                     "a random walk over lines that differ in bit " + std::to_string(*gap), {found});
    }
    return fit;
  }

  // The longest run of contiguous lines goes to the front; its length.
  static std::size_t contiguous_first(std::vector<AssignedLine>& lines, std::uint64_t line_bytes) {
    std::size_t longest_begin = 0;
    std::size_t longest = 1;
    std::size_t begin = 0;
    for (std::size_t i = 1; i < lines.size(); ++i) {
      begin = lines[i].address == lines[i - 1].address + line_bytes ? begin : i;
      if (i - begin + 1 > longest) {
        longest = i - begin + 1;
        longest_begin = begin;
      }
    }
    std::rotate(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(longest_begin),
                lines.begin() + static_cast<std::ptrdiff_t>(longest_begin + longest));
    return longest;
  }

  [[nodiscard]] bool holds_for_all(const IndexFit& fit, const TraceFit& best, const SetSimulation& simulation,
                                   std::size_t tolerated) const {
    TraceFit by_index = best;
    for (std::size_t i = 0; i < best.split.lines.size(); ++i) {
      if (!model::covers(fit.index, best.split.lines[i])) {
        return false;
      }
      by_index.split.set_of[i] = fit.name_of_set[model::set_of(fit.index, best.split.lines[i])];
    }
    return wrong_of(by_index, simulation, *scorer_) <= best.wrong + tolerated;
  }

  // A bit between those of the line and the highest one that varied, of which nothing was seen.
  [[nodiscard]] static std::optional<unsigned> unexercised_bit(const std::vector<unsigned>& bits,
                                                               std::uint64_t line_bytes) {
    const auto lowest = static_cast<unsigned>(std::countr_zero(line_bytes));
    for (unsigned bit = lowest; !bits.empty() && bit < bits.back(); ++bit) {
      if (std::find(bits.begin(), bits.end(), bit) == bits.end()) {
        return bit;
      }
    }
    return std::nullopt;
  }

  // Which recordings rule the other policies out: the one first in whose accesses the policies left differ most.
  void log_choice_of_traces(const TraceFit& best, std::size_t tolerated) {
    struct Supposition {
      Replacement policy;
      std::size_t wrong = 0;
    };
    const auto sets = best.split.lines_of_sets();
    std::vector<Supposition> alive;
    for (Replacement& policy : model::guessed_policies(best.ways)) {
      alive.push_back({.policy = std::move(policy)});
    }
    constexpr std::size_t most_logged = 8;
    std::set<std::size_t> left;
    for (std::size_t t = 0; t < all_.size(); ++t) {
      left.insert(t);
    }
    // Where there are many, the first ones stand for all: which comes first changes nothing but this log.
    constexpr std::size_t most_compared = 64;
    while (!left.empty() && alive.size() > 1 && finding_->evidence.inquiries.size() < most_logged && !stop()) {
      std::vector<Replacement> panel;
      constexpr std::size_t most_in_panel = 10;
      for (std::size_t i = 0; i < alive.size(); i += 1 + alive.size() / most_in_panel) {
        panel.push_back(alive[i].policy);
      }
      std::size_t next = *left.begin();
      double most = -1;
      std::size_t compared = 0;
      for (const std::size_t t : left) {
        if (compared++ == most_compared) {
          break;
        }
        const double differing = differing_share(best, sets, panel, t);
        if (differing > most) {
          most = differing;
          next = t;
        }
      }
      const SetSimulation simulation(recording(next), best.line_bytes, fill_.bytes);
      std::vector<std::size_t> wrong(alive.size());
      for (std::size_t set = 0; set < sets.size(); ++set) {
        std::vector<SetSimulation::Supposed> supposed;
        std::vector<std::size_t> place;
        for (std::size_t i = 0; i < alive.size(); ++i) {
          if (alive[i].wrong + wrong[i] <= best.wrong + tolerated) {
            supposed.push_back({.ways = best.ways[set], .policy = alive[i].policy});
            place.push_back(i);
          }
        }
        const auto wrong_here = simulation.wrong(sets[set], supposed, best.wrong + tolerated);
        for (std::size_t i = 0; i < place.size(); ++i) {
          wrong[place[i]] += wrong_here[i];
        }
      }
      for (std::size_t i = 0; i < alive.size(); ++i) {
        alive[i].wrong += wrong[i];
      }
      const std::size_t least = std::min_element(alive.begin(), alive.end(), [](const auto& a, const auto& b) {
                                  return a.wrong < b.wrong;
                                })->wrong;
      const std::size_t before = alive.size();
      std::erase_if(alive, [&](const Supposition& each) { return each.wrong > least + tolerated; });
      log(traces_[next].trace->name + ", " + std::to_string(traces_[next].readings.size()) + " accesses",
          (left.size() > most_compared ? "of the first " + std::to_string(most_compared) + " recordings left"
                                       : std::string("of the recordings left")) +
              ", the policies left differ most there: in " + percent(std::max(0.0, most)) + " of the accesses",
          "rules out " + std::to_string(before - alive.size()) + " policies", before, alive.size());
      finding_->evidence.inquiries.back().questions = 1;
      finding_->evidence.inquiries.back().accesses = traces_[next].readings.size();
      left.erase(next);
    }
  }

  [[nodiscard]] std::span<const Played> recording(std::size_t trace) const { return {&all_[trace], 1}; }

  // Share of the first accesses of a recording on which two policies of the panel differ, on average.
  [[nodiscard]] double differing_share(const TraceFit& best, const std::vector<std::vector<std::uint64_t>>& sets,
                                       const std::vector<Replacement>& panel, std::size_t trace) const {
    constexpr std::ptrdiff_t enough_judged = 200'000;
    const Played& whole = all_[trace];
    const auto first_judged = std::find_if(whole.measured.begin(), whole.measured.end(),
                                           [](Measured measured) { return measured != Measured::unclear; });
    const std::ptrdiff_t accesses =
        first_judged - whole.measured.begin() + std::min(enough_judged, whole.measured.end() - first_judged);
    const Played beginning{.addresses = {whole.addresses.begin(), whole.addresses.begin() + accesses},
                           .measured = {whole.measured.begin(), whole.measured.begin() + accesses}};
    const SetSimulation simulation({&beginning, 1}, best.line_bytes, fill_.bytes);
    std::vector<std::size_t> misses(beginning.addresses.size());
    for (const Replacement& policy : panel) {
      std::vector<std::vector<bool>> predicted{std::vector<bool>(misses.size())};
      for (std::size_t set = 0; set < sets.size(); ++set) {
        simulation.predict(sets[set], {.ways = best.ways[set], .policy = policy}, predicted);
      }
      for (std::size_t i = 0; i < misses.size(); ++i) {
        misses[i] += predicted.front()[i] ? 1U : 0U;
      }
    }
    double sum = 0;
    std::size_t judged = 0;
    for (std::size_t i = 0; i < misses.size(); ++i) {
      if (beginning.measured[i] != Measured::unclear) {
        const double share = static_cast<double>(misses[i]) / static_cast<double>(panel.size());
        sum += 2 * share * (1 - share);
        ++judged;
      }
    }
    return judged == 0 ? 0 : sum / static_cast<double>(judged);
  }

  std::span<const ReadTrace> traces_;
  std::uint64_t address_of_buffer_;
  FillSize fill_;
  const Settings* settings_;
  const Scorer* scorer_;
  CacheFinding* finding_;
  std::vector<Played> all_;
  std::vector<TraceFit> fits_;  // for lines of several sizes, the best first
  std::size_t judged_in_training_ = 0;
  std::size_t lines_ = 0;
  bool is_enough_ = false;
};

}  // namespace

bool is_lap(const Trace& trace) {
  const model::AccessSequence& record = trace.question.record;
  std::unordered_map<std::uint64_t, std::size_t> last_load;
  std::optional<std::size_t> lap;
  for (std::size_t i = 0; i < record.size(); ++i) {
    const auto [last, is_first] = last_load.emplace(record[i], i);
    if (!is_first) {
      const std::size_t distance = i - last->second;
      if (distance != lap.value_or(distance)) {
        return false;
      }
      lap = distance;
      last->second = i;
    }
  }
  return true;
}

WalkOutcome infer_walks(std::span<const ReadTrace> traces, std::uint64_t address_of_buffer, FillSize fill,
                        const Settings& settings, const Scorer& scorer, CacheFinding& finding) {
  return WalkInference(traces, address_of_buffer, fill, settings, scorer, finding).run();
}

}  // namespace gpuinfer::infer
