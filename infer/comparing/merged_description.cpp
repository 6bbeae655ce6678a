// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/comparing/merged_description.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "infer/comparing/description_difference.hpp"
#include "model/description/tree.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/number_text.hpp"
#include "model/yaml_tree.hpp"

namespace gpuinfer::infer {

namespace {

using model::DeviceDescription;
using model::find;
using model::YamlEntry;
using model::YamlNode;

using Facts = std::map<std::string, std::string>;

// What says which one of its kind a device is.
constexpr std::array<std::string_view, 2> identities{"gpu_id", "gpu_uuid"};
constexpr const char* source_key = "source";

bool is_absent(const YamlNode* node) { return node == nullptr || node->kind == YamlNode::Kind::null; }

// A leaf in parts is not known where none of them is.
bool is_all_null(const YamlNode* node) {
  return is_absent(node) || (!node->entries.empty() && std::ranges::all_of(node->entries, [](const YamlEntry& part) {
           return is_all_null(&part.value);
         }));
}

std::optional<double> number(const YamlNode& node) {
  return node.kind == YamlNode::Kind::plain ? model::number_from<double>(node.text) : std::nullopt;
}

void put(YamlNode& map, std::string_view key, const YamlNode& value) {
  if (YamlNode* const there = find(map, key)) {
    *there = value;
    return;
  }
  YamlNode name;
  name.kind = YamlNode::Kind::plain;
  name.text = key;
  map.kind = YamlNode::Kind::map;
  map.entries.push_back({.key = std::move(name), .value = value});
}

// The map under this key, which is there afterwards.
YamlNode& map_in(YamlNode& map, std::string_view key) {
  if (is_absent(find(map, key))) {
    YamlNode empty;
    empty.kind = YamlNode::Kind::map;
    put(map, key, empty);
  }
  return *find(map, key);
}

std::size_t known_leaves(const YamlNode& section) {
  return static_cast<std::size_t>(
      std::ranges::count_if(section.entries, [](const YamlEntry& leaf) { return !is_all_null(&leaf.value); }));
}

// The same cache at other carve-outs than the list has.
void add_carveouts(YamlNode& list, const YamlNode& further) {
  constexpr std::string_view key = "carveout_kb";
  for (const YamlNode& item : further.items) {
    const YamlNode* const asked = find(item, key);
    const bool is_there = asked == nullptr || std::ranges::any_of(list.items, [&](const YamlNode& known) {
                            const YamlNode* const kb = find(known, key);
                            return kb != nullptr && kb->text == asked->text;
                          });
    if (!is_there) {
      list.items.push_back(item);
    }
  }
}

// What `further` knows of a section and `section` does not, with its evidence.
void fill_in(YamlNode& section, YamlNode& evidence, const YamlNode& further, const YamlNode& further_evidence) {
  for (const YamlEntry& leaf : further.entries) {
    const std::string& name = leaf.key.text;
    YamlNode* const known = find(section, name);
    if (!is_all_null(known) && name == "carveouts") {
      add_carveouts(*known, leaf.value);
    } else if (is_all_null(known) && !is_all_null(&leaf.value)) {
      put(section, name, leaf.value);
      if (const YamlNode* const why = find(further_evidence, name)) {
        put(evidence, name, *why);
      }
    }
  }
}

void merge_section(YamlNode& sections, YamlNode& evidence, const std::string& name, const YamlNode& further,
                   const YamlNode& all_further_evidence) {
  const YamlNode none;
  const YamlNode* const why = find(all_further_evidence, name);
  YamlNode* const known = find(sections, name);
  if (is_absent(known)) {
    put(sections, name, further);
    if (why != nullptr) {
      put(evidence, name, *why);
    }
    return;
  }
  if (known_leaves(further) > known_leaves(*known)) {
    const YamlNode fewer = std::exchange(*known, further);
    const YamlNode* const fewer_evidence = find(evidence, name);
    const YamlNode kept = fewer_evidence == nullptr ? none : *fewer_evidence;
    if (why != nullptr) {
      put(evidence, name, *why);
    }
    fill_in(*known, map_in(evidence, name), fewer, kept);
    return;
  }
  fill_in(*known, map_in(evidence, name), further, why == nullptr ? none : *why);
}

DeviceDescription filled(const DeviceDescription& first, const DeviceDescription& second) {
  YamlNode tree = model::parse_yaml(model::to_yaml(first), "first");
  const YamlNode further = model::parse_yaml(model::to_yaml(second), "second");
  const YamlNode none;
  const YamlNode* const why = find(further, "evidence");
  const YamlNode& further_evidence = why == nullptr ? none : *why;
  YamlNode evidence = map_in(tree, "evidence");
  for (const auto& section : model::sections()) {
    const YamlNode* const node = find(further, section.key);
    if (is_absent(node) || !(section.is_found_out() || section.is_named)) {
      continue;
    }
    if (!section.is_named) {
      merge_section(tree, evidence, std::string(section.key), *node, further_evidence);
      continue;
    }
    for (const YamlEntry& part : node->entries) {
      merge_section(map_in(tree, section.key), evidence, part.key.text, part.value, further_evidence);
    }
  }
  for (const YamlEntry& section : further_evidence.entries) {
    if (find(evidence, section.key.text) == nullptr) {
      put(evidence, section.key.text, section.value);
    }
  }
  std::erase_if(evidence.entries, [](const YamlEntry& section) { return section.value.entries.empty(); });
  put(tree, "evidence", evidence);
  return model::parse_description(model::to_flow_yaml(tree), "merged");
}

// Whether all numbers that were measured are as close as two runs on one device bring them (misses differ by 7 % with
// where the buffer lies, and short latencies by a cycle or two), and all else that both have is the same. `row`: of the
// values; null: of what is not measured.
bool is_close(const model::LeafFacts* row, const YamlNode& first, const YamlNode& second) {
  constexpr double share = 0.08;
  constexpr double cycles = 2;
  const auto a = number(first);
  const auto b = number(second);
  if (a && b && row != nullptr && row->is_measured) {
    return std::abs(*a - *b) <= std::max(cycles, share * std::max(std::abs(*a), std::abs(*b)));
  }
  for (const YamlEntry& entry : first.entries) {
    const YamlNode* const other = find(second, entry.key.text);
    if (!is_all_null(other) && !is_all_null(&entry.value) &&
        !is_close(row == nullptr ? nullptr : find(row->parts, entry.key.text), entry.value, *other)) {
      return false;
    }
  }
  return first.kind == second.kind && first.text == second.text &&
         std::ranges::equal(first.items, second.items,
                            [row](const YamlNode& x, const YamlNode& y) { return is_close(row, x, y); });
}

bool contradict(const LeafDifference& difference) {
  return difference.verdict == Verdict::differs &&
         !is_close(difference.row, model::parse_yaml(difference.first, difference.leaf),
                   model::parse_yaml(difference.second, difference.leaf));
}

std::vector<std::string> sections_of(const DeviceDescription& description) {
  std::vector<std::string> names;
  for (const auto& section : model::sections()) {
    if (section.is_found_out()) {
      std::ranges::copy(section.names(description), std::back_inserter(names));
    }
  }
  for (const auto& [name, evidence] : description.evidence) {
    names.push_back(name);
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// The provenance of each section, the source among it.
std::map<std::string, Facts> facts_by_section(const DeviceDescription& description) {
  const std::vector<std::string> sections = sections_of(description);
  Facts common{{source_key, description.device.source}};
  std::map<std::string, Facts> own;
  for (const auto& [fact, value] : description.device.provenance) {
    const std::size_t dot = fact.find('.');
    const std::string section = fact.substr(0, dot);
    if (dot != std::string::npos && std::ranges::binary_search(sections, section)) {
      own[section][fact.substr(dot + 1)] = value;
    } else {
      common[fact] = value;
    }
  }
  std::map<std::string, Facts> facts;
  for (const std::string& section : sections) {
    facts[section] = own[section];
    facts[section].insert(common.begin(), common.end());
  }
  return facts;
}

// Of the whole, else of any section, since all are of one device.
std::optional<std::string> identity(const DeviceDescription& description, std::string_view key) {
  const auto found = std::ranges::find_if(description.device.provenance, [&](const auto& fact) {
    return fact.first == key || fact.first.ends_with(std::string(".").append(key));
  });
  return found == description.device.provenance.end() ? std::nullopt : std::optional(found->second);
}

bool is_identified(const DeviceDescription& description) {
  return std::ranges::any_of(identities, [&](std::string_view key) { return identity(description, key).has_value(); });
}

std::string text_of(const DeviceDescription& description) {
  std::string text = description.device.name;
  for (const std::string_view key : identities) {
    if (const auto value = identity(description, key)) {
      return text + " " + *value;
    }
  }
  return text;
}

// Facts that all sections share stand once.
void put_facts(DeviceDescription::Device& device, std::map<std::string, Facts> facts) {
  Facts common = facts.empty() ? Facts{} : facts.begin()->second;
  for (const auto& of_section : facts) {
    std::erase_if(common, [&own = of_section.second](const auto& fact) {
      const auto found = own.find(fact.first);
      return found == own.end() || found->second != fact.second;
    });
  }
  device.provenance.clear();
  for (const auto& [section, own] : facts) {
    for (const auto& [fact, value] : own) {
      if (!common.contains(fact)) {
        device.provenance[section + "." + fact] = value;
      }
    }
  }
  const auto source = common.extract(source_key);
  device.source = source ? source.mapped() : "merged";
  device.provenance.merge(common);
}

}  // namespace

bool are_of_other_devices(const DeviceDescription& first, const DeviceDescription& second) {
  const auto differ = [](const auto& a, const auto& b) { return a && b && *a != *b; };
  return first.device.name != second.device.name ||
         differ(first.device.compute_capability, second.device.compute_capability) ||
         differ(first.device.sm_count, second.device.sm_count) ||
         std::ranges::any_of(identities,
                             [&](std::string_view key) { return differ(identity(first, key), identity(second, key)); });
}

MergedDescription merge_pieces(std::span<const Piece> pieces) {
  MergedDescription merged{.description = pieces.front().description, .unidentified = {}};
  std::map<std::string, Facts> facts;
  for (const Piece& piece : pieces) {
    if (!is_identified(piece.description)) {
      merged.unidentified.push_back(piece.file);
    }
    for (const Piece& other : pieces.first(static_cast<std::size_t>(&piece - pieces.data()))) {
      if (are_of_other_devices(other.description, piece.description)) {
        throw InputError(piece.file + ": is of another device, " + text_of(piece.description) + ", than " + other.file +
                         ", " + text_of(other.description) + "; merge what is of one");
      }
    }
    if (&piece != &pieces.front()) {
      for (const LeafDifference& difference : differences(merged.description, piece.description)) {
        if (contradict(difference)) {
          throw InputError(piece.file + ": " + difference.section + "." + difference.leaf + " is " + difference.second +
                           ", and what was merged before it says " + difference.first + "; leave one of them out");
        }
      }
      merged.description = filled(merged.description, piece.description);
    }
    for (auto& [section, own] : facts_by_section(piece.description)) {
      facts[section].merge(own);
    }
  }
  put_facts(merged.description.device, std::move(facts));
  return merged;
}

}  // namespace gpuinfer::infer
