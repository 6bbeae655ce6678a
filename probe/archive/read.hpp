// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/answerer.hpp"
#include "model/trace.hpp"
#include "probe/archive.hpp"
#include "probe/archive/columns.hpp"
#include "probe/archive/format.hpp"
#include "probe/kept_answers.hpp"

// Takes archives apart that somebody may have tampered with. All throw InputError as probe::read_archive() does.
namespace gpuinfer::probe::archive {

// All but the questions.
struct Contents {
  model::DeviceFacts facts;
  std::vector<model::Disturbance> disturbances;
  std::vector<TimedWorkload> timed;
  PlacesByTarget places;
  // Of which a question or a workload was answered, in the order of the facts.
  std::vector<std::string> answered_targets;
  // Of which a question was answered, in the order in which they were asked first.
  std::vector<std::string> traced_targets;
};

// A question with what came of it, in the columns of Launches.
struct Exchange {
  std::size_t group = 0;
  std::size_t row = 0;  // in the group
  const std::string* target = nullptr;
  const model::Circumstances* circumstances = nullptr;
  model::StartState state = model::StartState::clean;
  Range warm;
  Range record;
  Latencies latency_cycles = {};
  std::optional<std::string> refusal = {};
};

// What was asked, or a part of it. Equal sequences and circumstances are there once.
class Launches {
 public:
  // What HDF5 unpacks of a file, as it was found.
  struct Group;
  struct Columns;

  // Checks what it takes over. Throws hdf5::Failure.
  explicit Launches(std::shared_ptr<const Columns> columns);

  [[nodiscard]] std::uint64_t asked_accesses() const { return asked_accesses_; }
  // In the order in which they were asked.
  [[nodiscard]] const std::vector<Exchange>& exchanges() const { return exchanges_; }
  [[nodiscard]] Offsets sequence(Range range) const;
  // launch_000000/3
  [[nodiscard]] std::string name_of(const Exchange& exchange) const;
  // Into `question`, so that one after another needs no memory of its own.
  void copy_question(const Exchange& exchange, model::Question& question) const;
  [[nodiscard]] static model::Answer answer_of(const Exchange& exchange);

 private:
  void take(std::size_t group);

  std::shared_ptr<const Columns> columns_;
  std::set<std::string, std::less<>> targets_;
  std::vector<Exchange> exchanges_;
  std::uint64_t asked_accesses_ = 0;  // of all of them together
};

[[nodiscard]] Contents read_contents(const std::filesystem::path& path);
[[nodiscard]] model::DeviceFacts read_facts(const std::filesystem::path& path);

[[nodiscard]] Launches read_launches(const std::filesystem::path& path, const Wanted& wanted);

}  // namespace gpuinfer::probe::archive
