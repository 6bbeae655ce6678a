// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/gpu/emptying.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpuinfer::probe::gpu {

namespace {

using model::StartState;

std::ptrdiff_t count_up_to(std::span<const float> latencies, float most_cycles) {
  return std::ranges::count_if(latencies, [most_cycles](float latency) { return latency <= most_cycles; });
}

float median(std::span<const float> latencies) {
  std::vector<float> sorted(latencies.begin(), latencies.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

// Asked again right after it was answered, on every SM where that is the way, no touch hits. A device that is slower at
// times is compared with itself: the touches are repeated at once, and hit then.
bool is_empty_in(StartState state, const Emptying& emptying, model::Question touches, float median_hit,
                 const Launches& launches) {
  touches.state = state;
  const std::size_t count = touches.record.size();
  touches.record = model::repeated(touches.record, 4);
  const auto is_empty = [&](const Latencies& latencies) {
    const float hit = std::max(median_hit, median(std::span(latencies).last(2 * count)));
    return count_up_to(std::span(latencies).first(count), hit) == 0;
  };
  if (emptying.apart == state) {
    static_cast<void>(launches.everywhere(touches));
    return std::ranges::all_of(launches.everywhere(touches), is_empty);
  }
  static_cast<void>(launches.alone(touches));
  const auto again = launches.alone(touches);
  return again && is_empty(*again);
}

}  // namespace

std::optional<std::uint64_t> asked_bytes(const Emptying& emptying, std::uint64_t buffer_bytes) {
  const std::uint64_t too_few =
      emptying.nearer_bytes ? nearer_multiple * *emptying.nearer_bytes : 2 * emptying.flood.bytes;
  return buffer_bytes <= too_few ? std::nullopt : std::optional(buffer_bytes - emptying.flood.bytes);
}

model::Question after_flood(const Emptying& emptying, std::uint64_t bytes, const model::Question& question) {
  if (question.state != StartState::flooded) {
    return question;
  }
  const auto [flood_bytes, stride_bytes] = emptying.flood;
  model::Question flooded = question;
  flooded.warm = model::cold_pass(0, bytes + flood_bytes, stride_bytes);
  const auto shift = [&flooded](std::vector<std::uint32_t>& numbers) {
    for (std::uint32_t& number : numbers) {
      number += static_cast<std::uint32_t>(flooded.warm.size());
    }
  };
  shift(flooded.circumstances.stores);
  for (auto& [hint, numbers] : flooded.circumstances.hints) {
    shift(numbers);
  }
  flooded.warm.insert(flooded.warm.end(), question.warm.begin(), question.warm.end());
  return flooded;
}

std::vector<model::Question> after_flood(const Emptying& emptying, std::uint64_t bytes,
                                         std::span<const model::Question> questions) {
  std::vector<model::Question> flooded;
  if (questions.front().state == StartState::flooded) {
    std::ranges::transform(questions, std::back_inserter(flooded),
                           [&](const model::Question& question) { return after_flood(emptying, bytes, question); });
  }
  return flooded;
}

model::Question once_each(const model::Question& question) {
  std::set<std::uint64_t> places(question.warm.begin(), question.warm.end());
  places.insert(question.record.begin(), question.record.end());
  model::Question once = question;
  once.warm.assign(places.begin(), places.end());
  once.record.clear();
  once.circumstances.stores.clear();
  once.circumstances.hints.clear();
  return once;
}

std::set<StartState> states_reached(const Emptying& emptying, const std::string& target, std::uint64_t bytes,
                                    const Touches& touches, const Launches& launches) {
  const auto [count, stride_bytes] = touches;
  const auto touch = model::cold_pass(0, std::min(count * stride_bytes, bytes), stride_bytes);
  model::Question question{
      .target = target, .state = StartState::keep, .warm = {}, .record = model::repeated(touch, 4)};
  std::set<StartState> reached;
  const auto warm = launches.alone(question);
  if (!warm) {
    return reached;
  }
  const auto hits = std::span(*warm).last(2 * touch.size());
  const float median_hit = median(hits);
  const float slowest_hit = std::ranges::max(hits);
  question.record = touch;
  for (const auto& [state, may_be_reached] :
       {std::pair(StartState::clean, emptying.to_clean), std::pair(StartState::invalidated, emptying.to_invalidated),
        std::pair(StartState::flooded, emptying.to_flooded)}) {
    if (may_be_reached && is_empty_in(state, emptying, question, median_hit, launches)) {
      reached.insert(state);
    }
  }
  constexpr std::ptrdiff_t stray = 4;
  static_cast<void>(launches.alone(question));
  const auto kept = launches.alone(question);
  if (kept && count_up_to(*kept, slowest_hit) + stray >= std::ssize(touch)) {
    reached.insert(StartState::keep);
  }
  return reached;
}

std::size_t batch_size(std::span<const model::Question> questions, std::size_t sms,
                       const std::function<bool(const model::Question&)>& is_refused) {
  constexpr std::size_t most_accesses = std::size_t{1} << 24U;
  const auto& first = questions.front();
  std::set<model::ComputeUnit> sms_named;
  std::size_t count = 0;
  std::size_t accesses = 0;
  for (const auto& question : questions.first(std::min(questions.size(), sms))) {
    accesses += question.warm.size() + question.record.size();
    const bool fits = count == 0 || accesses <= most_accesses;
    model::Circumstances but_unit = question.circumstances;
    but_unit.unit = first.circumstances.unit;
    if (but_unit.stores.empty() == first.circumstances.stores.empty()) {
      but_unit.stores = first.circumstances.stores;  // which accesses they are is for each question to say
    }
    if (but_unit.hints.empty() == first.circumstances.hints.empty()) {
      but_unit.hints = first.circumstances.hints;
    }
    const auto& sm = question.circumstances.unit;
    if (!fits || question.state != first.state || question.target != first.target || but_unit != first.circumstances ||
        sm.has_value() != first.circumstances.unit.has_value() || (sm && !sms_named.insert(*sm).second) ||
        is_refused(question)) {
      break;
    }
    ++count;
  }
  return count;
}

}  // namespace gpuinfer::probe::gpu
