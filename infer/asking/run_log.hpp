// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "infer/asking/settings.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

// What an inference asks, why, and what it learns from that, with what each step costs.
class RunLog {
 public:
  explicit RunLog(const Settings& settings) : settings_(&settings) {}

  // Opens an entry, to which all questions that follow are counted; learned() completes it. An entry that nothing was
  // learned from (an exception came in between) stays as it is.
  void inquire(std::string asked, std::string why);
  void learned(std::string what, std::optional<std::size_t> hypotheses_before = {},
               std::optional<std::size_t> hypotheses_after = {});
  [[nodiscard]] const std::vector<model::Inquiry>& inquiries() const { return inquiries_; }

  // Tells whoever waits what is being found out, and which share of the whole is done.
  void report(std::string finding, double done, std::string detail = {});

  [[nodiscard]] std::size_t questions_asked() const { return progress_.questions; }
  [[nodiscard]] std::size_t accesses_asked() const { return progress_.accesses; }
  [[nodiscard]] const Settings& settings() const { return *settings_; }

 protected:
  void count(std::size_t questions, std::size_t accesses);

 private:
  const Settings* settings_;
  Progress progress_;
  std::vector<model::Inquiry> inquiries_;
};

}  // namespace gpuinfer::infer
