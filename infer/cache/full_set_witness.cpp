// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/full_set_witness.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace gpuinfer::infer {

namespace {

constexpr std::size_t looks = 16;
constexpr std::size_t turns = 6;

// Log likelihood ratios at which a test ends, wrong in one of a million; and what one answer may add, as a burst of
// misreads may cover all of its few loads.
constexpr double decided = 14;
constexpr double most_of_an_answer = decided / 2;
constexpr std::size_t most_answers = 96;

constexpr std::size_t most_accesses_for_a_witness = std::size_t{1} << 22U;

// The log of: it misses in this share of the answers, against: it always hits.
double log_ratio_of_share(double share, double log_ratio) { return std::log1p(share * std::expm1(log_ratio)); }

}  // namespace

model::Question FullSetWitness::question(const std::vector<bool>& loaded, AccessSequence record) const {
  Offsets fitting;
  for (std::size_t i = 0; i + 1 < lines_.size(); ++i) {
    if (loaded[i]) {
      fitting.push_back(lines_[i]);
    }
  }
  AccessSequence warm = conflicts_->warm_up(fitting, Conflicts::Effort::glance);
  warm.push_back(lines_.back());
  return device_->question(std::move(warm), std::move(record));
}

// In a lap over all lines after the last one was loaded, the first to miss is what that line drove out; those behind it
// may be evicted by lines of the lap.
std::optional<std::size_t> FullSetWitness::first_evicted() const {
  const std::vector<bool> all(lines_.size(), true);
  const std::vector<model::Question> questions(looks, question(all, lines_));
  std::vector<double> evidence(lines_.size());
  for (const std::vector<float>& answer : device_->latencies(questions)) {
    const std::vector<double> ratios = device_->classifier().log_ratios(answer);
    for (std::size_t i = 0; i < ratios.size(); ++i) {
      evidence[i] += log_ratio_of_share(0.5, ratios[i]);
    }
  }
  constexpr double wrongly_in = 1e-3;  // lines on average
  const double threshold = std::log(static_cast<double>(lines_.size()) / wrongly_in);
  const auto first = std::find_if(evidence.begin(), evidence.end() - 1, [&](double line) { return line > threshold; });
  if (first == evidence.end() - 1) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(first - evidence.begin());
}

// Some policies let the two lines drive each other out for ever, and one answer then says as much as several.
bool FullSetWitness::learn_pattern() {
  for (std::size_t turn = 0; turn < turns; ++turn) {
    record_.push_back(lines_[evicted_]);
    record_.push_back(lines_.back());
  }
  const std::vector<model::Question> questions(looks, question(std::vector<bool>(lines_.size(), true), record_));
  std::vector<std::vector<double>> answers;
  for (const std::vector<float>& answer : device_->latencies(questions)) {
    answers.push_back(device_->classifier().log_ratios(answer));
  }
  share_missed_.assign(record_.size(), 0);
  for (std::size_t i = 0; i < record_.size(); ++i) {
    double evidence = 0;
    double misses = 0;
    for (const std::vector<double>& ratios : answers) {
      evidence += log_ratio_of_share(0.5, ratios[i]);
      misses += ratios[i] > 0 ? 1 : 0;
    }
    if (evidence > decided / 2) {
      share_missed_[i] = (misses + 0.5) / static_cast<double>(looks + 1);
    }
  }
  share_of_answers_with_miss_ = share_missed_.front();
  if (share_of_answers_with_miss_ == 0) {
    return false;
  }
  // The other loads miss only where the first one does.
  for (double& share : share_missed_) {
    share = std::min(1.0, share / share_of_answers_with_miss_);
  }
  return true;
}

std::optional<FullSetWitness> FullSetWitness::find(Interrogator& device, const Conflicts& conflicts,
                                                   const Offsets& overflowing) {
  FullSetWitness witness(device, conflicts, overflowing);
  const std::optional<std::size_t> evicted = witness.first_evicted();
  if (!evicted) {
    return std::nullopt;
  }
  witness.evicted_ = *evicted;
  return witness.learn_pattern() ? std::optional(std::move(witness)) : std::nullopt;
}

std::optional<bool> FullSetWitness::overflows(const std::vector<bool>& loaded) const {
  const model::Question asked = question(loaded, record_);
  double evidence = 0;
  for (std::size_t answers = 0, now = 1; answers < most_answers; answers += now, now = std::min(answers, looks)) {
    for (const std::vector<float>& answer : device_->latencies(std::vector<model::Question>(now, asked))) {
      const std::vector<double> ratios = device_->classifier().log_ratios(answer);
      double of_answer = 0;
      for (std::size_t i = 0; i < ratios.size(); ++i) {
        of_answer += log_ratio_of_share(share_missed_[i], ratios[i]);
      }
      evidence += std::min(most_of_an_answer, log_ratio_of_share(share_of_answers_with_miss_, of_answer));
    }
    if (std::abs(evidence) >= decided) {
      return evidence > 0;
    }
  }
  return std::nullopt;
}

std::optional<Offsets> FullSetWitness::members(const std::vector<bool>& known) const {
  struct Group {
    std::size_t first = 0;
    std::size_t last = 0;  // of `open`, not included
  };
  const std::size_t asked_before = device_->accesses_asked();
  std::vector<bool> loaded = known;  // members, and lines not yet tested
  loaded[evicted_] = true;
  loaded.back() = true;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    if (!loaded[i]) {
      open.push_back(i);
    }
  }
  loaded.assign(loaded.size(), true);
  std::vector<Group> groups{{.first = 0, .last = open.size()}};
  while (!groups.empty()) {
    const Group group = groups.back();
    groups.pop_back();
    if (group.first == group.last) {
      continue;
    }
    if (device_->accesses_asked() - asked_before > most_accesses_for_a_witness) {
      return std::nullopt;
    }
    std::vector<bool> rest = loaded;
    for (std::size_t i = group.first; i < group.last; ++i) {
      rest[open[i]] = false;
    }
    const std::optional<bool> has_no_member = overflows(rest);
    if (!has_no_member) {
      return std::nullopt;
    }
    if (*has_no_member) {
      loaded = std::move(rest);
    } else if (group.last - group.first > 1) {
      const std::size_t middle = group.first + (group.last - group.first) / 2;
      groups.push_back({.first = middle, .last = group.last});
      groups.push_back({.first = group.first, .last = middle});
    }
  }
  Offsets members;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (loaded[i]) {
      members.push_back(lines_[i]);
    }
  }
  return members;
}

}  // namespace gpuinfer::infer
