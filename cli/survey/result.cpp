// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/survey/result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/number_text.hpp"
#include "model/yaml_tree.hpp"

namespace gpuinfer::cli::survey {

namespace {

using model::YamlEntry;
using model::YamlNode;
using nlohmann::json;

// Where findings stand in a profile. Under the first ones by the name of a target.
constexpr std::array<std::string_view, 3> named_sections{"caches", "textures", "code"};
constexpr std::array<std::string_view, 5> sections{"shared_memory", "memory_latency_cycles", "outstanding", "bandwidth",
                                                   "kernels"};

// All numbers under these keys are measured; every other one is a count or a size.
constexpr std::array<std::string_view, 10> measured_keys{
    "latency_cycles",   "memory_latency_cycles", "far_cycles",     "cycles",      "resident_bytes",
    "bytes_per_second", "elements_per_sm_clock", "victim_weights", "level_bytes", "seconds"};
// Follows from others.
constexpr std::string_view share_key = "share";

bool is_measured(std::string_view key) {
  return key == share_key || std::ranges::find(measured_keys, key) != measured_keys.end();
}

template <class Node>
Node* find(Node& map, std::string_view key) {
  const auto found = std::ranges::find_if(map.entries, [&](const YamlEntry& entry) { return entry.key.text == key; });
  return found == map.entries.end() ? nullptr : &found->value;
}

std::optional<double> number(const YamlNode& node) {
  return node.kind == YamlNode::Kind::plain ? model::number_from<double>(node.text) : std::nullopt;
}

// Calls visit(path, section node) for each section.
template <class Tree, class Visit>
void for_each_section(Tree& tree, Visit&& visit) {
  for (const std::string_view key : named_sections) {
    if (auto* const map = find(tree, key)) {
      for (auto& entry : map->entries) {
        visit(entry.key.text, entry.value);
      }
    }
  }
  for (const std::string_view key : sections) {
    if (auto* const section = find(tree, key)) {
      visit(std::string(key), *section);
    }
  }
}

// Takes the measured numbers out of a node, and puts a mark in their place.
void take_measured(YamlNode& node, const std::string& path, bool measured, std::map<std::string, double>& numbers) {
  if (measured) {
    if (const auto value = number(node)) {
      numbers[path] = *value;
      node.text = "measured";
      return;
    }
  }
  for (YamlEntry& entry : node.entries) {
    take_measured(entry.value, path + "." + entry.key.text, measured || is_measured(entry.key.text), numbers);
  }
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    take_measured(node.items[i], fmt::format("{}[{}]", path, i), measured, numbers);
  }
}

void copy_measured(YamlNode& to, const YamlNode& from, bool measured) {
  if (measured && number(to) && number(from)) {
    to.text = from.text;
    return;
  }
  for (YamlEntry& entry : to.entries) {
    if (const YamlNode* const same = find(from, entry.key.text)) {
      copy_measured(entry.value, *same, measured || is_measured(entry.key.text));
    }
  }
  for (std::size_t i = 0; i < std::min(to.items.size(), from.items.size()); ++i) {
    copy_measured(to.items[i], from.items[i], measured);
  }
}

std::string text_of(const YamlNode* node) { return node == nullptr ? "null" : model::to_flow_yaml(*node); }

// FNV-1a, 64 bits, the same in every process.
std::string hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return fmt::format("{:016x}", hash);
}

json or_null(const std::optional<std::string>& text) { return text ? json(*text) : json(nullptr); }

std::optional<std::string> text_or_none(const json& value) {
  return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
}

}  // namespace

Summary summary_of(const model::DeviceDescription& profile) {
  YamlNode tree = model::parse_yaml(model::to_yaml(profile), "profile");
  Summary summary;
  std::string structure;
  if (const YamlNode* const device = find(std::as_const(tree), "device")) {
    structure = text_of(find(*device, "compute_capability")) + " " + text_of(find(*device, "sm_count"));
  }
  for_each_section(tree, [&](const std::string& name, YamlNode& section) {
    take_measured(section, name, is_measured(name), summary.measured);
    structure += "\n" + name + ": " + model::to_flow_yaml(section);
  });
  summary.structure = hash_of(structure);
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

model::DeviceDescription with_measured_of(const model::DeviceDescription& profile,
                                          const model::DeviceDescription& other) {
  YamlNode tree = model::parse_yaml(model::to_yaml(profile), "profile");
  const YamlNode from = model::parse_yaml(model::to_yaml(other), "profile");
  copy_measured(tree, from, false);
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
              {"serial", or_null(result.identity.serial)},
              {"uuid", or_null(result.identity.uuid)},
              {"pci_bus_id", or_null(result.identity.pci_bus_id)}};
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
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result parse_result(const std::string& text, const std::string& from) {
  try {
    const json object = json::parse(text);
    // get() would convert what is no whole number.
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
    throw InputError(from + ": is no result of a survey; remove it, and it is asked for again");
  }
}

}  // namespace gpuinfer::cli::survey
