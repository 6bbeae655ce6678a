// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/conclude_copy_knee.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;

// The squares that a ramp which ends at `full_bytes` leaves over.
double squares_left_by_ramp(const Savings& savings, double full_bytes) {
  const auto count = static_cast<double>(savings.size());
  double mean_x = 0;
  double mean_y = 0;
  for (const auto& [bytes, seconds] : savings) {
    mean_x += std::min(bytes, full_bytes) / count;
    mean_y += seconds / count;
  }
  double xx = 0;
  double xy = 0;
  double yy = 0;
  for (const auto& [bytes, seconds] : savings) {
    const double x = std::min(bytes, full_bytes) - mean_x;
    const double y = seconds - mean_y;
    xx += x * x;
    xy += x * y;
    yy += y * y;
  }
  return xx > 0 && xy > 0 ? std::max(0.0, yy - xy * xy / xx) : yy;
}

double most_saved(const Savings& savings) { return std::ranges::max(savings, {}, &Savings::value_type::second).second; }

// The first that gains nearly as much as any.
Savings::const_iterator begin_of_level(const Savings& doublings) {
  constexpr double nearly = 0.9;
  const double enough = nearly * most_saved(doublings);
  return std::ranges::find_if(doublings, [enough](const auto& each) { return each.second >= enough; });
}

std::string interval_text(const model::BytePair& bytes) {
  return "[" + model::to_text(bytes[0]) + ", " + model::to_text(bytes[1]) + "]";
}

CopyKneeVerdict unknown(std::string reason) {
  return {.leaf = {.status = EvidenceStatus::unknown, .reason = std::move(reason)}};
}

}  // namespace

std::optional<std::string> doubt_of_doublings(const Savings& doublings) {
  if (doublings.size() < 3) {
    return "the device has too little memory for copies";
  }
  if (most_saved(doublings) <= 0) {
    return "L2 saves copies nothing" + costs_in_l2(doublings);
  }
  const auto level = begin_of_level(doublings);
  if (level == doublings.begin()) {
    return "what L2 saves copies does not grow" + costs_in_l2(doublings);
  }
  if (std::next(level) == doublings.end()) {
    return "what L2 saves copies still grows at the largest dataset" + costs_in_l2(doublings);
  }
  return std::nullopt;
}

std::uint64_t bytes_before_level(const Savings& doublings) {
  return static_cast<std::uint64_t>(std::prev(begin_of_level(doublings))->first);
}

std::optional<model::BytePair> end_of_ramp(const Savings& steps) {
  constexpr double parameters = 3;
  constexpr double unlikely_ratio = 10;    // of F, with one degree of freedom: 1 in 200
  constexpr double least_explained = 0.9;  // of the squares
  std::vector<double> left;
  for (const auto& [bytes, seconds] : steps) {
    left.push_back(squares_left_by_ramp(steps, bytes));
  }
  const double all = squares_left_by_ramp(steps, steps.front().first);
  const double clock_step_squares = 1e-16 * static_cast<double>(steps.size());  // of 10 ns
  const double least = std::ranges::min(left);
  const double most =
      (least + clock_step_squares) * (1 + unlikely_ratio / (static_cast<double>(steps.size()) - parameters));
  if (least > (1 - least_explained) * all || left.back() <= most) {
    return std::nullopt;
  }
  const auto may_end = [most](double squares) { return squares <= most; };
  const auto first = static_cast<std::size_t>(std::ranges::find_if(left, may_end) - left.begin());
  const auto last =
      left.size() - 1 - static_cast<std::size_t>(std::find_if(left.rbegin(), left.rend(), may_end) - left.rbegin());
  return model::BytePair{static_cast<std::uint64_t>(steps[first == 0 ? 0 : first - 1].first),
                         static_cast<std::uint64_t>(steps[std::min(last + 1, steps.size() - 1)].first)};
}

CopyKneeVerdict conclude_copy_knee(const CopyKneeSeen& seen) {
  if (auto doubt = doubt_of_doublings(seen.doublings)) {
    return unknown(*std::move(doubt));
  }
  if (!seen.knee) {
    return unknown("what L2 saves copies does not grow and then stay, perhaps for what has to be written back" +
                   costs_in_l2(seen.doublings));
  }
  const auto& [least, most] = *seen.knee;
  if (!seen.again) {
    return {.leaf = {.status = EvidenceStatus::ambiguous,
                     .reason = "a second round of the same copies does not grow and then stay",
                     .alternatives = {interval_text(*seen.knee)}}};
  }
  const auto& [least_again, most_again] = *seen.again;
  if (least_again > most || least > most_again) {
    return {.leaf = {.status = EvidenceStatus::ambiguous,
                     .reason = "two rounds of the same copies stop gaining at other sizes",
                     .alternatives = {interval_text(*seen.knee), interval_text(*seen.again)}}};
  }
  return {.leaf = LeafVerdict::resolved(),
          .knee = model::BytePair{std::min(least, least_again), std::max(most, most_again)}};
}

double microseconds(double seconds) { return std::round(seconds * 1e8) / 1e2; }

std::string costs_in_l2(const Savings& savings) {
  const auto first = std::ranges::find_if(savings, [](const auto& each) { return microseconds(each.second) < 0; });
  if (first == savings.end()) {
    return "";
  }
  const double most = -std::ranges::min(savings, {}, &Savings::value_type::second).second;
  return "; it costs up to " + model::to_text(microseconds(most)) + " microseconds, at " +
         model::to_text(static_cast<std::uint64_t>(first->first)) + " bytes first";
}

}  // namespace gpuinfer::infer
