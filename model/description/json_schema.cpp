// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/description/json_schema.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "model/description/evidence.hpp"
#include "model/description/values.hpp"
#include "model/json_text.hpp"

namespace gpuinfer::model {

namespace {

using Json = nlohmann::ordered_json;

// On one line where there is room for it.
std::string laid_out(const Json& value, std::size_t indent, std::size_t columns_before) {
  constexpr std::size_t columns = 120;
  if (!value.is_structured()) {
    return json_text(value);
  }
  const bool is_map = value.is_object();
  std::vector<std::pair<std::string, const Json*>> items;
  for (const auto& [key, item] : value.items()) {
    items.emplace_back(is_map ? words::together({json_text(Json(key)), ": "}) : "", &item);
  }
  std::string line;
  for (const auto& [key, item] : items) {
    line += words::together({line.empty() ? "" : ", ", key, laid_out(*item, 0, 0)});
  }
  const char open = is_map ? '{' : '[';
  const char close = is_map ? '}' : ']';
  if (columns_before + line.size() + 3 <= columns && line.find('\n') == std::string::npos) {
    return words::together({{&open, 1}, line, {&close, 1}});
  }
  const std::string blanks(indent + 2, ' ');
  std::string text(1, open);
  for (const auto& [key, item] : items) {
    text += words::together({item == items.front().second ? "\n" : ",\n", blanks, key,
                             laid_out(*item, indent + 2, blanks.size() + key.size())});
  }
  return words::together({text, "\n", std::string(indent, ' '), {&close, 1}});
}

schema::Object schema_of_all(const Sections<DeviceDescription>& all) {
  schema::Object properties{{"schema", "{const: \"gpuinfer/1\"}"}};
  schema::Object definitions;
  for (const auto& section : all) {
    schema::Object value = schema::or_null(section.schema);
    value.emplace_back("description", to_yaml_scalar(std::string(section.meaning)));
    properties.emplace_back(section.key, schema::text(value));
    if (section.key == "caches") {
      definitions.emplace_back("cache_leaf", schema::text({{"enum", schema::word_list(section.leaves)}}));
    }
  }
  for (const auto& each : {codec::definitions(), evidence_definitions()}) {
    for (const auto& [name, object] : each) {
      definitions.emplace_back(name, schema::text(object));
    }
  }
  schema::Object root{
      {"$schema", "\"https://json-schema.org/draft/2020-12/schema\""},
      {"$id", "\"urn:gpuinfer:schema:1\""},
      {"$comment", "\"SPDX-FileCopyrightText: The gpuinfer authors; SPDX-License-Identifier: Apache-2.0. Generated.\""},
      {"title", "\"Device description gpuinfer/1\""},
      {"description", "\"What gpuinfer infers and what virtual devices are made of. null: not known.\""}};
  const schema::Object map = schema::map(properties, {"schema"});
  root.insert(root.end(), map.begin(), map.end());
  root.emplace_back("$defs", schema::text(definitions));
  return root;
}

void add_rows(std::string& table, const std::string& prefix, const std::vector<LeafFacts>& leaves) {
  for (const LeafFacts& leaf : leaves) {
    const std::string name = words::together({prefix, leaf.name});
    if (!leaf.meaning.empty()) {
      table += words::together({"| `", name, "` | ", leaf.unit, " | ", leaf.meaning, " |\n"});
    }
    add_rows(table, name + ".", leaf.parts);
  }
}

}  // namespace

std::string json_schema(const Sections<DeviceDescription>& all) {
  return laid_out(parse_ordered_json(to_json(parse_yaml(schema::text(schema_of_all(all)), "schema"))), 0, 0) + "\n";
}

std::string leaf_tables(const Sections<DeviceDescription>& all) {
  std::string text;
  for (const auto& section : all) {
    if (section.facts.empty()) {
      continue;
    }
    const std::string target = section.target.empty() ? "" : words::together({"; target `", section.target, "`"});
    text += words::together({text.empty() ? "" : "\n", "### `", section.key, "`\n\n", section.meaning, target,
                             "\n\n| leaf | unit | meaning |\n|---|---|---|\n"});
    // The leaves of a table are names; what stands under each of them is the same. Others have a meaning of their own.
    std::vector<LeafFacts> rows = section.facts;
    const auto others = std::ranges::find_if(rows, [](const LeafFacts& each) { return !each.meaning.empty(); });
    if (others != rows.begin()) {
      std::string names;
      for (auto each = rows.begin(); each != others; ++each) {
        names += words::together({names.empty() ? "`" : ", `", each->name, "`"});
      }
      text += words::together({"| ", names, " | | a map of what follows |\n"});
      const std::vector<LeafFacts> parts = rows.front().parts;
      rows.erase(rows.begin(), others);
      rows.insert(rows.begin(), parts.begin(), parts.end());
    }
    add_rows(text, "", rows);
  }
  return text;
}

}  // namespace gpuinfer::model
