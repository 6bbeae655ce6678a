// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/formats/gpgpusim_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "cli/formats/device_facts.hpp"
#include "cli/formats/gpgpusim_cache.hpp"
#include "cli/supposed_cache.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::cli {

namespace {

using model::CacheDescription;
using model::DeviceDescription;

constexpr std::uint64_t kb = 1024;
constexpr std::uint32_t lanes = 32;

// As Accel-Sim ships them in SM7_QV100.
constexpr GpgpusimCache shipped_dl1{'S', 4, 128, 64, 'L', 'T', 'm', 'L', 'L', 'A', 512, 8, "16:0,32"};
constexpr GpgpusimCache shipped_dl2{'S', 32, 128, 24, 'L', 'B', 'm', 'L', 'P', 'A', 192, 4, "32:0,32"};
constexpr GpgpusimCache shipped_il1{'N', 64, 128, 16, 'L', 'R', 'f', 'N', 'L', 'S', 2, 48, "4"};
constexpr GpgpusimCache shipped_texture{'N', 4, 128, 256, 'L', 'R', 'm', 'N', 'L', 'T', 512, 8, "128:2"};
constexpr GpgpusimCache shipped_constant{'N', 128, 64, 8, 'L', 'R', 'f', 'N', 'L', 'S', 2, 64, "4"};
constexpr std::uint64_t shipped_channels = 32;
constexpr std::uint64_t shipped_parts_of_channel = 2;

std::string whole(double number) { return std::to_string(std::llround(number)); }

const CacheDescription* cache_of(const DeviceDescription& profile, const std::string& target) {
  const auto found = profile.caches.find(target);
  return found == profile.caches.end() ? nullptr : &found->second;
}

const model::CacheEvidence* evidence_of(const DeviceDescription& profile, const std::string& section) {
  const auto found = profile.evidence.find(section);
  return found == profile.evidence.end() ? nullptr : &found->second;
}

bool has_sizes(const DeviceDescription& profile, const std::string& target) {
  const CacheDescription* const cache = cache_of(profile, target);
  if (cache == nullptr) {
    return false;
  }
  const CacheDescription likely = supposed(*cache, evidence_of(profile, target)).cache;
  return likely.ways || likely.capacity_bytes || likely.onset_bytes;
}

// Builds the lines, cache after cache.
class Builder {
 public:
  explicit Builder(const DeviceDescription& profile) : profile_(profile), l1_target_(first_level(profile)) {}

  GpgpusimOptions run() {
    const GpgpusimFit l2 = fit_l2();
    l2_in_sectors_ = l2.cache.type == 'S';
    add_l1();
    add_read_only("-gpgpu_cache:il1", "Instruction", instruction_cache(), shipped_il1);
    add_texture();
    add_read_only("-gpgpu_const_cache:l1", "ConstL1", cache_of(profile_, "ConstL1"), shipped_constant);
    add_shared_memory();
    add_l2(l2);
    tell_what_has_no_option();
    return std::move(result_);
  }

 private:
  void add(std::string name, std::string value, std::string what, std::vector<ExportLoss> losses = {},
           bool is_known = true) {
    result_.options.push_back({.name = std::move(name),
                               .value = std::move(value),
                               .what = std::move(what),
                               .losses = std::move(losses),
                               .is_known = is_known});
  }

  void lose(std::string where, std::string what) {
    result_.losses.push_back({.where = std::move(where), .what = std::move(what)});
  }

  [[nodiscard]] CacheClues clues(const std::string& target) const {
    return {.evidence = evidence_of(profile_, target), .capacity_bytes = {}, .capacity_source = {}};
  }

  // Requests for lines are answered in sectors by an L2 that has them, which takes another kind of MSHR.
  [[nodiscard]] GpgpusimCache before_l2(GpgpusimCache cache) const {
    if (cache.mshr == 'F' || cache.mshr == 'T') {
      cache.mshr = l2_in_sectors_ ? 'T' : 'F';
    } else {
      cache.mshr = l2_in_sectors_ && cache.type == 'N' ? 'S' : 'A';
    }
    return cache;
  }

  static ExportLoss nothing_known(const std::string& name, const std::string& target) {
    return {.where = name, .what = "the profile has nothing of " + target + "; as shipped with SM7_QV100"};
  }

  void add_l1() {
    const std::string name = "-gpgpu_cache:dl1";
    const std::string& target = l1_target_;
    const CacheDescription* const cache = cache_of(profile_, target);
    if (cache == nullptr && loads_pass_by_l1(profile_)) {
      add(name, "none", "loads pass by the L1, as `paths` of the profile has it");
      add_fixed_l1(true);
      if (profile_.outstanding) {
        lose("outstanding", "MSHRs are fields of dl1, which is none");
      }
      return;
    }
    GpgpusimFit l1{.cache = shipped_dl1, .parts = 1, .losses = {}};
    if (cache != nullptr) {
      l1 = fit("caches." + target, *cache, clues(target), shipped_dl1, 1);
    } else {
      l1.losses.push_back(nothing_known(name, target));
    }
    fit_outstanding(l1);
    l1.cache = before_l2(l1.cache);
    add(name, to_text(l1.cache), what_of(target, cache != nullptr), l1.losses, cache != nullptr || fits_outstanding());
    if (cache == nullptr) {
      add_fixed_l1(fits_outstanding());
    } else {
      add_carveouts(target, *cache, l1.cache);
      add_latency("-gpgpu_l1_latency", cache->latency_cycles.hit, "a hit in " + target + " as timed");
      add_banks();
    }
  }

  static std::string what_of(const std::string& target, bool is_there) { return is_there ? target : "a stand-in"; }

  void add_latency(const std::string& name, const std::optional<double>& cycles, const std::string& what) {
    if (cycles && *cycles >= 0) {
      add(name, whole(*cycles), what + ": " + model::to_text(*cycles) + " cycles");
    }
  }

  [[nodiscard]] bool fits_outstanding() const { return profile_.outstanding && profile_.outstanding->entries; }

  void fit_outstanding(GpgpusimFit& l1) const {
    if (!fits_outstanding()) {
      return;
    }
    const model::OutstandingDescription& outstanding = *profile_.outstanding;
    const auto lose_of_it = [&](const std::string& leaf, std::string what) {
      l1.losses.push_back({.where = "outstanding." + leaf, .what = std::move(what)});
    };
    l1.cache.mshr_entries = *outstanding.entries;
    if (!outstanding.kind) {
      lose_of_it("kind", "not known; taken for MSHRs");
    }
    if (outstanding.kind == model::OutstandingKind::prt) {
      l1.cache.mshr_entries = std::uint64_t{*outstanding.entries} * lanes;
      l1.cache.mshr_merges = lanes;
      lose_of_it("entries", fmt::format("a table of {} loads of a warp became {} MSHRs, one for each lane",
                                        *outstanding.entries, l1.cache.mshr_entries));
    } else if (const auto merges = outstanding.merges ? outstanding.merges : outstanding.merges_at_least) {
      l1.cache.mshr_merges = *merges;
      if (!outstanding.merges) {
        lose_of_it("merges", fmt::format("not known; the bound `at least {}` stands in", *merges));
      }
    } else {
      lose_of_it("merges", fmt::format("not known; {} as shipped", l1.cache.mshr_merges));
    }
  }

  void add_fixed_l1(bool is_known) {
    add("-gpgpu_adaptive_cache_config", "0", "dl1 as it is, whatever a kernel takes as shared memory", {}, is_known);
    add("-gpgpu_unified_l1d_size", "0", "the same", {}, is_known);
  }

  // Beside a dl1 of which the size of L1 and shared memory together is no multiple, the simulator stops.
  void add_carveouts(const std::string& target, const CacheDescription& cache, const GpgpusimCache& l1) {
    std::vector<const model::Carveout*> known;
    std::uint64_t together_bytes = 0;
    for (const model::Carveout& carveout : cache.carveouts) {
      if (carveout.onset_bytes) {
        known.push_back(&carveout);
        together_bytes = std::max(together_bytes, *carveout.onset_bytes + carveout.carveout_kb * kb);
      }
    }
    std::ranges::sort(known, {}, &model::Carveout::carveout_kb);
    const std::uint64_t multiple = (together_bytes + l1.bytes() / 2) / l1.bytes();
    if (known.empty() || l1.bytes() % kb != 0 || multiple * l1.bytes() / kb < known.back()->carveout_kb) {
      add_fixed_l1(true);
      if (!cache.carveouts.empty()) {
        lose("caches." + target + ".carveouts", "the L1 keeps its size, however much is set aside");
      }
      return;
    }
    const std::uint64_t unified_kb = multiple * l1.bytes() / kb;
    std::vector<std::uint32_t> options;
    std::vector<std::string> sizes;
    for (const model::Carveout* carveout : known) {
      // As the simulator rounds.
      const double share = 1 - static_cast<double>(carveout->carveout_kb) / static_cast<double>(unified_kb);
      const auto ways = static_cast<std::uint64_t>(std::llround(static_cast<double>(l1.ways * multiple) * share));
      options.push_back(carveout->carveout_kb);
      sizes.push_back(fmt::format("{} KB: {} B, measured {}", carveout->carveout_kb, l1.sets * l1.line_bytes * ways,
                                  *carveout->onset_bytes));
    }
    add("-gpgpu_adaptive_cache_config", "1", "the L1 is what shared memory leaves of both");
    add("-gpgpu_unified_l1d_size", std::to_string(unified_kb), "L1 and shared memory together, KB",
        {{.where = "caches." + target + ".carveouts",
          .what = fmt::format("{} B together became {} KB, a multiple of dl1; the L1 by what is set aside: {}",
                              together_bytes, unified_kb, fmt::join(sizes, ", "))}});
    add("-gpgpu_shmem_option", fmt::format("{}", fmt::join(options, ",")), "what can be set aside, KB");
  }

  // One bank gives 32 B a cycle.
  void add_banks() {
    const auto bandwidth = profile_.bandwidth.find("L1");
    if (bandwidth == profile_.bandwidth.end() || !bandwidth->second.best) {
      return;
    }
    constexpr double bits_of_bank = 256;
    const model::ElementBandwidth& best = *bandwidth->second.best;
    const double banks = best.elements_per_sm_clock * best.element_bits / bits_of_bank;
    const auto nearest = std::uint64_t{1} << static_cast<unsigned>(std::lround(std::log2(std::max(1.0, banks))));
    add("-gpgpu_l1_banks", std::to_string(nearest), "the bandwidth of L1, 32 B a bank and cycle",
        {{.where = "bandwidth.L1",
          .what = fmt::format("{} elements of {} bits per cycle became {} banks", best.elements_per_sm_clock,
                              best.element_bits, nearest)}});
  }

  // What fits into the fastest level of straight-line code, as a cache.
  const CacheDescription* instruction_cache() {
    const auto code = profile_.code.find("Instruction");
    if (code == profile_.code.end() || !code->second.levels || !code->second.levels->front().fits_bytes) {
      return nullptr;
    }
    instructions_.onset_bytes = code->second.levels->front().fits_bytes;
    return &instructions_;
  }

  void add_read_only(const std::string& name, const std::string& target, const CacheDescription* cache,
                     const GpgpusimCache& shipped) {
    GpgpusimFit fitted{.cache = shipped, .parts = 1, .losses = {}};
    if (cache != nullptr) {
      const std::string key = profile_.code.contains(target) ? "code." : "caches.";
      fitted = fit(key + target, *cache, clues(target), shipped, 1);
    } else {
      fitted.losses.push_back(nothing_known(name, target));
    }
    add(name, to_text(before_l2(fitted.cache)), what_of(target, cache != nullptr), fitted.losses, cache != nullptr);
  }

  void add_texture() {
    std::string target = "L1tex";
    for (const char* const other : {"Texture", "L1tex", "ReadOnly"}) {
      if (has_sizes(profile_, other)) {
        target = other;
        break;
      }
    }
    texture_target_ = target;
    add_read_only("-gpgpu_tex_cache:l1", target, cache_of(profile_, target), shipped_texture);
    const CacheDescription* const cache = cache_of(profile_, target);
    if (cache != nullptr && target == l1_target_) {
      result_.options.back().losses.push_back(
          {.where = "caches." + target, .what = "one cache became two, dl1 and this one, which share nothing"});
    }
  }

  void add_shared_memory() {
    if (const auto bytes = told_number(profile_, "shared_bytes_per_sm")) {
      add("-gpgpu_shmem_size", std::to_string(*bytes), "as the driver reports, of an SM");
      add("-gpgpu_shmem_sizeDefault", std::to_string(*bytes), "the same");
    }
    if (!profile_.shared_memory) {
      return;
    }
    const model::SharedMemoryDescription& shared = *profile_.shared_memory;
    if (shared.banks) {
      std::vector<ExportLoss> losses;
      constexpr std::uint32_t simulated_width = 4;
      const std::uint32_t width = shared.bank_width_bytes.value_or(simulated_width);
      const std::uint32_t row = shared.row_bytes.value_or(*shared.banks * width);
      if (width != simulated_width || row != *shared.banks * simulated_width) {
        losses.push_back({.where = "shared_memory.row_bytes",
                          .what = fmt::format("banks of {} B in rows of {} B became banks of 4 B in rows of {} B",
                                              width, row, *shared.banks * simulated_width)});
      }
      add("-gpgpu_shmem_num_banks", std::to_string(*shared.banks), "banks of shared memory", std::move(losses));
    }
    add_latency("-gpgpu_smem_latency", shared.latency_cycles.broadcast, "shared memory without conflict");
    if (shared.latency_cycles.per_way || shared.latency_cycles.two_way) {
      lose("shared_memory.latency_cycles", "what a conflict costs has no option");
    }
  }

  [[nodiscard]] GpgpusimFit fit_l2() const {
    CacheClues clues_of_l2 = clues("L2");
    if (const auto bytes = told_number(profile_, "l2_bytes")) {
      clues_of_l2.capacity_bytes = *bytes;
      clues_of_l2.capacity_source = "the size that the driver reports";
    }
    constexpr std::uint64_t parts = shipped_channels * shipped_parts_of_channel;
    if (const CacheDescription* const cache = cache_of(profile_, "L2")) {
      return fit("caches.L2", *cache, clues_of_l2, shipped_dl2, parts);
    }
    if (clues_of_l2.capacity_bytes) {
      return fit("caches.L2", {}, clues_of_l2, shipped_dl2, parts);
    }
    return {.cache = shipped_dl2, .parts = parts, .losses = {nothing_known("-gpgpu_cache:dl2", "L2")}};
  }

  void add_l2(const GpgpusimFit& l2) {
    const CacheDescription* const cache = cache_of(profile_, "L2");
    const bool is_known = cache != nullptr || told_number(profile_, "l2_bytes");
    add("-gpgpu_cache:dl2", to_text(l2.cache),
        fmt::format("{}, of each of {} sub-partitions; {} B in all", what_of("L2", is_known), l2.parts,
                    l2.cache.bytes() * l2.parts),
        l2.losses, is_known);
    const std::uint64_t parts_of_channel = std::min(l2.parts, shipped_parts_of_channel);
    add("-gpgpu_n_mem", std::to_string(l2.parts / parts_of_channel), "a stand-in: channels of memory",
        {{.where = "-gpgpu_n_mem", .what = "not known; as shipped, so that dl2 is right in all"}}, is_known);
    add("-gpgpu_n_sub_partition_per_mchannel", std::to_string(parts_of_channel), "a stand-in: sub-partitions of each",
        {{.where = "-gpgpu_n_sub_partition_per_mchannel", .what = "not known; as shipped"}}, is_known);
    add_latencies_behind_l1(cache);
  }

  void add_latencies_behind_l1(const CacheDescription* l2) {
    const CacheDescription* const l1 = cache_of(profile_, l1_target_);
    const std::string what =
        "a difference of latencies as timed; the simulated network and memory take their own time "
        "besides";
    if (l1 != nullptr && l1->latency_cycles.hit && l1->latency_cycles.miss &&
        *l1->latency_cycles.miss >= *l1->latency_cycles.hit) {
      add("-gpgpu_l2_rop_latency", whole(*l1->latency_cycles.miss - *l1->latency_cycles.hit),
          "a hit in L2 less a hit in L1, cycles", {{.where = "-gpgpu_l2_rop_latency", .what = what}});
    }
    if (l2 != nullptr && l2->latency_cycles.hit && l2->latency_cycles.miss &&
        *l2->latency_cycles.miss >= *l2->latency_cycles.hit) {
      add("-dram_latency", whole(*l2->latency_cycles.miss - *l2->latency_cycles.hit), "a miss in L2 less a hit, cycles",
          {{.where = "-dram_latency", .what = what}});
    }
  }

  void tell_what_has_no_option() {
    const std::set<std::string> with_option{l1_target_, "ConstL1", "L2", texture_target_};
    for (const auto& [target, cache] : profile_.caches) {
      const bool is_in_l1 =
          cache.shared_with && std::ranges::find(*cache.shared_with, l1_target_) != cache.shared_with->end();
      if (!with_option.contains(target) && !is_in_l1) {
        lose("caches." + target, target.ends_with("TLB") ? "translation is not simulated" : "no option");
      }
    }
    for (const auto& [target, texture] : profile_.textures) {
      lose("textures." + target, "texels lie row by row in the texture cache");
    }
    for (const auto& [target, code] : profile_.code) {
      if (code.levels && code.levels->size() > 2) {
        lose("code." + target + ".levels", "the levels behind the first have no option");
      }
    }
    if (profile_.memory_latency_cycles) {
      lose("memory_latency_cycles", "no option; translation is not simulated");
    }
    if (profile_.outstanding && profile_.outstanding->loads_per_warp) {
      lose("outstanding.loads_per_warp", "no option");
    }
    if (profile_.outstanding && !fits_outstanding()) {
      lose("outstanding.entries", "not known; MSHRs of dl1 as shipped");
    }
    if (!profile_.bandwidth.empty()) {
      lose("bandwidth", "no options but clocks and widths of the base configuration");
    }
  }

  const DeviceDescription& profile_;
  std::string l1_target_;
  CacheDescription instructions_;
  std::string texture_target_;
  bool l2_in_sectors_ = true;
  GpgpusimOptions result_;
};

}  // namespace

GpgpusimOptions gpgpusim_options(const model::DeviceDescription& profile) { return Builder(profile).run(); }

}  // namespace gpuinfer::cli
