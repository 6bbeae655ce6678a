// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/formats/device_facts.hpp"
#include "cli/formats/format.hpp"
#include "model/description_yaml.hpp"
#include "model/printable.hpp"

namespace gpuinfer::cli {

namespace {

using Json = nlohmann::ordered_json;

struct Element {
  std::string_view target;
  const char* key;
};

// By the names of MT4G, and after its manner those of levels that it does not have. Sections that have no place there
// stand under `gpuinfer`, leaves that have none beside the others, both as in the profile.
constexpr std::array elements{Element{"L1tex", "l1"},
                              Element{"L1D", "l1"},
                              Element{"Texture", "texture"},
                              Element{"ReadOnly", "readOnly"},
                              Element{"ConstL1", "constantL1"},
                              Element{"ConstL15", "constantL1.5"},
                              Element{"L2", "l2"},
                              Element{"L3", "l3"},
                              Element{"L1TLB", "l1Tlb"},
                              Element{"L2TLB", "l2Tlb"}};

// Leaves of a cache that an element says in MT4G's words. All others stand beside these as in the profile.
constexpr std::array<std::string_view, 7> leaves_of_elements{
    "capacity_bytes", "onset_bytes", "line_bytes", "sector_bytes", "ways", "latency_cycles", "shared_with"};

Json bytes(std::uint64_t size) { return {{"size", size}, {"unit", "bytes"}}; }

Json cycles(double latency) { return {{"mean", latency}, {"p50", latency}, {"unit", "cycles"}}; }

class Writer {
 public:
  explicit Writer(const model::DeviceDescription& profile)
      : profile_(profile), whole_(Json::parse(model::to_json(profile))) {}

  Exported write() {
    Json document;
    document["general"] = general();
    if (profile_.device.sm_count) {
      document["compute"]["multiProcessorCount"] = *profile_.device.sm_count;
    }
    document["memory"] = memory();
    document["meta"] = {{"tool", "gpuinfer"}, {"source", profile_.device.source}};
    for (const auto& [key, section] : whole_.items()) {
      if (key != "schema" && key != "device" && key != "caches" && key != "evidence") {
        document["gpuinfer"][key] = section;
      }
    }
    exported_.text = with_escapes(document.dump(2)) + '\n';
    return std::move(exported_);
  }

 private:
  void lose(std::string where, std::string what) {
    exported_.losses.push_back({.where = std::move(where), .what = std::move(what)});
  }

  [[nodiscard]] Json general() const {
    Json general{{"name", profile_.device.name}};
    if (const auto capability = compute_capability(profile_)) {
      general["vendor"] = "NVIDIA";
      general["computeCapability"] = {{"major", capability->major}, {"minor", capability->minor}};
    }
    return general;
  }

  Json memory() {
    Json memory = Json::object();
    for (const auto& [target, cache] : profile_.caches) {
      const auto* element = std::ranges::find(elements, target, &Element::target);
      const bool is_texture = target == "L1tex" && first_level(profile_) != target;
      const std::string key = is_texture ? "texture" : element == elements.end() ? target : element->key;
      memory[memory.contains(key) ? target : key] = cache_element(target, cache);
    }
    if (profile_.shared_memory) {
      memory["shared"] = shared_element(*profile_.shared_memory);
    }
    if (const auto l2 = profile_.caches.find("L2"); l2 != profile_.caches.end() && l2->second.latency_cycles.miss) {
      memory["main"]["latency"] = cycles(*l2->second.latency_cycles.miss);
    }
    return memory;
  }

  [[nodiscard]] std::optional<double> confidence_of(const std::string& section, const std::string& leaf) const {
    const auto evidence = profile_.evidence.find(section);
    if (evidence == profile_.evidence.end()) {
      return std::nullopt;
    }
    const auto entry = evidence->second.leaves.find(leaf);
    return entry == evidence->second.leaves.end() ? std::nullopt : entry->second.confidence;
  }

  void add_bytes(Json& element, const char* key, const std::string& target, const std::string& leaf,
                 const std::optional<std::uint64_t>& size) {
    if (!size) {
      lose("caches." + target + '.' + leaf, std::string("not known; no ") + key);
      return;
    }
    element[key] = bytes(*size);
    if (const auto confidence = confidence_of(target, leaf)) {
      element[key]["confidence"] = *confidence;
    }
  }

  Json cache_element(const std::string& target, const model::CacheDescription& cache) {
    Json element = Json::object();
    add_bytes(element, "size", target, "capacity_bytes", cache.capacity_bytes);
    add_bytes(element, "cacheLineSize", target, "line_bytes", cache.line_bytes);
    add_bytes(element, "fetchGranularity", target, "sector_bytes", cache.sector_bytes);
    if (cache.latency_cycles.hit) {
      element["latency"] = cycles(*cache.latency_cycles.hit);
    } else {
      lose("caches." + target + ".latency_cycles", "not known; no latency");
    }
    if (cache.latency_cycles.miss) {
      element["missLatency"] = cycles(*cache.latency_cycles.miss);
    }
    if (cache.onset_bytes) {
      element["onset"] = bytes(*cache.onset_bytes);
    }
    if (cache.shared_with) {
      element["sharedWith"] = *cache.shared_with;
    }
    add_structure(element, target, cache);
    return element;
  }

  void add_structure(Json& element, const std::string& target, const model::CacheDescription& cache) {
    if (cache.ways) {
      element["sets"] = cache.ways->size();
      element["waysOfSets"] = *cache.ways;
      const bool equal = std::ranges::all_of(*cache.ways, [&](auto ways) { return ways == cache.ways->front(); });
      if (equal) {
        element["associativity"] = cache.ways->front();
      } else {
        lose("caches." + target + ".ways", "not equal; no associativity, all are in waysOfSets");
      }
    }
    for (const auto& [leaf, value] : whole_["caches"][target].items()) {
      if (!value.is_null() && std::ranges::find(leaves_of_elements, leaf) == leaves_of_elements.end()) {
        element[leaf] = value;
      }
    }
  }

  static Json shared_element(const model::SharedMemoryDescription& shared) {
    Json element = Json::object();
    if (shared.latency_cycles.broadcast) {
      element["latency"] = cycles(*shared.latency_cycles.broadcast);
    }
    if (shared.banks) {
      element["banks"] = *shared.banks;
    }
    if (shared.bank_width_bytes) {
      element["bankWidth"] = bytes(*shared.bank_width_bytes);
    }
    return element;
  }

  const model::DeviceDescription& profile_;
  Json whole_;  // the profile as it stands in a file
  Exported exported_;
};

}  // namespace

Exported export_mt4g(const model::DeviceDescription& profile) { return Writer(profile).write(); }

}  // namespace gpuinfer::cli
