// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/latency/conclude_patterns.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "infer/asking/statistics.hpp"
#include "infer/asking/thresholds.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::AccessPattern;
using model::EvidenceStatus;
using PatternVerdicts = ByPattern<PatternVerdict>;

// What differs by so many standard errors, and by more than rounding explains, is not the same.
constexpr double clearly_other_pattern = 6;

constexpr std::size_t fewest_accesses = 32;
// Of a group, so many may be something else: misread, disturbed, or one that chance took another way.
constexpr double most_others = 0.1;

constexpr double median_variance = 1.571;  // of normal values, per value
constexpr double middle_mean_variance = 1.2;

std::vector<double> cycles_of(const PatternAccesses& group) {
  std::vector<double> cycles(group.size());
  std::ranges::transform(group, cycles.begin(), &PatternAccess::cycles);
  return cycles;
}

// Where most of a group lies, and how wide that is; others are not part of it.
struct Bulk {
  double middle = 0;
  double deviation = 0;  // standard, as if it were normal; at least that of rounding
  double others = 0;     // share

  [[nodiscard]] double error_of_median(std::size_t count) const {
    return deviation * std::sqrt(median_variance / static_cast<double>(count));
  }
};

Bulk bulk_of(const std::vector<double>& cycles) {
  constexpr double deviations_of_bulk = 8;
  constexpr double of_median_distance = 1.4826;  // standard deviation of normal values
  constexpr double of_rounding = 0.289;
  const double centre = median(cycles);
  std::vector<double> distances(cycles.size());
  std::ranges::transform(cycles, distances.begin(), [centre](double each) { return std::abs(each - centre); });
  const double width = std::max(of_rounding, of_median_distance * median(distances));
  std::vector<double> within;
  std::ranges::copy_if(cycles, std::back_inserter(within), [&](double each) {
    return std::abs(each - centre) <= std::max(deviations_of_bulk * width, 2.0);
  });
  return {.middle = middle_mean(within),
          .deviation = std::max(of_rounding, spread_of(within).deviation),
          .others = 1 - static_cast<double>(within.size()) / static_cast<double>(cycles.size())};
}

// Whether accesses to one page in one lap are more alike than those to different pages, as they are where its
// translation was found somewhere else than that of others (analysis of variance). Only where that is more than a
// little: pages may well differ in where they lie.
bool differs_by_visit(const PatternAccesses& group, double centre, double deviation) {
  constexpr double least_variance = 0.5;
  constexpr double least_share = 0.02;
  constexpr double rounding_variance = 1.0 / 12;
  std::map<std::uint64_t, std::vector<double>> visits;
  for (const PatternAccess& access : group) {
    if (std::abs(access.cycles - centre) <= 8 * deviation + 2) {
      visits[access.visit].push_back(access.cycles);
    }
  }
  std::erase_if(visits, [](const auto& visit) { return visit.second.size() < 2; });
  double count = 0;
  double sum = 0;
  double squared_counts = 0;
  double within = 0;
  for (const auto& [visit, cycles] : visits) {
    const auto size = static_cast<double>(cycles.size());
    const Spread spread = spread_of(cycles);
    count += size;
    sum += size * spread.mean;
    squared_counts += size * size;
    within += size * spread.deviation * spread.deviation;
  }
  const auto groups = static_cast<double>(visits.size());
  if (visits.size() < 2 || count <= groups) {
    return false;
  }
  double between = 0;
  for (const auto& [visit, cycles] : visits) {
    between += static_cast<double>(cycles.size()) * std::pow(spread_of(cycles).mean - sum / count, 2);
  }
  const double variance_within = std::max(rounding_variance, within / (count - groups));
  const double variance_between = between / (groups - 1);
  const double mean_size = (count - squared_counts / count) / (groups - 1);
  const double of_visits = (variance_between - variance_within) / mean_size;
  return of_visits > std::max(least_variance, least_share * variance_within) &&
         fisher_upper_tail(variance_between / variance_within, groups - 1, count - groups) < wrong_verdict;
}

// The two halves of a group that fell apart, if one did (Otsu's threshold).
std::optional<std::pair<double, double>> halves_of(std::vector<double> cycles) {
  constexpr double apart = 3;  // means, in sums of standard deviations: 1.3 for normal values
  std::sort(cycles.begin(), cycles.end());
  const auto count = cycles.size();
  const auto smallest = static_cast<std::size_t>(most_others * static_cast<double>(count));
  std::optional<std::pair<double, double>> halves;
  double best = 0;
  std::vector<double> sums(count + 1);
  std::vector<double> squares(count + 1);
  for (std::size_t i = 0; i < count; ++i) {
    sums[i + 1] = sums[i] + cycles[i];
    squares[i + 1] = squares[i] + cycles[i] * cycles[i];
  }
  const auto spread = [&](std::size_t begin, std::size_t end) {
    const auto number = static_cast<double>(end - begin);
    const double mean = (sums[end] - sums[begin]) / number;
    return Spread{.mean = mean,
                  .deviation = std::sqrt(std::max(0.0, (squares[end] - squares[begin]) / number - mean * mean))};
  };
  // Those beyond either end may be others.
  const std::size_t first = smallest / 4;
  const std::size_t last = count - smallest / 4;
  for (std::size_t split = std::max<std::size_t>(1, smallest); split + smallest < count; ++split) {
    const Spread low = spread(first, std::max(split, first + 1));
    const Spread high = spread(split, std::max(last, split + 1));
    const double distance = (high.mean - low.mean) / (low.deviation + high.deviation + 0.5);
    if (distance > best) {
      best = distance;
      halves = {low.mean, high.mean};
    }
  }
  return best > apart ? halves : std::nullopt;
}

double rounded_to_hundredths(double cycles) { return std::round(cycles * 100) / 100; }
std::string rounded_text(double cycles) { return model::to_text(rounded_to_hundredths(cycles)); }

std::optional<std::string> why_no_group(const PatternAccesses& group, std::size_t in_first, const Bulk& bulk) {
  constexpr std::size_t fewest_alike = 8;
  const std::vector<double> cycles = cycles_of(group);
  if (const auto halves = halves_of(cycles)) {
    return "its accesses fall apart into some of " + rounded_text(halves->first) + " and some of " +
           rounded_text(halves->second) + " cycles, so what is known of the caches and TLBs is not right";
  }
  if (bulk.others > most_others) {
    return rounded_text(100 * bulk.others) + " % of its accesses take some other time";
  }
  if (differs_by_visit(group, median(cycles), bulk.deviation)) {
    return std::string(
        "accesses to one page are more alike than those to different pages, so what is known of the "
        "caches and TLBs is not right");
  }
  const double of_first = median({cycles.begin(), cycles.begin() + static_cast<std::ptrdiff_t>(in_first)});
  const double of_second = median({cycles.begin() + static_cast<std::ptrdiff_t>(in_first), cycles.end()});
  const double error = std::hypot(bulk.error_of_median(in_first), bulk.error_of_median(group.size() - in_first));
  if (std::abs(of_first - of_second) > clearly_other_pattern * error + rounding_cycles) {
    return "sequences of a first design say " + rounded_text(of_first) + " cycles, those of a second one " +
           rounded_text(of_second);
  }
  const double of_all = median(cycles);
  std::map<Recency, std::vector<double>> alike;
  for (const PatternAccess& access : group) {
    alike[access.recency].push_back(access.cycles);
  }
  for (const auto& [recency, some] : alike) {
    const double of_some = median(some);
    if (some.size() >= fewest_alike &&
        std::abs(of_some - of_all) > clearly_other_pattern * bulk.error_of_median(some.size()) + rounding_cycles) {
      return "some of its accesses take " + rounded_text(of_some) + " cycles and most " + rounded_text(of_all) +
             ", depending on how long ago the page and the line were loaded, so what is known of the caches and "
             "TLBs is not right";
    }
  }
  return std::nullopt;
}

// By round. Page tables are data, too: those that were walked lately lie in a cache, as the data of such an access must
// not, so first walks stand alone where they are enough.
std::array<PatternAccesses, 2> accesses_of(const PatternsSeen& seen, AccessPattern pattern) {
  const auto number = static_cast<std::size_t>(pattern);
  std::array<PatternAccesses, 2> all{seen.rounds[0].at(number), seen.rounds[1].at(number)};
  if (!ChaseDesigner::walks_to_memory(pattern)) {
    return all;
  }
  std::array<PatternAccesses, 2> first_walks = all;
  for (PatternAccesses& group : first_walks) {
    std::erase_if(group, [](const PatternAccess& access) { return access.recency.page.has_value(); });
  }
  const bool are_enough =
      std::ranges::all_of(first_walks, [](const PatternAccesses& group) { return group.size() >= fewest_accesses; });
  return are_enough ? first_walks : all;
}

// A pattern whose accesses are one group.
struct PatternGroup {
  double cycles = 0;
  double deviation = 0;
  double accesses = 0;
};

// Decides of one pattern after another; later decisions overrule earlier ones.
class PatternsConclusion {
 public:
  explicit PatternsConclusion(const PatternsSeen& seen) : seen_(&seen) {}

  PatternVerdicts run() {
    for (std::size_t i = 0; i < patterns_count; ++i) {
      if (!why_absent(static_cast<AccessPattern>(i))) {
        conclude(static_cast<AccessPattern>(i));
      }
    }
    compare();
    compare_with_controls();
    compare_deviations();
    for (std::size_t i = 0; i < patterns_count; ++i) {
      if (groups_.at(i) && verdicts_.at(i).leaf.status == EvidenceStatus::resolved) {
        verdicts_.at(i).cycles = std::round(groups_.at(i)->cycles);
      }
    }
    conclude_absent();
    return std::move(verdicts_);
  }

 private:
  [[nodiscard]] const std::optional<PatternGroup>& group_of(AccessPattern pattern) const {
    return groups_.at(static_cast<std::size_t>(pattern));
  }

  [[nodiscard]] std::optional<std::string> why_absent(AccessPattern pattern) const {
    if (pattern == AccessPattern::P6 && seen_->windows.is_decided && !seen_->windows.window_bytes) {
      return seen_->windows.reason;
    }
    return seen_->why_absent.at(static_cast<std::size_t>(pattern));
  }

  void leave_open(AccessPattern pattern, EvidenceStatus status, std::string reason) {
    verdicts_.at(static_cast<std::size_t>(pattern)).leaf = {.status = status, .reason = std::move(reason)};
  }

  void conclude(AccessPattern pattern) {
    const auto number = static_cast<std::size_t>(pattern);
    auto [group, second] = accesses_of(*seen_, pattern);
    const std::size_t in_first = group.size();
    group.insert(group.end(), second.begin(), second.end());
    if (std::min(in_first, second.size()) < fewest_accesses) {
      leave_open(pattern, EvidenceStatus::unknown,
                 pattern == AccessPattern::P6 && !seen_->windows.reason.empty()
                     ? seen_->windows.reason
                     : "no sequence was found that surely meets it often enough, going by what is known of the caches "
                       "and TLBs of paths." +
                           seen_->path);
      return;
    }
    const Bulk bulk = bulk_of(cycles_of(group));
    const double error = bulk.deviation * std::sqrt(middle_mean_variance / static_cast<double>(group.size()));
    PatternVerdict& verdict = verdicts_.at(number);
    verdict.spread = PatternSpread{.accesses = group.size(),
                                   .deviation = rounded_to_hundredths(bulk.deviation),
                                   .interval_95_percent = {rounded_to_hundredths(bulk.middle - 1.96 * error),
                                                           rounded_to_hundredths(bulk.middle + 1.96 * error)}};
    if (auto reason = why_no_group(group, in_first, bulk)) {
      leave_open(pattern, EvidenceStatus::ambiguous, *std::move(reason));
      return;
    }
    verdict.leaf = LeafVerdict::resolved();
    verdict.trials = group.size();
    groups_.at(number) = {
        .cycles = bulk.middle, .deviation = bulk.deviation, .accesses = static_cast<double>(group.size())};
  }

  // A pattern that finds less and takes no longer is not what it is taken for.
  void compare() {
    using enum AccessPattern;
    constexpr std::array<std::pair<AccessPattern, AccessPattern>, 6> orders{
        {{P1, P2}, {P2, P3}, {P1, P4}, {P3, P5}, {P4, P5}, {P5, P6}}};
    for (const auto& [less, more] : orders) {
      const auto& fast = group_of(less);
      const auto& slow = group_of(more);
      if (fast && slow && slow->cycles < fast->cycles + rounding_cycles) {
        for (const AccessPattern pattern : {less, more}) {
          leave_open(pattern, EvidenceStatus::ambiguous,
                     std::string(to_string(more)) + " takes no longer than " + std::string(to_string(less)) +
                         ", so one of them is not what it is taken for");
        }
      }
    }
  }

  // Where P1 is in another cache than P2, a TLB that has what it is taken not to have shows nowhere else.
  void compare_with_controls() {
    using enum AccessPattern;
    if (!seen_->control_cycles) {
      return;
    }
    for (const AccessPattern pattern : {P2, P3}) {
      const auto& group = group_of(pattern);
      if (!group) {
        continue;
      }
      if (seen_->control_cycles->size() < fewest_accesses) {
        leave_open(pattern, EvidenceStatus::unknown,
                   "no accesses were found that differ from it in the translation alone, which shows that the "
                   "first TLB did not have it");
      } else if (const double translated = bulk_of(*seen_->control_cycles).middle;
                 group->cycles < translated + rounding_cycles) {
        leave_open(pattern, EvidenceStatus::ambiguous,
                   "it takes no longer than " + rounded_text(translated) +
                       " cycles, as such data does with its translation in the first TLB, so what is known of "
                       "the TLBs is not right");
      }
    }
  }

  // What a cache has does not vary more than all of what lies behind it, unless it is several things.
  void compare_deviations() {
    using enum AccessPattern;
    constexpr double clearly_more = 1.1;
    constexpr double errors = 4;
    for (const AccessPattern pattern : {P1, P2, P3}) {
      const auto& own = group_of(pattern);
      std::optional<PatternGroup> most;
      for (std::size_t other = 0; other < patterns_count; ++other) {
        const auto& group = groups_.at(other);
        if (other != static_cast<std::size_t>(pattern) && group && (!most || group->deviation > most->deviation)) {
          most = group;
        }
      }
      if (own && most &&
          own->deviation / most->deviation >
              clearly_more + errors * std::sqrt(0.5 / own->accesses + 0.5 / most->accesses)) {
        leave_open(pattern, EvidenceStatus::ambiguous,
                   "its accesses differ by more, " + rounded_text(own->deviation) +
                       " cycles, than those of any other pattern, as those of several kinds do");
      }
    }
  }

  // A description that the others contradict does not say what is absent either.
  void conclude_absent() {
    const bool is_contradicted = std::ranges::any_of(
        verdicts_, [](const PatternVerdict& verdict) { return verdict.leaf.status == EvidenceStatus::ambiguous; });
    for (std::size_t i = 0; i < patterns_count; ++i) {
      if (const auto absent = why_absent(static_cast<AccessPattern>(i))) {
        PatternVerdict& verdict = verdicts_.at(i);
        if (is_contradicted) {
          verdict.leaf = {.status = EvidenceStatus::unknown, .reason = *absent + ", as far as that is right"};
        } else {
          verdict.leaf = {.status = EvidenceStatus::resolved, .reason = *absent};
          verdict.trials = seen_->windows.is_decided ? seen_->windows.walks
                                                     : seen_->rounds[0][0].size() + seen_->rounds[1][0].size();
        }
      }
    }
  }

  const PatternsSeen* seen_;
  PatternVerdicts verdicts_;
  ByPattern<std::optional<PatternGroup>> groups_;
};

}  // namespace

bool are_precise(const PatternAccesses& group) {
  constexpr double error_cycles = 0.14;  // of either round
  if (group.size() < fewest_accesses) {
    return false;
  }
  const double variance = std::pow(bulk_of(cycles_of(group)).deviation, 2) * middle_mean_variance;
  return variance / static_cast<double>(group.size()) <= error_cycles * error_cycles;
}

ByPattern<PatternVerdict> conclude_patterns(const PatternsSeen& seen) { return PatternsConclusion(seen).run(); }

}  // namespace gpuinfer::infer
