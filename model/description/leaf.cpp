// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/description/leaf.hpp"

#include "model/description/codec.hpp"

namespace gpuinfer::model {

schema::Object schema_of(const std::vector<LeafFacts>& leaves) {
  schema::Object properties;
  std::vector<std::string_view> needed;
  std::vector<std::string> conditions;
  for (const LeafFacts& leaf : leaves) {
    if (leaf.is_of_evidence_alone) {
      continue;
    }
    schema::Object value = leaf.is_needed ? leaf.schema : schema::or_null(leaf.schema);
    if (!leaf.meaning.empty()) {
      value.emplace_back("description", to_yaml_scalar(std::string(leaf.meaning)));
    }
    properties.emplace_back(leaf.name, schema::text(value));
    if (leaf.is_needed) {
      needed.push_back(leaf.name);
    }
    if (!leaf.needs.empty()) {
      const std::string name(leaf.name);
      const std::string not_null = ": {not: {type: \"null\"}}";
      std::vector<std::pair<std::string, std::string>> others;
      for (const std::string_view other : leaf.needs) {
        others.emplace_back(other, "{not: {type: \"null\"}}");
      }
      conditions.push_back("{if: {properties: {" + name + not_null + "}, required: [" + name +
                           "]}, then: {properties: " + flow_map(others) +
                           ", required: " + schema::word_list(leaf.needs) + "}}");
    }
  }
  schema::Object object = schema::map(properties, needed);
  if (!conditions.empty()) {
    object.emplace_back("allOf", flow_list(conditions));
  }
  return object;
}

std::string_view codec::to_string(Unit unit) {
  switch (unit) {
    case Unit::bytes:
      return "B";
    case Unit::lines:
      return "lines";
    case Unit::texels:
      return "texels";
    case Unit::kilobytes:
      return "KB";
    case Unit::cycles:
      return "cycles";
    case Unit::seconds:
      return "s";
    case Unit::megahertz:
      return "MHz";
    case Unit::bytes_per_second:
      return "B/s";
    case Unit::none:
      break;
  }
  return "";
}

}  // namespace gpuinfer::model
