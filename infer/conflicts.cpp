// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/conflicts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "infer/statistics.hpp"

namespace gpuinfer::infer {

namespace {

// Log likelihood ratios at which a test ends: wrong in at most one decision in a million and one in twenty thousand.
// The second is the dearer one, because lines that fit have to be shown to fit; who builds on a single one asks twice.
constexpr double decided_overflow = 14;
constexpr double decided_fit = -9.9;

// No question grows beyond this; devices answer in pieces, and a budget can end between them.
constexpr std::size_t accesses_per_question = std::size_t{1} << 18U;
constexpr std::size_t accesses_at_once = std::size_t{1} << 22U;
constexpr std::size_t laps_per_question = 32;
constexpr std::size_t most_laps = std::size_t{1} << 14U;

// What one set may cost: enough for chance to show each of a hundred ways among ten thousand lines.
constexpr std::size_t most_accesses = std::size_t{1} << 23U;

}  // namespace

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

// Lines that fit are all present after one lap from an empty start. From a start among lines of a flood, a policy of
// chance takes some laps to drive those out.
AccessSequence Conflicts::warm_up(std::span<const std::uint64_t> offsets) const {
  constexpr std::size_t laps_after_flood = 24;
  return model::repeated(offsets, device_->starts_flooded() ? laps_after_flood : 1);
}

bool Conflicts::overflow(std::span<const std::uint64_t> offsets) {
  const Offsets group(offsets.begin(), offsets.end());
  return overflows({&group, 1}).front();
}

std::vector<bool> Conflicts::overflows(std::span<const Offsets> groups) {
  const LevelClassifier& classifier = device_->classifier();
  struct Verdict {
    double evidence = 0;
    std::size_t misses = 0;
    std::optional<bool> overflows;
  };
  std::vector<Verdict> verdicts(groups.size());
  std::size_t longest = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    longest = std::max(longest, groups[g].size());
    if (groups[g].empty()) {
      verdicts[g].overflows = false;
    }
  }
  Offsets lap;
  std::vector<std::size_t> group_of;  // by place in the lap
  for (std::size_t i = 0; i < longest; ++i) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (i < groups[g].size()) {
        lap.push_back(groups[g][i]);
        group_of.push_back(g);
      }
    }
  }
  if (lap.size() < 2) {
    return std::vector<bool>(groups.size());
  }
  const auto undecided = [](const Verdict& verdict) { return !verdict.overflows; };
  const std::size_t most_laps_at_once =
      std::max<std::size_t>(1, accesses_per_question / std::max<std::size_t>(1, lap.size()));
  std::size_t judged_laps = 0;
  for (std::size_t laps = 1; std::any_of(verdicts.begin(), verdicts.end(), undecided) && judged_laps < most_laps;
       laps = std::min(laps * 2, most_laps_at_once)) {
    const std::vector<Reading> readings = device_->ask(warm_up(lap), model::repeated(lap, laps));
    auto next = readings.begin();
    for (std::size_t played = 0; played < laps; ++played) {
      ++judged_laps;
      std::vector<std::size_t> misses_of(groups.size());
      for (const std::size_t g : group_of) {
        misses_of[g] += *next++ == Reading::miss ? 1U : 0U;
      }
      for (std::size_t g = 0; g < groups.size(); ++g) {
        Verdict& verdict = verdicts[g];
        if (verdict.overflows) {
          continue;
        }
        const std::size_t misses = misses_of[g];
        const double stray_misses = static_cast<double>(groups[g].size()) * classifier.hit_misread_rate();
        // Least favourable case of an overflow: exactly one real miss among Poisson many misread hits.
        verdict.evidence += std::log(classifier.miss_misread_rate() +
                                     (1 - classifier.miss_misread_rate()) * static_cast<double>(misses) / stray_misses);
        verdict.misses += misses;
        if (verdict.evidence >= decided_overflow) {
          verdict.overflows = true;
        } else if (verdict.evidence <= decided_fit) {
          verdict.overflows = false;
          device_->learn_hits(judged_laps * groups[g].size(), verdict.misses);
        }
      }
    }
  }
  std::vector<bool> result;
  for (const Verdict& verdict : verdicts) {
    result.push_back(verdict.overflows.value_or(verdict.evidence > 0));
  }
  return result;
}

// Laps of several questions, each from a start of its own: a device with many units answers them side by side.
void Conflicts::add_laps(LapCounts& counts, std::span<const std::uint64_t> offsets, std::size_t laps, bool in_order) {
  std::vector<std::vector<std::size_t>> positions;
  std::vector<model::Question> questions;
  const std::size_t questions_at_once =
      std::max<std::size_t>(1, accesses_at_once / (offsets.size() * laps_per_question));
  const auto ask = [&] {
    const std::vector<std::vector<float>> answers = device_->latencies(questions);
    for (std::size_t q = 0; q < answers.size(); ++q) {
      for (std::size_t i = 0; i < answers[q].size(); ++i) {
        const Reading reading = device_->classifier().read(answers[q][i]);
        counts.misses[positions[q][i]] += reading == Reading::miss ? 1U : 0U;
        counts.hits[positions[q][i]] += reading == Reading::hit ? 1U : 0U;
      }
    }
    positions.clear();
    questions.clear();
  };
  std::vector<std::size_t> order(offsets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t left = laps; left > 0;) {
    const std::size_t now = std::min(left, laps_per_question);
    left -= now;
    AccessSequence record;
    positions.emplace_back();
    for (std::size_t lap = 0; lap < now; ++lap) {
      if (!in_order) {
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
  counts.laps += laps;
}

std::vector<bool> Conflicts::conflicting(std::span<const std::uint64_t> offsets, double expected_left_out) {
  const LevelClassifier& classifier = device_->classifier();
  const double stray = classifier.hit_misread_rate();
  const auto lines = static_cast<double>(offsets.size());
  std::vector<bool> members(offsets.size());

  if (thrashes_) {
    // Two laps where readings can be trusted; else so many that a vote can.
    const bool trusted = stray < 1e-3 && classifier.miss_misread_rate() < 1e-3;
    for (const std::size_t laps : {trusted ? std::size_t{2} : device_->votes_needed(), std::size_t{9}}) {
      LapCounts counts(offsets.size());
      add_laps(counts, offsets, laps, true);
      std::size_t torn = 0;
      for (std::size_t i = 0; i < offsets.size(); ++i) {
        members[i] = counts.misses[i] > counts.hits[i];
        torn += std::min(counts.misses[i], counts.hits[i]) > laps / 4 ? 1U : 0U;
      }
      if (torn == 0 && std::find(members.begin(), members.end(), true) != members.end()) {
        return members;
      }
    }
    thrashes_ = false;
  }

  LapCounts counts(offsets.size());
  for (std::size_t laps = 8; counts.laps < most_laps && counts.laps * offsets.size() < most_accesses; laps *= 2) {
    add_laps(counts, offsets, laps, false);
    const double stray_mean = static_cast<double>(counts.laps) * classifier.hit_misread_bound();
    std::size_t threshold = 1;
    while (lines * poisson_upper_tail(threshold, stray_mean) > 1e-6) {
      ++threshold;
    }
    double member_misses = 0;
    double member_count = 0;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      members[i] = counts.misses[i] >= threshold;
      member_misses += members[i] ? static_cast<double>(counts.misses[i]) : 0.0;
      member_count += members[i] ? 1.0 : 0.0;
    }
    if (member_count == 0) {
      continue;
    }
    // Lines change places at random orders, so all members miss about equally often; two thirds of the mean is
    // cautious.
    const double member_mean = member_misses / member_count / 1.5;
    if (lines * (1 - poisson_upper_tail(threshold, member_mean)) < expected_left_out) {
      break;
    }
  }
  return members;
}

}  // namespace gpuinfer::infer
