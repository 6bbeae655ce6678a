// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/survey/result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "model/description/tree.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/fnv.hpp"
#include "model/json_text.hpp"
#include "model/number_text.hpp"
#include "model/yaml_tree.hpp"

namespace gpuinfer::cli::survey {

namespace {

using model::LeafFacts;
using model::YamlEntry;
using model::YamlNode;
using nlohmann::json;

std::optional<double> number(const YamlNode& node) {
  return node.kind == YamlNode::Kind::plain ? model::number_from<double>(node.text) : std::nullopt;
}

std::string text_of(const YamlNode* node) { return node == nullptr ? "null" : model::to_flow_yaml(*node); }

// Takes the measured numbers out of a value, and puts a mark in their place; calls taken(place, number, row) for each.
// `row`: of the value; null: not known.
template <class Taken>
void take_measured(YamlNode& node, const std::string& path, const LeafFacts* row, const Taken& taken) {
  if (row == nullptr) {
    return;
  }
  if (const auto value = row->is_measured ? number(node) : std::nullopt) {
    taken(path, *value, *row);
    node.text = "measured";
    return;
  }
  for (YamlEntry& entry : node.entries) {
    take_measured(entry.value, path + "." + entry.key.text, model::find(row->parts, entry.key.text), taken);
  }
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    take_measured(node.items[i], fmt::format("{}[{}]", path, i), row, taken);
  }
}

// Out of all of a profile. Returns what is left of it, as text.
template <class Taken>
std::string take_measured(const model::DeviceDescription& profile, const Taken& taken) {
  YamlNode tree = model::parse_yaml(model::to_yaml(profile), "profile");
  std::string structure;
  if (const YamlNode* const device = model::find(std::as_const(tree), "device")) {
    structure = text_of(model::find(*device, "compute_capability")) + " " + text_of(model::find(*device, "sm_count"));
  }
  for_each_part(tree, model::sections(), [&](const auto& section, std::string_view name, YamlNode& part) {
    for (YamlEntry& leaf : part.entries) {
      take_measured(leaf.value, fmt::format("{}.{}", name, leaf.key.text), model::find(section.facts, leaf.key.text),
                    taken);
    }
    structure += fmt::format("\n{}: {}", name, model::to_flow_yaml(part));
  });
  return structure;
}

void copy_measured(YamlNode& to, const YamlNode& from, const LeafFacts* row) {
  if (row == nullptr) {
    return;
  }
  if (row->is_measured && number(to) && number(from)) {
    to.text = from.text;
    return;
  }
  for (YamlEntry& entry : to.entries) {
    if (const YamlNode* const same = model::find(from, entry.key.text)) {
      copy_measured(entry.value, *same, model::find(row->parts, entry.key.text));
    }
  }
  for (std::size_t i = 0; i < std::min(to.items.size(), from.items.size()); ++i) {
    copy_measured(to.items[i], from.items[i], row);
  }
}

json text_or_null(const std::optional<std::string>& text) { return text ? json(*text) : json(nullptr); }

std::optional<std::string> text_or_none(const json& value) {
  return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
}

}  // namespace

Summary summary_of(const model::DeviceDescription& profile) {
  Summary summary;
  summary.structure = fmt::format(
      "{:016x}",
      model::fnv1a(take_measured(profile, [&](const std::string& place, double value, const LeafFacts& /*row*/) {
        summary.measured[place] = value;
      })));
  summary.all_resolved = !profile.evidence.empty();
  for (const auto& [section, evidence] : profile.evidence) {
    for (const auto& [leaf, entry] : evidence.leaves) {
      const bool resolved = entry.status == model::EvidenceStatus::resolved;
      summary.resolved += resolved ? 1 : 0;
      summary.all_resolved = summary.all_resolved && resolved;
    }
  }
  return summary;
}

std::set<std::string> places_in_cycles(const model::DeviceDescription& profile) {
  std::set<std::string> places;
  static_cast<void>(take_measured(profile, [&](const std::string& place, double /*value*/, const LeafFacts& row) {
    if (row.unit == to_string(model::codec::Unit::cycles)) {
      places.insert(place);
    }
  }));
  return places;
}

model::DeviceDescription with_measured_of(const model::DeviceDescription& profile,
                                          const model::DeviceDescription& other) {
  YamlNode tree = model::parse_yaml(model::to_yaml(profile), "profile");
  const YamlNode from = model::parse_yaml(model::to_yaml(other), "profile");
  std::map<std::string, const YamlNode*, std::less<>> parts;
  for_each_part(from, model::sections(), [&](const auto& /*section*/, std::string_view name, const YamlNode& part) {
    parts.emplace(name, &part);
  });
  for_each_part(tree, model::sections(), [&](const auto& section, std::string_view name, YamlNode& part) {
    const auto same = parts.find(name);
    for (YamlEntry& leaf : part.entries) {
      if (const YamlNode* const value = same == parts.end() ? nullptr : model::find(*same->second, leaf.key.text)) {
        copy_measured(leaf.value, *value, model::find(section.facts, leaf.key.text));
      }
    }
  });
  return model::parse_description(model::to_flow_yaml(tree), "profile");
}

Result result_of(model::DeviceDescription profile, const std::string& host) {
  for (auto& [section, evidence] : profile.evidence) {
    evidence.inquiries.clear();
  }
  const auto fact = [&](const char* name) -> std::optional<std::string> {
    const auto found = profile.device.provenance.find(name);
    return found == profile.device.provenance.end() ? std::nullopt : std::optional(found->second);
  };
  Result result;
  // A GPU behind another process says itself where it is.
  result.identity = {.name = profile.device.name,
                     .host = fact("host").value_or(host),
                     .serial = fact("gpu_serial"),
                     .uuid = fact("gpu_uuid") ? fact("gpu_uuid") : fact("gpu_id"),
                     .pci_bus_id = fact("pci_bus_id")};
  result.summary = summary_of(profile);
  result.profile = model::to_yaml(profile);
  return result;
}

Result result_of(const std::string& yaml, const std::string& host) {
  return result_of(model::parse_description(yaml, "profile"), host);
}

std::string to_text(const Result& result) {
  json object{{"kind", "result"},
              {"task", result.task},
              {"rank", result.rank},
              {"seconds", result.seconds},
              {"name", result.identity.name},
              {"host", result.identity.host},
              {"serial", text_or_null(result.identity.serial)},
              {"uuid", text_or_null(result.identity.uuid)},
              {"pci_bus_id", text_or_null(result.identity.pci_bus_id)}};
  if (result.failure) {
    object["failure"] = *result.failure;
  } else {
    object["structure"] = result.summary.structure;
    object["measured"] = result.summary.measured;
    object["resolved"] = result.summary.resolved;
    object["all_resolved"] = result.summary.all_resolved;
    object["profile"] = result.profile;
  }
  // What another process says need not be UTF-8.
  return model::json_text(object, {.replaces_bytes = true});
}

Result parse_result(const std::string& text, const std::string& from) {
  try {
    const json object = model::parse_json(text);
    // get() would convert what is not a whole number.
    const auto whole = [&object](const char* key) { return object.at(key).get_ref<const json::number_unsigned_t&>(); };
    Result result;
    result.task = whole("task");
    result.rank = static_cast<int>(whole("rank"));
    result.seconds = object.at("seconds").get<double>();
    result.identity = {.name = object.at("name").get<std::string>(),
                       .host = object.at("host").get<std::string>(),
                       .serial = text_or_none(object.at("serial")),
                       .uuid = text_or_none(object.at("uuid")),
                       .pci_bus_id = text_or_none(object.at("pci_bus_id"))};
    if (object.contains("failure")) {
      result.failure = object.at("failure").get<std::string>();
      return result;
    }
    result.summary = {.structure = object.at("structure").get<std::string>(),
                      .measured = object.at("measured").get<std::map<std::string, double>>(),
                      .resolved = whole("resolved"),
                      .all_resolved = object.at("all_resolved").get<bool>()};
    result.profile = object.at("profile").get<std::string>();
    return result;
  } catch (const json::exception&) {
    throw InputError(from + ": is not a result of a survey; remove it, and it is asked for again");
  }
}

}  // namespace gpuinfer::cli::survey
