// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/infer_outstanding.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/asking/change_points.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "infer/threads/conclude_outstanding.hpp"
#include "infer/threads/outstanding_fit.hpp"
#include "infer/threads/questioner.hpp"
#include "model/number_text.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

using model::ConcurrentLoads;

constexpr std::array outstanding_leaves{"kind", "entries", "merges", "loads_per_warp"};

constexpr std::uint32_t most_loads = ConcurrentLoads::most_loads;
constexpr std::array<std::uint32_t, 6> patterns{1, 2, 4, 8, 16, 32};  // threads per line
constexpr std::uint32_t runs_of_sweep = 5;
constexpr std::uint32_t runs_of_trial = 15;
constexpr std::size_t points_of_stop = std::size_t{3} * most_loads;
constexpr double significance = 1e-4;  // of a jump that is none, for each curve

// 1 to 64, then every other one.
constexpr std::uint32_t every_one_to = 64;
bool is_swept(std::uint32_t threads) { return threads <= every_one_to || threads % 2 == 0; }

// The lines in L2, or evicted from it.
struct Source {
  bool from_l2 = true;
  double one_load_cycles = 0;
};

struct MeanCycles {
  std::vector<double> cycles;  // of each point
  double noise_deviation = 0;  // of one of them
};

// All of one batch in random order, so that nothing that changes with time looks like a jump.
MeanCycles measure(Questioner asker, const std::vector<ConcurrentLoads>& points) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  asker.random.shuffle(order);
  std::vector<model::Workload> workloads;
  workloads.reserve(order.size());
  for (const std::size_t point : order) {
    workloads.emplace_back(points[point]);
  }
  std::vector<model::Timing> timings = asker.device.time(workloads);
  std::vector<std::vector<double>> runs(points.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    runs[order[i]] = std::move(timings[i].cycles);
  }
  const double noise_deviation = noise_deviation_of(runs);
  MeanCycles measured;
  for (const std::vector<double>& of_point : runs) {
    measured.cycles.push_back(harmonic_mean_of_usual(of_point, noise_deviation));
  }
  measured.noise_deviation = noise_deviation / std::sqrt(static_cast<double>(points.front().runs));
  return measured;
}

Source measure_source(Questioner asker, bool from_l2) {
  constexpr std::size_t times = 15;
  const std::vector<ConcurrentLoads> points(times, {.threads = 1, .from_l2 = from_l2, .runs = runs_of_sweep});
  return {.from_l2 = from_l2, .one_load_cycles = median(measure(asker, points).cycles)};
}

WarpStop find_stop_of_one_warp(Questioner asker, const Source& l2) {
  asker.device.inquire("one to eight loads by one, two and three threads",
                       "the scoreboard stops a warp at a number of loads, and the next load takes a latency more");
  const std::array<ConcurrentLoads, 3> few{{{.threads = 1, .threads_per_line = 1, .runs = runs_of_trial},
                                            {.threads = 2, .threads_per_line = 1, .runs = runs_of_trial},
                                            {.threads = 3, .threads_per_line = 4, .runs = runs_of_trial}}};
  std::vector<ConcurrentLoads> points;
  for (ConcurrentLoads loads : few) {
    for (loads.loads_per_thread = 1; loads.loads_per_thread <= most_loads; ++loads.loads_per_thread) {
      points.push_back(loads);
    }
  }
  const std::vector<double> cycles = measure(asker, points).cycles;
  constexpr double jump = 0.6;  // of one load
  WarpStop found;
  for (std::size_t first = 0; first < cycles.size(); first += most_loads) {
    std::uint32_t stop = 1;
    while (stop < most_loads && cycles[first + stop] - cycles[first + stop - 1] < jump * l2.one_load_cycles) {
      ++stop;
    }
    for (std::uint32_t loads = 1; loads <= most_loads; ++loads) {
      const double rounds = std::ceil(static_cast<double>(loads) / stop);
      const double latencies = cycles[first + loads - 1] / l2.one_load_cycles;
      found.repeats =
          found.repeats && latencies >= rounds * share_outstanding && (rounds > 1 || fits_for_sure(latencies, 1));
    }
    found.repeats = found.repeats && (first == 0 || stop == found.loads);
    found.loads = first == 0 ? stop : std::min(stop, found.loads);
  }
  asker.device.learned(found.loads == most_loads ? "no stop"
                                                 : "a stop after " + std::to_string(found.loads) + " load(s)");
  return found;
}

// The paper's one to four loads with every pattern; beyond them what fills most lines, and most loads of warps.
bool has_plot(std::uint32_t loads, std::uint32_t threads_per_line) {
  constexpr std::uint32_t loads_with_all_patterns = 4;
  return loads <= loads_with_all_patterns || threads_per_line == patterns.back() ||
         (loads == most_loads && threads_per_line == patterns.front());
}

Curve sweep(Questioner asker, const Source& source, std::uint32_t loads_per_thread, std::uint32_t threads_per_line) {
  Curve curve{.loads = {.loads_per_thread = loads_per_thread,
                        .threads_per_line = threads_per_line,
                        .from_l2 = source.from_l2,
                        .runs = runs_of_sweep},
              .one_load_cycles = source.one_load_cycles};
  std::vector<ConcurrentLoads> points;
  for (std::uint32_t threads = 1; threads <= model::most_block_threads; ++threads) {
    if (is_swept(threads)) {
      curve.threads.push_back(threads);
      points.push_back(curve.loads);
      points.back().threads = threads;
    }
  }
  MeanCycles measured = measure(asker, points);
  curve.cycles = std::move(measured.cycles);
  curve.noise_deviation = measured.noise_deviation;
  curve.knee = knee_of(curve, significance);
  return curve;
}

OutstandingPlots sweep_l2(Questioner asker, const Source& l2, std::uint32_t usable_loads) {
  asker.device.inquire("thread-latency plots of lines in L2, in random order",
                       "where a table is full, one load more takes two latencies");
  OutstandingPlots plots;
  for (std::uint32_t loads = 1; loads <= usable_loads; ++loads) {
    for (const std::uint32_t threads_per_line : patterns) {
      if (has_plot(loads, threads_per_line)) {
        plots.curves.push_back(sweep(asker, l2, loads, threads_per_line));
      }
    }
  }
  const std::size_t before = plots.tables.size();
  refute(plots.tables, plots.curves);
  asker.device.learned(
      std::to_string(plots.knees().size()) + " knee(s) on " + std::to_string(plots.curves.size()) + " plots", before,
      plots.tables.size());
  return plots;
}

void add_sweeps_beyond_l2(Questioner asker, std::uint32_t usable_loads, OutstandingPlots& plots) {
  asker.device.inquire("thread-latency plots of lines that are not in L2",
                       "a longer latency keeps more loads under way");
  const std::size_t before = plots.tables.size();
  try {
    const Source beyond_l2 = measure_source(asker, false);
    for (std::uint32_t loads = 1; loads <= usable_loads; ++loads) {
      if (std::has_single_bit(loads)) {
        plots.curves.push_back(sweep(asker, beyond_l2, loads, patterns.front()));
      }
      plots.curves.push_back(sweep(asker, beyond_l2, loads, patterns.back()));
    }
    refute(plots.tables, plots.curves);
    asker.device.learned(std::to_string(plots.knees().size()) + " knee(s) in all", before, plots.tables.size());
  } catch (const QuestionRefused& refused) {
    asker.device.learned(std::string("refused: ") + refused.what());
  }
}

// As long as L2 holds what is loaded, lines that were evicted from it take longer (section 3.3 of the paper).
void state_l2_saving(Questioner asker, std::uint32_t usable_loads, Leaves& leaves) {
  constexpr std::uint64_t line_bytes = 128;
  constexpr std::uint32_t fewest_threads = 64;
  asker.device.inquire("more and more lines that are in L2, or are not",
                       "where both take as long, L2 does not hold them");
  std::vector<ConcurrentLoads> points;
  for (std::uint32_t threads = fewest_threads; threads <= model::most_block_threads; threads *= 2) {
    for (const bool from_l2 : {true, false}) {
      points.push_back(
          {.threads = threads, .loads_per_thread = usable_loads, .from_l2 = from_l2, .runs = runs_of_trial});
    }
  }
  try {
    const std::vector<double> cycles = measure(asker, points).cycles;
    model::BySize saved;
    std::string text;
    for (std::size_t i = 0; i < points.size(); i += 2) {
      saved.emplace_back(line_bytes * points[i].threads * usable_loads, std::round(cycles[i + 1] - cycles[i]));
      text +=
          (text.empty() ? "" : ", ") + model::to_text(saved.back().first) + ": " + model::to_text(saved.back().second);
    }
    leaves["kind"].details.cycles_saved_by_l2_by_bytes = std::move(saved);
    asker.device.learned("L2 saves cycles, by bytes: " + text);
  } catch (const QuestionRefused& refused) {
    asker.device.learned(std::string("refused: ") + refused.what());
  }
}

void state_knees(const OutstandingPlots& plots, Leaves& leaves) {
  std::vector<model::KneeOfLoads> knees;
  for (const Curve* curve : plots.knees()) {
    const Knee& knee = *curve->knee;
    knees.push_back({.loads = curve->loads.loads_per_thread,
                     .threads_per_line = curve->loads.threads_per_line,
                     .from_l2 = curve->loads.from_l2,
                     .threads = {knee.fits, knee.overflows},
                     .cycles = {std::round(knee.cycles_before), std::round(knee.cycles_after)},
                     .variance = std::round(knee.variance)});
  }
  leaves["kind"].details.knees = std::move(knees);
}

// Asks at the thread count inside a knee wherever the tables that stand differ on it.
void look_between(Questioner asker, OutstandingPlots& plots) {
  for (Curve& curve : plots.curves) {
    if (!curve.knee || curve.knee->overflows - curve.knee->fits < 2) {
      continue;
    }
    ConcurrentLoads middle = curve.loads;
    middle.threads = curve.knee->fits + 1;
    middle.runs = runs_of_trial;
    const auto may = [&](bool fit) {
      return std::ranges::any_of(plots.tables, [&](const TableHypothesis& table) {
        const auto entries = table.entries_for(middle);
        return fit ? entries && *entries <= table.most_entries : !entries || *entries > table.fewest_entries;
      });
    };
    if (!may(true) || !may(false)) {
      continue;
    }
    const double cycles = measure(asker, {middle}).cycles.front();
    const double share = (cycles - curve.knee->cycles_before) / (curve.knee->cycles_after - curve.knee->cycles_before);
    constexpr double clear_share = 0.3;
    if (share < clear_share) {
      curve.knee->fits = middle.threads;
    } else if (share > 1 - clear_share) {
      curve.knee->overflows = middle.threads;
    }
    refute(plots.tables, {&curve, 1});
  }
}

// One prediction: so many threads still fit, so many do not.
struct Trial {
  ConcurrentLoads fits;
  ConcurrentLoads overflows;
};

// The knee that all tables expect; none: they expect several, or none that so many threads reach.
std::optional<Trial> trial_of(const std::vector<TableHypothesis>& tables, const ConcurrentLoads& loads) {
  constexpr std::uint32_t widest = 2;  // threads, between the two sides
  Trial trial{.fits = loads, .overflows = loads};
  trial.fits.threads = model::most_block_threads;
  trial.overflows.threads = 0;
  for (const TableHypothesis& table : tables) {
    trial.fits.threads = std::min(trial.fits.threads, table.threads_that_fit(loads, table.fewest_entries));
    trial.overflows.threads = std::max(trial.overflows.threads, table.threads_that_fit(loads, table.most_entries) + 1);
  }
  const bool is_there = trial.fits.threads > 0 && trial.overflows.threads <= model::most_block_threads &&
                        trial.overflows.threads - trial.fits.threads <= widest;
  return is_there ? std::optional(trial) : std::nullopt;
}

// Where all tables that stand expect a knee, and where at least one of its sides was not asked.
std::vector<Trial> trials_of(const std::vector<TableHypothesis>& tables, bool from_l2, std::uint32_t usable_loads) {
  std::vector<Trial> expected;
  for (std::uint32_t loads = 1; loads <= usable_loads; ++loads) {
    for (const std::uint32_t threads_per_line : patterns) {
      const auto trial = trial_of(
          tables,
          {.loads_per_thread = loads, .threads_per_line = threads_per_line, .from_l2 = from_l2, .runs = runs_of_trial});
      const auto was_asked = [&](const ConcurrentLoads& side) {
        return from_l2 && has_plot(loads, threads_per_line) && is_swept(side.threads);
      };
      if (trial && !(was_asked(trial->fits) && was_asked(trial->overflows))) {
        expected.push_back(*trial);
      }
    }
  }
  return expected;
}

PredictedKnees look_at_predicted(Questioner asker, const std::vector<Trial>& trials, const Source& source) {
  std::vector<ConcurrentLoads> points;
  for (const Trial& trial : trials) {
    points.push_back(trial.fits);
    points.push_back(trial.overflows);
  }
  PredictedKnees knees;
  if (points.empty()) {
    return knees;
  }
  const std::vector<double> cycles = measure(asker, points).cycles;
  for (std::size_t i = 0; i < cycles.size(); i += 2) {
    if (fits_for_sure(cycles[i + 1], source.one_load_cycles)) {
      ++knees.failed;
    } else if (is_knee_between(cycles[i], cycles[i + 1], source.one_load_cycles)) {
      ++knees.passed;
    }
  }
  return knees;
}

// Loads of any kind that took no part: each of them must take as many latencies as a table says that stands.
void refute_by_random_loads(Questioner asker, const Source& l2, std::uint32_t usable_loads,
                            std::vector<TableHypothesis>& tables) {
  constexpr std::size_t count = 100;
  std::vector<ConcurrentLoads> points;
  while (points.size() < count) {
    points.push_back({.threads = every_one_to + 1 + 2 * static_cast<std::uint32_t>(asker.random.below(480)),
                      .loads_per_thread = 1 + static_cast<std::uint32_t>(asker.random.below(usable_loads)),
                      .threads_per_line = patterns.at(asker.random.below(patterns.size())),
                      .from_l2 = true,
                      .runs = runs_of_sweep});
  }
  const MeanCycles measured = measure(asker, points);
  std::vector<Curve> fresh;
  for (std::size_t i = 0; i < points.size(); ++i) {
    fresh.push_back({.loads = points[i],
                     .one_load_cycles = l2.one_load_cycles,
                     .noise_deviation = measured.noise_deviation,
                     .threads = {static_cast<double>(points[i].threads)},
                     .cycles = {measured.cycles[i]}});
  }
  refute(tables, fresh);
}

OutstandingTrials hold_trials(Questioner asker, const Source& l2, std::uint32_t usable_loads,
                              std::vector<TableHypothesis>& tables, Leaves& leaves) {
  asker.device.inquire("loads that took no part: where the knees must be, lines in L2 and not, and random ones",
                       "the table must predict them, and a cache of as many lines would not");
  OutstandingTrials trials;
  trials.in_l2 = look_at_predicted(asker, trials_of(tables, true, usable_loads), l2);
  try {
    const Source beyond_l2 = measure_source(asker, false);
    trials.beyond_l2 = look_at_predicted(asker, trials_of(tables, false, usable_loads), beyond_l2);
    leaves["kind"].details.one_load_cycles = {.from_l2 = std::round(l2.one_load_cycles),
                                              .beyond_l2 = std::round(beyond_l2.one_load_cycles)};
  } catch (const QuestionRefused& refused) {
    trials.refusal = refused.what();
  }
  refute_by_random_loads(asker, l2, usable_loads, tables);
  asker.device.learned(std::to_string(trials.passed()) + " knee(s) where they were predicted, " +
                       std::to_string(trials.failed()) + " missing; random loads " +
                       (tables.empty() ? "do not agree" : "agree"));
  return trials;
}

// Narrows the tables down and holds trials where that is worth it; none: it is not.
std::optional<OutstandingTrials> try_tables(Questioner asker, const Source& l2, std::uint32_t usable_loads,
                                            OutstandingPlots& plots, Leaves& leaves) {
  if (!are_worth_trials(plots)) {
    return std::nullopt;
  }
  asker.device.inquire("knees between two numbers of threads that were asked",
                       "they tell the tables apart that are left");
  const std::size_t before = plots.tables.size();
  const std::size_t questions_before = asker.device.questions_asked();
  look_between(asker, plots);
  asker.device.learned(std::to_string(asker.device.questions_asked() - questions_before) + " looked at", before,
                       plots.tables.size());
  return plots.tables.empty() ? std::nullopt
                              : std::optional(hold_trials(asker, l2, usable_loads, plots.tables, leaves));
}

void settle_loads_per_warp(const WarpStop& stop, const LeafVerdict& verdict, Leaves& leaves,
                           OutstandingFinding& finding) {
  leaves.settle("loads_per_warp", verdict);
  if (verdict.status == model::EvidenceStatus::resolved) {
    finding.outstanding.loads_per_warp = stop.loads;
  } else {
    leaves["loads_per_warp"].details.loads_per_warp_at_least = stop.loads;
  }
}

void settle_table(const OutstandingVerdict& verdict, Leaves& leaves, OutstandingFinding& finding) {
  const auto loads_per_warp = finding.outstanding.loads_per_warp;
  finding.outstanding = verdict.outstanding;
  finding.outstanding.loads_per_warp = loads_per_warp;
  leaves.settle("kind", verdict.kind);
  leaves.settle("entries", verdict.entries);
  if (verdict.merges) {
    leaves.settle("merges", *verdict.merges);
  } else {
    finding.evidence.leaves.erase("merges");
  }
  if (verdict.at_least) {
    auto& details = leaves["entries"].details;
    details.lines_at_least = verdict.at_least->lines;
    details.warp_loads_at_least = verdict.at_least->warp_loads;
  }
}

// `trials`: becomes how many of them might have refuted what was resolved, also where the asking ends before the
// stages.
void go_through_stages(Questioner asker, Leaves& leaves, OutstandingFinding& finding, std::size_t& trials) {
  Asker& device = asker.device;
  device.report("loads of one warp", 0.0);
  const Source l2 = measure_source(asker, true);
  const WarpStop stop = find_stop_of_one_warp(asker, l2);
  device.report("thread-latency plots", 0.1);
  OutstandingPlots plots = sweep_l2(asker, l2, stop.loads);
  if (!TableAgreement(plots.tables).on_entries() || plots.knees().empty()) {
    device.report("thread-latency plots of lines beyond L2", 0.4);
    add_sweeps_beyond_l2(asker, stop.loads, plots);
  }
  settle_loads_per_warp(stop, conclude_loads_per_warp(stop, plots), leaves, finding);
  state_knees(plots, leaves);
  std::optional<OutstandingTrials> held;
  if (!plots.knees().empty()) {
    device.report("knees that are predicted", 0.8);
    held = try_tables(asker, l2, stop.loads, plots, leaves);
  }
  const OutstandingVerdict verdict = conclude_outstanding(plots, held);
  settle_table(verdict, leaves, finding);
  trials = verdict.trials;
  device.report("loads from L2 and from beyond", 0.95);
  state_l2_saving(asker, stop.loads, leaves);
  device.report("done", 1.0);
}

}  // namespace

OutstandingFinding infer_outstanding(model::Answerer& device, const std::string& target, const Settings& settings) {
  Asker interrogator(device, target, settings);
  model::Random random = stream(settings, "outstanding loads");
  OutstandingFinding finding;
  Leaves leaves(interrogator, finding, outstanding_leaves);
  std::size_t trials = 0;
  static_cast<void>(leaves.go_through(
      [&] { go_through_stages({.device = interrogator, .random = random}, leaves, finding, trials); }));
  leaves.state_confidence(
      [trials](const std::string& leaf, std::size_t) { return leaf == "loads_per_warp" ? points_of_stop : trials; });
  leaves.close();
  return finding;
}

}  // namespace gpuinfer::infer
