// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/conflicts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/cache/known_outcomes.hpp"

namespace gpuinfer::infer {

namespace {

// Log likelihood ratios at which a test ends: wrong in at most one decision in a million and one in twenty thousand.
// The second is the dearer one, because lines that fit have to be shown to fit; who builds on a single one asks twice.
constexpr double decided_overflow = 14;
constexpr double decided_fit = -10;

// No question grows beyond this; devices answer in pieces, and a budget can end between them.
constexpr std::size_t accesses_per_question = std::size_t{1} << 18U;
constexpr std::size_t accesses_at_once = std::size_t{1} << 22U;
constexpr std::size_t laps_per_question = 32;
constexpr std::size_t most_laps = std::size_t{1} << 14U;

// What one set may cost: enough for chance to show each of a hundred ways among ten thousand lines.
constexpr std::size_t most_accesses_for_one_set = std::size_t{1} << 23U;

// What the verdict whether lines fit may cost: a hundred laps of a cache of megabytes.
constexpr std::size_t most_accesses_for_a_verdict = std::size_t{1} << 25U;

// What a glance may cost; large caches get a few laps all the same.
constexpr std::size_t most_accesses_for_a_glance = std::size_t{1} << 16U;
constexpr std::size_t laps_of_a_glance = 8;

// One access in each lap misses, or a share of them does: the first is the harder one to see, so it gets most.
constexpr double prior_of_one_miss = 0.8;

constexpr std::size_t longest_burst_accesses = 64;
constexpr double most_of_first_burst = decided_overflow / 2;
constexpr double most_of_later_bursts = decided_overflow / 4;

double log_of_sum(double a, double b) { return std::max(a, b) + std::log1p(std::exp(std::min(a, b) - std::max(a, b))); }

double log_of_sum(std::span<const double> logs) {
  return std::accumulate(logs.begin() + 1, logs.end(), logs.front(),
                         [](double a, double b) { return log_of_sum(a, b); });
}

double log_of_mean(std::span<const double> logs) {
  return log_of_sum(logs) - std::log(static_cast<double>(logs.size()));
}

// The stretch in which most speaks for misses, wiped out.
std::vector<double> without_worst_stretch(std::span<const double> log_ratios, std::size_t longest) {
  std::vector<double> rest(log_ratios.begin(), log_ratios.end());
  const std::size_t length = std::min(longest, rest.size());
  double sum = 0;
  double worst = 0;
  std::size_t worst_end = length;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    sum += std::max(0.0, rest[i]) - (i >= length ? std::max(0.0, rest[i - length]) : 0.0);
    if (sum > worst) {
      worst = sum;
      worst_end = std::max(length, i + 1);
    }
  }
  std::fill_n(rest.begin() + static_cast<std::ptrdiff_t>(worst_end - length), length, 0.0);
  return rest;
}

}  // namespace

ShareEvidence::Terms ShareEvidence::terms_of(double log_ratio) {
  const double ratio = std::exp(log_ratio);
  Terms terms{};
  std::transform(shares.begin(), shares.end(), terms.begin(),
                 [ratio](double share) { return std::log1p(share * (ratio - 1)); });
  return terms;
}

void ShareEvidence::add(const Terms& terms) {
  std::transform(sums_.begin(), sums_.end(), terms.begin(), sums_.begin(), std::plus<>());
}

double ShareEvidence::log_ratio() const { return log_of_mean(sums_); }

void OverflowEvidence::add_laps(std::span<const double> log_ratios) {
  constexpr double smallest_product = 1e-100;
  constexpr double largest_product = 1e100;
  const auto lines = static_cast<double>(lines_);
  for (std::size_t first = 0; first < log_ratios.size(); first += lines_) {
    std::vector<double> ratios;
    std::array<double, ShareEvidence::shares.size()> against_none{};
    for (const double log_ratio : log_ratios.subspan(first, lines_)) {
      const double ratio = std::exp(log_ratio);
      ratios.push_back(ratio);
      for (std::size_t i = 0; i < share_.size(); ++i) {
        const double share = ShareEvidence::shares.at(i);
        against_none.at(i) += std::log1p(ratio * share / (1 - share));
      }
    }
    for (std::size_t i = 0; i < excesses_.size(); ++i) {
      double log_none = 0;
      double none = 1;  // a product, whose logarithm is taken when it gets out of range
      double sum = 0;
      for (const double ratio : ratios) {
        // More misreads are as good as a share of misses.
        const double with_excess = 1 + excesses_.at(i).rate * (ratio - 1);
        sum += ratio / with_excess;
        none *= with_excess;
        if (none < smallest_product || none > largest_product) {
          log_none += std::log(std::exchange(none, 1));
        }
      }
      log_none += std::log(none);
      none_misses_.at(i) += log_none;
      one_miss_.at(i) += log_none + std::log(sum / lines);
    }
    // Less the case that by chance none is a miss, whose probability is exp(log_none).
    for (std::size_t i = 0; i < share_.size(); ++i) {
      const double log_none = lines * std::log1p(-ShareEvidence::shares.at(i));
      const double some = against_none.at(i) + std::log(-std::expm1(-against_none.at(i)));
      share_.at(i) += some + log_none - std::log(-std::expm1(log_none));
    }
  }
}

void OverflowEvidence::add(std::span<const double> log_ratios, std::size_t longest_burst) {
  OverflowEvidence without_burst = *this;
  const double before = log_ratio();
  add_laps(log_ratios);
  const double gain = log_ratio() - before;
  if (gain > most_of_a_burst_) {
    without_burst.add_laps(without_worst_stretch(log_ratios, longest_burst));
    held_back_ += std::max(0.0, gain - std::max(most_of_a_burst_, without_burst.log_ratio() - before));
  }
}

double OverflowEvidence::log_ratio() const {
  const auto over_excesses = [this](const auto& logs) {
    auto weighted = logs;
    for (std::size_t i = 0; i < weighted.size(); ++i) {
      weighted.at(i) += std::log(excesses_.at(i).probability);
    }
    return log_of_sum(weighted);
  };
  return log_of_sum(std::log(prior_of_one_miss) + over_excesses(one_miss_),
                    std::log(1 - prior_of_one_miss) + log_of_mean(share_)) -
         over_excesses(none_misses_) - held_back_;
}

void SameLineEvidence::add(std::span<const double> log_ratios) {
  for (std::size_t i = 0; i < log_ratios.size(); ++i) {
    const double excess = std::expm1(log_ratios[i]);
    lines_[i % lines_.size()] += std::log1p(excess / 2) - std::log1p(highest_excess_ * excess);
  }
}

double SameLineEvidence::log_ratio() const { return log_of_mean(lines_); }

Offsets without(std::span<const std::uint64_t> offsets, std::size_t position) {
  Offsets rest(offsets.begin(), offsets.end());
  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(position));
  return rest;
}

Offsets joined(std::span<const std::uint64_t> first, std::span<const std::uint64_t> second) {
  Offsets all(first.begin(), first.end());
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

Conflicts::Conflicts(Interrogator& device, std::uint64_t seed)
    : device_(&device), random_(model::RandomStreams(seed).random("laps")), most_of_a_burst_(most_of_first_burst) {}

// Lines that fit are all present after one lap from an empty start. From a start among lines of a flood, a policy of
// chance takes some laps to drive those out. Others keep only lines that are loaded again while they are present, and
// some of those lines may be left from questions before, which a flood that loads each line once does not evict.
AccessSequence Conflicts::warm_up(std::span<const std::uint64_t> offsets, Effort effort) const {
  if (!device_->starts_flooded()) {
    AccessSequence lap(offsets.begin(), offsets.end());
    if (goes_downwards_) {
      std::ranges::sort(lap, std::greater());
    }
    return lap;
  }
  if (!device_->floods_by_loads()) {
    constexpr std::size_t laps_after_flood = 24;
    return model::repeated(offsets, times_longer_ * laps_after_flood);
  }
  const std::size_t laps = effort == Effort::glance ? 1 : 18 * times_longer_;
  AccessSequence in_threes;
  for (const std::uint64_t offset : offsets) {
    in_threes.insert(in_threes.end(), 3, offset);
  }
  AccessSequence warm = in_threes;
  // Trees whose halves differ may point away from a line of the flood for ever while laps are alike.
  model::Random random = stream(device_->settings(), "warm-up after a flood");
  Offsets lap(offsets.begin(), offsets.end());
  for (std::size_t left = laps; left > 1; --left) {
    random.shuffle(lap);
    warm.insert(warm.end(), lap.begin(), lap.end());
  }
  warm.insert(warm.end(), in_threes.begin(), in_threes.end());
  return joined(warm, offsets);
}

void Conflicts::warm_up_longer() { times_longer_ *= 8; }

// Lines that settle down, or that a cache holds at times only, fit in the end and have missed before. Were those misses
// taken for misreads, nothing that is read afterwards would be certain: so where they are too many for the rate that is
// known, loads of lines that were just loaded tell what the rate is.
void Conflicts::learn_from_fit(std::size_t judged, std::size_t misses) {
  const auto is_explained = [&] {
    return binomial_upper_tail(misses, judged, device_->classifier().hit_misread_bound()) >= wrong_verdict;
  };
  if (!is_explained()) {
    try {
      look_at_hits(*device_, 4 * judged);
    } catch (const QuestionRefused&) {
      device_->learn_hits(judged, misses);
      return;
    }
  }
  if (is_explained()) {
    device_->learn_hits(judged, misses);
  } else {
    met_unexplained_misses_ = true;
  }
}

bool Conflicts::overflow(std::span<const std::uint64_t> offsets) {
  const Offsets group(offsets.begin(), offsets.end());
  return overflows({&group, 1}).front();
}

std::optional<bool> Conflicts::overflow_at_a_glance(std::span<const std::uint64_t> offsets) {
  const Offsets group(offsets.begin(), offsets.end());
  return verdicts_on({&group, 1}, Effort::glance).front();
}

std::vector<bool> Conflicts::overflows(std::span<const Offsets> groups) {
  std::vector<bool> overflows;
  for (const std::optional<bool>& verdict : verdicts_on(groups, Effort::thorough)) {
    overflows.push_back(*verdict);
  }
  return overflows;
}

namespace {

// One lap over the lines of several groups, which take turns.
struct SharedLap {
  Offsets places;
  std::vector<std::size_t> group_of;  // by place

  explicit SharedLap(std::span<const Offsets> groups) {
    std::size_t longest = 0;
    for (const Offsets& group : groups) {
      longest = std::max(longest, group.size());
    }
    for (std::size_t i = 0; i < longest; ++i) {
      for (std::size_t g = 0; g < groups.size(); ++g) {
        if (i < groups[g].size()) {
          places.push_back(groups[g][i]);
          group_of.push_back(g);
        }
      }
    }
  }

  void go_downwards() {
    std::vector<std::size_t> order(places.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, std::greater(), [&](std::size_t place) { return places[place]; });
    const SharedLap before = *this;
    std::ranges::transform(order, places.begin(), [&](std::size_t place) { return before.places[place]; });
    std::ranges::transform(order, group_of.begin(), [&](std::size_t place) { return before.group_of[place]; });
  }

  // What was read in so many laps, by group.
  [[nodiscard]] std::vector<std::vector<double>> split(std::span<const double> of_laps, std::size_t groups) const {
    std::vector<std::vector<double>> of_groups(groups);
    for (std::size_t i = 0; i < of_laps.size(); ++i) {
      of_groups[group_of[i % places.size()]].push_back(of_laps[i]);
    }
    return of_groups;
  }
};

// On one group.
struct GroupVerdict {
  OverflowEvidence evidence;
  SameLineEvidence same_line;
  std::size_t judged = 0;
  std::size_t misses = 0;
  std::optional<bool> overflows;

  GroupVerdict(std::size_t lines, double most_of_a_burst, const LevelClassifier::Excesses& excesses)
      : evidence(lines, most_of_a_burst, excesses), same_line(lines, excesses.back().rate),
        overflows(lines == 0 ? std::optional(false) : std::nullopt) {}

  // `lines`: of the group; `together`: of all groups in a lap.
  void add_laps(std::span<const double> ratios, std::size_t lines, std::size_t together) {
    // A burst is as long in the lap of all groups, of which these lines are a part.
    evidence.add(ratios, (longest_burst_accesses * lines + together - 1) / together);
    for (const double ratio : ratios) {
      judged += ratio != 0 ? 1U : 0U;
      misses += ratio > 0 ? 1U : 0U;
    }
    // No burst is long enough to meet a line in two laps.
    const bool same_line_counts = together > longest_burst_accesses;
    if (same_line_counts) {
      same_line.add(ratios);
    }
    if (evidence.log_ratio() >= decided_overflow || (same_line_counts && same_line.log_ratio() >= decided_overflow)) {
      overflows = true;
    } else if (evidence.log_ratio() <= decided_fit) {
      overflows = false;
    }
  }
};

}  // namespace

std::vector<std::optional<bool>> Conflicts::verdicts_on(std::span<const Offsets> groups, Effort effort) {
  SharedLap lap(groups);
  if (goes_downwards_) {
    lap.go_downwards();
  }
  const std::size_t together = lap.places.size();
  if (together < 2) {
    return std::vector<std::optional<bool>>(groups.size(), false);
  }
  std::vector<GroupVerdict> verdicts;
  for (const Offsets& group : groups) {
    verdicts.emplace_back(group.size(), most_of_a_burst_, device_->classifier().plausible_excesses());
  }
  const auto undecided = [](const GroupVerdict& verdict) { return !verdict.overflows; };
  const std::size_t most_laps_at_once = std::max<std::size_t>(1, accesses_per_question / together);
  const std::size_t asked_before = device_->accesses_asked();
  for (std::size_t asked_laps = 0; asked_laps < most_laps && std::ranges::any_of(verdicts, undecided);) {
    if (device_->accesses_asked() - asked_before > most_accesses_for_a_verdict) {
      throw Undecided(std::to_string(most_accesses_for_a_verdict) + " accesses did not tell whether " +
                      std::to_string(together) + " places fit together: they miss too seldom for a full cache, and " +
                      "more often than misreads explain");
    }
    const std::size_t laps = std::clamp<std::size_t>(asked_laps, 1, most_laps_at_once);
    // Misreads must be known at least as well as what the laps are judged by, or the laps tell nothing.
    const std::size_t judged_by_then = (asked_laps + laps) * together;
    if (effort == Effort::glance && asked_laps >= laps_of_a_glance && judged_by_then > most_accesses_for_a_glance) {
      break;
    }
    if (asked_laps > 0 && judged_by_then > device_->classifier().known_hits()) {
      look_at_hits(*device_, 4 * judged_by_then);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        verdicts[g].evidence =
            OverflowEvidence(groups[g].size(), most_of_a_burst_, device_->classifier().plausible_excesses());
      }
      asked_laps = 0;
      continue;
    }
    asked_laps += laps;
    const model::Question question = device_->question(warm_up(lap.places), model::repeated(lap.places, laps));
    const auto ratios =
        lap.split(device_->classifier().log_ratios(device_->latencies({&question, 1}).front()), groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      GroupVerdict& verdict = verdicts[g];
      if (!undecided(verdict)) {
        continue;
      }
      verdict.add_laps(ratios[g], groups[g].size(), together);
      if (verdict.overflows == false) {
        // Groups that share a set may take turns to miss.
        if (groups.size() == 1) {
          learn_from_fit(verdict.judged, verdict.misses);
        }
        if (verdict.evidence.may_hold_burst()) {
          most_of_a_burst_ = most_of_later_bursts;
        }
      }
    }
  }
  std::vector<std::optional<bool>> result;
  for (const GroupVerdict& verdict : verdicts) {
    result.push_back(effort == Effort::glance ? verdict.overflows
                                              : verdict.overflows.value_or(verdict.evidence.log_ratio() > 0));
  }
  return result;
}

// Laps of several questions, each from a start of its own: a device with many units answers them side by side.
void Conflicts::add_laps(LineEvidence& evidence, std::span<const std::uint64_t> offsets, std::size_t laps,
                         bool in_order) {
  std::vector<std::vector<std::size_t>> positions;
  std::vector<model::Question> questions;
  const std::size_t questions_at_once =
      std::max<std::size_t>(1, accesses_at_once / (offsets.size() * laps_per_question));
  // Timers count whole cycles, so the same few ratios come again and again.
  std::unordered_map<double, ShareEvidence::Terms> terms_of_ratio;
  const auto ask = [&] {
    const std::vector<std::vector<float>> answers = device_->latencies(questions);
    for (std::size_t q = 0; q < answers.size(); ++q) {
      const std::vector<double> ratios = device_->classifier().log_ratios(answers[q]);
      for (std::size_t i = 0; i < ratios.size(); ++i) {
        auto terms = terms_of_ratio.find(ratios[i]);
        if (terms == terms_of_ratio.end()) {
          terms = terms_of_ratio.emplace(ratios[i], ShareEvidence::terms_of(ratios[i])).first;
        }
        evidence.always_misses[positions[q][i]] += ratios[i];
        evidence.misses_in_share[positions[q][i]].add(terms->second);
      }
    }
    positions.clear();
    questions.clear();
  };
  std::vector<std::size_t> order(offsets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (goes_downwards_) {
    std::ranges::sort(order, std::greater(), [&](std::size_t position) { return offsets[position]; });
  }
  for (std::size_t left = laps; left > 0;) {
    const std::size_t now = std::min(left, laps_per_question);
    left -= now;
    AccessSequence record;
    positions.emplace_back();
    for (std::size_t lap = 0; lap < now; ++lap) {
      if (!in_order && !goes_downwards_) {
        random_.shuffle(order);
      }
      for (const std::size_t position : order) {
        positions.back().push_back(position);
        record.push_back(offsets[position]);
      }
    }
    questions.push_back(device_->question(warm_up(offsets), std::move(record)));
    if (questions.size() == questions_at_once || left == 0) {
      ask();
    }
  }
  evidence.laps += laps;
}

// The lines that miss in every lap, if all others hit in every lap. So many laps that the sums can be trusted; more if
// some line does now this and now that, which may have been misreads.
std::optional<std::vector<bool>> Conflicts::thrashing(std::span<const std::uint64_t> offsets) {
  const std::size_t fewest_laps = std::max(2U, device_->votes_needed());
  for (const std::size_t laps : {fewest_laps, 2 * fewest_laps + 5}) {
    LineEvidence evidence(offsets.size());
    add_laps(evidence, offsets, laps, true);
    std::vector<bool> members(offsets.size());
    bool torn = false;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const double misses = evidence.always_misses[i];
      const double now_and_then = evidence.misses_in_share[i].log_ratio() - std::max(0.0, misses);
      members[i] = misses > 0;
      torn = torn || std::abs(misses) < conclusive_log_ratio ||
             now_and_then > std::log(static_cast<double>(offsets.size()));
    }
    if (!torn && std::find(members.begin(), members.end(), true) != members.end()) {
      return members;
    }
  }
  return std::nullopt;
}

std::vector<bool> Conflicts::conflicting(std::span<const std::uint64_t> offsets, double expected_left_out) {
  if (thrashes_) {
    if (std::optional<std::vector<bool>> members = thrashing(offsets)) {
      return *std::move(members);
    }
    thrashes_ = false;
  }

  const auto lines = static_cast<double>(offsets.size());
  std::vector<bool> members(offsets.size());
  constexpr double wrongly_in = 1e-6;  // lines on average
  const double threshold = std::log(lines / wrongly_in);
  LineEvidence evidence(offsets.size());
  for (std::size_t laps = 8; evidence.laps < most_laps && evidence.laps * offsets.size() < most_accesses_for_one_set;
       laps *= 2) {
    add_laps(evidence, offsets, laps, false);
    double member_evidence = 0;
    double member_count = 0;
    std::array<double, ShareEvidence::shares.size()> by_share{};
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const ShareEvidence& line = evidence.misses_in_share[i];
      members[i] = line.log_ratio() > threshold;
      if (members[i]) {
        member_evidence += line.log_ratio();
        member_count += 1;
        for (std::size_t k = 0; k < by_share.size(); ++k) {
          by_share[k] += line.log_ratio_of_share(k);
        }
      }
    }
    if (member_count == 0) {
      continue;
    }
    // What one miss adds to the evidence of a line, at the share that fits the members best.
    const auto best = static_cast<std::size_t>(std::max_element(by_share.begin(), by_share.end()) - by_share.begin());
    const LevelClassifier& classifier = device_->classifier();
    const double of_a_miss =
        std::log1p(ShareEvidence::shares.at(best) *
                   (std::exp(classifier.log_ratio(static_cast<float>(classifier.miss_median_cycles()))) - 1));
    // Lines change places at random orders, so all members miss about equally often; two thirds of the mean is
    // cautious.
    const double member_misses = member_evidence / member_count / of_a_miss / 1.5;
    const auto misses_needed = static_cast<std::size_t>(std::ceil(threshold / of_a_miss));
    if (lines * (1 - poisson_upper_tail(misses_needed, member_misses)) < expected_left_out) {
      break;
    }
  }
  return members;
}

}  // namespace gpuinfer::infer
