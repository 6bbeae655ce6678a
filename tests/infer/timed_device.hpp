// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "model/answerer.hpp"
#include "model/errors.hpp"

namespace gpuinfer::infer::foreign {

// A device that carries out workloads of one kind, by a law of its own, and nothing else.
template <class Kind>
class TimedDevice : public model::Answerer {
 public:
  void fail_after(std::size_t workloads) { workloads_left_ = workloads; }

  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    return std::vector<model::Answer>(questions.size(), {.latency_cycles = {}, .refusal = "workloads only"});
  }

  std::vector<model::Timing> time(std::span<const model::Workload> workloads) override {
    std::vector<model::Timing> timings;
    for (const model::Workload& workload : workloads) {
      if (workloads_left_-- == 0) {
        throw DeviceError("the device fell off the bus; reset it");
      }
      timings.push_back(timing_of(std::get<Kind>(workload)));
    }
    return timings;
  }

 protected:
  TimedDevice() {
    facts_.name = "foreign";
    facts_.source = "test";
    facts_.targets = {std::string(target_of(model::Workload(Kind{})))};
  }

  virtual model::Timing timing_of(const Kind& workload) = 0;

  static model::Timing refused(const std::string& sentence) {
    return {.cycles = {}, .seconds = {}, .refusal = sentence};
  }

  model::DeviceFacts facts_;

 private:
  std::size_t workloads_left_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace gpuinfer::infer::foreign
