// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/answerer.hpp"
#include "probe/keep/answer_log.hpp"
#include "probe/lead.hpp"

namespace gpuinfer::probe {

class ArchiveWriter;

// What a device does when it is opened again and asked the same questions in the same order.
enum class Reopened {
  answers_the_same,  // so it is led to where it was: virtual devices, recordings
  answers_anew,      // a GPU, or a process of which nothing is known
};

// A device, which outlives it as `log` does, with every answer in the log before it is handed on. What the log holds of
// earlier runs is the answer as long as the questions are the same in the same order; what it lost is asked again.
// Where another question is asked than then (another budget may lead to one), the rest of that target's past does not
// count. One that answers the same is asked what the past holds as well, and has to confirm it. Of one that answers
// anew, a question that keeps the state which another one left has those before it asked again, from the last start
// that does not keep any, or at most a million loads; those answers are not used. And what it answered before of a
// level behind another one (BufferFacts::nearer_bytes) does not count.
//
// ask() and time() throw InputError when the device does not confirm the past, and besides what the log and the device
// throw.
class KeptDevice final : public model::Answerer {
 public:
  KeptDevice(model::Answerer& device, AnswerLog& log, Reopened reopened);

  [[nodiscard]] const model::DeviceFacts& facts() const override { return device_->facts(); }
  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override;
  [[nodiscard]] std::vector<model::Timing> time(std::span<const model::Workload> workloads) override;
  [[nodiscard]] std::optional<std::vector<std::uint64_t>> places_of(const std::string& target,
                                                                    std::span<const std::uint64_t> offsets) override;
  [[nodiscard]] std::vector<model::Disturbance> disturbances() const override;
  // Answers to a piece that is discarded neither count in the log nor in the archive.
  void begin_piece() override;
  [[nodiscard]] model::PieceState discard_piece() override;

  // All that it was asked since it was made, in that order, but for what was discarded. False: not all, as
  // stop_requested() held.
  bool write_to(
      ArchiveWriter& archive, const std::function<bool()>& stop_requested = [] { return false; }) const;

 private:
  // What was asked together.
  struct Batch {
    Asked asked = Asked::question;
    std::vector<AnswerLog::RowId> rows = {};
  };
  // Of a target.
  struct Past {
    std::uint64_t asked = 0;  // so many, in this run
    bool is_left = false;     // other questions were asked than then
  };
  // One query of a batch, and what the past replies to it.
  template <class Reply>
  struct Step {
    std::uint64_t place = 0;
    AnswerLog::RowId row = 0;
    std::optional<Reply> reply = {};
  };

  template <class Reply, class Query>
  [[nodiscard]] std::vector<Reply> replies_to(std::span<const Query> queries);
  template <class Reply, class Query>
  [[nodiscard]] Step<Reply> step_of(const Query& query);
  void keep_lead(const model::Question& question, const model::Answer& answer);
  void lead_to(std::span<const model::Question> questions);
  template <class Asking>
  auto telling_disturbances(Asking asking) -> decltype(asking());
  void tell_disturbances();
  void confirm(bool same_as_then) const;

  model::Answerer* device_;
  AnswerLog* log_;
  Reopened reopened_;
  using Pasts = std::map<std::pair<Asked, std::string>, Past>;  // by target

  Pasts pasts_;
  std::map<std::string, Lead> leads_;  // by target
  std::vector<Batch> batches_;
  std::vector<model::Disturbance> told_;
  // When the piece began.
  Pasts pasts_before_;
  std::size_t batches_before_ = 0;
  std::vector<model::Disturbance> told_before_;
  std::chrono::steady_clock::time_point look_due_;
};

}  // namespace gpuinfer::probe
