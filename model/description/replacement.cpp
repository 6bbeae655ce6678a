// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "model/description/values.hpp"
#include "model/errors.hpp"
#include "model/policies/table.hpp"

namespace gpuinfer::model::codec {

namespace {

using FlowEntries = std::vector<std::pair<std::string, std::string>>;

std::vector<double> numbers_from(const Place& place) {
  std::vector<double> numbers;
  for (const Place& item : place.items()) {
    numbers.push_back(item.real(std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max()));
  }
  return numbers;
}

PolicyParameter parameter_from(const Place& place) {
  const YamlNode& node = place.node();
  if (node.kind == YamlNode::Kind::list) {
    const std::vector<Place> items = place.items();
    if (items.empty() || items.front().node().kind != YamlNode::Kind::list) {
      return numbers_from(place);
    }
    std::vector<std::vector<double>> lists(items.size());
    std::transform(items.begin(), items.end(), lists.begin(), numbers_from);
    return lists;
  }
  if (node.kind == YamlNode::Kind::plain) {
    if (const auto integer = number_from<std::int64_t>(node.text)) {
      return *integer;
    }
    if (const auto real = number_from<double>(node.text); real && std::isfinite(*real)) {
      return *real;
    }
  }
  return place.text();
}

// A whole number of type double keeps its `.0`, which is what tells it from an integer when it is read back.
struct ParameterText {
  FlowYaml operator()(std::int64_t number) const { return to_text(number); }
  FlowYaml operator()(double number) const {
    const std::string text = to_text(number);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
  // `true` and `false` stay bare: they are words here, and truth values to whoever else reads this.
  FlowYaml operator()(const std::string& text) const {
    return text == "true" || text == "false" ? text : to_yaml_scalar(text);
  }
  FlowYaml operator()(const std::vector<double>& numbers) const {
    return flow_list(numbers, [](double number) { return to_text(number); });
  }
  FlowYaml operator()(const std::vector<std::vector<double>>& lists) const { return flow_list(lists, *this); }
};

// A policy with its parameters, as one piece of the schema.
template <class Policy>
schema::Object policy_schema() {
  schema::Object properties{{"policy", schema::text(schema::constant(Policy::name))}};
  std::vector<std::string_view> needed{"policy"};
  schema::Object condition;
  const auto add = [&](const auto& row) {
    const LeafFacts facts = row.facts();
    properties.emplace_back(facts.name, schema::text(facts.is_needed ? facts.schema : schema::or_null(facts.schema)));
    if (facts.is_needed) {
      needed.push_back(facts.name);
    }
    if constexpr (requires { row.where; }) {
      if (row.where) {
        const std::string name(row.name);
        const std::string other(row.where->name);
        const std::string word = schema::text(schema::constant(row.where->word));
        using words::together;
        condition = {{"if", together({"{properties: {", other, ": ", word, "}, required: [", other, "]}"})},
                     {"then", together({"{properties: {", name, ": {type: array}}, required: [", name, "]}"})},
                     {"else", together({"{properties: {", name, ": {type: \"null\"}}}"})}};
      }
    }
  };
  std::apply([&](const auto&... row) { (add(row), ...); }, Policy::parameters);
  properties.emplace_back("equivalent", schema::text(schema::reference("policies")));
  schema::Object object = schema::map(properties, needed);
  object.insert(object.end(), condition.begin(), condition.end());
  return object;
}

}  // namespace

std::optional<Replacement> replacement_from(const Place& place, const std::optional<std::vector<std::uint32_t>>& ways) {
  const auto policy = place.find("policy");
  if (!policy) {
    place.allow({"policy"});
    return std::nullopt;
  }
  Replacement replacement{.policy = policy->text(), .parameters = {}, .equivalent = {}};
  for (const auto& [name, value] : place.entries()) {
    if (name == "equivalent" && !value.is_null()) {
      for (const Place& item : value.items()) {
        replacement.equivalent.push_back(item.text());
        const std::string other = item.text().substr(0, item.text().find(' '));
        if (!contains(policy_names(), other)) {
          item.fail("`" + other + "` is not a known policy; write `" + nearest(other, policy_names()) +
                    "` or remove it");
        }
      }
    } else if (name != "policy" && !value.is_null()) {
      replacement.parameters.emplace(name, parameter_from(value));
    }
  }
  try {
    check(replacement, ways.value_or(std::vector<std::uint32_t>{}));
  } catch (const LeafError& error) {
    fail_in(place, error);
  }
  return replacement;
}

std::string replacement_text(const Replacement& replacement) {
  FlowEntries entries{{"policy", to_yaml_scalar(replacement.policy)}};
  for (const auto& [name, value] : replacement.parameters) {
    entries.emplace_back(to_yaml_scalar(name), std::visit(ParameterText{}, value));
  }
  if (!replacement.equivalent.empty()) {
    entries.emplace_back("equivalent", flow_list(replacement.equivalent, to_yaml_scalar));
  }
  return flow_map(entries);
}

LeafFacts replacement_facts() {
  LeafFacts facts{.sameness = Sameness::policy, .schema = schema::reference("replacement")};
  for_each_policy([&]<class Policy>() {
    std::apply([&](const auto&... row) { (facts.parts.push_back(row.facts()), ...); }, Policy::parameters);
  });
  return facts;
}

schema::Object replacement_schema() {
  std::vector<schema::Object> choices{schema::map({{"policy", "{type: \"null\"}"}})};
  for_each_policy([&]<class Policy>() { choices.push_back(policy_schema<Policy>()); });
  return schema::one_of(choices);
}

schema::Object policies_schema() {
  std::string names;
  for (const std::string_view name : policy_names()) {
    names += words::together({names.empty() ? "" : "|", name});
  }
  return schema::or_null(schema::list({{"type", "string"}, {"pattern", words::together({"\"^(", names, ")( |$)\""})}}));
}

}  // namespace gpuinfer::model::codec
