// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/description/schema.hpp"

#include <algorithm>

#include "model/yaml_tree.hpp"

namespace gpuinfer::model::schema {

std::string text(const Object& object) { return flow_map(object); }

Object number(std::string_view type, const std::string& least, const std::string& most) {
  return {{"type", std::string(type)}, {"minimum", least}, {"maximum", most}};
}

Object list(const Object& item, std::size_t least, std::size_t most) {
  Object object{{"type", "array"}, {"items", text(item)}};
  if (least > 0) {
    object.emplace_back("minItems", std::to_string(least));
  }
  if (most != std::string::npos) {
    object.emplace_back("maxItems", std::to_string(most));
  }
  return object;
}

std::string word_list(std::span<const std::string_view> words) {
  std::vector<std::string> texts;
  for (const std::string_view word : words) {
    texts.push_back(to_yaml_scalar(std::string(word)));
  }
  return flow_list(texts);
}

Object words(std::span<const std::string_view> words) {
  std::vector<std::string> texts;
  for (const std::string_view word : words) {
    texts.push_back(to_yaml_scalar(std::string(word)));
    if (word == "true" || word == "false") {
      texts.emplace_back(word);
    }
  }
  return {{"enum", flow_list(texts)}};
}

Object any_text() { return {{"type", "[string, number, boolean]"}}; }

Object map(const Object& properties, const std::vector<std::string_view>& needed) {
  Object object{{"type", "object"}, {"properties", text(properties)}};
  if (!needed.empty()) {
    object.emplace_back("required", word_list(needed));
  }
  object.emplace_back("additionalProperties", "false");
  return object;
}

Object one_of(const std::vector<Object>& choices) {
  std::vector<std::string> texts(choices.size());
  std::ranges::transform(choices, texts.begin(), text);
  return {{"oneOf", flow_list(texts)}};
}

Object constant(std::string_view word) { return {{"const", to_yaml_scalar(std::string(word))}}; }

Object reference(std::string_view definition) { return {{"$ref", "\"#/$defs/" + std::string(definition) + "\""}}; }

Object or_null(Object object) {
  if (object.empty()) {
    return object;
  }
  const auto with = [](const std::string& list, const std::string& item) {
    return list.starts_with('[') ? list.substr(0, list.size() - 1) + ", " + item + "]" : "[" + list + ", " + item + "]";
  };
  auto& [key, value] = object.front();
  if (key == "type") {
    value = with(value, "\"null\"");
    return object;
  }
  if (key == "enum") {
    value = with(value, "null");
    return object;
  }
  return {{"anyOf", flow_list({text(object), "{type: \"null\"}"})}};
}

}  // namespace gpuinfer::model::schema
