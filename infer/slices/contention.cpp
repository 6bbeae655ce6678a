// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/contention.hpp"

#include <algorithm>
#include <utility>

#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

// Of the way from pairs that are apart to pairs that are one line. Lines of different halves whose slices are each
// other's mirror wait for one another on the way alone and lie a third of the way up.
constexpr double limit = 0.65;

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
  return together_cycles_ - apart_cycles_ > std::max(4 * spread, apart_cycles_ / 8);
}

std::vector<bool> Contention::read(std::span<const Pair> pairs) {
  const double least = apart_cycles_ + limit * (together_cycles_ - apart_cycles_);
  std::vector<bool> verdicts;
  for (const double cycles : cycles_of(pairs)) {
    verdicts.push_back(cycles > least);
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
