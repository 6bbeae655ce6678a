// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/contention.hpp"

#include <algorithm>
#include <utility>

#include "infer/asking/ending.hpp"

namespace gpuinfer::infer {

namespace {

// Parts of the way from pairs that are apart to pairs that are one line. Lines of different halves whose slices are
// each other's mirror wait for one another on the way alone and lie a third of the way up, or two.
constexpr double least_limit = 0.5;
constexpr double most_limit = 0.9;
constexpr double usual_limit = 0.65;

// Where fewest of the readings lie, which are parts of the way: the middle of the longest such stretch.
double emptiest(const std::vector<double>& sorted) {
  constexpr double step = 0.01;
  constexpr double reach = 0.03;  // of readings around a limit that count
  const auto stretches = static_cast<std::size_t>((most_limit - least_limit) / step) + 1;
  std::vector<std::ptrdiff_t> around;
  for (std::size_t i = 0; i < stretches; ++i) {
    const double limit = least_limit + step * static_cast<double>(i);
    around.push_back(std::ranges::upper_bound(sorted, limit + reach) - std::ranges::lower_bound(sorted, limit - reach));
  }
  const std::ptrdiff_t fewest = *std::ranges::min_element(around);
  std::size_t first = 0;
  std::size_t length = 0;
  for (std::size_t i = 0; i < stretches; ++i) {
    std::size_t end = i;
    while (end < stretches && around[end] == fewest) {
      ++end;
    }
    if (end - i > length) {
      first = i;
      length = end - i;
    }
    i = end;
  }
  return least_limit + step * (static_cast<double>(first) + static_cast<double>(length - 1) / 2);
}

double at(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

}  // namespace

std::vector<double> Contention::cycles_of(std::span<const Pair> pairs) {
  constexpr std::size_t pairs_of_question = 4096;
  std::vector<model::Question> questions;
  for (std::size_t first = 0; first < pairs.size(); first += pairs_of_question) {
    model::Question question{.target = device_->target(), .state = model::StartState::keep, .warm = {}, .record = {}};
    question.circumstances.contended_pairs = true;
    for (const Pair& pair : pairs.subspan(first, std::min(pairs_of_question, pairs.size() - first))) {
      question.record.insert(question.record.end(), pair.begin(), pair.end());
    }
    questions.push_back(std::move(question));
  }
  std::vector<double> cycles;
  cycles.reserve(pairs.size());
  for (const std::vector<float>& answer : device_->latencies(questions)) {
    for (std::size_t i = 0; i < answer.size(); i += 2) {
      cycles.push_back(answer[i]);
    }
  }
  return cycles;
}

bool Contention::calibrate(std::span<const std::uint64_t> lines, std::uint64_t seed) {
  constexpr std::size_t pairs_of_one_line = 256;
  constexpr std::size_t pairs_of_others = 1024;
  model::Random random(seed);
  std::vector<Pair> same;
  std::vector<Pair> others;
  const auto any = [&] { return lines[random.below(lines.size())]; };
  for (std::size_t i = 0; i < pairs_of_one_line; ++i) {
    const std::uint64_t line = any();
    same.push_back({line, line});
  }
  while (others.size() < pairs_of_others) {
    const Pair pair{any(), any()};
    if (pair[0] != pair[1]) {
      others.push_back(pair);
    }
  }
  static_cast<void>(cycles_of(others));  // brings the lines
  std::vector<double> of_same = cycles_of(same);
  std::vector<double> of_others = cycles_of(others);
  std::ranges::sort(of_same);
  std::ranges::sort(of_others);
  // Of two slices or more, half of the pairs at least are apart.
  apart_cycles_ = at(of_others, 0.25);
  together_cycles_ = at(of_same, 0.5);
  // Between the readings that are frequent on either side.
  constexpr double rare = 0.02;
  const double spread = std::max(together_cycles_ - at(of_same, rare), apart_cycles_ - at(of_others, rare));
  if (together_cycles_ - apart_cycles_ <= std::max(4 * spread, apart_cycles_ / 8)) {
    return false;
  }
  choose_limit(lines, random);
  return true;
}

void Contention::choose_limit(std::span<const std::uint64_t> lines, model::Random& random) {
  constexpr std::size_t pairs_asked = 16384;
  std::vector<Pair> pairs;
  while (pairs.size() < pairs_asked) {
    const Pair pair{lines[random.below(lines.size())], lines[random.below(lines.size())]};
    if (pair[0] != pair[1]) {
      pairs.push_back(pair);
    }
  }
  double limit = usual_limit;
  try {
    std::vector<double> parts = cycles_of(pairs);
    for (double& part : parts) {
      part = (part - apart_cycles_) / (together_cycles_ - apart_cycles_);
    }
    std::ranges::sort(parts);
    limit = emptiest(parts);
  } catch (const QuestionRefused&) {
    // Recorded with the usual one.
  }
  least_together_cycles_ = apart_cycles_ + limit * (together_cycles_ - apart_cycles_);
}

std::vector<bool> Contention::read(std::span<const Pair> pairs) {
  std::vector<bool> verdicts;
  for (const double cycles : cycles_of(pairs)) {
    verdicts.push_back(cycles > least_together_cycles_);
  }
  return verdicts;
}

std::vector<bool> Contention::surely_together(std::span<const Pair> pairs, unsigned times) {
  std::vector<bool> verdicts(pairs.size(), true);
  std::vector<std::size_t> left(pairs.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    left[i] = i;
  }
  for (unsigned time = 0; time < times && !left.empty(); ++time) {
    std::vector<Pair> asked;
    for (const std::size_t i : left) {
      asked.push_back(pairs[i]);
    }
    const std::vector<bool> seen = read(asked);
    std::vector<std::size_t> still;
    for (std::size_t i = 0; i < left.size(); ++i) {
      verdicts[left[i]] = seen[i];
      if (seen[i]) {
        still.push_back(left[i]);
      }
    }
    left = std::move(still);
    std::ranges::reverse(left);  // what comes from a place in the list is not to come again
  }
  return verdicts;
}

std::optional<std::size_t> Contention::closest(std::span<const Pair> pairs, unsigned times) {
  const std::vector<double> first = cycles_of(pairs);
  std::vector<std::size_t> candidates;
  std::vector<Pair> asked;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (first[i] > least_together_cycles_) {
      candidates.push_back(i);
      asked.push_back(pairs[i]);
    }
  }
  std::vector<double> sums(asked.size());
  std::vector<bool> are_together(asked.size(), true);
  for (unsigned time = 1; time < times; ++time) {
    const std::vector<double> cycles = cycles_of(asked);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      sums[i] += cycles[i];
      are_together[i] = are_together[i] && cycles[i] > least_together_cycles_;
    }
  }
  std::optional<std::size_t> closest;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (are_together[i] && (!closest || sums[i] > sums[*closest])) {
      closest = i;
    }
  }
  return closest ? std::optional(candidates[*closest]) : std::nullopt;
}

std::vector<bool> Contention::voted(std::span<const Pair> pairs) {
  constexpr unsigned readings = 3;
  std::vector<unsigned> votes(pairs.size());
  for (unsigned reading = 0; reading < readings; ++reading) {
    const std::vector<bool> seen = read(pairs);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      votes[i] += seen[i] ? 1U : 0U;
    }
  }
  std::vector<bool> verdicts;
  for (const unsigned count : votes) {
    verdicts.push_back(2 * count > readings);
  }
  return verdicts;
}

}  // namespace gpuinfer::infer
