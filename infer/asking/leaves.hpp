// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "infer/asking/finding.hpp"
#include "infer/asking/interrogator.hpp"
#include "model/device_description.hpp"
#include "model/errors.hpp"

namespace gpuinfer::infer {

// What is said of each leaf of a finding while the stages settle one after another. Both outlive it.
class Leaves {
 public:
  // Until its stage comes, each of these leaves is unknown because the stages before it did not end.
  Leaves(const Interrogator& device, Finding& finding, std::span<const char* const> names);

  [[nodiscard]] model::LeafEvidence& operator[](const std::string& leaf) { return finding_.evidence.leaves[leaf]; }

  // The questions since the last leaf was resolved, or since begin(), are taken to have been asked about this one.
  void resolve(const std::string& leaf);
  void begin(const std::string& leaf, std::string reason);

  void leave_open(const std::string& leaf, model::EvidenceStatus status, std::string reason);

  // What is still unknown stays so, for this reason.
  void give_up_rest(const std::string& reason);

  // Goes through stages that ask. Where the asking ends before they do, what is unknown stays so; returns the reason.
  // Throws DeviceError when the device fails before anything is known of any leaf.
  template <class Stages>
  std::optional<std::string> go_through(Stages stages);

  // By Laplace's rule of succession: after n trials that might have refuted a value and none that did, the next one
  // refutes it with probability 1 / (n + 2). `trials_of`: (leaf, questions asked about it) -> n.
  void state_confidence(const std::function<std::size_t(const std::string&, std::size_t)>& trials_of);

  // Adds to the finding what was asked in all.
  void close();

 private:
  [[nodiscard]] bool knows_nothing() const;

  const Interrogator& device_;
  Finding& finding_;
  std::size_t questions_before_ = 0;
};

template <class Stages>
std::optional<std::string> Leaves::go_through(Stages stages) {
  std::string reason;
  try {
    stages();
    return std::nullopt;
  } catch (const AskingEnded& ended) {
    reason = std::string("not asked: ") + ended.what();
    finding_.ended_early = true;
  } catch (const Undecided& undecided) {
    reason = undecided.what();
  } catch (const QuestionRefused& refused) {
    reason = std::string("the device refused a question: ") + refused.what();
  } catch (const DeviceError& failure) {
    if (knows_nothing()) {
      throw;
    }
    reason = std::string("the device failed: ") + failure.what();
    finding_.ended_early = true;
    finding_.device_failure = failure.what();
    finding_.warnings.push_back(std::string("the device failed, so what follows is what was known by then: ") +
                                failure.what());
  }
  give_up_rest(reason);
  return reason;
}

}  // namespace gpuinfer::infer
