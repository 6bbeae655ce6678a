// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// YAML as a tree that knows its lines. JSON is read by the same way, as a subset of YAML.
namespace gpuinfer::model {

struct YamlEntry;

struct YamlNode {
  enum class Kind { null, plain, quoted, list, map };

  Kind kind = Kind::null;
  std::size_t line = 1;
  std::string text;                // plain and quoted
  std::vector<YamlNode> items;     // list
  std::vector<YamlEntry> entries;  // map, in the order of the file, no key twice
};

struct YamlEntry {
  YamlNode key;  // plain or quoted
  YamlNode value;
};

// The one document in `yaml`. `file` stands in messages. Throws InputError "FILE:LINE: ..." for what is not YAML, for a
// key that stands twice, and for anchors, aliases and tags, which a description does not need.
[[nodiscard]] YamlNode parse_yaml(std::string_view yaml, const std::string& file);

// The node on one line. Parsing that line and writing it again gives the same line.
[[nodiscard]] std::string to_flow_yaml(const YamlNode& node);

// `text` as a scalar that reads back as text: plain where nothing could take it for something else, else quoted.
[[nodiscard]] std::string to_yaml_scalar(const std::string& text);

// `{name: value, ...}` and `[value, ...]` from values that are in flow form.
[[nodiscard]] std::string flow_map(const std::vector<std::pair<std::string, std::string>>& entries);
[[nodiscard]] std::string flow_list(const std::vector<std::string>& items);

// The same of what `text_of` makes of each value.
template <class Value, class Text>
[[nodiscard]] std::string flow_list(const std::vector<Value>& values, Text&& text_of) {
  std::vector<std::string> texts(values.size());
  std::transform(values.begin(), values.end(), texts.begin(), text_of);
  return flow_list(texts);
}

// The same values as indented JSON.
[[nodiscard]] std::string to_json(const YamlNode& node);

}  // namespace gpuinfer::model
