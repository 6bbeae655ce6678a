// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/latency/infer_latency.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/latency/chase_design.hpp"
#include "infer/latency/page_windows.hpp"
#include "model/errors.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::AccessPattern;
using model::EvidenceStatus;

constexpr std::array latency_leaves{"P1", "P2", "P3", "P4", "P5", "P6"};
constexpr std::size_t patterns_count = latency_leaves.size();
constexpr std::size_t rounds = 2;

// What differs by so many standard errors, and by more than rounding explains, is not the same.
constexpr double clearly_other_pattern = 6;

constexpr std::size_t fewest_accesses = 32;
// Of a group, so many may be something else: misread, disturbed, or one that chance took another way.
constexpr double most_others = 0.1;

constexpr double median_variance = 1.571;  // of normal values, per value
constexpr double middle_mean_variance = 1.2;

struct Access {
  double cycles = 0;
  Recency recency;
  std::uint64_t visit = 0;  // Chase::visits, of all sequences
};

using PatternAccesses = std::vector<Access>;

struct Deviation {
  double deviation = 0;
  double accesses = 0;
};

std::vector<double> cycles_of(const PatternAccesses& group) {
  std::vector<double> cycles(group.size());
  std::ranges::transform(group, cycles.begin(), &Access::cycles);
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

double middle_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto cut = static_cast<std::ptrdiff_t>(values.size() / 4);
  return spread_of(std::span(values.begin() + cut, values.end() - cut)).mean;
}

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
  for (const Access& access : group) {
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

class LatencyInference {
 public:
  LatencyInference(model::Answerer& device, const std::string& target, const model::DeviceDescription& known,
                   std::string path, const Settings& settings)
      : device_(device, target, settings), leaves_(device_, finding_, latency_leaves), known_(known),
        path_(std::move(path)) {}

  LatencyFinding run() {
    const auto stopped = leaves_.go_through([this] {
      design();
      if (chases_) {
        device_.choose_start();
        find_windows();
        for (std::size_t round = 0; round < rounds; ++round) {
          ask(round);
        }
        settle();
        device_.report("done", 1.0);
      }
    });
    static_cast<void>(stopped);
    leaves_.close();
    return std::move(finding_);
  }

 private:
  void design() {
    model::BufferFacts buffer = device_.buffer();
    const auto path = known_.paths.find(path_);
    if (path != known_.paths.end() && !path->second.tlbs.empty()) {
      buffer.nearer_bytes = device_.facts().buffer_of(path->second.tlbs.back()).nearer_bytes;
    }
    try {
      chases_.emplace(known_, path_, buffer, stream(device_.settings(), "chases"), [this] { device_.check_limits(0); });
    } catch (const InputError& error) {
      leaves_.give_up_rest(std::string("nothing to design sequences from: ") + error.what());
    }
  }

  void find_windows() {
    const auto path = known_.paths.find(path_);
    if (!path->second.page_window_is_unknown || path->second.tlbs.empty()) {
      return;
    }
    device_.report("windows of page tables", 0.05);
    windows_ = find_page_windows(device_, *chases_, stream(device_.settings(), "page windows"));
    if (windows_.window_bytes) {
      path->second.page_window_bytes = windows_.window_bytes;
      design();
    }
  }

  // Sequences until every pattern was met often enough for its cycle, or as often as is worth while.
  void ask(std::size_t round) {
    constexpr std::size_t fewest_sequences = 2;
    constexpr std::size_t most_sequences = 24;
    constexpr std::size_t times_in_sequence = 96;
    device_.report("sequences of all patterns", 0.1 + 0.4 * static_cast<double>(round));
    device_.inquire("sequences designed to meet every pattern",
                    round == 0 ? "what is known of the caches says which is which" : "others must say the same");
    const model::StartState start = device_.question_unflooded({}, {}).state;
    std::size_t accesses = 0;
    bool discards = start == model::StartState::keep && round == 0;
    for (std::size_t sequence = 0; sequence < most_sequences; ++sequence) {
      const Chase chase = chases_->next(start, times_in_sequence);
      const model::Question question = device_.question_unflooded({}, chase.offsets);
      const std::vector<float> cycles = device_.latencies({&question, 1}).front();
      // The first one after a start that nothing is known of only makes it known.
      if (std::exchange(discards, false)) {
        continue;
      }
      for (std::size_t i = 0; i < cycles.size(); ++i) {
        if (const auto pattern = chase.patterns[i]) {
          groups_.at(round)
              .at(static_cast<std::size_t>(*pattern))
              .push_back({.cycles = cycles[i], .recency = chase.recencies[i], .visit = visits_ + chase.visits[i]});
          ++accesses;
        }
        if (chase.controls[i] != 0) {
          controls_.push_back(cycles[i]);
        }
      }
      visits_ += chase.offsets.size();
      if (sequence + 1 >= fewest_sequences && is_precise(groups_.at(round))) {
        break;
      }
    }
    device_.learned(std::to_string(accesses) + " accesses of patterns");
  }

  [[nodiscard]] bool is_precise(const std::array<PatternAccesses, patterns_count>& groups) const {
    constexpr double error_cycles = 0.14;  // of either round
    for (std::size_t pattern = 0; pattern < patterns_count; ++pattern) {
      const PatternAccesses& group = groups.at(pattern);
      if (!chases_->meets(static_cast<AccessPattern>(pattern))) {
        continue;
      }
      if (group.size() < fewest_accesses) {
        return false;
      }
      const double variance = std::pow(bulk_of(cycles_of(group)).deviation, 2) * middle_mean_variance;
      if (variance / static_cast<double>(group.size()) > error_cycles * error_cycles) {
        return false;
      }
    }
    return true;
  }

  void settle() {
    for (std::size_t i = 0; i < patterns_count; ++i) {
      if (!why_absent(static_cast<AccessPattern>(i))) {
        settle(static_cast<AccessPattern>(i));
      }
    }
    compare();
    compare_with_controls();
    compare_deviations();
    for (std::size_t i = 0; i < patterns_count; ++i) {
      if (cycles_.at(i) && leaves_[latency_leaves.at(i)].status == EvidenceStatus::resolved) {
        finding_.memory_latency_cycles.at(i) = std::round(*cycles_.at(i));
      }
    }
    settle_absent();
  }

  // A description that the others contradict does not say what is absent either.
  void settle_absent() {
    const bool is_contradicted = std::ranges::any_of(
        latency_leaves, [this](const char* leaf) { return leaves_[leaf].status == EvidenceStatus::ambiguous; });
    for (std::size_t i = 0; i < patterns_count; ++i) {
      const std::string leaf = latency_leaves.at(i);
      if (const auto absent = why_absent(static_cast<AccessPattern>(i))) {
        if (is_contradicted) {
          leaves_.leave_open(leaf, EvidenceStatus::unknown, *absent + ", as far as that is right");
        } else {
          leaves_.resolve(leaf, windows_.is_decided ? windows_.walks : groups_[0][0].size() + groups_[1][0].size());
          leaves_[leaf].reason = *absent;
          leaves_[leaf].experiments = device_.questions_asked();
        }
      }
    }
  }

  [[nodiscard]] std::optional<std::string> why_absent(AccessPattern pattern) const {
    if (pattern == AccessPattern::P6 && windows_.is_decided && !windows_.window_bytes) {
      return windows_.reason;
    }
    return chases_->why_absent(pattern);
  }

  void settle(AccessPattern pattern) {
    const auto number = static_cast<std::size_t>(pattern);
    const std::string leaf = latency_leaves.at(number);
    keep_first_walks(pattern);
    PatternAccesses group = groups_[0].at(number);
    const std::size_t in_first = group.size();
    group.insert(group.end(), groups_[1].at(number).begin(), groups_[1].at(number).end());
    if (std::min(in_first, group.size() - in_first) < fewest_accesses) {
      leaves_.leave_open(leaf, EvidenceStatus::unknown,
                         pattern == AccessPattern::P6 && !windows_.reason.empty()
                             ? windows_.reason
                             : "no sequence was found that surely meets it often enough, going by what is known of "
                               "the caches and TLBs of paths." +
                                   path_);
      return;
    }
    const std::vector<double> cycles = cycles_of(group);
    const Bulk bulk = bulk_of(cycles);
    auto& details = leaves_[leaf].details;
    details.accesses = group.size();
    details.access_class = chases_->said_of(pattern);
    details.deviation = rounded_to_hundredths(bulk.deviation);
    const double error = bulk.deviation * std::sqrt(middle_mean_variance / static_cast<double>(group.size()));
    details.interval_95_percent = {rounded_to_hundredths(bulk.middle - 1.96 * error),
                                   rounded_to_hundredths(bulk.middle + 1.96 * error)};
    if (const auto reason = why_no_group(group, in_first, bulk)) {
      leaves_.leave_open(leaf, EvidenceStatus::ambiguous, *reason);
      return;
    }
    leaves_.resolve(leaf, group.size());
    leaves_[leaf].experiments = device_.questions_asked();
    cycles_.at(number) = bulk.middle;
    deviations_.at(number) = {.deviation = bulk.deviation, .accesses = static_cast<double>(group.size())};
  }

  // Page tables are data, too: those that were walked lately lie in a cache, as the data of such an access must not.
  void keep_first_walks(AccessPattern pattern) {
    if (!ChaseDesigner::walks_to_memory(pattern)) {
      return;
    }
    std::array<PatternAccesses, rounds> first_walks;
    for (std::size_t round = 0; round < rounds; ++round) {
      std::ranges::copy_if(groups_.at(round).at(static_cast<std::size_t>(pattern)),
                           std::back_inserter(first_walks.at(round)),
                           [](const Access& access) { return !access.recency.page; });
    }
    if (std::ranges::all_of(first_walks,
                            [](const PatternAccesses& group) { return group.size() >= fewest_accesses; })) {
      for (std::size_t round = 0; round < rounds; ++round) {
        groups_.at(round).at(static_cast<std::size_t>(pattern)) = std::move(first_walks.at(round));
      }
    }
  }

  [[nodiscard]] static std::optional<std::string> why_no_group(const PatternAccesses& group, std::size_t in_first,
                                                               const Bulk& bulk) {
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
    for (const Access& access : group) {
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

  // What a cache has does not vary more than all of what lies behind it, unless it is several things.
  void compare_deviations() {
    using enum AccessPattern;
    constexpr double clearly_more = 1.1;
    constexpr double errors = 4;
    for (const AccessPattern pattern : {P1, P2, P3}) {
      const auto number = static_cast<std::size_t>(pattern);
      Deviation most;
      for (std::size_t other = 0; other < patterns_count; ++other) {
        if (other != number && deviations_.at(other).deviation > most.deviation) {
          most = deviations_.at(other);
        }
      }
      const Deviation& own = deviations_.at(number);
      if (own.accesses > 0 && most.accesses > 0 &&
          own.deviation / most.deviation >
              clearly_more + errors * std::sqrt(0.5 / own.accesses + 0.5 / most.accesses)) {
        leaves_.leave_open(latency_leaves.at(number), EvidenceStatus::ambiguous,
                           "its accesses differ by more, " + rounded_text(own.deviation) +
                               " cycles, than those of any other pattern, as those of several kinds do");
      }
    }
  }

  // A pattern that finds less and takes no longer is not what it is taken for.
  void compare() {
    using enum AccessPattern;
    constexpr std::array<std::pair<AccessPattern, AccessPattern>, 6> orders{
        {{P1, P2}, {P2, P3}, {P1, P4}, {P3, P5}, {P4, P5}, {P5, P6}}};
    for (const auto& [less, more] : orders) {
      const auto& fast = cycles_.at(static_cast<std::size_t>(less));
      const auto& slow = cycles_.at(static_cast<std::size_t>(more));
      if (fast && slow && *slow < *fast + rounding_cycles) {
        for (const AccessPattern pattern : {less, more}) {
          leaves_.leave_open(std::string(to_string(pattern)), EvidenceStatus::ambiguous,
                             std::string(to_string(more)) + " takes no longer than " + std::string(to_string(less)) +
                                 ", so one of them is not what it is taken for");
        }
      }
    }
  }

  // Where P1 is in another cache than P2, a TLB that has what it is taken not to have shows nowhere else.
  void compare_with_controls() {
    using enum AccessPattern;
    if (!chases_->needs_controls()) {
      return;
    }
    for (const AccessPattern pattern : {P2, P3}) {
      const auto& cycles = cycles_.at(static_cast<std::size_t>(pattern));
      if (!cycles) {
        continue;
      }
      const std::string leaf = latency_leaves.at(static_cast<std::size_t>(pattern));
      if (controls_.size() < fewest_accesses) {
        leaves_.leave_open(leaf, EvidenceStatus::unknown,
                           "no accesses were found that differ from it in the translation alone, which shows that the "
                           "first TLB did not have it");
      } else if (const double translated = bulk_of(controls_).middle; *cycles < translated + rounding_cycles) {
        leaves_.leave_open(leaf, EvidenceStatus::ambiguous,
                           "it takes no longer than " + rounded_text(translated) +
                               " cycles, as such data does with its translation in the first TLB, so what is known of "
                               "the TLBs is not right");
      }
    }
  }

  Asker device_;
  LatencyFinding finding_;
  Leaves leaves_;
  model::DeviceDescription known_;
  PageWindows windows_;  // looked for where the device does not say
  std::string path_;
  std::optional<ChaseDesigner> chases_;
  std::array<std::array<PatternAccesses, patterns_count>, rounds> groups_;
  std::vector<double> controls_;  // cycles of Chase::controls
  std::array<std::optional<double>, patterns_count> cycles_;
  std::array<Deviation, patterns_count> deviations_;
  std::uint64_t visits_ = 0;  // of the sequences so far, at most
};

}  // namespace

LatencyFinding infer_latency(model::Answerer& device, const std::string& target, const model::DeviceDescription& known,
                             const std::string& path, const Settings& settings) {
  return LatencyInference(device, target, known, path, settings).run();
}

}  // namespace gpuinfer::infer
