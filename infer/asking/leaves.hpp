// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/finding.hpp"
#include "infer/asking/run_log.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

// By Laplace's rule of succession: after n trials that might have refuted a value and none that did, the next one
// refutes it with probability 1 / (n + 2).
[[nodiscard]] double confidence_after(std::size_t trials);

// What a function that asks nothing decides of a leaf.
struct LeafVerdict {
  [[nodiscard]] static LeafVerdict resolved() { return {.status = model::EvidenceStatus::resolved}; }

  model::EvidenceStatus status = model::EvidenceStatus::unknown;
  std::string reason = {};  // unless it is resolved
  std::vector<model::FlowYaml> alternatives = {};
};

// What is said of each leaf of a finding while the stages settle one after another. All outlive it.
class Leaves {
 public:
  // Until its stage comes, each of these leaves is unknown because the stages before it did not end.
  Leaves(const RunLog& log, Finding& finding, std::span<const char* const> names);

  [[nodiscard]] model::LeafEvidence& operator[](const std::string& leaf) { return finding_.evidence.leaves[leaf]; }

  // The questions since the last leaf was resolved, or since begin(), are taken to have been asked about these.
  // `trials`: how many trials could have refuted the value and did not, for its confidence; none: that is not known.
  void resolve(const std::string& leaf, std::optional<std::size_t> trials = std::nullopt);
  void resolve(std::span<const char* const> leaves, std::optional<std::size_t> trials = std::nullopt);
  void begin(const std::string& leaf, std::string reason);
  [[nodiscard]] std::size_t questions() const { return log_->questions_asked() - questions_before_; }

  void leave_open(const std::string& leaf, model::EvidenceStatus status, std::string reason);

  // Resolves the leaf or leaves it open, as was decided.
  void settle(const std::string& leaf, const LeafVerdict& verdict, std::optional<std::size_t> trials = std::nullopt);

  // What is still unknown stays so, for this reason.
  void give_up_rest(const std::string& reason);

  // Goes through stages that ask. Where the asking ends before they do, what is unknown stays so; returns the reason.
  // Throws DeviceError when the device fails before anything is known of any leaf.
  template <class Stages>
  std::optional<std::string> go_through(Stages stages);

  // States the confidence of all resolved leaves where the trials are known at the end only. `trials_of`: (leaf,
  // questions asked about it) -> n.
  void state_confidence(const std::function<std::size_t(const std::string&, std::size_t)>& trials_of);

  // Goes on with another log that begins with all that the one before holds.
  void go_on_with(const RunLog& log) { log_ = &log; }

  // Adds to the finding what was asked in all.
  void close();

 private:
  [[nodiscard]] bool knows_nothing() const;

  const RunLog* log_;
  Finding& finding_;
  std::size_t questions_before_ = 0;
};

template <class Stages>
std::optional<std::string> Leaves::go_through(Stages stages) {
  std::optional<std::string> reason = infer::go_through(
      finding_, [this] { return knows_nothing(); }, stages);
  if (reason) {
    give_up_rest(*reason);
  }
  return reason;
}

}  // namespace gpuinfer::infer
