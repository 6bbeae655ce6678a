// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "cli/formats/device_facts.hpp"
#include "cli/formats/format.hpp"
#include "cli/leaf_table.hpp"
#include "model/json_text.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::cli {

namespace {

// What PPT-GPU has in hardware/TITANV.py, for keys that it needs and a profile does not know.
constexpr double shipped_clock_hz = 1.2e9;
constexpr double shipped_l1_bytes = 32768;
constexpr double shipped_l1_line_bytes = 32;
constexpr double shipped_l1_ways = 64;
constexpr double shipped_l2_bytes = 4718592;
constexpr double shipped_l2_line_bytes = 64;
constexpr double shipped_l2_ways = 24;
constexpr double shipped_l2_partitions = 48;
constexpr double shipped_dram_channels = 24;
constexpr double shipped_dram_bytes_per_second = 565e9;
constexpr double shipped_dram_clock_hz = 850e6;
constexpr double shipped_noc_bytes_per_second = 1140e9;
constexpr unsigned branch_units = 4;
constexpr double hz_of_mhz = 1e6;
constexpr double hz_of_khz = 1e3;

constexpr SmLimits unknown_sm{{}, "Volta", 64, 64, 32, 16, 8, 32, 4, 4, 1, 2048, 32, 65536, 96};

// A JSON text in ASCII is one of Python too.
std::string string_literal(const std::string& text) {
  return model::json_text(nlohmann::json(on_one_line(text)), {.is_ascii = true, .replaces_bytes = true});
}

// The instructions that PPT-GPU has a table for, and their latencies.
std::string nearest_instructions(const std::optional<ComputeCapability>& capability) {
  constexpr unsigned maxwell = 5;
  constexpr unsigned pascal = 6;
  constexpr ComputeCapability volta{.major = 7, .minor = 0};
  if (!capability || *capability == volta) {
    return "Volta";
  }
  return capability->major <= maxwell ? "Maxwell" : capability->major == pascal ? "Pascal" : "Turing";
}

// Lines and ways of a cache of the reuse distance model, which has no index function and is LRU. It divides by the
// number of lines that are not in the set of a load, so one set of all lines is not to be had.
struct ModelCache {
  double bytes = 0;
  double line_bytes = 0;
  double ways = 0;
};

class Module {
 public:
  explicit Module(const model::DeviceDescription& profile)
      : profile_(profile), limits_(sm_limits(profile) == nullptr ? unknown_sm : *sm_limits(profile)) {
    if (sm_limits(profile) == nullptr) {
      lose("device.compute_capability", "not known to the exporter; units and limits of 7.0 stand in");
    }
  }

  Exported write() {
    const std::string architecture = "gpuinfer_" + identifier(profile_.device.name);
    const unsigned capability = 10 * limits_.capability.major + limits_.capability.minor;
    text_ = wrapped(on_one_line(profile_.device.name + " (" + profile_.device.source + ") for PPT-GPU, by gpuinfer"),
                    "# ") +
            wrapped(
                "To be put into its folder hardware; `--config` takes the name of the file. It brings the latencies "
                "and the limits of this GPU along, which PPT-GPU looks for in hardware/ISA and "
                "hardware/compute_capability.",
                "# ") +
            "import importlib\nimport sys\nimport types\n\nuarch = {\n";
    add("gpu_name", string_literal(profile_.device.name));
    add("gpu_arch", string_literal(architecture));
    add("compute_capabilty", std::to_string(capability == 0 ? 70 : capability));
    add_units();
    add_caches();
    add_memory();
    add("warp_scheduling", "\"LRR\"");
    text_ += "}\n\n";
    add_latencies();
    add_limits();
    text_ +=
        "\n\ndef _bring(name, **members):\n    module = types.ModuleType(name)\n    module.__dict__.update(members)\n"
        "    sys.modules[name] = module\n\n\n"
        "_bring(\"hardware.ISA.\" + uarch[\"gpu_arch\"], units_latency=units_latency, "
        "sass_isa=_instructions.sass_isa, ptx_isa=_instructions.ptx_isa)\n"
        "_bring(\"hardware.compute_capability.\" + str(uarch[\"compute_capabilty\"]), cc_configs=cc_configs)\n";
    tell_what_is_left_out();
    return {.text = std::move(text_), .losses = std::move(losses_)};
  }

 private:
  static std::string identifier(const std::string& name) {
    std::string letters;
    for (const char letter : name) {
      letters += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
    }
    return letters;
  }

  void lose(std::string where, std::string what) {
    losses_.push_back({.where = std::move(where), .what = std::move(what)});
  }

  void add(const std::string& key, const std::string& value) { text_ += fmt::format("    \"{}\": {},\n", key, value); }

  void add(const std::string& key, const std::optional<double>& value, const std::string& leaf, double shipped) {
    if (!value) {
      lose(leaf, fmt::format("not known; {} of PPT-GPU's TITANV stands in for {}", model::whole_text(shipped), key));
    }
    add(key, model::whole_text(value.value_or(shipped)));
  }

  void add_units() {
    const auto limit_khz = told_number(profile_, "sm_clock_limit_khz");
    const auto clock_mhz = told_number(profile_, "sm_clock_mhz");
    std::optional<double> clock_hz;
    if (limit_khz) {
      clock_hz = static_cast<double>(*limit_khz) * hz_of_khz;
    } else if (clock_mhz) {
      clock_hz = static_cast<double>(*clock_mhz) * hz_of_mhz;
    }
    add("clockspeed", clock_hz, "device.sm_clock_limit_khz", shipped_clock_hz);
    constexpr double shipped_sms = 80;
    add("num_SMs", profile_.device.sm_count, "device.sm_count", shipped_sms);
    add("num_INT_units_per_SM", std::to_string(limits_.int32_units));
    add("num_SP_units_per_SM", std::to_string(limits_.fp32_units));
    add("num_DP_units_per_SM", std::to_string(limits_.fp64_units));
    add("num_SF_units_per_SM", std::to_string(limits_.special_function_units));
    add("num_TC_units_per_SM", std::to_string(limits_.tensor_units));
    add("num_LDS_units_per_SM", std::to_string(limits_.load_store_units));
    add("num_BRA_units_per_SM", std::to_string(branch_units));
    add("num_TEX_units_per_SM", std::to_string(limits_.texture_units));
    add("num_warp_schedulers_per_SM", std::to_string(limits_.schedulers));
    add("num_inst_dispatch_units_per_SM", std::to_string(limits_.dispatches_per_scheduler));
  }

  void add_caches() {
    const std::string l1 = first_level(profile_);
    add("l1_cache_bypassed", "False");
    ModelCache first{.bytes = shipped_l1_bytes, .line_bytes = shipped_l1_line_bytes, .ways = shipped_l1_ways};
    if (!profile_.caches.contains(l1) && loads_pass_by_l1(profile_)) {
      // Its own switch for that leaves sizes unset that it reads later.
      first = {.bytes = 2 * shipped_l1_line_bytes, .line_bytes = shipped_l1_line_bytes, .ways = 1};
      lose("paths", "loads pass by the L1; two lines stand in for one, since PPT-GPU does not run without");
      add_cache("l1_cache", first);
    } else {
      add_cache("l1_cache", model_cache("l1_cache", l1, first, std::nullopt));
    }
    const ModelCache second{.bytes = shipped_l2_bytes, .line_bytes = shipped_l2_line_bytes, .ways = shipped_l2_ways};
    add_cache("l2_cache", model_cache("l2_cache", "L2", second, told_number(profile_, "l2_bytes")));
    const auto told = told_number(profile_, "shared_bytes_per_sm");
    add("shared_mem_size", std::to_string(told.value_or(std::uint64_t{limits_.max_shared_kb} * 1024)));
  }

  void add_cache(const std::string& key, const ModelCache& cache) {
    add(key + "_size", model::whole_text(cache.bytes));
    add(key + "_line_size", model::whole_text(cache.line_bytes));
    add(key + "_associativity", model::whole_text(cache.ways));
  }

  ModelCache model_cache(const std::string& key, const std::string& target, const ModelCache& shipped,
                         const std::optional<std::uint64_t>& told_bytes) {
    const auto found = profile_.caches.find(target);
    const model::CacheDescription cache = found == profile_.caches.end() ? model::CacheDescription{} : found->second;
    const std::string leaves = "caches." + target + '.';
    ModelCache result = shipped;
    const auto stands_in = [&](const char* leaf, double value, const char* field) {
      lose(leaves + leaf,
           fmt::format("not known; {} of PPT-GPU's TITANV stands in for {}{}", model::whole_text(value), key, field));
    };
    if (const auto bytes = cache.capacity_bytes ? cache.capacity_bytes
                           : cache.onset_bytes  ? cache.onset_bytes
                                                : told_bytes) {
      result.bytes = static_cast<double>(*bytes);
      if (!cache.capacity_bytes) {
        lose(leaves + "capacity_bytes", cache.onset_bytes ? "not known; what misses begin above stands in"
                                                          : "not known; what the driver reports stands in");
      }
    } else {
      stands_in("capacity_bytes", shipped.bytes, "_size");
    }
    if (cache.line_bytes) {
      result.line_bytes = static_cast<double>(*cache.line_bytes);
    } else {
      stands_in("line_bytes", shipped.line_bytes, "_line_size");
    }
    if (cache.ways && !cache.ways->empty()) {
      result.ways = mean_ways(leaves, *cache.ways);
    } else {
      stands_in("ways", shipped.ways, "_associativity");
    }
    const double lines = std::floor(result.bytes / result.line_bytes);
    if (result.ways >= lines) {
      lose(leaves + "ways", fmt::format("{} ways of {} lines became {}, since the model needs two sets", result.ways,
                                        lines, std::max(1.0, lines - 1)));
      result.ways = std::max(1.0, lines - 1);
      result.bytes = std::max(result.bytes, 2 * result.line_bytes);
    }
    return result;
  }

  double mean_ways(const std::string& leaves, const std::vector<std::uint32_t>& ways) {
    const auto [fewest, most] = std::ranges::minmax(ways);
    const double lines = std::accumulate(ways.begin(), ways.end(), 0.0);
    const double mean = std::round(lines / static_cast<double>(ways.size()));
    if (fewest != most) {
      lose(leaves + "ways", fmt::format("{} to {} ways became their mean, {}", fewest, most, mean));
    }
    return mean;
  }

  void add_memory() {
    const auto clock_mhz = told_number(profile_, "memory_clock_mhz");
    const auto l2 = profile_.caches.find("L2");
    const auto slices = l2 == profile_.caches.end() ? std::nullopt : l2->second.slices;
    add("num_l2_partitions", slices ? std::optional<double>(*slices) : std::nullopt, "caches.L2.slices",
        shipped_l2_partitions);
    add("num_dram_channels", std::nullopt, "device", shipped_dram_channels);
    add("dram_th_bandwidth", bytes_per_second(profile_, "DRAM_load"), "bandwidth.DRAM_load",
        shipped_dram_bytes_per_second);
    add("dram_clockspeed", clock_mhz ? std::optional(static_cast<double>(*clock_mhz) * hz_of_mhz) : std::nullopt,
        "clocks.memory_clock_mhz", shipped_dram_clock_hz);
    add("noc_th_bandwidth", bytes_per_second(profile_, "L2_load"), "bandwidth.L2_load", shipped_noc_bytes_per_second);
  }

  void add_latency(const std::string& key, const std::optional<double>& cycles, const std::string& leaf) {
    if (cycles) {
      text_ += fmt::format("units_latency[\"{}\"] = {}\n", key, model::whole_text(*cycles));
    } else {
      lose(leaf, "not known; that of PPT-GPU's " + instructions_ + " stands in for " + key);
    }
  }

  // In whole cycles, all from the load on.
  void add_latencies() {
    const auto latency = [&](const std::string& target) {
      const auto found = profile_.caches.find(target);
      return found == profile_.caches.end() ? model::LatencyCycles{} : found->second.latency_cycles;
    };
    text_ += wrapped("Instructions and what is not set below: of " + instructions_ + ", as PPT-GPU ships it.", "# ") +
             fmt::format("_instructions = importlib.import_module(\"hardware.ISA.{}\")\n", instructions_) +
             "units_latency = dict(iTCU=4, hTCU=4, bTCU=4, BRA=4)\nunits_latency.update(_instructions.units_latency)\n";
    lose("units_latency", "latencies of instructions that are no loads: of PPT-GPU's " + instructions_);
    const std::string l1 = first_level(profile_);
    const model::LatencyCycles l2 = latency("L2");
    add_latency("l1_cache_access", latency(l1).hit, "caches." + l1 + ".latency_cycles.hit");
    add_latency("l2_cache_access", l2.hit ? l2.hit : latency(l1).miss, "caches.L2.latency_cycles.hit");
    add_latency("dram_mem_access", l2.miss, "caches.L2.latency_cycles.miss");
    add_latency("local_mem_access", l2.miss, "caches.L2.latency_cycles.miss");
    add_latency("const_mem_access", latency("ConstL1").hit, "caches.ConstL1.latency_cycles.hit");
    const auto texture = latency("Texture").hit ? latency("Texture").hit : latency("L1tex").hit;
    add_latency("tex_cache_access", texture, "caches.Texture.latency_cycles.hit");
    const auto shared = profile_.shared_memory ? profile_.shared_memory->latency_cycles.broadcast : std::nullopt;
    add_latency("shared_mem_access", shared, "shared_memory.latency_cycles.broadcast");
  }

  void add_limits() {
    constexpr unsigned pascal = 6;
    constexpr unsigned registers_of_fermi = 63;
    constexpr unsigned registers_of_a_thread = 255;
    const bool is_fermi =
        limits_.capability.major == 2 || limits_.capability == ComputeCapability{.major = 3, .minor = 0};
    text_ += "\ncc_configs = {\n";
    add("warp_size", std::to_string(warp_threads));
    add("max_block_size", std::to_string(max_threads_per_block));
    add("smem_allocation_size", limits_.capability.major > pascal + 1 ? "128" : "256");
    add("max_registers_per_SM", std::to_string(limits_.registers));
    add("max_registers_per_block", std::to_string(std::min(limits_.registers, max_registers_per_block)));
    add("max_registers_per_thread", std::to_string(is_fermi ? registers_of_fermi : registers_of_a_thread));
    add("register_allocation_size", limits_.capability.major == 2 ? "64" : "256");
    add("max_active_blocks_per_SM", std::to_string(limits_.max_blocks));
    add("max_active_threads_per_SM", std::to_string(limits_.max_threads));
    text_ += "}\n";
  }

  void tell_what_is_left_out() {
    const std::string l1 = first_level(profile_);
    for (const auto& [target, cache] : profile_.caches) {
      const std::string leaves = "caches." + target;
      if (target != l1 && target != "L2") {
        lose(leaves, "left out but for its latency, if there is a key for that");
        continue;
      }
      for (const std::string& leaf : cache.assumed) {
        lose(leaves + "." + leaf, "assumed, without a source");
      }
      if (cache.sector_bytes != cache.line_bytes) {
        lose(leaves + ".sector_bytes", "left out");
      }
      if (cache.index) {
        lose(leaves + ".index", "left out; sets are modelled as equally used");
      }
      if (!cache.replacement || cache.replacement->policy != "lru") {
        lose(leaves + ".replacement", "modelled as lru");
      }
    }
  }

  const model::DeviceDescription& profile_;
  SmLimits limits_;
  std::string instructions_ = nearest_instructions(compute_capability(profile_));
  std::string text_;
  std::vector<ExportLoss> losses_;
};

}  // namespace

Exported export_ppt_gpu(const model::DeviceDescription& profile) { return Module(profile).write(); }

}  // namespace gpuinfer::cli
