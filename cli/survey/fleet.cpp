// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/survey/fleet.hpp"

#include <algorithm>
#include <utility>

#include "cli/file_text.hpp"
#include "model/description/tree.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/yaml_tree.hpp"

namespace gpuinfer::cli::survey {

namespace {

using model::find;
using model::YamlNode;

// Of one file, for messages.
class FleetReader {
 public:
  explicit FleetReader(std::string file) : file_(std::move(file)) {}

  Fleet read() const {
    const std::optional<std::string> text = file_text(file_);
    if (!text) {
      throw InputError(file_ + ": cannot be read; name a file that exists and may be read");
    }
    const YamlNode tree = model::parse_yaml(*text, file_);
    if (text_in(tree, "schema") != fleet_schema) {
      fail(tree, "is not a fleet description of version 1; write one with `gpuinfer survey`");
    }
    Fleet fleet{.file = file_, .common = std::nullopt, .members = {}};
    if (const YamlNode* const profile = find(tree, "profile")) {
      fleet.common = model::parse_description(model::to_flow_yaml(*profile), file_ + ": profile");
    }
    for (const YamlNode& item : list_in(tree, "devices")) {
      fleet.members.push_back(member(item));
    }
    for (const char* key : {"deviations", "less_certain"}) {
      for (const YamlNode& item : list_in(tree, key)) {
        FleetMember& known = known_member(fleet, item);
        known.differs = leaves(item, "differs");
        known.less_certain = leaves(item, "less_certain");
      }
    }
    for (const YamlNode& item : list_in(tree, "failures")) {
      known_member(fleet, item).failure = needed_text(item, "why");
    }
    return fleet;
  }

 private:
  [[noreturn]] void fail(const YamlNode& node, const std::string& what) const {
    throw InputError(file_ + ":" + std::to_string(node.line) + ": " + what);
  }

  static bool is_text(const YamlNode& node) {
    return node.kind == YamlNode::Kind::plain || node.kind == YamlNode::Kind::quoted;
  }

  static std::optional<std::string> text_in(const YamlNode& map, std::string_view key) {
    const YamlNode* const node = find(map, key);
    return node != nullptr && is_text(*node) ? std::optional(node->text) : std::nullopt;
  }

  [[nodiscard]] std::string needed_text(const YamlNode& map, const std::string& key) const {
    const auto text = text_in(map, key);
    if (!text) {
      fail(map, "`" + key + "` is missing or not text; write the file anew with `gpuinfer survey`");
    }
    return *text;
  }

  [[nodiscard]] const std::vector<YamlNode>& list_in(const YamlNode& map, const std::string& key) const {
    const YamlNode* const node = find(map, key);
    if (node == nullptr || node->kind != YamlNode::Kind::list) {
      fail(node == nullptr ? map : *node,
           "`" + key + "` is missing or not a list; write the file anew with `gpuinfer survey`");
    }
    return node->items;
  }

  [[nodiscard]] FleetMember member(const YamlNode& item) const {
    return {.id = needed_text(item, "id"),
            .device = needed_text(item, "device"),
            .name = text_in(item, "name"),
            .host = text_in(item, "host"),
            .serial = text_in(item, "serial"),
            .uuid = text_in(item, "uuid"),
            .pci_bus_id = text_in(item, "pci_bus_id"),
            .differs = {},
            .less_certain = {},
            .failure = std::nullopt};
  }

  [[nodiscard]] FleetMember& known_member(Fleet& fleet, const YamlNode& item) const {
    const auto found = std::ranges::find(fleet.members, needed_text(item, "id"), &FleetMember::id);
    if (found == fleet.members.end()) {
      fail(item, "`id` is none of `devices`; write the file anew with `gpuinfer survey`");
    }
    return *found;
  }

  [[nodiscard]] std::vector<FleetLeaf> leaves(const YamlNode& item, const std::string& key) const {
    std::vector<FleetLeaf> leaves;
    for (const YamlNode& leaf : list_in(item, key)) {
      const YamlNode* const common = find(leaf, "common");
      const YamlNode* const here = find(leaf, "here");
      if (common == nullptr || here == nullptr) {
        fail(leaf, "`common` or `here` is missing; write the file anew with `gpuinfer survey`");
      }
      const YamlNode* const evidence = find(leaf, "evidence");
      leaves.push_back(
          {.section = needed_text(leaf, "section"),
           .leaf = needed_text(leaf, "leaf"),
           .common = model::to_flow_yaml(*common),
           .here = model::to_flow_yaml(*here),
           .note = text_in(leaf, "note").value_or(""),
           .evidence = evidence == nullptr ? std::nullopt : std::optional(model::to_flow_yaml(*evidence))});
    }
    return leaves;
  }

  std::string file_;
};

void put(YamlNode& map, const std::string& key, YamlNode value) {
  if (YamlNode* const known = find(map, key)) {
    *known = std::move(value);
    return;
  }
  map.entries.push_back(
      {.key = {.kind = YamlNode::Kind::plain, .line = map.line, .text = key, .items = {}, .entries = {}},
       .value = std::move(value)});
}

YamlNode* section_in(YamlNode& tree, const std::string& section) {
  for (const auto& each : model::sections()) {
    YamlNode* const found = each.is_named && each.is_found_out() ? find(tree, each.key, section) : nullptr;
    if (found != nullptr) {
      return found;
    }
  }
  return find(tree, section);
}

void put_leaf(YamlNode& tree, const FleetLeaf& leaf) {
  YamlNode* const section = section_in(tree, leaf.section);
  if (section == nullptr || leaf.leaf.empty()) {
    return;  // of which nothing else is kept
  }
  put(*section, leaf.leaf, model::parse_yaml(leaf.here, leaf.leaf));
  YamlNode* const evidence = find(tree, "evidence", leaf.section);
  if (evidence != nullptr && leaf.evidence) {
    put(*evidence, leaf.leaf, model::parse_yaml(*leaf.evidence, leaf.leaf));
  }
}

}  // namespace

bool is_fleet(const std::string& file) { return begin_of_file(file).find(fleet_schema) != std::string::npos; }

Fleet read_fleet(const std::string& file) { return FleetReader(file).read(); }

model::DeviceDescription member_of(const Fleet& fleet, const std::string& member) {
  if (!fleet.common) {
    throw InputError(fleet.file + ": no device answered, so there is no profile in it; survey again");
  }
  if (member == "common") {
    return *fleet.common;
  }
  const auto is_meant = [&](const FleetMember& one) {
    return one.id == member || one.device == member || one.serial == member || one.uuid == member;
  };
  const auto found = std::ranges::find_if(fleet.members, is_meant);
  if (found == fleet.members.end()) {
    throw InputError(fleet.file + ": has no device `" + member + "`; write common, or an id, serial or UUID in it");
  }
  const auto by_id = std::ranges::find(fleet.members, member, &FleetMember::id);
  if (by_id == fleet.members.end() && std::ranges::count_if(fleet.members, is_meant) > 1) {
    throw InputError(fleet.file + ": `" + member + "` stands for several devices; write the id of one");
  }
  const FleetMember& one = by_id == fleet.members.end() ? *found : *by_id;
  if (one.failure) {
    throw InputError(fleet.file + ": device " + one.id + " has no profile, since it " + *one.failure);
  }
  YamlNode tree = model::parse_yaml(model::to_yaml(*fleet.common), fleet.file);
  for (const std::vector<FleetLeaf>* leaves : {&one.differs, &one.less_certain}) {
    for (const FleetLeaf& leaf : *leaves) {
      put_leaf(tree, leaf);
    }
  }
  model::DeviceDescription profile = model::parse_description(model::to_flow_yaml(tree), fleet.file + "@" + member);
  profile.device.name = one.name.value_or(profile.device.name);
  profile.device.source = one.device;
  profile.device.provenance.clear();  // that of the device with the common profile
  return profile;
}

}  // namespace gpuinfer::cli::survey
