// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/answerer.hpp"
#include "model/device_description.hpp"
#include "model/random.hpp"
#include "probe/archive.hpp"

// For tests of the inference alone: a recording that also answers questions which it does not hold.
namespace gpuinfer::test {

// Of one target.
struct Tally {
  std::size_t asked = 0;      // questions and workloads
  std::size_t described = 0;  // of these, answered by a description, or by nobody
  // Why a question had no answer, the first time.
  std::optional<std::string> unanswered = {};

  [[nodiscard]] double described_share() const {
    return asked == 0 ? 0 : static_cast<double>(described) / static_cast<double>(asked);
  }
};

// The device of an archive. What the archive does not hold is simulated on the first of `descriptions` that can play
// the target, at the addresses of the recorded device. Latencies are drawn from those that the archive holds of the
// same target and level, and times of workloads vary as its runs do; the same questions get the same answers each time.
// What no description can answer is refused.
class DescribedAnswers final : public model::Answerer {
 public:
  // Throws as probe::open_recording() does.
  DescribedAnswers(const std::filesystem::path& archive, std::vector<model::DeviceDescription> descriptions);

  [[nodiscard]] const model::DeviceFacts& facts() const override { return recorded_->facts(); }
  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override;
  [[nodiscard]] std::vector<model::Timing> time(std::span<const model::Workload> workloads) override;
  [[nodiscard]] std::optional<std::vector<std::uint64_t>> places_of(const std::string& target,
                                                                    std::span<const std::uint64_t> offsets) override {
    return recorded_->places_of(target, offsets);
  }
  [[nodiscard]] std::vector<model::Disturbance> disturbances() const override { return recorded_->disturbances(); }

  [[nodiscard]] const std::map<std::string, Tally>& tallies() const { return tallies_; }

 private:
  // What the archive holds at one level of a target.
  struct Level {
    double described_cycles = 0;
    std::vector<float> recorded_cycles = {};
  };
  // What answers for the archive.
  struct Simulation {
    std::unique_ptr<model::Answerer> device;
    std::vector<Level> levels;           // of single loads
    std::vector<double> relative_times;  // of each recorded run, to the median of its workload
  };

  Simulation& simulation_of(const std::string& target);
  [[nodiscard]] std::vector<Level> levels_of(const model::DeviceDescription& description,
                                             const std::string& target) const;
  [[nodiscard]] std::vector<double> relative_times_of(const std::string& target) const;
  const probe::Archive& archive();
  model::Answer answer(const model::Question& question);
  model::Timing timing(const model::Workload& workload);

  std::filesystem::path file_;
  std::vector<model::DeviceDescription> descriptions_;
  std::unique_ptr<probe::RecordedDevice> recorded_;
  std::optional<probe::Archive> archive_;
  std::map<std::string, Simulation> simulations_;  // by target
  // Since the last start that keeps nothing: a simulation is led through them before it goes on from what they left.
  std::vector<model::Question> since_start_;
  std::map<std::string, Tally> tallies_;
  model::Random random_{1};
};

}  // namespace gpuinfer::test
