// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/infer_shared_memory.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/asking/statistics.hpp"
#include "infer/threads/bank_hypotheses.hpp"
#include "model/number_text.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

using model::DegreeLatency;
using model::EvidenceStatus;
using model::SharedLoads;
using model::warp_lanes;

constexpr std::array leaf_names{"banks", "bank_width_bytes", "row_bytes", "latency_cycles"};
constexpr std::uint32_t most_stride_words = 128;
constexpr std::uint32_t most_runs = 4096;

// What is called different differs by so many standard errors.
constexpr double clearly = 5;
// Loads that do the same may differ by so much, and by that share, whatever the noise.
constexpr double same_cycles = 0.1;
constexpr double same_share = 0.002;

// Without the sign of a zero.
double rounded(double cycles) { return std::round(cycles * 1000) / 1000 + 0.0; }

// The mean of the middle half: not moved by outliers, and not by whole cycles as a median is.
double middle_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto cut = static_cast<std::ptrdiff_t>(values.size() / 4);
  return spread_of(std::span(values.begin() + cut, values.end() - cut)).mean;
}

// Of a single value, from at least 16 of them; the one at either end is left out, and made up for.
double deviation_of(std::vector<double> values) {
  constexpr double for_those_left_out = 1.3;
  std::sort(values.begin(), values.end());
  return for_those_left_out * spread_of(std::span(values.begin() + 1, values.end() - 1)).deviation;
}

std::vector<double> cycles_of_all(const std::vector<DegreeLatency>& points) {
  std::vector<double> cycles(points.size());
  std::ranges::transform(points, cycles.begin(), &DegreeLatency::cycles);
  return cycles;
}

// Half of the lanes at either place.
SharedLoads loads_of_pair(const WordPair& pair) {
  SharedLoads loads;
  for (std::size_t lane = 0; lane < warp_lanes; ++lane) {
    loads.lane_offsets.at(lane) = pair.offsets.at(lane % 2);
  }
  return loads;
}

// Each of `offsets` by at least one lane, in random order. At most warp_lanes of them.
SharedLoads loads_of(std::vector<std::uint32_t> offsets, model::Random& random) {
  const std::size_t distinct = offsets.size();
  while (offsets.size() < warp_lanes) {
    offsets.push_back(offsets[random.below(distinct)]);
  }
  random.shuffle(offsets);
  SharedLoads loads;
  std::ranges::copy(offsets, loads.lane_offsets.begin());
  return loads;
}

struct Line {
  double cycles_at_two = 0;
  double per_way = 0;
  std::optional<std::pair<double, double>> per_way_interval;  // 95 %
};

// Least squares over degrees from 2 on; at least two different ones.
Line line_through(const std::vector<DegreeLatency>& points) {
  const auto count = static_cast<Eigen::Index>(points.size());
  Eigen::Matrix<double, Eigen::Dynamic, 2> factors(count, 2);
  Eigen::VectorXd cycles(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const DegreeLatency& point = points[static_cast<std::size_t>(i)];
    factors(i, 0) = 1;
    factors(i, 1) = static_cast<double>(point.degree) - 2;
    cycles(i) = point.cycles;
  }
  const Eigen::Matrix2d covariances = (factors.transpose() * factors).inverse();
  const Eigen::Vector2d solution = covariances * (factors.transpose() * cycles);
  Line line{.cycles_at_two = solution(0), .per_way = solution(1), .per_way_interval = {}};
  if (count > 2) {
    const double variance = (cycles - factors * solution).squaredNorm() / static_cast<double>(count - 2);
    const double error = std::sqrt(variance * covariances(1, 1));
    const double deviations = quantile(boost::math::students_t(static_cast<double>(count - 2)), 0.975);
    line.per_way_interval = {line.per_way - deviations * error, line.per_way + deviations * error};
  }
  return line;
}

// As few of `points` as leave all of them, by straight lines in between, within what `tolerance` of their cycles
// allows.
template <class Tolerance>
std::vector<DegreeLatency> knots_of(std::span<const DegreeLatency> points, Tolerance tolerance) {
  if (points.size() < 3) {
    return {points.begin(), points.end()};
  }
  const DegreeLatency& first = points.front();
  const DegreeLatency& last = points.back();
  std::size_t farthest = 0;
  double most = 1;
  for (std::size_t i = 1; i + 1 < points.size(); ++i) {
    const double share =
        static_cast<double>(points[i].degree - first.degree) / static_cast<double>(last.degree - first.degree);
    const double on_line = first.cycles + share * (last.cycles - first.cycles);
    const double times = std::abs(points[i].cycles - on_line) / tolerance(points[i].cycles);
    if (times > most) {
      most = times;
      farthest = i;
    }
  }
  if (farthest == 0) {
    return {first, last};
  }
  std::vector<DegreeLatency> knots = knots_of(points.first(farthest + 1), tolerance);
  const std::vector<DegreeLatency> behind = knots_of(points.subspan(farthest), tolerance);
  knots.insert(knots.end(), behind.begin() + 1, behind.end());
  return knots;
}

class Inference {
 public:
  Inference(model::Answerer& device, const std::string& target, const Settings& settings)
      : device_(device, target, settings), leaves_(device_, finding_, leaf_names), random_(settings.seed) {}

  SharedMemoryFinding run() {
    static_cast<void>(leaves_.go_through([this] {
      find_noise();
      find_way();
      find_banks();
      find_latency();
      find_wide_elements();
      device_.report("done", 1.0);
    }));
    leaves_.state_confidence([](const std::string&, std::size_t questions) { return questions; });
    leaves_.close();
    return std::move(finding_);
  }

 private:
  // One value for each of `loads`, from so many runs.
  std::vector<double> cycles_of(const std::vector<SharedLoads>& loads, std::uint32_t runs) {
    std::vector<double> cycles;
    for (const model::Timing& timing : time(loads, runs)) {
      cycles.push_back(middle_mean(timing.cycles));
    }
    return cycles;
  }

  std::vector<model::Timing> time(const std::vector<SharedLoads>& loads, std::uint32_t runs) {
    std::vector<model::Workload> workloads;
    for (SharedLoads each : loads) {
      each.runs = runs;
      workloads.emplace_back(each);
    }
    return device_.time(workloads);
  }

  // Standard error of what cycles_of() says.
  [[nodiscard]] double error_of(std::uint32_t runs) const {
    constexpr double middle_mean_variance = 1.2;
    return std::sqrt(middle_mean_variance * run_deviation_ * run_deviation_ / runs +
                     launch_deviation_ * launch_deviation_);
  }

  // How far loads of the same degree may be from one another, from so many runs.
  [[nodiscard]] double tolerance_of(double cycles, std::uint32_t runs) const {
    return clearly * error_of(runs) + same_cycles + same_share * cycles;
  }

  // The fewest runs that make `error_of()` no larger, as far as runs can do that.
  [[nodiscard]] std::uint32_t runs_for(double error) const {
    std::uint32_t runs = 4;
    while (runs < most_runs && error_of(runs) > error) {
      runs *= 2;
    }
    return runs;
  }

  void find_noise() {
    constexpr std::uint32_t runs = 16;
    constexpr std::size_t repeats = 32;
    device_.inquire("a word that all lanes load, again and again", "how much the same load differs");
    device_.report("noise", 0.0);
    const std::vector<model::Timing> timings = time(std::vector(repeats, model::strided(0, 4, runs)), runs);
    std::vector<double> means;
    double variance = 0;
    for (const model::Timing& timing : timings) {
      means.push_back(middle_mean(timing.cycles));
      const double deviation = deviation_of(timing.cycles);
      variance += deviation * deviation / repeats;
    }
    run_deviation_ = std::sqrt(variance);
    const double of_means = deviation_of(means);
    const double error = error_of(runs);
    launch_deviation_ = of_means > 2 * error ? of_means : 0;
    free_cycles_ = middle_mean(means);
    device_.learned(model::to_text(rounded(free_cycles_)) + " cycles, of which a run differs by " +
                    model::to_text(rounded(run_deviation_)));
  }

  // What it costs that two lanes conflict: looked for among the lanes of the strides that take longest.
  void find_way() {
    constexpr std::uint32_t runs = 64;
    constexpr std::size_t strides_to_look_at = 4;
    device_.inquire("every stride up to " + std::to_string(most_stride_words) + " words",
                    "the slowest one has lanes that conflict");
    device_.report("cost of a conflict", 0.1);
    std::vector<SharedLoads> strides;
    for (std::uint32_t stride = 1; stride <= most_stride_words; ++stride) {
      strides.push_back(model::strided(stride * shared_word_bytes, shared_word_bytes, 1));
    }
    const std::vector<double> cycles = cycles_of(strides, runs);
    const auto [fastest, slowest] = std::ranges::minmax(cycles);
    device_.learned(model::to_text(rounded(fastest)) + " to " + model::to_text(rounded(slowest)) + " cycles");
    if (free_cycles_ > fastest + tolerance_of(fastest, runs)) {
      throw Undecided("a word that all lanes load takes " + model::to_text(rounded(free_cycles_)) +
                      " cycles, different words only " + model::to_text(rounded(fastest)) +
                      ", so there is no broadcast, which a description of banks takes for granted");
    }
    if (slowest < free_cycles_ + tolerance_of(slowest, runs)) {
      throw Undecided("no stride takes longer than a word that all lanes load, beyond the noise of " +
                      model::to_text(rounded(error_of(runs))) + " cycles: no conflicts were seen");
    }

    std::vector<std::size_t> order(strides.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater{}, [&cycles](std::size_t i) { return cycles[i]; });
    for (std::size_t i = 0; i < strides_to_look_at && way_cycles_ == 0; ++i) {
      look_for_way(strides[order[i]]);
    }
    if (way_cycles_ == 0) {
      throw Undecided("no two lanes of the slowest strides take longer than one word, beyond the noise of " +
                      model::to_text(rounded(error_of(most_runs))) + " cycles");
    }
  }

  void look_for_way(const SharedLoads& stride) {
    device_.inquire("the first lane of a slow stride with each other one", "two words conflict or not");
    std::vector<BankHypotheses::Answered> pairs;
    for (std::size_t lane = 1; lane < warp_lanes; ++lane) {
      pairs.push_back({.pair = {.offsets = {stride.lane_offsets[0], stride.lane_offsets.at(lane)}}});
    }
    std::vector<SharedLoads> loads;
    std::ranges::transform(pairs, std::back_inserter(loads),
                           [](const BankHypotheses::Answered& answer) { return loads_of_pair(answer.pair); });
    constexpr std::size_t free_repeats = 4;
    loads.insert(loads.end(), free_repeats, model::strided(0, shared_word_bytes, 1));
    // More runs each time, until they are as many as the cost that they show takes.
    for (std::uint32_t runs = 64;;) {
      const std::vector<double> cycles = cycles_of(loads, runs);
      const std::span of_pairs = std::span(cycles).first(pairs.size());
      free_cycles_ = spread_of(std::span(cycles).last(free_repeats)).mean;
      const double slowest = std::ranges::max(of_pairs);
      const double way = slowest - free_cycles_;
      const bool shows = way > tolerance_of(slowest, runs);
      runs_ = shows ? runs_for(way / 2 / (clearly + 1)) : most_runs;
      if (runs_ > runs) {
        runs = runs_;
        continue;
      }
      if (!shows || error_of(runs_) > way / 2 / clearly) {
        device_.learned("none that noise would not hide");
        return;
      }
      way_cycles_ = way;
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        pairs[i].conflicts = conflicts(of_pairs[i]);
      }
      answers_ = std::move(pairs);
      device_.learned("a conflict takes " + model::to_text(rounded(way)) + " cycles");
      return;
    }
  }

  [[nodiscard]] bool conflicts(double cycles) const { return cycles > free_cycles_ + way_cycles_ / 2; }

  void find_banks() {
    const std::size_t questions_before = device_.questions_asked();
    leaves_.begin("banks", "the questions about it did not end");
    BankHypotheses hypotheses(answers_);
    device_.report("banks", 0.2);
    device_.inquire("pairs of words of which the layouts that are left say different things",
                    "which words conflict tells where the banks are");
    const std::size_t before = hypotheses.left().size();
    while (const std::optional<WordPair> pair = hypotheses.next_question(random_)) {
      hypotheses.rule_out({.pair = *pair, .conflicts = conflicts(cycles_of({loads_of_pair(*pair)}, runs_).front())});
    }
    device_.learned(std::to_string(hypotheses.left().size()) + " layout(s) left", before, hypotheses.left().size());
    if (hypotheses.left().empty()) {
      throw Undecided(
          "no banks of consecutive bytes, whatever their number, width and rows, explain which words conflict");
    }
    banks_ = hypotheses.left().front();
    check_banks();
    const std::size_t questions = device_.questions_asked();
    state("banks", hypotheses.left(), &Banks::banks, finding_.shared_memory.banks);
    state("bank_width_bytes", hypotheses.left(), &Banks::width_bytes, finding_.shared_memory.bank_width_bytes);
    state("row_bytes", hypotheses.left(), &Banks::row_bytes, finding_.shared_memory.row_bytes);
    for (const char* leaf : {"banks", "bank_width_bytes", "row_bytes"}) {
      leaves_[leaf].experiments = questions - questions_before;
    }
  }

  void state(const char* leaf, const std::vector<Banks>& left, std::uint32_t Banks::*number,
             std::optional<std::uint32_t>& value) {
    std::set<std::uint32_t> values;
    for (const Banks& each : left) {
      values.insert(each.*number);
    }
    if (values.size() == 1) {
      value = *values.begin();
      leaves_.resolve(leaf);
      return;
    }
    leaves_.leave_open(leaf, EvidenceStatus::ambiguous,
                       "no words were found of which the alternatives say different things");
    for (const std::uint32_t each : values) {
      leaves_[leaf].alternatives.push_back(std::to_string(each));
    }
  }

  // Fresh loads of 2 to 12 words, about as many with a conflict as without.
  void check_banks() {
    constexpr std::size_t patterns = 512;
    device_.report("check of the banks", 0.4);
    device_.inquire("random loads of a few words", "whether the layout says which of them conflict");
    std::vector<SharedLoads> loads;
    for (std::size_t i = 0; i < patterns; ++i) {
      loads.push_back(random_loads(2 + random_.below(11), i % 2 == 0));
    }
    std::vector<double> cycles = cycles_of(loads, runs_);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < patterns; ++i) {
      if (conflicts(cycles[i]) != (degree_of(loads[i]) > 1) &&
          conflicts(cycles_of({loads[i]}, std::min(most_runs, 4 * runs_)).front()) != (degree_of(loads[i]) > 1)) {
        ++wrong;
      }
    }
    device_.learned(std::to_string(wrong) + " of " + std::to_string(patterns) + " are otherwise");
    if (wrong > 0) {
      throw Undecided("the banks that explain which pairs of words conflict are wrong about " + std::to_string(wrong) +
                      " of " + std::to_string(patterns) + " random loads");
    }
    leaves_["row_bytes"].details["broadcast"] = "true";
    leaves_["row_bytes"].details["multicast"] = "true";
  }

  [[nodiscard]] std::uint32_t degree_of(const SharedLoads& loads) const {
    return model::conflict_degree({.banks = banks_.banks,
                                   .bank_width_bytes = banks_.width_bytes,
                                   .row_bytes = banks_.row_bytes,
                                   .latency_cycles = {}},
                                  loads);
  }

  std::uint32_t random_word() {
    constexpr std::uint32_t words = SharedLoads::shared_bytes / shared_word_bytes;
    return static_cast<std::uint32_t>(random_.below(words)) * shared_word_bytes;
  }

  // With a conflict or without, if chance finds such words. They come from everywhere, or from a few periods.
  SharedLoads random_loads(std::size_t words, bool with_conflict) {
    constexpr unsigned most_tries = 64;
    const std::uint32_t period_bytes = banks_.banks * banks_.width_bytes;
    SharedLoads loads;
    for (unsigned tries = 0; tries < most_tries; ++tries) {
      const std::uint32_t around = random_word();
      const std::uint64_t window_bytes =
          random_.below(2) == 0 ? SharedLoads::shared_bytes : period_bytes * (1 + random_.below(4));
      const std::uint64_t window_words = window_bytes / shared_word_bytes;
      std::vector<std::uint32_t> offsets(words);
      std::ranges::generate(offsets, [&] {
        const auto beside = static_cast<std::uint32_t>(random_.below(window_words)) * shared_word_bytes;
        return (around + beside) % SharedLoads::shared_bytes;
      });
      loads = infer::loads_of(std::move(offsets), random_);
      if ((degree_of(loads) > 1) == with_conflict) {
        break;
      }
    }
    return loads;
  }

  // So many rows of one bank, and beside them words of other banks that make no more.
  SharedLoads loads_of_degree(const std::vector<std::uint32_t>& bank_words, std::uint32_t degree) {
    std::vector<std::uint32_t> words = bank_words;
    random_.shuffle(words);
    std::vector<std::uint32_t> offsets;
    std::set<std::uint32_t> rows;
    for (const std::uint32_t word : words) {
      if (rows.size() < degree && rows.insert(banks_.row_of(word)).second) {
        offsets.push_back(word);
      }
    }
    const std::size_t wanted = degree + random_.below(warp_lanes - degree + 1);
    for (unsigned tries = 0; tries < 4 * warp_lanes && offsets.size() < wanted; ++tries) {
      offsets.push_back(random_word());
      if (degree_of(infer::loads_of(offsets, random_)) > degree) {
        offsets.pop_back();
      }
    }
    return infer::loads_of(std::move(offsets), random_);
  }

  void find_latency() {
    constexpr std::size_t patterns_of_degree = 6;
    leaves_.begin("latency_cycles", "the questions about it did not end");
    device_.report("latencies", 0.6);
    device_.inquire("loads of every degree of conflict", "each further row of a bank takes longer");
    latency_runs_ =
        std::max(runs_, std::min(runs_for(std::min(way_cycles_ / 20, 0.003 * free_cycles_)), most_runs / 4));
    std::vector<SharedLoads> loads;
    std::vector<DegreeLatency> points;
    for (std::size_t pattern = 0; pattern < patterns_of_degree; ++pattern) {
      const std::uint32_t bank = banks_.bank_of(random_word());
      std::vector<std::uint32_t> words;
      std::set<std::uint32_t> rows;
      for (std::uint32_t word = 0; word < SharedLoads::shared_bytes; word += shared_word_bytes) {
        if (banks_.bank_of(word) == bank) {
          words.push_back(word);
          rows.insert(banks_.row_of(word));
        }
      }
      const auto most = static_cast<std::uint32_t>(std::min<std::size_t>(rows.size(), warp_lanes));
      for (std::uint32_t degree = 1; degree <= most; ++degree) {
        loads.push_back(loads_of_degree(words, degree));
        points.push_back({.degree = degree, .cycles = 0});
      }
    }
    const std::vector<double> cycles = cycles_of(loads, latency_runs_);
    for (std::size_t i = 0; i < points.size(); ++i) {
      points[i].cycles = cycles[i];
    }
    std::ranges::stable_sort(points, {}, &DegreeLatency::degree);
    const model::SharedMemoryLatency law = law_of(points);
    check_latency(law);
  }

  // Straight from degree 2 on, or else by degree.
  model::SharedMemoryLatency law_of(const std::vector<DegreeLatency>& points) {
    std::vector<DegreeLatency> means;
    for (auto begin = points.begin(); begin != points.end();) {
      const auto end =
          std::find_if(begin, points.end(), [&](const DegreeLatency& point) { return point.degree != begin->degree; });
      const std::vector<double> cycles = cycles_of_all({begin, end});
      means.push_back({.degree = begin->degree, .cycles = rounded(spread_of(cycles).mean)});
      begin = end;
    }
    model::SharedMemoryLatency law{
        .broadcast = means.at(0).cycles, .two_way = means.at(1).cycles, .per_way = {}, .by_degree = {}};
    const auto tolerance = [this](double cycles) { return tolerance_of(cycles, latency_runs_) / 2; };
    if (means.size() > 2) {
      const auto second = std::ranges::find(points, 2U, &DegreeLatency::degree);
      const Line line = line_through({second, points.end()});
      if (line.per_way_interval) {
        leaves_["latency_cycles"].details["per_way"] = model::to_text(rounded(line.per_way));
        leaves_["latency_cycles"].details["per_way_interval_95_percent"] =
            "[" + model::to_text(rounded(line.per_way_interval->first)) + ", " +
            model::to_text(rounded(line.per_way_interval->second)) + "]";
      }
      const bool is_straight = std::all_of(means.begin() + 1, means.end(), [&](const DegreeLatency& mean) {
        return std::abs(mean.cycles - line.cycles_at_two - line.per_way * (mean.degree - 2.0)) <=
               tolerance(mean.cycles);
      });
      if (is_straight) {
        law.two_way = rounded(line.cycles_at_two);
        law.per_way = rounded(line.per_way);
      } else {
        law.by_degree = knots_of(std::span<const DegreeLatency>(means), tolerance);
      }
    }
    device_.learned(law.by_degree.empty() ? "each further row takes as long" : "the rows take different times");
    return law;
  }

  // Fresh loads of all sorts, the strides among them.
  void check_latency(const model::SharedMemoryLatency& law) {
    constexpr std::size_t patterns = 256;
    device_.report("check of the latencies", 0.8);
    device_.inquire("random loads and strides", "whether those of one degree take the time that was found for it");
    std::vector<SharedLoads> loads;
    for (std::uint32_t stride = 0; stride <= most_stride_words; ++stride) {
      loads.push_back(model::strided(stride * shared_word_bytes, shared_word_bytes, 1));
    }
    for (std::size_t i = 0; i < patterns; ++i) {
      loads.push_back(random_loads(1 + random_.below(warp_lanes), i % 4 != 0));
    }
    const std::vector<double> cycles = cycles_of(loads, latency_runs_);
    std::size_t wrong = 0;
    std::pair<double, double> residuals{0, 0};
    for (std::size_t i = 0; i < loads.size(); ++i) {
      const double predicted = model::cycles_of(law, degree_of(loads[i]));
      const double residual = cycles[i] - predicted;
      if (std::abs(residual) > tolerance_of(predicted, latency_runs_)) {
        ++wrong;
      }
      residuals = {std::min(residuals.first, residual), std::max(residuals.second, residual)};
    }
    device_.learned(std::to_string(wrong) + " of " + std::to_string(loads.size()) + " take another time");
    auto& details = leaves_["latency_cycles"].details;
    details["residuals"] =
        "[" + model::to_text(rounded(residuals.first)) + ", " + model::to_text(rounded(residuals.second)) + "]";
    details["degree_by_stride"] = degrees_of(std::span(cycles).first(most_stride_words + 1), law);
    law_ = law;
    if (wrong == 0) {
      finding_.shared_memory.latency_cycles = law;
      leaves_.resolve("latency_cycles");
      return;
    }
    leaves_.leave_open("latency_cycles", EvidenceStatus::ambiguous,
                       std::to_string(wrong) + " of " + std::to_string(loads.size()) +
                           " loads take another time than others with as many rows in the busiest bank");
  }

  // The degree whose cycles were measured, for stride 0, 1, ...; null where they are those of none.
  [[nodiscard]] std::string degrees_of(std::span<const double> cycles, const model::SharedMemoryLatency& law) const {
    std::string text;
    for (const double each : cycles) {
      const std::optional<std::uint32_t> degree = degree_that_takes(each, law);
      text += (text.empty() ? "" : ", ") + (degree ? std::to_string(*degree) : "null");
    }
    return "[" + text + "]";
  }

  [[nodiscard]] std::optional<std::uint32_t> degree_that_takes(double cycles,
                                                               const model::SharedMemoryLatency& law) const {
    std::optional<std::uint32_t> nearest;
    double distance = tolerance_of(cycles, latency_runs_);
    const bool goes_on = law.per_way || law.by_degree.size() > 1;
    for (std::uint32_t degree = 1; degree <= (goes_on ? warp_lanes : 2); ++degree) {
      const double away = std::abs(model::cycles_of(law, degree) - cycles);
      if (away < distance) {
        distance = away;
        nearest = degree;
      }
    }
    return nearest;
  }

  // What the description says of elements of 8 and 16 bytes rests on which lanes are served together, which no leaf
  // tells; so it is only said whether that holds, but for what all of a size take longer.
  void find_wide_elements() {
    constexpr std::size_t patterns = 32;
    for (const std::uint32_t element_bytes : {8U, 16U}) {
      device_.report("wide elements", element_bytes == 8 ? 0.9 : 0.95);
      device_.inquire("elements of " + std::to_string(element_bytes) + " bytes", "how many rows they take");
      std::vector<SharedLoads> loads{model::strided(element_bytes, element_bytes, 1)};
      for (std::uint32_t bytes = 0; bytes <= most_stride_words * shared_word_bytes; bytes += element_bytes) {
        loads.push_back(model::strided(bytes, element_bytes, 1));
      }
      for (std::size_t i = 0; i < patterns; ++i) {
        SharedLoads random = random_loads(warp_lanes, true);
        random.element_bytes = element_bytes;
        for (std::uint32_t& offset : random.lane_offsets) {
          offset -= offset % element_bytes;
        }
        loads.push_back(random);
      }
      const std::vector<double> cycles = cycles_of(loads, latency_runs_);
      std::vector<double> more(loads.size());
      for (std::size_t i = 0; i < loads.size(); ++i) {
        more[i] = cycles[i] - predicted_cycles(loads[i]);
      }
      const double usually_more = median(more);
      std::size_t as_described = 0;
      for (std::size_t i = 0; i < loads.size(); ++i) {
        if (std::abs(more[i] - usually_more) <= tolerance_of(cycles[i], latency_runs_)) {
          ++as_described;
        }
      }
      const std::optional<std::uint32_t> contiguous = degree_that_takes(cycles.front() - usually_more, law_);
      const std::string share = std::to_string(as_described) + " of " + std::to_string(loads.size());
      device_.learned(share + " take as long as described, and " + model::to_text(rounded(usually_more)) +
                      " cycles more for the size");
      leaves_["latency_cycles"].details["elements_of_" + std::to_string(element_bytes) + "_bytes"] =
          "{contiguous_cycles: " + model::to_text(rounded(cycles.front())) +
          ", contiguous_rows: " + (contiguous ? std::to_string(*contiguous) : "null") +
          ", more_cycles: " + model::to_text(rounded(usually_more)) + ", as_described: " + share + "}";
    }
  }

  // Degrees that were not seen, as turns of wide elements may add up to, cost what the law says if it goes on.
  [[nodiscard]] double predicted_cycles(const SharedLoads& loads) const {
    const std::uint32_t degree = degree_of(loads);
    const bool goes_on = law_.per_way || law_.by_degree.size() > 1;
    return model::cycles_of(law_, goes_on ? degree : std::min(degree, 2U));
  }

  Interrogator device_;
  SharedMemoryFinding finding_;
  Leaves leaves_;
  model::Random random_;
  double run_deviation_ = 0;     // of one run from the next
  double launch_deviation_ = 0;  // of all runs of a workload from those of the same one again
  double free_cycles_ = 0;       // of a word that all lanes load
  double way_cycles_ = 0;        // what a conflict of two lanes costs
  std::uint32_t runs_ = 1;       // enough to tell that
  std::uint32_t latency_runs_ = 1;
  std::vector<BankHypotheses::Answered> answers_;
  Banks banks_;
  model::SharedMemoryLatency law_;
};

}  // namespace

SharedMemoryFinding infer_shared_memory(model::Answerer& device, const std::string& target, const Settings& settings) {
  return Inference(device, target, settings).run();
}

}  // namespace gpuinfer::infer
