// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/past_nearer_level.hpp"

#include <algorithm>
#include <utility>

#include "infer/cache/outer_laps.hpp"

namespace gpuinfer::infer {

PastNearerLevel::PastNearerLevel(Interrogator& device, model::IndexFunction index, std::uint64_t line_bytes,
                                 std::vector<bool> is_asked)
    : device_(&device), facts_(device.facts()), index_(std::move(index)), line_bytes_(line_bytes),
      is_asked_(std::move(is_asked)) {
  model::BufferFacts buffer = device.buffer();
  buffer.nearer_bytes.reset();
  facts_.own_buffers.insert_or_assign(device.target(), buffer);
}

std::vector<model::Answer> PastNearerLevel::ask(std::span<const model::Question> questions) {
  std::vector<model::Question> asked;
  std::vector<model::Answer> answers(questions.size());
  for (std::size_t i = 0; i < questions.size(); ++i) {
    model::Question longer = questions[i];
    longer.warm = with_others(longer.warm);
    longer.record = with_others(longer.record);
    if (longer.state == model::StartState::clean || longer.state == model::StartState::invalidated) {
      answers[i].refusal = "sets are not to begin empty";
      continue;
    }
    longer.state = longer.state == model::StartState::flooded ? device_->question({}, {}).state : longer.state;
    asked.push_back(std::move(longer));
  }
  std::vector<std::vector<float>> cycles = device_->latencies(asked);
  std::size_t next = 0;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (answers[i].refusal) {
      continue;
    }
    std::size_t place = 0;
    for (const std::uint64_t offset : questions[i].record) {
      answers[i].latency_cycles.push_back(cycles[next][place]);
      place += 1 + others_after(offset).size();
    }
    ++next;
  }
  return answers;
}

// The lines next to it on both sides, as parts of the nearer level may be of use to lines of a place only, and it may
// be the last of these.
const AccessSequence& PastNearerLevel::others_after(std::uint64_t offset) {
  if (const auto known = others_.find(offset); known != others_.end()) {
    return known->second;
  }
  AccessSequence& others = others_[offset];
  const std::uint64_t bytes = device_->buffer().bytes;
  const std::uint64_t wanted = OuterLaps(*device_, line_bytes_).lines_past_nearer_level();
  const auto add = [&](std::uint64_t other) {
    if (!is_asked_[model::set_of(index_, aligned_down(device_->address_of(other), line_bytes_))]) {
      others.push_back(other);
    }
  };
  const bool has_others = std::ranges::find(is_asked_, false) != is_asked_.end();
  for (std::uint64_t away = line_bytes_; has_others && away < bytes && others.size() < wanted; away += line_bytes_) {
    if (away < bytes - offset) {
      add(offset + away);
    }
    if (away <= offset) {
      add(offset - away);
    }
  }
  return others;
}

AccessSequence PastNearerLevel::with_others(const AccessSequence& sequence) {
  AccessSequence longer;
  for (const std::uint64_t offset : sequence) {
    const AccessSequence& others = others_after(offset);
    longer.push_back(offset);
    longer.insert(longer.end(), others.begin(), others.end());
  }
  return longer;
}

}  // namespace gpuinfer::infer
