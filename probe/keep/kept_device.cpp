// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/keep/kept_device.hpp"

#include <algorithm>

#include "model/errors.hpp"
#include "probe/archive.hpp"

namespace gpuinfer::probe {

namespace {

using Clock = std::chrono::steady_clock;
using model::Answer;
using model::Question;
using model::Timing;
using model::Workload;

// What questions and workloads have in common.
Asked kind_of(const Question& /*query*/) { return Asked::question; }
Asked kind_of(const Workload& /*query*/) { return Asked::workload; }
std::string target_name(const Question& question) { return question.target; }
std::string target_name(const Workload& workload) { return std::string(model::target_of(workload)); }
std::vector<Answer> put_to(model::Answerer& device, std::span<const Question> queries) { return device.ask(queries); }
std::vector<Timing> put_to(model::Answerer& device, std::span<const Workload> queries) { return device.time(queries); }
bool same(const Answer& a, const Answer& b) { return a.latency_cycles == b.latency_cycles && a.refusal == b.refusal; }
bool same(const Timing& a, const Timing& b) { return a == b; }

std::pair<Question, Answer> exchange(const AnswerLog& log, AnswerLog::RowId row, const Question& /*of_kind*/) {
  auto [question, answer] = log.question(row);
  return {std::move(question), std::move(answer)};
}
std::pair<Workload, Timing> exchange(const AnswerLog& log, AnswerLog::RowId row, const Workload& /*of_kind*/) {
  auto [workload, timing] = log.workload(row);
  return {workload, std::move(timing)};
}

}  // namespace

KeptDevice::KeptDevice(model::Answerer& device, AnswerLog& log, Reopened reopened)
    : device_(&device), log_(&log), reopened_(reopened), told_(log.disturbances()) {}

std::vector<Answer> KeptDevice::ask(std::span<const Question> questions) { return replies_to<Answer>(questions); }
std::vector<Timing> KeptDevice::time(std::span<const Workload> workloads) { return replies_to<Timing>(workloads); }

template <class Reply, class Query>
KeptDevice::Step<Reply> KeptDevice::step_of(const Query& query) {
  const std::string target = target_name(query);
  Past& past = pasts_[{kind_of(query), target}];
  Step<Reply> step{.place = past.asked++};
  // Where the lines of a level behind another one go hangs on pages of memory, which are others by now.
  const bool is_elsewhere = kind_of(query) == Asked::question && reopened_ == Reopened::answers_anew &&
                            facts().buffer_of(target).nearer_bytes.has_value();
  const auto row = past.is_left || is_elsewhere ? std::nullopt : log_->row_at(kind_of(query), target, step.place);
  if (row) {
    auto [then, reply] = exchange(*log_, *row, query);
    if (then == query) {
      step.row = *row;
      step.reply = std::move(reply);
    } else {
      log_->cut(kind_of(query), target, step.place);
      past.is_left = true;
    }
  }
  return step;
}

template <class Reply, class Query>
std::vector<Reply> KeptDevice::replies_to(std::span<const Query> queries) {
  std::vector<Step<Reply>> steps;
  for (const Query& query : queries) {
    steps.push_back(step_of<Reply>(query));
  }
  // The past replies to some of them in a row, the device to those between.
  std::vector<Reply> replies;
  while (replies.size() < queries.size()) {
    const std::size_t begin = replies.size();
    const bool is_past = steps[begin].reply.has_value();
    std::size_t end = begin;
    while (end < steps.size() && steps[end].reply.has_value() == is_past) {
      ++end;
    }
    const auto these = queries.subspan(begin, end - begin);
    if (is_past) {
      for (std::size_t i = begin; i < end; ++i) {
        if constexpr (std::is_same_v<Query, Question>) {
          keep_lead(queries[i], *steps[i].reply);
        }
        replies.push_back(std::move(*steps[i].reply));
      }
      if (reopened_ == Reopened::answers_the_same) {
        confirm(std::ranges::equal(put_to(*device_, these), std::span(replies).subspan(begin),
                                   [](const Reply& a, const Reply& b) { return same(a, b); }));
      }
      continue;
    }
    if constexpr (std::is_same_v<Query, Question>) {
      lead_to(these);
    }
    std::vector<Reply> given = telling_disturbances([&] { return put_to(*device_, these); });
    for (std::size_t i = 0; i < given.size(); ++i) {
      steps[begin + i].row = log_->append(steps[begin + i].place, these[i], given[i]);
      replies.push_back(std::move(given[i]));
    }
    tell_disturbances();
  }
  if (!queries.empty()) {
    Batch& batch = batches_.emplace_back(Batch{.asked = kind_of(queries.front())});
    std::ranges::transform(steps, std::back_inserter(batch.rows), [](const auto& step) { return step.row; });
  }
  return replies;
}

// Only a device that answers anew is led: the others are asked all of it.
void KeptDevice::keep_lead(const Question& question, const Answer& answer) {
  if (reopened_ == Reopened::answers_anew && !answer.refusal) {
    leads_[question.target].add(question);
  }
}

// Puts the caches of the targets where the questions of the past had left them, if that is to be kept.
void KeptDevice::lead_to(std::span<const Question> questions) {
  for (const Question& question : questions) {
    const auto lead = leads_.find(question.target);
    if (lead == leads_.end()) {
      continue;
    }
    if (question.state == model::StartState::keep) {
      static_cast<void>(device_->ask(lead->second.questions()));
    }
    leads_.erase(lead);
  }
}

std::optional<std::vector<std::uint64_t>> KeptDevice::places_of(const std::string& target,
                                                                std::span<const std::uint64_t> offsets) {
  auto places = kept_places(log_->places(), target, offsets);
  if (!places) {
    places = device_->places_of(target, offsets);
    if (places) {
      log_->append_places(target, offsets, *places);
    }
  }
  return places;
}

std::vector<model::Disturbance> KeptDevice::disturbances() const {
  std::vector<model::Disturbance> all = told_;
  for (model::Disturbance& each : device_->disturbances()) {
    if (std::ranges::find(all, each) == all.end()) {
      all.push_back(std::move(each));
    }
  }
  return all;
}

void KeptDevice::begin_piece() {
  device_->begin_piece();
  pasts_before_ = pasts_;
  batches_before_ = batches_.size();
  told_before_ = told_;
}

model::PieceState KeptDevice::discard_piece() {
  // What an earlier run was told touched what the log holds of it.
  if (std::ranges::any_of(told_before_, model::may_touch_answers, &model::Disturbance::kind)) {
    return model::PieceState::settled;
  }
  const model::PieceState state = device_->discard_piece();
  if (state != model::PieceState::discarded) {
    return state;
  }
  for (auto& [of_target, past] : pasts_) {
    const Past before = pasts_before_[of_target];
    if (past.asked != before.asked) {
      log_->cut(of_target.first, of_target.second, before.asked);
      past = {.asked = before.asked, .is_left = true};
    }
  }
  batches_.resize(batches_before_);
  told_ = told_before_;
  told_ = disturbances();
  log_->append_disturbances(told_);
  return state;
}

// A run that goes on where this one failed has to know what touched the answers until then.
template <class Asking>
auto KeptDevice::telling_disturbances(Asking asking) -> decltype(asking()) {
  try {
    return asking();
  } catch (const DeviceError&) {
    look_due_ = {};
    tell_disturbances();
    throw;
  }
}

// To look takes some devices milliseconds, others nothing.
void KeptDevice::tell_disturbances() {
  constexpr int share_of_time = 100;
  const auto begin = Clock::now();
  if (begin < look_due_) {
    return;
  }
  if (std::vector<model::Disturbance> all = disturbances(); all != told_) {
    log_->append_disturbances(all);
    told_ = std::move(all);
  }
  const auto end = Clock::now();
  look_due_ = end + share_of_time * (end - begin);
}

void KeptDevice::confirm(bool same_as_then) const {
  if (!same_as_then) {
    throw InputError(log_->file().string() + ": " + facts().source +
                     " answers otherwise than it did then; bring back what it was, or begin another run with "
                     "--record");
  }
}

bool KeptDevice::write_to(ArchiveWriter& archive, const std::function<bool()>& stop_requested) const {
  for (const Batch& batch : batches_) {
    if (stop_requested()) {
      return false;
    }
    std::vector<Question> questions;
    std::vector<Answer> answers;
    std::vector<Workload> workloads;
    std::vector<Timing> timings;
    for (const AnswerLog::RowId row : batch.rows) {
      if (batch.asked == Asked::question) {
        AnsweredQuestion answered = log_->question(row);
        questions.push_back(std::move(answered.question));
        answers.push_back(std::move(answered.answer));
      } else {
        TimedWorkload timed = log_->workload(row);
        workloads.push_back(timed.workload);
        timings.push_back(std::move(timed.timing));
      }
    }
    batch.asked == Asked::question ? archive.append(questions, answers) : archive.append(workloads, timings);
  }
  for (const auto& [target, of_target] : log_->places()) {
    std::vector<std::uint64_t> offsets;
    std::vector<std::uint64_t> places;
    for (const auto& [offset, place] : of_target) {
      offsets.push_back(offset);
      places.push_back(place);
    }
    archive.append(target, offsets, places);
  }
  return !stop_requested();
}

}  // namespace gpuinfer::probe
