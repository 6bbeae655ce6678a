// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/copy_knee.hpp"

#include <algorithm>
#include <string>

#include "infer/threads/conclude_copy_knee.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;
using model::rounded;
using model::Stream;

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
      device.learned(settle(seen(largest_bytes)));
    } catch (const QuestionRefused& refused) {
      leaves_->leave_open(copy_knee, EvidenceStatus::unknown, refused.reason());
      device.learned(refused.reason());
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

  // In finer steps where doublings show that it stops growing, and once more.
  [[nodiscard]] CopyKneeSeen seen(std::uint64_t largest_bytes) const {
    CopyKneeSeen seen{.doublings = doublings(largest_bytes)};
    if (doubt_of_doublings(seen.doublings)) {
      return seen;
    }
    const std::uint64_t before = bytes_before_level(seen.doublings);
    const auto largest_doubling = static_cast<std::uint64_t>(seen.doublings.back().first);
    seen.knee = end_of_ramp(steps(before, largest_doubling));
    if (seen.knee) {
      seen.again = end_of_ramp(steps(before, largest_doubling));
    }
    return seen;
  }

  // Returns what was learned.
  [[nodiscard]] std::string settle(const CopyKneeSeen& seen) const {
    const CopyKneeVerdict verdict = conclude_copy_knee(seen);
    const std::string learned =
        verdict.knee ? state_knee(*verdict.knee) + costs_in_l2(seen.doublings) : verdict.leaf.reason;
    leaves_->settle(copy_knee, verdict.leaf);
    return learned;
  }

  [[nodiscard]] std::string state_knee(const model::BytePair& knee) const {
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
    return text;
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
