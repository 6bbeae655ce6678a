// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/formats/leaf_rows.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "model/json_text.hpp"
#include "model/number_text.hpp"
#include "model/yaml_tree.hpp"

namespace gpuinfer::cli {

namespace {

using Json = nlohmann::ordered_json;

// Of YAML on one line.
std::string value_text(const std::string& yaml) {
  const Json value = model::parse_ordered_json(model::to_json(model::parse_yaml(yaml, "value")));
  if (value.is_null()) {
    return "";
  }
  return value.is_string() ? value.get<std::string>() : model::json_text(value);
}

class Rows {
 public:
  explicit Rows(const model::DeviceDescription& profile) : profile_(profile) {}

  void add_section(const std::string& section, const std::vector<model::LeafValue>& values) {
    const auto found = profile_.evidence.find(section);
    const model::CacheEvidence* const evidence = found == profile_.evidence.end() ? nullptr : &found->second;
    std::set<std::string> there;
    for (const model::LeafValue& value : values) {
      if (!value.is_written) {
        continue;
      }
      if (value.leaf->has_free_names) {
        add_free_names(std::string(value.leaf->name), value.yaml);
        continue;
      }
      there.emplace(value.leaf->name);
      add(section, std::string(value.leaf->name), value_text(value.yaml), evidence, value.text.has_value());
    }
    if (evidence != nullptr) {
      for (const auto& [leaf, entry] : evidence->leaves) {
        if (!there.contains(leaf)) {
          add(section, leaf, "", evidence, false);
        }
      }
    }
  }

  std::vector<LeafRow> take() { return std::move(rows_); }

 private:
  void add_free_names(const std::string& section, const std::string& yaml) {
    for (const model::YamlEntry& entry : model::parse_yaml(yaml, section).entries) {
      add(section, entry.key.text, entry.value.text, nullptr, true);
    }
  }

  void add(const std::string& section, const std::string& leaf, std::string value, const model::CacheEvidence* evidence,
           bool has_value) {
    LeafRow row{.section = section, .leaf = leaf, .value = std::move(value), .status = {}, .confidence = {}};
    if (evidence != nullptr) {
      if (const auto entry = evidence->leaves.find(leaf); entry != evidence->leaves.end()) {
        row.status = to_string(entry->second.status);
        row.confidence = entry->second.confidence ? model::to_text(*entry->second.confidence) : "";
      }
    }
    if (row.status.empty() && std::ranges::find(assumed_of(section), leaf) != assumed_of(section).end()) {
      row.status = "assumed";
    }
    row.is_known = row.status == to_string(model::EvidenceStatus::resolved) || (row.status.empty() && has_value);
    rows_.push_back(std::move(row));
  }

  [[nodiscard]] const std::vector<std::string>& assumed_of(const std::string& section) const {
    const auto cache = profile_.caches.find(section);
    static const std::vector<std::string> nothing;
    return section == "bandwidth"           ? profile_.bandwidth.assumed
           : cache != profile_.caches.end() ? cache->second.assumed
                                            : nothing;
  }

  const model::DeviceDescription& profile_;
  std::vector<LeafRow> rows_;
};

}  // namespace

std::vector<LeafRow> leaf_rows(const model::DeviceDescription& profile,
                               const model::Sections<model::DeviceDescription>& all) {
  Rows rows(profile);
  for (const auto& section : all) {
    if (section.values) {
      for (const std::string& name : section.names(profile)) {
        rows.add_section(name, section.values(profile, name));
      }
    }
  }
  return rows.take();
}

std::vector<LeafRow> leaves_found_out(const model::DeviceDescription& profile) {
  std::vector<LeafRow> rows = leaf_rows(profile);
  std::erase_if(rows, [&profile](const LeafRow& row) {
    const auto* const section = model::section_with(model::sections(), profile, row.section);
    return section == nullptr || std::ranges::find(section->leaves, row.leaf) == section->leaves.end();
  });
  return rows;
}

}  // namespace gpuinfer::cli
