// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/slice_as_cache.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "model/index/modulo.hpp"

namespace gpuinfer::infer {

SliceAsCache::SliceAsCache(Asker& device, const SliceView& view, std::vector<SliceSet> sets, std::uint64_t line_bytes,
                           SliceLine waiting_line)
    : device_(&device), view_(view), sets_(std::move(sets)), line_bytes_(line_bytes), waiting_line_(waiting_line) {
  const model::DeviceFacts& of_device = device.facts();
  facts_.name = of_device.name;
  facts_.source = of_device.source;
  facts_.targets = {device.target()};
  facts_.buffer = {.bytes = sets_.size() * sets_.front().lines.size() * line_bytes_, .address = model::Address{0}};
  if (device.is_among(of_device.stored_targets)) {
    facts_.stored_targets = facts_.targets;
  }
  if (device.is_among(of_device.hinted_targets)) {
    facts_.hinted_targets = facts_.targets;
    facts_.largest_set_aside_bytes = of_device.largest_set_aside_bytes;
  }
}

model::IndexFunction SliceAsCache::index() const {
  return model::ModuloIndex{.granule_bytes = line_bytes_, .sets_count = static_cast<std::uint32_t>(sets_.size())};
}

std::vector<model::Answer> SliceAsCache::ask(std::span<const model::Question> questions) {
  std::vector<model::Answer> answers(questions.size());
  std::vector<model::Question> put;
  std::vector<std::vector<std::size_t>> places(questions.size());
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (questions[i].state != model::StartState::clean) {
      answers[i].refusal = "a slice is asked from a clean start alone";
      continue;
    }
    PutQuestion each = put_to_slice(questions[i]);
    put.push_back(std::move(each.question));
    places[i] = std::move(each.places);
  }
  const std::vector<std::vector<float>> latencies = device_->latencies(put);
  auto next = latencies.begin();
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (!answers[i].refusal) {
      for (const std::size_t place : places[i]) {
        answers[i].latency_cycles.push_back((*next)[place]);
      }
      ++next;
    }
  }
  return answers;
}

std::uint64_t SliceAsCache::offset_in_slice(std::uint64_t offset) const {
  return sets_[set_of(offset)].lines[offset / line_bytes_ / sets_.size()] + offset % line_bytes_;
}

// While others begin and end, their code and what they are told comes through the same cache, so that is waited for.
SliceAsCache::PutQuestion SliceAsCache::put_to_slice(const model::Question& question) const {
  constexpr std::size_t loads_of_settling = 256;
  constexpr std::size_t loads_of_store = 8;
  constexpr std::size_t loads_of_load = 3;
  const std::vector<model::AccessKind> kinds = kinds_of(question);
  std::set<std::uint64_t> touched;
  for (const AccessSequence* sequence : {&question.warm, &question.record}) {
    for (const std::uint64_t offset : *sequence) {
      touched.insert(set_of(offset));
    }
  }
  PutQuestion put{.question = {.target = question.target, .state = model::StartState::keep, .warm = {}, .record = {}},
                  .places = {}};
  model::Question& asked = put.question;
  asked.circumstances.unit = view_.unit;
  asked.circumstances.set_aside_bytes = question.circumstances.set_aside_bytes;
  asked.warm.assign(loads_of_settling, waiting_line_);
  // More than once, since lines that stores wrote may outlive others.
  constexpr int times = 3;
  for (int time = 0; time < times; ++time) {
    for (const std::uint64_t set : touched) {
      asked.warm.insert(asked.warm.end(), sets_[set].others.begin(), sets_[set].others.end());
    }
  }
  const auto access = [&](std::uint64_t offset, model::AccessKind kind, AccessSequence& to) {
    const std::size_t number = asked.warm.size() + asked.record.size();
    to.push_back(offset_in_slice(offset));
    if (kind == model::AccessKind::store) {
      asked.circumstances.stores.push_back(static_cast<std::uint32_t>(number));
    } else if (kind != model::AccessKind::load) {
      asked.circumstances.hints[kind].push_back(static_cast<std::uint32_t>(number));
    }
    to.insert(to.end(), kind == model::AccessKind::store ? loads_of_store : loads_of_load, waiting_line_);
  };
  for (std::size_t i = 0; i < question.warm.size(); ++i) {
    access(question.warm[i], kinds[i], asked.warm);
  }
  for (std::size_t i = 0; i < question.record.size(); ++i) {
    put.places.push_back(asked.record.size());
    access(question.record[i], kinds[question.warm.size() + i], asked.record);
  }
  return put;
}

}  // namespace gpuinfer::infer
