// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/infer_outstanding.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/change_points.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/asking/statistics.hpp"
#include "infer/threads/outstanding_fit.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

using model::ConcurrentLoads;
using model::EvidenceStatus;
using model::OutstandingKind;

constexpr std::array leaf_names{"kind", "entries", "merges", "loads_per_warp"};

constexpr std::uint32_t most_loads = ConcurrentLoads::most_loads;
constexpr std::array<std::uint32_t, 6> patterns{1, 2, 4, 8, 16, 32};  // threads per line
constexpr std::uint32_t runs_of_sweep = 5;
constexpr std::uint32_t runs_of_trial = 15;
constexpr std::size_t points_of_stop = std::size_t{3} * most_loads;
constexpr double significance = 1e-4;  // of a jump that is none, for each curve

// 1 to 64, then every other one.
constexpr std::uint32_t every_one_to = 64;
bool is_swept(std::uint32_t threads) { return threads <= every_one_to || threads % 2 == 0; }

std::string rounded(double cycles) { return std::to_string(std::llround(cycles)); }

std::string flow_list(const std::vector<std::string>& elements) {
  std::string text;
  for (const std::string& element : elements) {
    text += (text.empty() ? "" : ", ") + element;
  }
  return "[" + text + "]";
}

// The lines in L2, or driven out of it.
struct Source {
  bool from_l2 = true;
  double one_load_cycles = 0;
};

struct Measured {
  std::vector<double> cycles;  // of each point
  double noise_deviation = 0;  // of one of them
};

// What tables that still stand agree on.
struct Agreement {
  std::set<OutstandingKind> kinds;
  std::uint32_t fewest_entries = TableHypothesis::most;
  std::uint32_t most_entries = 0;
  std::set<std::uint32_t> merges;  // mshr

  explicit Agreement(const std::vector<TableHypothesis>& tables) {
    for (const TableHypothesis& table : tables) {
      kinds.insert(table.kind);
      fewest_entries = std::min(fewest_entries, table.fewest_entries);
      most_entries = std::max(most_entries, table.most_entries);
      if (table.kind == OutstandingKind::mshr) {
        merges.insert(table.merges);
      }
    }
  }
  [[nodiscard]] bool on_entries() const { return kinds.size() == 1 && fewest_entries == most_entries; }
};

class Inference {
 public:
  Inference(model::Answerer& device, const std::string& target, const Settings& settings)
      : device_(device, target, settings), leaves_(device_, finding_, leaf_names), random_(settings.seed) {}

  OutstandingFinding run() {
    static_cast<void>(leaves_.go_through([this] { go_through_stages(); }));
    leaves_.state_confidence(
        [this](const std::string& leaf, std::size_t) { return leaf == "loads_per_warp" ? points_of_stop : trials_; });
    leaves_.close();
    return std::move(finding_);
  }

 private:
  void go_through_stages() {
    device_.report("loads of one warp", 0.0);
    in_l2_ = source(true);
    find_stop_of_one_warp();
    device_.report("thread-latency plots", 0.1);
    sweep_l2();
    if (!Agreement(tables_).on_entries() || knees().empty()) {
      device_.report("thread-latency plots of lines beyond L2", 0.4);
      sweep_beyond_l2();
    }
    settle_loads_per_warp();
    state_knees();
    if (knees().empty()) {
      settle_without_knee();
    } else {
      device_.report("knees that are predicted", 0.8);
      settle_table();
    }
    device_.report("loads from L2 and from beyond", 0.95);
    state_l2_saving();
    device_.report("done", 1.0);
  }

  // All of one batch in random order, so that nothing that changes with time looks like a jump.
  Measured measure(const std::vector<ConcurrentLoads>& points) {
    std::vector<std::size_t> order(points.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    random_.shuffle(order);
    std::vector<model::Workload> workloads;
    workloads.reserve(order.size());
    for (const std::size_t point : order) {
      workloads.emplace_back(points[point]);
    }
    std::vector<model::Timing> timings = device_.time(workloads);
    std::vector<std::vector<double>> runs(points.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      runs[order[i]] = std::move(timings[i].cycles);
    }
    const double noise_deviation = noise_deviation_of(runs);
    Measured measured;
    for (const std::vector<double>& of_point : runs) {
      measured.cycles.push_back(harmonic_mean_of_usual(of_point, noise_deviation));
    }
    measured.noise_deviation = noise_deviation / std::sqrt(static_cast<double>(points.front().runs));
    return measured;
  }

  Source source(bool from_l2) {
    constexpr std::size_t times = 15;
    const std::vector<ConcurrentLoads> points(times, {.threads = 1, .from_l2 = from_l2, .runs = runs_of_sweep});
    return {.from_l2 = from_l2, .one_load_cycles = median(measure(points).cycles)};
  }

  // How many loads a few threads have under way before the next one takes a latency more, and whether a multiple of
  // that takes a multiple. None: there is no such stop, or several thread counts do not agree.
  void find_stop_of_one_warp() {
    device_.inquire("one to eight loads by one, two and three threads",
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
    const std::vector<double> cycles = measure(points).cycles;
    constexpr double jump = 0.6;  // of one load
    for (std::size_t first = 0; first < cycles.size(); first += most_loads) {
      std::uint32_t stop = 1;
      while (stop < most_loads && cycles[first + stop] - cycles[first + stop - 1] < jump * in_l2_.one_load_cycles) {
        ++stop;
      }
      for (std::uint32_t loads = 1; loads <= most_loads; ++loads) {
        const double rounds = std::ceil(static_cast<double>(loads) / stop);
        const double latencies = cycles[first + loads - 1] / in_l2_.one_load_cycles;
        stop_repeats_ =
            stop_repeats_ && latencies >= rounds * share_under_way && (rounds > 1 || fits_for_sure(latencies, 1));
      }
      stop_repeats_ = stop_repeats_ && (first == 0 || stop == usable_loads_);
      usable_loads_ = first == 0 ? stop : std::min(stop, usable_loads_);
    }
    device_.learned(usable_loads_ == most_loads ? "no stop"
                                                : "a stop after " + std::to_string(usable_loads_) + " load(s)");
  }

  void sweep_l2() {
    device_.inquire("thread-latency plots of lines in L2, in random order",
                    "where a table is full, one load more takes two latencies");
    for (std::uint32_t loads = 1; loads <= usable_loads_; ++loads) {
      for (const std::uint32_t threads_per_line : patterns) {
        if (has_plot(loads, threads_per_line)) {
          sweep(in_l2_, loads, threads_per_line);
        }
      }
    }
    tables_ = all_tables();
    const std::size_t before = tables_.size();
    refute(tables_, curves_);
    device_.learned(std::to_string(knees().size()) + " knee(s) on " + std::to_string(curves_.size()) + " plots", before,
                    tables_.size());
  }

  // The paper's one to four loads with every pattern; beyond them what fills most lines, and most loads of warps.
  [[nodiscard]] static bool has_plot(std::uint32_t loads, std::uint32_t threads_per_line) {
    constexpr std::uint32_t loads_with_all_patterns = 4;
    return loads <= loads_with_all_patterns || threads_per_line == patterns.back() ||
           (loads == most_loads && threads_per_line == patterns.front());
  }

  void sweep_beyond_l2() {
    device_.inquire("thread-latency plots of lines that are not in L2", "a longer latency keeps more loads under way");
    const std::size_t before = tables_.size();
    try {
      const Source beyond_l2 = source(false);
      for (std::uint32_t loads = 1; loads <= usable_loads_; ++loads) {
        if (std::has_single_bit(loads)) {
          sweep(beyond_l2, loads, patterns.front());
        }
        sweep(beyond_l2, loads, patterns.back());
      }
      refute(tables_, curves_);
      device_.learned(std::to_string(knees().size()) + " knee(s) in all", before, tables_.size());
    } catch (const QuestionRefused& refused) {
      device_.learned(std::string("refused: ") + refused.what());
    }
  }

  void sweep(const Source& source, std::uint32_t loads_per_thread, std::uint32_t threads_per_line) {
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
    Measured measured = measure(points);
    curve.cycles = std::move(measured.cycles);
    curve.noise_deviation = measured.noise_deviation;
    curve.knee = knee_of(curve, significance);
    curves_.push_back(std::move(curve));
  }

  // As long as L2 holds what is loaded, lines that were driven out of it take longer (section 3.3 of the paper).
  void state_l2_saving() {
    constexpr std::uint64_t line_bytes = 128;
    constexpr std::uint32_t fewest_threads = 64;
    device_.inquire("more and more lines that are in L2, or are not", "where both take as long, L2 does not hold them");
    std::vector<ConcurrentLoads> points;
    for (std::uint32_t threads = fewest_threads; threads <= model::most_block_threads; threads *= 2) {
      for (const bool from_l2 : {true, false}) {
        points.push_back(
            {.threads = threads, .loads_per_thread = usable_loads_, .from_l2 = from_l2, .runs = runs_of_trial});
      }
    }
    try {
      const std::vector<double> cycles = measure(points).cycles;
      std::string saved;
      for (std::size_t i = 0; i < points.size(); i += 2) {
        const std::uint64_t bytes = line_bytes * points[i].threads * usable_loads_;
        saved += (saved.empty() ? "" : ", ") + std::to_string(bytes) + ": " + rounded(cycles[i + 1] - cycles[i]);
      }
      leaves_["kind"].details["cycles_saved_by_l2_by_bytes"] = "{" + saved + "}";
      device_.learned("L2 saves cycles, by bytes: " + saved);
    } catch (const QuestionRefused& refused) {
      device_.learned(std::string("refused: ") + refused.what());
    }
  }

  [[nodiscard]] std::vector<const Curve*> knees() const {
    std::vector<const Curve*> with_knee;
    for (const Curve& curve : curves_) {
      if (curve.knee) {
        with_knee.push_back(&curve);
      }
    }
    return with_knee;
  }

  void state_knees() {
    std::vector<std::string> texts;
    for (const Curve* curve : knees()) {
      const Knee& knee = *curve->knee;
      texts.push_back("{loads: " + std::to_string(curve->loads.loads_per_thread) +
                      ", threads_per_line: " + std::to_string(curve->loads.threads_per_line) +
                      (curve->loads.from_l2 ? "" : ", from_l2: false") + ", threads: [" + std::to_string(knee.fits) +
                      ", " + std::to_string(knee.overflows) + "], cycles: [" + rounded(knee.cycles_before) + ", " +
                      rounded(knee.cycles_after) + "], variance: " + rounded(knee.variance) + "}");
    }
    if (!texts.empty()) {
      leaves_["kind"].details["knees"] = flow_list(texts);
    }
  }

  // The stop of a warp is the scoreboard's only if the table of the SM holds more than that.
  void settle_loads_per_warp() {
    model::LeafEvidence& leaf = leaves_["loads_per_warp"];
    leaf.details["loads_per_warp_at_least"] = std::to_string(usable_loads_);
    if (usable_loads_ == most_loads) {
      leaves_.leave_open("loads_per_warp", EvidenceStatus::unknown,
                         "eight loads of one warp are under way at once, and no more are asked for");
    } else if (!stop_repeats_) {
      leaves_.leave_open("loads_per_warp", EvidenceStatus::unknown,
                         "one, two and three threads stop at different numbers of loads, or at no multiple of one");
    } else if (entries_at_least() <= usable_loads_) {
      leaves_.leave_open("loads_per_warp", EvidenceStatus::ambiguous,
                         "the warp may as well stop because the table of the SM is full");
    } else {
      leaf.details.clear();
      finding_.outstanding.loads_per_warp = usable_loads_;
      leaves_.resolve("loads_per_warp");
    }
  }

  [[nodiscard]] std::uint32_t entries_at_least() const {
    const Agreement agreement(tables_);
    if (!knees().empty() && !tables_.empty()) {
      return agreement.fewest_entries;
    }
    const auto [lines, warp_loads] = under_way_at_least();
    return std::min(lines, warp_loads);
  }

  // Lines, and loads of warps.
  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> under_way_at_least() const {
    std::vector<Curve> without_knees = curves_;
    for (Curve& curve : without_knees) {
      curve.knee.reset();
    }
    std::vector<TableHypothesis> widest{{.kind = OutstandingKind::mshr}, {.kind = OutstandingKind::prt}};
    refute(widest, without_knees);
    return {widest.front().fewest_entries, widest.back().fewest_entries};
  }

  // Returns them in words.
  std::string state_bounds() {
    const auto [lines, warp_loads] = under_way_at_least();
    model::LeafEvidence& entries = leaves_["entries"];
    entries.details["lines_at_least"] = std::to_string(lines);
    entries.details["warp_loads_at_least"] = std::to_string(warp_loads);
    return std::to_string(lines) + " lines and " + std::to_string(warp_loads) + " loads of warps at once";
  }

  void settle_without_knee() {
    const std::string bounds = state_bounds();
    leaves_.leave_open("entries", EvidenceStatus::unknown, "nothing fills: at least " + bounds + " were under way");
    leaves_.leave_open("merges", EvidenceStatus::unknown, "no table is seen to fill");
    const bool all_fit = std::any_of(curves_.begin(), curves_.end(), [](const Curve& curve) {
      return curve.loads.loads_per_thread == most_loads && curve.loads.threads_per_line == 1 &&
             fits_for_sure(curve.cycles.back(), curve.one_load_cycles);
    });
    if (all_fit) {
      finding_.outstanding.kind = OutstandingKind::no_limit_seen;
      trials_ = curves_.size();
      leaves_.resolve("kind");
      return;
    }
    leaves_.leave_open("kind", EvidenceStatus::unknown,
                       "no plot jumps to two latencies: before a table of more than " + bounds +
                           " could fill, the loads wait for something else, or there are no more of them");
  }

  void settle_table() {
    std::set<std::uint32_t> places;
    for (const Curve* curve : knees()) {
      places.insert(curve->knee->fits);
    }
    if (tables_.empty()) {
      leave_open_without_table();
      return;
    }
    if (places.size() < 2) {
      leave_open_with_alternatives(
          "all knees are at one number of threads, which need not be a table; more loads per warp would tell");
      return;
    }
    device_.inquire("knees between two numbers of threads that were asked", "they tell the tables apart that are left");
    const std::size_t before = tables_.size();
    const std::size_t questions_before = device_.questions_asked();
    look_between();
    device_.learned(std::to_string(device_.questions_asked() - questions_before) + " looked at", before,
                    tables_.size());
    if (tables_.empty()) {
      leave_open_without_table();
      return;
    }
    if (const std::string doubt = doubt_after_trials(); !doubt.empty()) {
      leave_open_with_alternatives(doubt);
      return;
    }
    const Agreement agreement(tables_);
    const std::string several = "several tables explain all knees";
    if (agreement.kinds.size() > 1) {
      leave_open_with_alternatives(several);
      return;
    }
    finding_.outstanding.kind = *agreement.kinds.begin();
    leaves_.resolve("kind");
    if (agreement.on_entries()) {
      finding_.outstanding.entries = agreement.fewest_entries;
      leaves_.resolve("entries");
    } else {
      leaves_.leave_open("entries", EvidenceStatus::ambiguous, several);
      leaves_["entries"].alternatives = entries_alternatives();
    }
    settle_merges(agreement);
  }

  void settle_merges(const Agreement& agreement) {
    if (*agreement.kinds.begin() == OutstandingKind::prt) {
      finding_.evidence.leaves.erase("merges");  // an entry is a whole load of a warp
      return;
    }
    const std::uint32_t fewest = *agreement.merges.begin();
    if (agreement.merges.size() == 1 && fewest < model::warp_lanes) {
      finding_.outstanding.merges = fewest;
      leaves_.resolve("merges");
      return;
    }
    if (!agreement.merges.contains(model::warp_lanes)) {
      finding_.outstanding.merges_at_least = fewest;
      leaves_.leave_open("merges", EvidenceStatus::ambiguous, "several numbers explain all knees");
      for (const std::uint32_t merges : agreement.merges) {
        leaves_["merges"].alternatives.push_back(std::to_string(merges));
      }
      return;
    }
    std::uint32_t seen = 1;
    for (const Curve* curve : knees()) {
      if (curve->loads.threads_per_line <= fewest) {
        seen = std::max(seen, curve->loads.threads_per_line);
      }
    }
    finding_.outstanding.merges_at_least = seen;
    leaves_.leave_open("merges", EvidenceStatus::unknown,
                       seen == model::warp_lanes
                           ? "all threads of a warp share an entry, and no more than those load one line"
                           : "with more than " + std::to_string(seen) +
                                 " threads on a line no knee is seen: the loads wait for something else, or there are "
                                 "too few of them");
  }

  // Of tables that stand; the ends where there are many.
  [[nodiscard]] std::vector<std::string> entries_alternatives() const {
    constexpr std::uint32_t most_between = 8;
    std::set<std::uint32_t> numbers;
    for (const TableHypothesis& table : tables_) {
      const std::uint32_t range = table.most_entries - table.fewest_entries;
      for (std::uint32_t more = 0; more <= range; more += range > most_between ? range : 1) {
        numbers.insert(table.fewest_entries + more);
      }
    }
    std::vector<std::string> texts;
    std::transform(numbers.begin(), numbers.end(), std::back_inserter(texts),
                   [](std::uint32_t number) { return std::to_string(number); });
    return texts;
  }

  void leave_open_without_table() {
    const std::string reason = "the knees do not fit one table of either kind";
    leaves_.leave_open("kind", EvidenceStatus::unknown, reason);
    leaves_.leave_open("entries", EvidenceStatus::unknown, reason + "; at least " + state_bounds() + " were under way");
    leaves_.leave_open("merges", EvidenceStatus::unknown, reason);
  }

  void leave_open_with_alternatives(const std::string& reason) {
    const Agreement agreement(tables_);
    leaves_.leave_open("kind", EvidenceStatus::ambiguous, reason);
    for (const OutstandingKind kind : agreement.kinds) {
      leaves_["kind"].alternatives.emplace_back(to_string(kind));
    }
    leaves_.leave_open("entries", EvidenceStatus::ambiguous, reason);
    leaves_["entries"].alternatives = entries_alternatives();
    leaves_.leave_open("merges", EvidenceStatus::unknown, "the kind of table is not certain");
  }

  // Asks at the thread count inside a knee wherever the tables that stand differ on it.
  void look_between() {
    for (Curve& curve : curves_) {
      if (!curve.knee || curve.knee->overflows - curve.knee->fits < 2) {
        continue;
      }
      ConcurrentLoads middle = curve.loads;
      middle.threads = curve.knee->fits + 1;
      middle.runs = runs_of_trial;
      const auto may = [&](bool fit) {
        return std::any_of(tables_.begin(), tables_.end(), [&](const TableHypothesis& table) {
          const auto entries = table.entries_for(middle);
          return fit ? entries && *entries <= table.most_entries : !entries || *entries > table.fewest_entries;
        });
      };
      if (!may(true) || !may(false)) {
        continue;
      }
      const double cycles = measure({middle}).cycles.front();
      const double share =
          (cycles - curve.knee->cycles_before) / (curve.knee->cycles_after - curve.knee->cycles_before);
      constexpr double clear_share = 0.3;
      if (share < clear_share) {
        curve.knee->fits = middle.threads;
      } else if (share > 1 - clear_share) {
        curve.knee->overflows = middle.threads;
      }
      refute(tables_, {&curve, 1});
    }
  }

  // One prediction: so many threads still fit, so many do not.
  struct Trial {
    ConcurrentLoads fits;
    ConcurrentLoads overflows;
  };

  // Where all tables that stand expect a knee, and where at least one of its sides was not asked.
  [[nodiscard]] std::vector<Trial> trials(bool from_l2) const {
    constexpr std::uint32_t widest = 2;  // threads, between the two sides
    std::vector<Trial> expected;
    for (std::uint32_t loads = 1; loads <= usable_loads_; ++loads) {
      for (const std::uint32_t threads_per_line : patterns) {
        Trial trial{.fits = {.threads = model::most_block_threads,
                             .loads_per_thread = loads,
                             .threads_per_line = threads_per_line,
                             .from_l2 = from_l2,
                             .runs = runs_of_trial},
                    .overflows = {}};
        trial.overflows = trial.fits;
        trial.overflows.threads = 0;
        for (const TableHypothesis& table : tables_) {
          trial.fits.threads = std::min(trial.fits.threads, table.threads_that_fit(trial.fits, table.fewest_entries));
          trial.overflows.threads =
              std::max(trial.overflows.threads, table.threads_that_fit(trial.overflows, table.most_entries) + 1);
        }
        const auto was_asked = [&](const ConcurrentLoads& side) {
          return from_l2 && has_plot(loads, threads_per_line) && is_swept(side.threads);
        };
        if (trial.fits.threads > 0 && trial.overflows.threads <= model::most_block_threads &&
            trial.overflows.threads - trial.fits.threads <= widest &&
            !(was_asked(trial.fits) && was_asked(trial.overflows))) {
          expected.push_back(trial);
        }
      }
    }
    return expected;
  }

  struct Verdict {
    std::size_t passed = 0;
    std::size_t failed = 0;
  };

  Verdict verdict_on(const Source& source) {
    std::vector<ConcurrentLoads> points;
    for (const Trial& trial : trials(source.from_l2)) {
      points.push_back(trial.fits);
      points.push_back(trial.overflows);
    }
    Verdict verdict;
    if (points.empty()) {
      return verdict;
    }
    const std::vector<double> cycles = measure(points).cycles;
    for (std::size_t i = 0; i < cycles.size(); i += 2) {
      if (fits_for_sure(cycles[i + 1], source.one_load_cycles)) {
        ++verdict.failed;
      } else if (is_knee_between(cycles[i], cycles[i + 1], source.one_load_cycles)) {
        ++verdict.passed;
      }
    }
    return verdict;
  }

  // Loads of any kind that took no part: each of them must take as many latencies as a table says that stands.
  [[nodiscard]] bool stand_random_loads() {
    constexpr std::size_t count = 100;
    std::vector<ConcurrentLoads> points;
    while (points.size() < count) {
      points.push_back({.threads = every_one_to + 1 + 2 * static_cast<std::uint32_t>(random_.below(480)),
                        .loads_per_thread = 1 + static_cast<std::uint32_t>(random_.below(usable_loads_)),
                        .threads_per_line = patterns.at(random_.below(patterns.size())),
                        .from_l2 = true,
                        .runs = runs_of_sweep});
    }
    const Measured measured = measure(points);
    std::vector<Curve> fresh;
    for (std::size_t i = 0; i < points.size(); ++i) {
      fresh.push_back({.loads = points[i],
                       .one_load_cycles = in_l2_.one_load_cycles,
                       .noise_deviation = measured.noise_deviation,
                       .threads = {static_cast<double>(points[i].threads)},
                       .cycles = {measured.cycles[i]}});
    }
    refute(tables_, fresh);
    return !tables_.empty();
  }

  // Why what is left of the tables is not yet to be believed; empty: it is.
  std::string doubt_after_trials() {
    constexpr std::size_t fewest_trials = 3;
    device_.inquire("loads that took no part: where the knees must be, lines in L2 and not, and random ones",
                    "the table must predict them, and a cache of as many lines would not");
    Verdict in_l2 = verdict_on(in_l2_);
    Verdict beyond_l2;
    std::string refusal;
    try {
      const Source source_beyond_l2 = source(false);
      beyond_l2 = verdict_on(source_beyond_l2);
      leaves_["kind"].details["one_load_cycles"] = "{from_l2: " + rounded(in_l2_.one_load_cycles) +
                                                   ", beyond_l2: " + rounded(source_beyond_l2.one_load_cycles) + "}";
    } catch (const QuestionRefused& refused) {
      refusal = refused.what();
    }
    trials_ = in_l2.passed + beyond_l2.passed;
    const std::size_t failed = in_l2.failed + beyond_l2.failed;
    const bool random_loads_agree = stand_random_loads();
    device_.learned(std::to_string(trials_) + " knee(s) where they were predicted, " + std::to_string(failed) +
                    " missing; random loads " + (random_loads_agree ? "agree" : "do not agree"));
    if (failed > 0 || !random_loads_agree) {
      return "loads that took no part do not behave as the table predicts";
    }
    if (trials_ < fewest_trials) {
      return "too few knees could be predicted and looked at: " + std::to_string(trials_);
    }
    if (beyond_l2.passed == 0 && Agreement(tables_).kinds.contains(OutstandingKind::mshr)) {
      return "a cache of so many lines would look the same" +
             (refusal.empty() ? std::string(", and no knee was seen with lines that are not in L2")
                              : ", and the device refused lines that are not in L2: " + refusal);
    }
    return {};
  }

  Interrogator device_;
  OutstandingFinding finding_;
  Leaves leaves_;
  model::Random random_;
  Source in_l2_;
  std::uint32_t usable_loads_ = 1;  // of one warp, before anything stops it
  bool stop_repeats_ = true;
  std::vector<Curve> curves_;
  std::vector<TableHypothesis> tables_;
  std::size_t trials_ = 0;
};

}  // namespace

OutstandingFinding infer_outstanding(model::Answerer& device, const std::string& target, const Settings& settings) {
  return Inference(device, target, settings).run();
}

}  // namespace gpuinfer::infer
