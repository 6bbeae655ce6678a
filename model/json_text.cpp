// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/json_text.hpp"

#include <nlohmann/json.hpp>

namespace gpuinfer::model {

namespace {

template <class Json>
std::string text_of_json(const Json& value, JsonLayout layout) {
  using Handler = typename Json::error_handler_t;
  return value.dump(layout.indent, ' ', layout.is_ascii, layout.replaces_bytes ? Handler::replace : Handler::strict);
}

}  // namespace

nlohmann::json parse_json(std::string_view text) { return nlohmann::json::parse(text, nullptr, false); }

nlohmann::ordered_json parse_ordered_json(std::string_view text) {
  return nlohmann::ordered_json::parse(text, nullptr, false);
}

std::string json_text(const nlohmann::json& value, JsonLayout layout) { return text_of_json(value, layout); }

std::string json_text(const nlohmann::ordered_json& value, JsonLayout layout) { return text_of_json(value, layout); }

}  // namespace gpuinfer::model
