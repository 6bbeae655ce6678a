// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/formats/device_facts.hpp"
#include "cli/formats/format.hpp"
#include "model/description_yaml.hpp"
#include "model/json_text.hpp"
#include "model/printable.hpp"

namespace gpuinfer::cli {

namespace {

using Json = nlohmann::ordered_json;

struct Element {
  std::string_view target;
  const char* group;  // constant: an object that has the element in it
  const char* key;
  const char* shared_name;  // in `sharedWith` of others
};

// By the names of MT4G 1.2, and after its manner those of levels that it does not have. Sections that have no place
// there stand under `gpuinfer`, leaves that have none beside the others, both as in the profile.
constexpr std::array elements{Element{"L1tex", "", "l1", "L1"},
                              Element{"L1D", "", "l1", "L1"},
                              Element{"Texture", "", "texture", "Texture"},
                              Element{"ReadOnly", "", "readOnly", "Read Only"},
                              Element{"ConstL1", "constant", "l1", "Constant L1"},
                              Element{"ConstL15", "constant", "l1.5", "Constant L1.5"},
                              Element{"L2", "", "l2", "L2"},
                              Element{"L3", "", "l3", "L3"},
                              Element{"L1TLB", "", "l1Tlb", "L1 TLB"},
                              Element{"L2TLB", "", "l2Tlb", "L2 TLB"}};

// Leaves of a cache that an element says in MT4G's words. All others stand beside these as in the profile.
constexpr std::array<std::string_view, 7> leaves_of_elements{
    "capacity_bytes", "onset_bytes", "line_bytes", "sector_bytes", "ways", "latency_cycles", "shared_with"};

constexpr double bytes_of_gib = 1U << 30U;
constexpr std::uint64_t kilo = 1000;

Json cycles(double latency) { return {{"mean", latency}, {"p50", latency}, {"unit", "cycles"}}; }

Json value_of(const Json& value, const char* unit) { return {{"unit", unit}, {"value", value}}; }

class Mt4gWriter {
 public:
  explicit Mt4gWriter(const model::DeviceDescription& profile)
      : profile_(profile), limits_(sm_limits(profile)), whole_(model::parse_ordered_json(model::to_json(profile))) {}

  Exported write() {
    Json document;
    document["compute"] = compute();
    document["general"] = general();
    document["memory"] = memory();
    document["meta"] = {{"tool", "gpuinfer"}, {"source", profile_.device.source}};
    for (const auto& [key, section] : whole_.items()) {
      if (key != "schema" && key != "device" && key != "caches" && key != "evidence") {
        document["gpuinfer"][key] = section;
      }
    }
    exported_.text = with_escapes(model::json_text(document, {.indent = 2})) + '\n';
    return std::move(exported_);
  }

 private:
  void lose(std::string where, std::string what) {
    exported_.losses.push_back({.where = std::move(where), .what = std::move(what)});
  }

  // Where a value is needed and not known: 0, with the confidence that MT4G gives to what it did not find out.
  Json stand_in(const std::string& where, const char* number, const char* unit) {
    lose(where, "not known; 0 with confidence 0 stands in, since sys-sage needs a number");
    return {{"confidence", 0.0}, {number, 0}, {"unit", unit}};
  }

  template <class Number>
  Json needed(const std::optional<Number>& value, const char* unit, const std::string& where) {
    return value ? value_of(*value, unit) : stand_in(where, "value", unit);
  }

  Json count(const std::optional<unsigned>& number, const char* where) {
    if (!number) {
      lose(where, "not known; 0 stands in, since sys-sage needs a number");
    }
    return number.value_or(0);
  }

  Json divisor(const std::optional<unsigned>& number, const char* where) {
    if (!number) {
      lose(where, "not known; 1 stands in, since sys-sage divides by it");
    }
    return number.value_or(1);
  }

  Json compute() {
    const auto limit = [&](unsigned SmLimits::*member) {
      return limits_ == nullptr ? std::nullopt : std::optional(limits_->*member);
    };
    return {{"maxBlocksPerMultiProcessor", count(limit(&SmLimits::max_blocks), "device.compute_capability")},
            {"maxThreadsPerBlock", max_threads_per_block},
            {"maxThreadsPerMultiProcessor", count(limit(&SmLimits::max_threads), "device.compute_capability")},
            {"multiProcessorCount", divisor(profile_.device.sm_count, "device.sm_count")},
            {"numberOfCoresPerMultiProcessor", divisor(limit(&SmLimits::fp32_units), "device.compute_capability")},
            {"regsPerBlock", max_registers_per_block},
            {"regsPerMultiProcessor", count(limit(&SmLimits::registers), "device.compute_capability")},
            {"warpSize", warp_threads}};
  }

  Json general() {
    const auto capability = compute_capability(profile_);
    Json general;
    general["clockRate"] = needed(told_number(profile_, "sm_clock_limit_khz"), "kHz", "device.sm_clock_limit_khz");
    if (!capability) {
      lose("device.compute_capability", "not known; 0.0 stands in, since sys-sage needs a number");
    }
    general["computeCapability"] = {{"major", capability ? capability->major : 0},
                                    {"minor", capability ? capability->minor : 0}};
    general["name"] = profile_.device.name;
    general["vendor"] = capability ? "NVIDIA" : "";
    return general;
  }

  Json memory() {
    Json memory = Json::object();
    memory["constant"]["totalConstMem"] = value_of(constant_memory_bytes, "bytes");
    for (const auto& [target, cache] : profile_.caches) {
      const auto* element = std::ranges::find(elements, target, &Element::target);
      const bool is_texture = target == "L1tex" && first_level(profile_) != target;
      const std::string key = is_texture ? "texture" : element == elements.end() ? target : element->key;
      const std::string group = element == elements.end() ? "" : element->group;
      Json& place = group.empty() ? memory : memory[group];
      place[place.contains(key) ? target : key] = cache_element(target, cache);
    }
    complete_constant(memory["constant"]);
    complete_l1(memory);
    complete_l2(memory["l2"]);
    memory["main"] = main_memory();
    memory["shared"] = shared_element();
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
    const auto confidence = confidence_of(target, leaf);
    element[key] = confidence ? Json{{"confidence", *confidence}} : Json::object();
    element[key]["size"] = *size;
    element[key]["unit"] = "bytes";
  }

  Json cache_element(const std::string& target, const model::CacheDescription& cache) {
    Json element = Json::object();
    add_bytes(element, "fetchGranularity", target, "sector_bytes", cache.sector_bytes);
    add_bytes(element, "lineSize", target, "line_bytes", cache.line_bytes);
    add_bytes(element, "size", target, "capacity_bytes", cache.capacity_bytes);
    if (cache.latency_cycles.hit) {
      element["latency"] = cycles(*cache.latency_cycles.hit);
      if (cache.latency_cycles.miss) {
        element["missPenalty"] = value_of(*cache.latency_cycles.miss - *cache.latency_cycles.hit, "cycles");
      }
    } else {
      lose("caches." + target + ".latency_cycles", "not known; no latency");
    }
    if (cache.onset_bytes) {
      element["onset"] = {{"size", *cache.onset_bytes}, {"unit", "bytes"}};
    }
    if (cache.shared_with && !cache.shared_with->empty()) {
      for (const std::string& other : *cache.shared_with) {
        const auto* named = std::ranges::find(elements, other, &Element::target);
        element["sharedWith"].push_back(named == elements.end() ? other : named->shared_name);
      }
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

  // sys-sage asks these of an element, unless another one has it in its `sharedWith`.
  void complete(Json& element, const std::string& target) {
    constexpr std::array sizes{std::pair{"fetchGranularity", ".sector_bytes"}, std::pair{"size", ".capacity_bytes"}};
    for (const auto& [key, leaf] : sizes) {
      if (!element.contains(key)) {
        element[key] = stand_in("caches." + target + leaf, "size", "bytes");
      }
    }
    if (target != "ConstL15" && !element.contains("latency")) {
      lose("caches." + target + ".latency_cycles.hit", "not known; 0 stands in, since sys-sage needs a number");
      element["latency"] = cycles(0);
    }
  }

  // Either both levels or none.
  void complete_constant(Json& constant) {
    if (constant.size() > 1) {
      complete(constant["l1.5"], "ConstL15");
      complete(constant["l1"], "ConstL1");
    }
  }

  void complete_l1(Json& memory) {
    if (!memory.contains("l1")) {
      memory["l1"] = Json::object();
    }
    for (const auto& [key, target] : {std::pair{"texture", "Texture"}, std::pair{"readOnly", "ReadOnly"}}) {
      if (memory.contains(key)) {
        complete(memory[key], target);
      }
    }
  }

  // Its size is a fact of the API in MT4G, and its bandwidths stand beside its latency.
  void complete_l2(Json& l2) {
    const auto found = profile_.caches.find("L2");
    const auto known = found == profile_.caches.end() ? std::nullopt : found->second.capacity_bytes;
    const auto confidence = known ? confidence_of("L2", "capacity_bytes") : std::nullopt;
    l2["size"] = needed(known ? known : told_number(profile_, "l2_bytes"), "bytes", "caches.L2.capacity_bytes");
    if (confidence) {
      l2["size"]["confidence"] = *confidence;
    }
    add_bandwidths(l2, "L2");
  }

  void add_bandwidths(Json& element, const std::string& memory) {
    if (element.contains("latency")) {
      for (const auto& [key, work] : {std::pair{"readBandwidth", "_load"}, std::pair{"writeBandwidth", "_store"}}) {
        const auto most = bytes_per_second(profile_, memory + work);
        element[key] =
            needed(most ? std::optional(*most / bytes_of_gib) : std::nullopt, "GiB/s", "bandwidth." + memory + work);
      }
    }
  }

  Json main_memory() {
    Json main;
    const auto l2 = profile_.caches.find("L2");
    if (l2 != profile_.caches.end() && l2->second.latency_cycles.miss) {
      main["latency"] = cycles(*l2->second.latency_cycles.miss);
    }
    const auto clock_mhz = told_number(profile_, "memory_clock_mhz");
    main["memoryBusWidth"] = needed(told_number(profile_, "memory_bus_bits"), "bit", "device.memory_bus_bits");
    main["memoryClockRate"] =
        needed(clock_mhz ? std::optional(*clock_mhz * kilo) : std::nullopt, "kHz", "clocks.memory_clock_mhz");
    main["totalGlobalMem"] =
        needed(told_number(profile_, "global_memory_bytes"), "bytes", "device.global_memory_bytes");
    add_bandwidths(main, "DRAM");
    return main;
  }

  Json shared_element() {
    Json element = Json::object();
    const auto told = told_number(profile_, "shared_bytes_per_sm");
    const auto most = limits_ == nullptr ? std::nullopt : std::optional(limits_->max_shared_kb * std::uint64_t{1024});
    element["sharedMemPerBlock"] = value_of(max_shared_bytes_per_block, "bytes");
    element["sharedMemPerMultiProcessor"] = needed(told ? told : most, "bytes", "device.shared_bytes_per_sm");
    if (!profile_.shared_memory) {
      return element;
    }
    const model::SharedMemoryDescription& shared = *profile_.shared_memory;
    if (shared.latency_cycles.broadcast) {
      element["latency"] = cycles(*shared.latency_cycles.broadcast);
    }
    if (shared.banks) {
      element["banks"] = *shared.banks;
    }
    if (shared.bank_width_bytes) {
      element["bankWidth"] = {{"size", *shared.bank_width_bytes}, {"unit", "bytes"}};
    }
    return element;
  }

  const model::DeviceDescription& profile_;
  const SmLimits* limits_;
  Json whole_;  // the profile as it stands in a file
  Exported exported_;
};

}  // namespace

Exported export_mt4g(const model::DeviceDescription& profile) { return Mt4gWriter(profile).write(); }

}  // namespace gpuinfer::cli
