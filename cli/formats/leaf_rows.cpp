// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/formats/leaf_rows.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "model/description_yaml.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::cli {

namespace {

using Json = nlohmann::ordered_json;

// Keys of the schema below which names stand, each with leaves of its own.
constexpr std::array<std::string_view, 4> keys_of_names{"caches", "paths", "textures", "code"};

std::string value_text(const Json& value) {
  if (value.is_null()) {
    return "";
  }
  return value.is_string() ? value.get<std::string>() : value.dump();
}

class Rows {
 public:
  explicit Rows(const model::DeviceDescription& profile) : profile_(profile) {}

  void add_section(const std::string& section, const Json& leaves) {
    const auto found = profile_.evidence.find(section);
    const model::CacheEvidence* const evidence = found == profile_.evidence.end() ? nullptr : &found->second;
    std::set<std::string> there;
    for (const auto& [leaf, value] : leaves.items()) {
      there.insert(leaf);
      add(section, leaf, value_text(value), evidence);
    }
    if (evidence != nullptr) {
      for (const auto& [leaf, entry] : evidence->leaves) {
        if (!there.contains(leaf)) {
          add(section, leaf, "", evidence);
        }
      }
    }
  }

  std::vector<LeafRow> take() { return std::move(rows_); }

 private:
  void add(const std::string& section, const std::string& leaf, std::string value,
           const model::CacheEvidence* evidence) {
    LeafRow row{.section = section, .leaf = leaf, .value = std::move(value), .status = {}, .confidence = {}};
    if (evidence != nullptr) {
      if (const auto entry = evidence->leaves.find(leaf); entry != evidence->leaves.end()) {
        row.status = to_string(entry->second.status);
        row.confidence = entry->second.confidence ? model::to_text(*entry->second.confidence) : "";
      }
    }
    const auto cache = profile_.caches.find(section);
    if (row.status.empty() && cache != profile_.caches.end() &&
        std::ranges::find(cache->second.assumed, leaf) != cache->second.assumed.end()) {
      row.status = "assumed";
    }
    rows_.push_back(std::move(row));
  }

  const model::DeviceDescription& profile_;
  std::vector<LeafRow> rows_;
};

}  // namespace

std::vector<LeafRow> leaf_rows(const model::DeviceDescription& profile) {
  Rows rows(profile);
  const Json whole = Json::parse(model::to_json(profile));
  for (const auto& [key, value] : whole.items()) {
    if (key == "schema" || key == "evidence") {
      continue;
    }
    if (key == "device") {
      Json device = value;
      device.erase("provenance");
      rows.add_section(key, device);
      if (value.contains("provenance")) {
        rows.add_section("provenance", value["provenance"]);
      }
      continue;
    }
    if (std::ranges::find(keys_of_names, key) == keys_of_names.end()) {
      rows.add_section(key, value);
      continue;
    }
    for (const auto& [name, leaves] : value.items()) {
      rows.add_section(name, leaves);
    }
  }
  return rows.take();
}

}  // namespace gpuinfer::cli
