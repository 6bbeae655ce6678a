// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/copy_knee.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;
using model::rounded;
using model::Stream;

// What it helps that a dataset is in L2, by its size: (bytes, seconds), ascending.
using Savings = std::vector<std::pair<double, double>>;

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

// Between which sizes what L2 saves stops growing: all at which a ramp may end by an F test, with a step on either
// side. None where no ramp with a level end explains it.
std::optional<model::BytePair> end_of_ramp(const Savings& savings) {
  constexpr double parameters = 3;
  constexpr double unlikely_ratio = 10;    // of F, with one degree of freedom: 1 in 200
  constexpr double least_explained = 0.9;  // of the squares
  std::vector<double> left;
  for (const auto& [bytes, seconds] : savings) {
    left.push_back(squares_left_by_ramp(savings, bytes));
  }
  const double all = squares_left_by_ramp(savings, savings.front().first);
  const double clock_step_squares = 1e-16 * static_cast<double>(savings.size());  // of 10 ns
  const double least = std::ranges::min(left);
  const double most =
      (least + clock_step_squares) * (1 + unlikely_ratio / (static_cast<double>(savings.size()) - parameters));
  if (least > (1 - least_explained) * all || left.back() <= most) {
    return std::nullopt;
  }
  const auto may_end = [most](double squares) { return squares <= most; };
  const auto first = static_cast<std::size_t>(std::ranges::find_if(left, may_end) - left.begin());
  const auto last =
      left.size() - 1 - static_cast<std::size_t>(std::find_if(left.rbegin(), left.rend(), may_end) - left.rbegin());
  return model::BytePair{static_cast<std::uint64_t>(savings[first == 0 ? 0 : first - 1].first),
                         static_cast<std::uint64_t>(savings[std::min(last + 1, savings.size() - 1)].first)};
}

class L2Saving {
 public:
  L2Saving(const Streams& streams, std::optional<std::uint64_t> l2_bytes, Leaves& leaves, BandwidthFinding& finding)
      : streams_(&streams), l2_bytes_(l2_bytes), leaves_(&leaves), finding_(&finding) {}

  void state(std::uint64_t largest_bytes) const {
    leaves_->begin(copy_knee, "its copies were not all asked for");
    Asker& device = streams_->device();
    device.inquire("copies of one element by each thread, in L2 or driven out of it before",
                   "what L2 saves grows with the dataset until L2 is full");
    try {
      device.learned(settle(doublings(largest_bytes)));
    } catch (const QuestionRefused& refused) {
      device.learned(leave_open(refused.reason()));
    }
  }

 private:
  static constexpr std::uint32_t element_bits = 64;

  [[nodiscard]] double seconds_saved(std::uint64_t bytes, std::uint64_t part_bytes) const {
    constexpr std::uint32_t runs = 5;
    Stream stream = streams_->stream_of(memories::l2_copy, bytes);
    stream.element_bits = element_bits;
    stream.elements_in_flight = 1;
    stream.part_bytes = part_bytes;
    stream.blocks = static_cast<std::uint32_t>(bytes * 8 / stream.element_bits / stream.block_threads);
    stream.elements_per_thread = 1;
    stream.runs = runs;
    const double in_l2 = std::ranges::min(streams_->time_of(stream).seconds);
    stream.drops_l2 = true;
    return std::ranges::min(streams_->time_of(stream).seconds) - in_l2;
  }

  [[nodiscard]] Savings doublings(std::uint64_t largest_bytes) const {
    constexpr std::uint64_t smallest_bytes = 64U << 10U;
    constexpr std::uint64_t most_bytes = 512U << 20U;
    Savings savings;
    model::BySize& saved = (*leaves_)[copy_knee].details.microseconds_saved_by_l2_by_bytes;
    for (std::uint64_t bytes = smallest_bytes; bytes <= std::min(largest_bytes, most_bytes); bytes *= 2) {
      savings.emplace_back(bytes, seconds_saved(bytes, 0));
      saved.emplace_back(bytes, microseconds(savings.back().second));
    }
    return savings;
  }

  // From half of `before`, the largest doubling before those that gain no more, to well past them.
  [[nodiscard]] Savings steps(std::uint64_t before, std::uint64_t largest_bytes) const {
    constexpr std::uint64_t most_steps = 32;
    const std::uint64_t part_bytes = usual_shape.block_threads * (element_bits / 8);
    const std::uint64_t end = std::min(8 * before, largest_bytes);
    const std::uint64_t step = std::max(part_bytes, (end - before / 2) / most_steps / part_bytes * part_bytes);
    Savings savings;
    for (std::uint64_t bytes = before / 2; bytes <= end; bytes += step) {
      savings.emplace_back(bytes, seconds_saved(bytes, part_bytes));
    }
    return savings;
  }

  // Asks in finer steps where doublings show that it stops growing, and once more. Returns what was learned.
  [[nodiscard]] std::string settle(const Savings& doublings) const {
    constexpr double nearly = 0.9;
    if (doublings.size() < 3) {
      return leave_open("the device has too little memory for copies");
    }
    const double most = std::ranges::max(doublings, {}, &Savings::value_type::second).second;
    if (most <= 0) {
      return leave_open("L2 saves copies nothing" + costs(doublings));
    }
    const auto level =
        std::ranges::find_if(doublings, [most](const auto& each) { return each.second >= nearly * most; });
    if (level == doublings.begin()) {
      return leave_open("what L2 saves copies does not grow" + costs(doublings));
    }
    if (std::next(level) == doublings.end()) {
      return leave_open("what L2 saves copies still grows at the largest dataset" + costs(doublings));
    }
    const auto before = static_cast<std::uint64_t>(std::prev(level)->first);
    const auto largest_bytes = static_cast<std::uint64_t>(doublings.back().first);
    const auto first = end_of_ramp(steps(before, largest_bytes));
    if (!first) {
      return leave_open("what L2 saves copies does not grow and then stay, perhaps for what has to be written back" +
                        costs(doublings));
    }
    const auto again = end_of_ramp(steps(before, largest_bytes));
    if (!again || (*again)[0] > (*first)[1] || (*first)[0] > (*again)[1]) {
      const std::string text = leave_open(again ? "two rounds of the same copies stop gaining at other sizes"
                                                : "a second round of the same copies does not grow and then stay",
                                          EvidenceStatus::ambiguous);
      (*leaves_)[copy_knee].alternatives.push_back(interval_text(*first));
      if (again) {
        (*leaves_)[copy_knee].alternatives.push_back(interval_text(*again));
      }
      return text;
    }
    return resolve({std::min((*first)[0], (*again)[0]), std::max((*first)[1], (*again)[1])}) + costs(doublings);
  }

  [[nodiscard]] std::string resolve(const model::BytePair& knee) const {
    const model::RealInterval bytes{static_cast<double>(knee[0]), static_cast<double>(knee[1])};
    finding_->bandwidth.copy_knee_bytes = bytes;
    std::string text =
        "it stops growing between " + model::to_text(knee[0]) + " and " + model::to_text(knee[1]) + " bytes";
    if (const auto l2_bytes = l2_bytes_) {
      const auto capacity = static_cast<double>(*l2_bytes);
      const bool is_half = bytes[0] <= capacity / 2 && capacity / 2 <= bytes[1];
      (*leaves_)[copy_knee].details.of_l2 = {.capacity_bytes = *l2_bytes,
                                             .share = {rounded(bytes[0] / capacity), rounded(bytes[1] / capacity)},
                                             .is_half = is_half};
      text += (is_half ? ", and half of L2, which holds " : ", which contradicts an L2 that holds ") +
              model::to_text(*l2_bytes) + (is_half ? ", is there" : "");
    }
    leaves_->resolve(copy_knee);
    return text;
  }

  [[nodiscard]] std::string leave_open(const std::string& reason,
                                       EvidenceStatus status = EvidenceStatus::unknown) const {
    leaves_->leave_open(copy_knee, status, reason);
    return reason;
  }

  // What is worse with the dataset in L2; empty: nothing.
  [[nodiscard]] static std::string costs(const Savings& savings) {
    const auto first = std::ranges::find_if(savings, [](const auto& each) { return microseconds(each.second) < 0; });
    if (first == savings.end()) {
      return "";
    }
    const double most = -std::ranges::min(savings, {}, &Savings::value_type::second).second;
    return "; it costs up to " + model::to_text(microseconds(most)) + " microseconds, at " +
           model::to_text(static_cast<std::uint64_t>(first->first)) + " bytes first";
  }

  [[nodiscard]] static double microseconds(double seconds) { return std::round(seconds * 1e8) / 1e2; }
  [[nodiscard]] static std::string interval_text(const model::BytePair& bytes) {
    return "[" + model::to_text(bytes[0]) + ", " + model::to_text(bytes[1]) + "]";
  }

  const Streams* streams_;
  std::optional<std::uint64_t> l2_bytes_;
  Leaves* leaves_;
  BandwidthFinding* finding_;
};

}  // namespace

void find_copy_knee(const Streams& streams, std::uint64_t largest_bytes, std::optional<std::uint64_t> l2_bytes,
                    Leaves& leaves, BandwidthFinding& finding) {
  L2Saving(streams, l2_bytes, leaves, finding).state(largest_bytes);
}

}  // namespace gpuinfer::infer
