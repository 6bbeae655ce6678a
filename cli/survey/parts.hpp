// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "cli/survey/request.hpp"
#include "cli/survey/result.hpp"

namespace gpuinfer::cli::survey {

// What two surveys must have in common for one to go on with the other, as texts by name.
using SurveyFacts = std::map<std::string, std::string>;

// Where results are kept as they come. In a folder: a file for each device, which has its name only when it is whole,
// and survey.json, which says what was asked for. Several threads may keep results at a time.
class Parts {
 public:
  // In a folder beside `fleet`, FLEET.parts; none: in memory, where no later survey finds them. `survey`: of this one.
  // Throws InputError when the folder cannot be made, when it is there and `resume` is false, or when it is of another
  // survey.
  Parts(const std::optional<std::string>& fleet, bool resume, const SurveyFacts& survey);
  ~Parts() = default;
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  // Throws Error when it cannot be written whole.
  void keep(const Task& task, const Result& result);
  // None: nothing whole is there.
  [[nodiscard]] std::optional<Result> find(const Task& task) const;
  // The survey is complete.
  void remove();

  [[nodiscard]] bool are_on_disk() const { return folder_.has_value(); }

  // Where they are, for a sentence.
  [[nodiscard]] std::string place() const { return folder_ ? folder_->string() : "memory"; }

 private:
  [[nodiscard]] std::filesystem::path file_of(const Task& task) const;

  std::optional<std::filesystem::path> folder_;  // none: in memory
  mutable std::mutex mutex_;
  std::map<std::string, std::string> in_memory_;  // texts, by the key of the task
};

}  // namespace gpuinfer::cli::survey
