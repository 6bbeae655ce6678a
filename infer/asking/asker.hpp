// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/asking/ending.hpp"
#include "infer/asking/run_log.hpp"
#include "infer/asking/settings.hpp"
#include "infer/asking/starts.hpp"
#include "model/answerer.hpp"

namespace gpuinfer::infer {

// Asks one target of one device within budget and deadline, and keeps the log. It takes latencies as they are; an
// Interrogator reads them.
class Asker : public RunLog, public Starts {
 public:
  // `device` and `settings` outlive it.
  Asker(model::Answerer& device, std::string target, const Settings& settings);
  virtual ~Asker() = default;
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;
  Asker(Asker&&) = default;
  Asker& operator=(Asker&&) = default;

  // Latencies of the recorded accesses, one list for each question. Throws AskingEnded, QuestionRefused, DeviceError.
  [[nodiscard]] std::vector<std::vector<float>> latencies(std::span<const model::Question> questions);

  // One for each workload. Throws AskingEnded, QuestionRefused, DeviceError.
  [[nodiscard]] std::vector<model::Timing> time(std::span<const model::Workload> workloads);

  // False: the device refuses it. Throws AskingEnded, DeviceError.
  [[nodiscard]] bool is_taken(const model::Workload& workload);

  // As Answerer::places_of() of the target; counts as one question without accesses. Throws AskingEnded, DeviceError.
  [[nodiscard]] std::optional<std::vector<std::uint64_t>> places_of(std::span<const std::uint64_t> offsets);

  // Whether its target is one of these.
  [[nodiscard]] bool is_among(const std::vector<std::string>& targets) const;

  // Throws AskingEnded when so many more accesses are not allowed, or no more time.
  void check_limits(std::size_t accesses) const;

  // Finds out which start the device can give. Throws QuestionRefused when it answers nothing at all.
  void choose_start();

 protected:
  // Called for each answer to latencies() that is one of single loads and nothing else.
  virtual void hear(const model::Question& /*question*/, std::span<const float> /*latency_cycles*/) {}

 private:
  [[nodiscard]] std::vector<model::Answer> ask_within_limits(std::span<const model::Question> questions);

  model::Answerer* device_;
};

}  // namespace gpuinfer::infer
