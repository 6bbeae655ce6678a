// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/run_log.hpp"

#include <algorithm>
#include <utility>

namespace gpuinfer::infer {

void RunLog::inquire(std::string asked, std::string why) {
  inquiries_.push_back({.asked = std::move(asked),
                        .why = std::move(why),
                        .learned = {},
                        .questions = 0,
                        .accesses = 0,
                        .hypotheses_before = {},
                        .hypotheses_after = {}});
}

void RunLog::learned(std::string what, std::optional<std::size_t> hypotheses_before,
                     std::optional<std::size_t> hypotheses_after) {
  model::Inquiry& inquiry = inquiries_.at(inquiries_.size() - 1);
  inquiry.learned = std::move(what);
  inquiry.hypotheses_before = hypotheses_before;
  inquiry.hypotheses_after = hypotheses_after;
}

void RunLog::report(std::string finding, double done, std::string detail) {
  progress_.finding = std::move(finding);
  progress_.detail = std::move(detail);
  progress_.done = std::max(progress_.done, done);
  settings_->on_progress(progress_);
}

void RunLog::count(std::size_t questions, std::size_t accesses) {
  progress_.questions += questions;
  progress_.accesses += accesses;
  if (!inquiries_.empty()) {
    inquiries_.back().questions += questions;
    inquiries_.back().accesses += accesses;
  }
  settings_->on_progress(progress_);
}

}  // namespace gpuinfer::infer
