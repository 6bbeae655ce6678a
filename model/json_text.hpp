// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

// JSON to text and back. The library's parser and writer are templates, which the compiler takes seconds for wherever
// they are called; called through these they are compiled once.
namespace gpuinfer::model {

// A discarded value for what is no JSON.
[[nodiscard]] nlohmann::json parse_json(std::string_view text);
[[nodiscard]] nlohmann::ordered_json parse_ordered_json(std::string_view text);

struct JsonLayout {
  int indent = -1;              // on one line
  bool is_ascii = false;        // all other characters escaped
  bool replaces_bytes = false;  // those that are not UTF-8; else nlohmann::json::type_error is thrown for them
};

[[nodiscard]] std::string json_text(const nlohmann::json& value, JsonLayout layout = {});
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& value, JsonLayout layout = {});

}  // namespace gpuinfer::model
