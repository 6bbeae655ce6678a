// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/formats/device_facts.hpp"
#include "cli/formats/format.hpp"

namespace gpuinfer::cli {

namespace {

// A dictionary of plain numbers and texts; None where nothing is known, which PPT-GPU has to be given by hand.
class Dictionary {
 public:
  void add_text(const std::string& key, const std::string& value) {
    // A JSON text in ASCII is one of Python too.
    add(key, nlohmann::json(on_one_line(value)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  }

  void add_number(const std::string& key, const std::optional<double>& value, const std::string& leaf) {
    if (!value) {
      losses_.push_back({.where = leaf, .what = "not known; None for " + key});
    }
    add(key, value ? std::to_string(std::llround(*value)) : "None");
  }

  void add_cache(const std::string& key, const model::DeviceDescription& profile, const std::string& target) {
    const auto found = profile.caches.find(target);
    const model::CacheDescription cache = found == profile.caches.end() ? model::CacheDescription{} : found->second;
    const std::string leaves = "caches." + target + '.';
    add_number(key + "_size", cache.capacity_bytes, leaves + "capacity_bytes");
    add_number(key + "_line_size", cache.line_bytes, leaves + "line_bytes");
    std::optional<double> associativity;
    if (cache.ways && !cache.ways->empty()) {
      associativity = cache.ways->front();
      const auto [fewest, most] = std::minmax_element(cache.ways->begin(), cache.ways->end());
      if (*fewest != *most) {
        double lines = 0;
        for (const std::uint32_t ways : *cache.ways) {
          lines += ways;
        }
        associativity = std::round(lines / static_cast<double>(cache.ways->size()));
        losses_.push_back({.where = leaves + "ways",
                           .what = fmt::format("{} to {} ways became their mean, {}", *fewest, *most, *associativity)});
      }
    }
    add_number(key + "_associativity", associativity, leaves + "ways");
  }

  Exported take() { return {.text = "uarch = {\n" + entries_ + "}\n", .losses = std::move(losses_)}; }

 private:
  void add(const std::string& key, const std::string& value) {
    entries_ += fmt::format("    \"{}\": {},\n", key, value);
  }

  std::string entries_;
  std::vector<ExportLoss> losses_;
};

}  // namespace

// Sizes in bytes, latencies in whole cycles. PPT-GPU's caches are those of a reuse distance model: lines and ways, no
// index function, LRU.
Exported export_ppt_gpu(const model::DeviceDescription& profile) {
  Dictionary uarch;
  uarch.add_text("gpu_name", profile.device.name);
  if (profile.device.compute_capability) {
    uarch.add_text("compute_capability", *profile.device.compute_capability);
  }
  uarch.add_number("num_SMs", profile.device.sm_count, "device.sm_count");

  const std::string l1 = first_level(profile);
  uarch.add_cache("l1_cache", profile, l1);
  uarch.add_cache("l2_cache", profile, "L2");

  const auto latency = [&](const std::string& target) {
    const auto found = profile.caches.find(target);
    return found == profile.caches.end() ? model::LatencyCycles{} : found->second.latency_cycles;
  };
  uarch.add_number("l1_cache_access", latency(l1).hit, "caches." + l1 + ".latency_cycles.hit");
  const model::LatencyCycles l2 = latency("L2");
  uarch.add_number("l2_cache_access", l2.hit ? l2.hit : latency(l1).miss, "caches.L2.latency_cycles.hit");
  uarch.add_number("dram_mem_access", l2.miss, "caches.L2.latency_cycles.miss");
  const auto const_l1 = latency("ConstL1").hit;
  uarch.add_number("const_mem_access", const_l1, "caches.ConstL1.latency_cycles.hit");
  const auto texture = latency("Texture").hit ? latency("Texture").hit : latency("L1tex").hit;
  uarch.add_number("tex_cache_access", texture, "caches.Texture.latency_cycles.hit");
  const auto shared = profile.shared_memory ? profile.shared_memory->latency_cycles.broadcast : std::nullopt;
  uarch.add_number("shared_mem_access", shared, "shared_memory.latency_cycles.broadcast");
  const auto dram = profile.bandwidth.find("DRAM_load");
  const bool has_dram = dram != profile.bandwidth.end() && dram->second.best;
  uarch.add_number("dram_bandwidth", has_dram ? std::optional(dram->second.best->bytes_per_second) : std::nullopt,
                   "bandwidth.DRAM_load");

  Exported exported = uarch.take();
  for (const auto& [target, cache] : profile.caches) {
    const std::string leaves = "caches." + target;
    if (target != l1 && target != "L2") {
      exported.losses.push_back({.where = leaves, .what = "left out but for its latency, if there is a key for that"});
      continue;
    }
    for (const std::string& leaf : cache.assumed) {
      exported.losses.push_back({.where = leaves + "." + leaf, .what = "assumed, without a source"});
    }
    if (cache.sector_bytes != cache.line_bytes) {
      exported.losses.push_back({.where = leaves + ".sector_bytes", .what = "left out"});
    }
    if (cache.index) {
      exported.losses.push_back({.where = leaves + ".index", .what = "left out; sets are modelled as equally used"});
    }
    if (!cache.replacement || cache.replacement->policy != "lru") {
      exported.losses.push_back({.where = leaves + ".replacement", .what = "modelled as lru"});
    }
  }
  return exported;
}

}  // namespace gpuinfer::cli
