// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/answerer.hpp"

// The JSON lines between `exec:` and `serve`, both directions. Lines are without their line ends. What is read is
// checked; it throws InputError with one sentence.
namespace gpuinfer::probe::wire {

// Throws InputError, also where lists and objects are nested so deep that going through them could exhaust the stack.
[[nodiscard]] nlohmann::json parse_object(const std::string& line);

[[nodiscard]] std::string greeting_line(const model::DeviceFacts& facts);
// The source is left empty: it is the reader who knows it.
[[nodiscard]] model::DeviceFacts parse_greeting(const std::string& line);

// The objects in which a device says what circumstances it heeds, and a question names some: also in archives. Empty
// for none.
[[nodiscard]] nlohmann::json heeded_by(const model::DeviceFacts& facts);
void read_heeded(const nlohmann::json& object, model::DeviceFacts& facts);
[[nodiscard]] nlohmann::json to_json(const model::Circumstances& circumstances);
[[nodiscard]] model::Circumstances parse_circumstances(const nlohmann::json& object);

[[nodiscard]] nlohmann::json to_json(const model::PathDescription& path);  // without latencies
[[nodiscard]] model::PathDescription parse_path(const nlohmann::json& object);

// As archives keep it. What is parsed is not malformed.
[[nodiscard]] nlohmann::json to_json(const model::Workload& workload);
[[nodiscard]] model::Workload parse_workload(const nlohmann::json& object);

[[nodiscard]] std::string question_line(std::uint64_t id, const model::Question& question);

// A line that should be a question: either it is one, or `error` says what is wrong with it. The id goes back with the
// answer as it came, null where the line has no number or text for one.
struct Asked {
  nlohmann::json id;
  model::Question question;
  std::optional<std::string> error;
};
[[nodiscard]] Asked parse_question(const std::string& line);

// `disturbances`: of model::Answerer, none to be silent about them.
[[nodiscard]] std::string answer_line(const nlohmann::json& id, const model::Answer& answer,
                                      const std::vector<model::Disturbance>& disturbances = {});

struct Answered {
  std::uint64_t id = 0;
  model::Answer answer;
  std::optional<std::vector<model::Disturbance>> disturbances = {};  // all so far; none: nothing new
};
[[nodiscard]] Answered parse_answer(const std::string& line);

}  // namespace gpuinfer::probe::wire
