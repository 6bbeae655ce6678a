// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "cli/survey/request.hpp"
#include "cli/survey/result.hpp"

namespace gpuinfer::cli::survey {

// What two surveys must have in common for one to go on with the other, as texts by name.
using SurveyFacts = std::map<std::string, std::string>;

// The folder in which results are kept as they come: a file for each device, which has its name only when it is whole,
// and survey.json, which says what was asked for.
class Parts {
 public:
  // Beside `fleet`, as FLEET.parts; none: in the folder for temporary files, and no later survey finds it. `survey`: of
  // this one. Throws InputError when the folder cannot be made, when it is there and `resume` is false, or when it is
  // of another survey.
  Parts(const std::optional<std::string>& fleet, bool resume, const SurveyFacts& survey);
  // A folder for temporary files goes.
  ~Parts();
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  // Throws Error when it cannot be written whole.
  void keep(const Task& task, const Result& result) const;
  // None: nothing whole is there.
  [[nodiscard]] std::optional<Result> find(const Task& task) const;
  // The survey is complete.
  void remove();

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  [[nodiscard]] std::filesystem::path file_of(const Task& task) const;

  std::filesystem::path folder_;
  bool is_temporary_ = false;
};

}  // namespace gpuinfer::cli::survey
