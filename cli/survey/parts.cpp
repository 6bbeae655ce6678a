// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/survey/parts.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/file_text.hpp"
#include "model/errors.hpp"
#include "model/json_text.hpp"
#include "probe/output_file.hpp"

namespace fs = std::filesystem;

namespace gpuinfer::cli::survey {

namespace {

constexpr const char* facts_name = "survey.json";

void write_whole(const fs::path& file, const std::string& text) {
  probe::OutputFile output(file);
  std::ofstream stream(output.working_name(), std::ios::binary);
  stream << text;
  stream.close();
  if (!stream) {
    throw probe::not_whole(file.string());
  }
  output.publish();
}

SurveyFacts facts_in(const fs::path& file) {
  const auto text = file_text(file);
  try {
    return model::parse_json(text.value_or("")).get<SurveyFacts>();
  } catch (const nlohmann::json::exception&) {
    throw InputError(file.string() + ": does not say of which survey it is; remove its folder to begin anew");
  }
}

void check_same(const fs::path& folder, const SurveyFacts& begun, const SurveyFacts& now) {
  for (const auto& [name, value] : now) {
    const auto then = begun.find(name);
    if (then == begun.end() || then->second != value) {
      throw InputError(folder.string() + ": is of a survey with " + name + " `" +
                       (then == begun.end() ? "" : then->second) + "`, and this one has `" + value +
                       "`; go on with it as it was begun, or remove the folder");
    }
  }
}

}  // namespace

Parts::Parts(const std::optional<std::string>& fleet, bool resume, const SurveyFacts& survey) {
  if (!fleet) {
    return;
  }
  folder_ = *fleet + ".parts";
  const fs::path facts = *folder_ / facts_name;
  std::error_code error;
  if (fs::exists(facts, error)) {
    if (!resume) {
      throw InputError(folder_->string() +
                       ": holds results of a survey that was not complete; go on with --resume, or remove it");
    }
    check_same(*folder_, facts_in(facts), survey);
    return;
  }
  fs::create_directories(*folder_, error);
  if (error) {
    throw InputError(folder_->string() + ": cannot be made; name a file in a folder that exists and may be written to");
  }
  write_whole(facts, model::json_text(nlohmann::json(survey), {.indent = 2}) + '\n');
}

fs::path Parts::file_of(const Task& task) const { return *folder_ / (task.key + ".json"); }

void Parts::keep(const Task& task, const Result& result) {
  if (folder_) {
    write_whole(file_of(task), to_text(result));
    return;
  }
  const std::lock_guard lock(mutex_);
  in_memory_[task.key] = to_text(result);
}

std::optional<Result> Parts::find(const Task& task) const {
  if (!folder_) {
    const std::lock_guard lock(mutex_);
    const auto kept = in_memory_.find(task.key);
    return kept == in_memory_.end() ? std::nullopt : std::optional(parse_result(kept->second, task.device));
  }
  const auto text = file_text(file_of(task));
  if (!text) {
    return std::nullopt;
  }
  try {
    return parse_result(*text, file_of(task).string());
  } catch (const InputError&) {
    return std::nullopt;  // the machine went down while it was written
  }
}

void Parts::remove() {
  std::error_code ignored;
  if (folder_) {
    fs::remove_all(*folder_, ignored);
  }
}

}  // namespace gpuinfer::cli::survey
