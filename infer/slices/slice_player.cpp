// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/slice_player.hpp"

#include <utility>

namespace gpuinfer::infer {

namespace {

constexpr std::size_t accesses_of_question = 32768;
constexpr std::size_t loads_of_settling = 256;

}  // namespace

void SlicePlayer::load(SliceLine line) {
  if (warm_.empty() && record_.empty()) {
    // While others begin and end: their code and what they are told comes through the same cache.
    record_.assign(loads_of_settling, line);
  }
  record_.push_back(line);
  ++unasked_loads_;
}

void SlicePlayer::load(const SliceLines& lines) {
  for (const SliceLine line : lines) {
    load(line);
  }
}

void SlicePlayer::load_all_of(const EvictionSet& set) {
  load(set.line);
  load(set.others);
}

void SlicePlayer::load_all_but_last_of(const EvictionSet& set) {
  load(set.line);
  for (std::size_t i = 0; i + 1 < set.others.size(); ++i) {
    load(set.others[i]);
  }
}

void SlicePlayer::is_gone(SliceLine line) {
  if (warm_.empty()) {
    // What nobody asks about is not recorded.
    warm_ = std::exchange(record_, {});
  }
  record_.push_back(line);
  asked_.push_back({.question = questions_.size(), .access = record_.size() - 1});
}

void SlicePlayer::end_sequence() {
  const bool is_long = std::exchange(unasked_loads_, 0) > loads_of_settling;
  if (is_long || warm_.size() + record_.size() >= accesses_of_question) {
    end_question();
  }
}

std::vector<bool> SlicePlayer::answers() {
  end_question();
  std::vector<bool> gone;
  const std::vector<std::vector<float>> latencies = device_->latencies(questions_);
  gone.reserve(asked_.size());
  for (const Place& place : asked_) {
    gone.push_back(latencies[place.question][place.access] > view_.most_present_cycles);
  }
  questions_.clear();
  asked_.clear();
  return gone;
}

void SlicePlayer::end_question() {
  unasked_loads_ = 0;
  if (record_.empty()) {
    return;
  }
  model::Question question{.target = device_->target(),
                           .state = model::StartState::keep,
                           .warm = std::exchange(warm_, {}),
                           .record = std::exchange(record_, {})};
  question.circumstances.unit = view_.unit;
  questions_.push_back(std::move(question));
}

}  // namespace gpuinfer::infer
