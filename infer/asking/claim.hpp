// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/run_log.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

// What a stage says of one leaf. Whether the leaf is resolved is decided later, by all claims and doubts together.
template <class Value>
struct Claim {
  std::optional<Value> value = {};
  std::vector<Value> alternatives = {};  // where several values are left
  std::string reason = {};               // why there is no value, or only a part of one
  bool has_none = false;                 // it was shown, by the trials, that there is no such value
  std::size_t questions = 0;             // that were asked about it
  bool stands_alone = false;             // shown by trials of its own, whatever is wrong with claims of other leaves
  std::size_t trials = 0;                // that could have refuted the value, and did not
  std::string tested = {};               // what these trials were, where that explains why the value may be doubted
  std::optional<model::DepartureBound> bound = {};
  model::EvidenceDetails details = {};
};

// The claim that a stage makes, with the questions that it asked.
template <class Stage>
auto counted(const RunLog& log, Stage stage) {
  const std::size_t before = log.questions_asked();
  auto claim = stage();
  claim.questions = log.questions_asked() - before;
  return claim;
}

// The same of a stage each question of which could have refuted the value, or more than these where the stage says so.
template <class Stage>
auto counted_as_trials(const RunLog& log, Stage stage) {
  auto claim = counted(log, std::move(stage));
  claim.trials = std::max(claim.trials, claim.questions);
  return claim;
}

}  // namespace gpuinfer::infer
