// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/conclude_shared_memory.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <set>

#include "infer/asking/statistics.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::DegreeLatency;
using model::EvidenceStatus;

// Loads that do the same may differ by so much, and by that share, whatever the noise.
constexpr double same_cycles = 0.1;
constexpr double same_rate_share = 0.002;

std::string text_of_cycles(double cycles) { return model::to_text(rounded_to_thousandths(cycles)); }

NumberVerdict conclude_number(const std::vector<Banks>& left, std::uint32_t Banks::*number) {
  std::set<std::uint32_t> values;
  for (const Banks& each : left) {
    values.insert(each.*number);
  }
  if (values.size() == 1) {
    return {.value = *values.begin(), .leaf = LeafVerdict::resolved()};
  }
  NumberVerdict verdict{.leaf = {.status = EvidenceStatus::ambiguous,
                                 .reason = "no words were found of which the alternatives say different things"}};
  for (const std::uint32_t each : values) {
    verdict.leaf.alternatives.push_back(std::to_string(each));
  }
  return verdict;
}

std::vector<double> cycles_of_all(std::span<const DegreeLatency> points) {
  std::vector<double> cycles(points.size());
  std::ranges::transform(points, cycles.begin(), &DegreeLatency::cycles);
  return cycles;
}

std::vector<DegreeLatency> means_by_degree(const std::vector<DegreeLatency>& points) {
  std::vector<DegreeLatency> means;
  for (auto begin = points.begin(); begin != points.end();) {
    const auto end =
        std::find_if(begin, points.end(), [&](const DegreeLatency& point) { return point.degree != begin->degree; });
    means.push_back(
        {.degree = begin->degree, .cycles = rounded_to_thousandths(spread_of(cycles_of_all({begin, end})).mean)});
    begin = end;
  }
  return means;
}

struct StraightLine {
  double cycles_at_two = 0;
  double per_way = 0;
  std::optional<std::pair<double, double>> per_way_interval;  // 95 %
};

// Least squares over degrees from 2 on; at least two different ones.
StraightLine line_through(const std::vector<DegreeLatency>& points) {
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
  StraightLine line{.cycles_at_two = solution(0), .per_way = solution(1), .per_way_interval = {}};
  if (count > 2) {
    const double variance = (cycles - factors * solution).squaredNorm() / static_cast<double>(count - 2);
    const double error = std::sqrt(variance * covariances(1, 1));
    const double deviations = student_quantile(0.975, points.size() - 2);
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

}  // namespace

double SharedNoise::error_of(std::uint32_t runs) const {
  constexpr double middle_mean_variance = 1.2;
  return std::sqrt(middle_mean_variance * run_deviation * run_deviation / runs + launch_deviation * launch_deviation);
}

double SharedNoise::tolerance_of(double cycles, std::uint32_t runs) const {
  return clearly_other_degree * error_of(runs) + same_cycles + same_rate_share * cycles;
}

double rounded_to_thousandths(double cycles) { return std::round(cycles * 1000) / 1000 + 0.0; }

std::optional<std::string> doubt_of_conflicts(const StridesSeen& seen) {
  if (seen.one_word_cycles > seen.fastest_cycles + seen.noise.tolerance_of(seen.fastest_cycles, seen.runs)) {
    return "a word that all lanes load takes " + text_of_cycles(seen.one_word_cycles) +
           " cycles, different words only " + text_of_cycles(seen.fastest_cycles) +
           ", so there is no broadcast, which a description of banks takes for granted";
  }
  if (seen.slowest_cycles < seen.one_word_cycles + seen.noise.tolerance_of(seen.slowest_cycles, seen.runs)) {
    return "no stride takes longer than a word that all lanes load, beyond the noise of " +
           text_of_cycles(seen.noise.error_of(seen.runs)) + " cycles: no conflicts were seen";
  }
  return std::nullopt;
}

BanksVerdict conclude_banks(const std::vector<Banks>& left) {
  return {.banks = conclude_number(left, &Banks::banks),
          .bank_width_bytes = conclude_number(left, &Banks::width_bytes),
          .row_bytes = conclude_number(left, &Banks::row_bytes)};
}

LatencyLaw law_of(const std::vector<DegreeLatency>& points, const SharedNoise& noise, std::uint32_t runs) {
  const std::vector<DegreeLatency> means = means_by_degree(points);
  LatencyLaw law{.latency = {.broadcast = means.at(0).cycles, .two_way = means.at(1).cycles}};
  if (means.size() <= 2) {
    return law;
  }
  const auto tolerance = [&](double cycles) { return noise.tolerance_of(cycles, runs) / 2; };
  const StraightLine line = line_through({std::ranges::find(points, 2U, &DegreeLatency::degree), points.end()});
  if (line.per_way_interval) {
    law.slope = WaySlope{.per_way = line.per_way, .interval_95_percent = *line.per_way_interval};
  }
  const bool is_straight = std::all_of(means.begin() + 1, means.end(), [&](const DegreeLatency& mean) {
    return std::abs(mean.cycles - line.cycles_at_two - line.per_way * (mean.degree - 2.0)) <= tolerance(mean.cycles);
  });
  if (is_straight) {
    law.latency.two_way = rounded_to_thousandths(line.cycles_at_two);
    law.latency.per_way = rounded_to_thousandths(line.per_way);
  } else {
    law.latency.by_degree = knots_of(std::span<const DegreeLatency>(means), tolerance);
  }
  return law;
}

LatencyVerdict conclude_latency(std::span<const CheckedLoad> loads, const SharedNoise& noise, std::uint32_t runs) {
  LatencyVerdict verdict;
  for (const CheckedLoad& load : loads) {
    const double residual = load.cycles - load.predicted_cycles;
    verdict.wrong += std::abs(residual) > noise.tolerance_of(load.predicted_cycles, runs) ? 1U : 0U;
    verdict.residuals = {std::min(verdict.residuals.first, residual), std::max(verdict.residuals.second, residual)};
  }
  verdict.leaf = verdict.wrong == 0
                     ? LeafVerdict::resolved()
                     : LeafVerdict{.status = EvidenceStatus::ambiguous,
                                   .reason = std::to_string(verdict.wrong) + " of " + std::to_string(loads.size()) +
                                             " loads take another time than others with as many rows in the busiest "
                                             "bank"};
  return verdict;
}

}  // namespace gpuinfer::infer
