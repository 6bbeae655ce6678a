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
#include "model/description/codec.hpp"
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
constexpr const char* assumed_key = "assumed";

bool is_absent(const YamlNode* node) { return node == nullptr || node->kind == YamlNode::Kind::null; }

// A leaf in parts is not known where none of them is.
bool is_all_null(const YamlNode* node) {
  return is_absent(node) || (!node->entries.empty() && std::ranges::all_of(node->entries, [](const YamlEntry& part) {
           return is_all_null(&part.value);
         }));
}

// Of an index or a policy nothing is known without its kind, whatever else is said of it.
bool is_unknown(const model::LeafFacts* row, const YamlNode* node) {
  if (is_all_null(node)) {
    return true;
  }
  const bool is_index = row != nullptr && row->sameness == model::Sameness::index;
  const bool is_policy = row != nullptr && row->sameness == model::Sameness::policy;
  return (is_index || is_policy) && is_absent(find(*node, is_index ? "kind" : "policy"));
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

// What one description says of a section. `carveout_kb`: aside while it was found out, of those that say it.
struct MergedPart {
  YamlNode values;
  YamlNode evidence;
  std::optional<std::uint32_t> carveout_kb;
};

// Whether a key of evidence, or an assumed leaf, is of this leaf or of a part of it.
bool is_of_leaf(const std::string& key, const std::string& leaf) {
  return key == leaf || (key.starts_with(leaf) && key[leaf.size()] == '.');
}

class MergedSection {
 public:
  explicit MergedSection(const std::vector<model::LeafFacts>& rows) : rows_(rows) {}

  // All of the part that knows more leaves, and what only the other one knows, or what that one alone has proven. Says
  // whether it is the second that knows more.
  bool merge(MergedPart& into, MergedPart further) const {
    const bool second_knows_more = known_leaves(further.values) > known_leaves(into.values);
    if (second_knows_more) {
      std::swap(into, further);
    }
    fill_in(into, further);
    return second_knows_more;
  }

 private:
  // By it sets have their numbers, which are names that no other description needs to share.
  static constexpr const char* index_ = "index";
  // What says something of sets by these numbers.
  static constexpr std::array<std::string_view, 3> by_number_{index_, "ways", "sweep"};

  [[nodiscard]] std::size_t known_leaves(const YamlNode& values) const {
    return static_cast<std::size_t>(std::ranges::count_if(values.entries, [this](const YamlEntry& leaf) {
      return !is_unknown(find(rows_, leaf.key.text), &leaf.value);
    }));
  }

  [[nodiscard]] bool knows(const MergedPart& part, std::string_view leaf) const {
    return !is_unknown(find(rows_, leaf), find(part.values, leaf));
  }

  // What is said for the value of a leaf: something else than that it is open, that it is, and what may be.
  enum class Said { nothing, unknown, ambiguous, resolved };

  static Said said_of(const MergedPart& part, const std::string& leaf) {
    const YamlNode* const status = find(part.evidence, leaf, "status");
    if (status == nullptr) {
      return Said::nothing;
    }
    return status->text == to_string(model::EvidenceStatus::resolved)    ? Said::resolved
           : status->text == to_string(model::EvidenceStatus::ambiguous) ? Said::ambiguous
                                                                         : Said::unknown;
  }

  static bool is_assumed(const MergedPart& part, const std::string& leaf) {
    const YamlNode* const assumed = find(part.values, assumed_key);
    return assumed != nullptr &&
           std::ranges::any_of(assumed->items, [&](const YamlNode& name) { return is_of_leaf(name.text, leaf); });
  }

  // An index that names none speaks of all.
  static std::size_t exercised_bits(const MergedPart& part, const std::string& leaf) {
    constexpr std::size_t all = 64;
    const YamlNode* const bits = find(part.values, leaf, "exercised_bits");
    return bits == nullptr ? all : bits->items.size();
  }

  // Of a value that both know: the other part has proven it, or has it from somebody, and this one has not; or an index
  // speaks of more address bits.
  static bool is_better(const MergedPart& other, const MergedPart& than, const std::string& leaf) {
    const bool proven = said_of(other, leaf) == Said::resolved;
    const bool known_proven = said_of(than, leaf) == Said::resolved;
    if (proven != known_proven) {
      return proven;
    }
    const bool assumed = is_assumed(other, leaf);
    const bool known_assumed = is_assumed(than, leaf);
    return assumed == known_assumed ? exercised_bits(other, leaf) > exercised_bits(than, leaf) : known_assumed;
  }

  // What the other part says of a leaf instead of what is said, and whether it assumes it.
  static void take_evidence(MergedPart& into, const MergedPart& from, const std::string& leaf) {
    const auto of_leaf = [&](const YamlEntry& entry) { return is_of_leaf(entry.key.text, leaf); };
    std::erase_if(into.evidence.entries, of_leaf);
    for (const YamlEntry& entry : from.evidence.entries) {
      if (of_leaf(entry)) {
        put(into.evidence, entry.key.text, entry.value);
      }
    }
    YamlNode assumed;
    if (const YamlNode* const names = find(into.values, assumed_key)) {
      assumed = *names;
      std::erase_if(assumed.items, [&](const YamlNode& name) { return is_of_leaf(name.text, leaf); });
    }
    if (const YamlNode* const names = find(from.values, assumed_key)) {
      std::ranges::copy_if(names->items, std::back_inserter(assumed.items),
                           [&](const YamlNode& name) { return is_of_leaf(name.text, leaf); });
    }
    assumed.kind = YamlNode::Kind::list;
    std::erase_if(into.values.entries, [](const YamlEntry& entry) { return entry.key.text == assumed_key; });
    if (!assumed.items.empty()) {
      put(into.values, assumed_key, assumed);
    }
  }

  static void take(MergedPart& into, const MergedPart& from, const std::string& leaf) {
    put(into.values, leaf, *find(from.values, leaf));
    take_evidence(into, from, leaf);
  }

  // Parts of a leaf that only the other one knows. Those beside an index hang on it.
  static void take_parts(const model::LeafFacts& row, MergedPart& into, const MergedPart& from,
                         const std::string& leaf) {
    const bool hang_on_other_index = std::ranges::any_of(row.parts, [&](const model::LeafFacts& part) {
      const YamlNode* const known = find(into.values, leaf, part.name);
      const YamlNode* const other = find(from.values, leaf, part.name);
      return part.sameness == model::Sameness::index &&
             (is_absent(known) || is_absent(other) || model::to_flow_yaml(*known) != model::to_flow_yaml(*other));
    });
    if (row.parts.empty() || hang_on_other_index) {
      return;
    }
    bool any = false;
    for (const YamlEntry& part : find(from.values, leaf)->entries) {
      if (is_absent(&part.value) || !is_absent(find(into.values, leaf, part.key.text))) {
        continue;
      }
      put(*find(into.values, leaf), part.key.text, part.value);
      take_evidence(into, from, leaf + "." + part.key.text);
      any = true;
    }
    if (const YamlNode* const why = find(from.evidence, leaf); any && said_of(from, leaf) > said_of(into, leaf)) {
      put(into.evidence, leaf, *why);
    }
  }

  // Whether sets of one part have to be those of the same number of the other, and nothing says that they are.
  [[nodiscard]] bool are_numbered_otherwise(const MergedPart& first, const MergedPart& second) const {
    const YamlNode* const a = find(first.values, index_);
    const YamlNode* const b = find(second.values, index_);
    if (knows(first, index_) && knows(second, index_) && model::to_flow_yaml(*a) == model::to_flow_yaml(*b)) {
      return false;
    }
    return std::ranges::any_of(std::array{&first, &second}, [this](const MergedPart* part) {
      const YamlNode* const ways = find(part->values, "ways");
      const bool are_unequal = ways != nullptr && std::ranges::any_of(ways->items, [ways](const YamlNode& each) {
                                 return each.text != ways->items.front().text;
                               });
      return are_unequal || knows(*part, "sweep");
    });
  }

  void fill_in(MergedPart& into, const MergedPart& further) const {
    const bool is_carved_otherwise = into.carveout_kb && further.carveout_kb && into.carveout_kb != further.carveout_kb;
    const bool knows_numbers =
        std::ranges::any_of(by_number_, [&](std::string_view leaf) { return knows(into, leaf); });
    const bool keeps_numbers = knows_numbers && are_numbered_otherwise(into, further);
    for (const YamlEntry& entry : further.values.entries) {
      const std::string& leaf = entry.key.text;
      const model::LeafFacts* const row = find(rows_, leaf);
      const bool stays = leaf == assumed_key || row == nullptr || (row->is_carved && is_carved_otherwise) ||
                         (keeps_numbers && std::ranges::find(by_number_, leaf) != by_number_.end());
      if (stays) {
        continue;
      }
      if (!knows(further, leaf)) {
        if (!knows(into, leaf) && said_of(further, leaf) > said_of(into, leaf)) {
          take_evidence(into, further, leaf);
        }
      } else if (!knows(into, leaf) || is_better(further, into, leaf)) {
        if (std::ranges::all_of(row->needs, [&](std::string_view other) { return knows(into, other); })) {
          take(into, further, leaf);
        }
      } else if (leaf == "carveouts") {
        add_carveouts(*find(into.values, leaf), entry.value);
      } else {
        take_parts(*row, into, further, leaf);
      }
    }
    for (const YamlEntry& entry : further.evidence.entries) {
      const bool is_of_a_leaf = std::ranges::any_of(
          further.values.entries, [&](const YamlEntry& leaf) { return is_of_leaf(entry.key.text, leaf.key.text); });
      if (!is_of_a_leaf && find(into.evidence, entry.key.text) == nullptr) {
        put(into.evidence, entry.key.text, entry.value);
      }
    }
  }

  const std::vector<model::LeafFacts>& rows_;
};

struct Filled {
  DeviceDescription description;
  std::vector<std::string> of_second;  // sections of which the second knows more
};

Filled filled(const DeviceDescription& first, const DeviceDescription& second) {
  Filled result;
  YamlNode tree = model::parse_yaml(model::to_yaml(first), "first");
  const YamlNode further = model::parse_yaml(model::to_yaml(second), "second");
  const YamlNode none;
  const YamlNode* const why = find(further, "evidence");
  const YamlNode& further_evidence = why == nullptr ? none : *why;
  YamlNode evidence = map_in(tree, "evidence");
  const auto merge_section = [&](YamlNode& sections, const std::string& name, const YamlNode& values,
                                 const std::vector<model::LeafFacts>& rows) {
    const auto evidence_in = [&name](const YamlNode& of_all) {
      const YamlNode* const found = find(of_all, name);
      return found == nullptr ? YamlNode{} : *found;
    };
    const MergedPart other{
        .values = values, .evidence = evidence_in(further_evidence), .carveout_kb = carveout_of(second, name)};
    YamlNode* const known = find(sections, name);
    MergedPart part = other;
    if (!is_absent(known)) {
      part = {.values = *known, .evidence = evidence_in(evidence), .carveout_kb = carveout_of(first, name)};
      if (MergedSection(rows).merge(part, other)) {
        result.of_second.push_back(name);
      }
    }
    put(sections, name, part.values);
    put(evidence, name, part.evidence);
  };
  for (const auto& section : model::sections()) {
    const YamlNode* const node = find(further, section.key);
    if (is_absent(node) || !(section.is_found_out() || section.is_named)) {
      continue;
    }
    if (!section.is_named) {
      merge_section(tree, std::string(section.key), *node, section.facts);
      continue;
    }
    for (const YamlEntry& part : node->entries) {
      merge_section(map_in(tree, section.key), part.key.text, part.value, section.facts);
    }
  }
  for (const YamlEntry& section : further_evidence.entries) {
    if (find(evidence, section.key.text) == nullptr) {
      put(evidence, section.key.text, section.value);
    }
  }
  std::erase_if(evidence.entries, [](const YamlEntry& section) { return section.value.entries.empty(); });
  put(tree, "evidence", evidence);
  result.description = model::parse_description(model::to_flow_yaml(tree), "merged");
  DeviceDescription::Device& device = result.description.device;
  device.compute_capability =
      first.device.compute_capability ? first.device.compute_capability : second.device.compute_capability;
  device.sm_count = first.device.sm_count ? first.device.sm_count : second.device.sm_count;
  return result;
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
    const bool are_cycles = row->unit == to_string(model::codec::Unit::cycles);
    return std::abs(*a - *b) <= std::max(are_cycles ? cycles : 0, share * std::max(std::abs(*a), std::abs(*b)));
  }
  if (row != nullptr && are_otherwise_in_a_word(*row, first, second)) {
    return false;
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
  std::map<std::string, Facts> facts = facts_by_section(merged.description);
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
    if (&piece == &pieces.front()) {
      continue;
    }
    for (const LeafDifference& difference : differences(merged.description, piece.description)) {
      if (contradict(difference)) {
        throw InputError(piece.file + ": " + difference.section + "." + difference.leaf + " is " + difference.second +
                         ", and what was merged before it says " + difference.first + "; leave one of them out");
      }
    }
    Filled both = filled(merged.description, piece.description);
    merged.description = std::move(both.description);
    for (auto& [section, own] : facts_by_section(piece.description)) {
      if (std::ranges::find(both.of_second, section) != both.of_second.end()) {
        facts[section].swap(own);
      }
      facts[section].merge(own);
    }
    put_facts(merged.description.device, facts);
  }
  put_facts(merged.description.device, std::move(facts));
  return merged;
}

}  // namespace gpuinfer::infer
