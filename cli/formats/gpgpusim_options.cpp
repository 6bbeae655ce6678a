// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/formats/gpgpusim_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "cli/formats/device_facts.hpp"
#include "cli/formats/gpgpusim_cache.hpp"
#include "cli/supposed_cache.hpp"
#include "cli/targets.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::cli {

namespace {

using model::CacheDescription;
using model::DeviceDescription;

constexpr std::uint64_t kb = 1024;
constexpr std::uint32_t lanes = 32;
constexpr std::uint64_t line_of_sectored = 128;
constexpr std::uint64_t request_of_sectored = 32;

// As Accel-Sim ships them in SM7_QV100.
constexpr GpgpusimCache shipped_dl1{'S', 4, 128, 64, 'L', 'T', 'm', 'L', 'L', 'A', 512, 8, "16:0,32"};
constexpr GpgpusimCache shipped_dl2{'S', 32, 128, 24, 'L', 'B', 'm', 'L', 'P', 'A', 192, 4, "32:0,32"};
constexpr GpgpusimCache shipped_il1{'N', 64, 128, 16, 'L', 'R', 'f', 'N', 'L', 'S', 2, 48, "4"};
constexpr GpgpusimCache shipped_texture{'N', 4, 128, 256, 'L', 'R', 'm', 'N', 'L', 'T', 512, 8, "128:2"};
constexpr GpgpusimCache shipped_constant{'N', 128, 64, 8, 'L', 'R', 'f', 'N', 'L', 'S', 2, 64, "4"};

// What the simulator adds to its options, in cycles of an SM, as chases in Accel-Sim 1.3 show with the clocks of SMs,
// network and L2 alike: a hit takes -gpgpu_l1_latency and so many, a hit in L2 -gpgpu_l2_rop_latency more and so many.
constexpr double added_to_l1 = 4;
constexpr double added_to_l2 = 13;
constexpr double added_to_l2_without_l1 = 12;
constexpr double added_to_shared = 5;

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

// Whether `-gpgpu_memory_partition_indexing` takes so many channels: 1 is an XOR, 2 a polynomial (addrdec.cc,
// addrdec_tlx).
bool indexing_takes(std::uint64_t indexing, std::uint64_t channels, std::uint64_t parts_of_channel) {
  if (indexing == 2) {
    return has_polynomial(std::bit_ceil(channels) * parts_of_channel);
  }
  return indexing != 1 || std::has_single_bit(channels);
}

// Builds the lines, cache after cache.
class Builder {
 public:
  Builder(const DeviceDescription& profile, const GpgpusimBase& base)
      : profile_(profile), base_(base), l1_target_(first_level(profile)) {}

  GpgpusimOptions run() {
    GpgpusimFit l2 = fit_l2();
    take_long_requests(l2);
    l2_in_sectors_ = l2.cache.type == 'S';
    sectors_of_load_ = sectors_asked_by(l2.cache);
    add_l1();
    const CacheDescription* const instructions = instruction_cache();
    const CacheDescription* const constants = cache_of(profile_, "ConstL1");
    add_read_only("-gpgpu_cache:il1", "Instruction", instructions, shipped_il1);
    add_texture();
    add_read_only("-gpgpu_const_cache:l1", "ConstL1", constants, shipped_constant);
    if (simulates_instructions()) {
      add("-gpgpu_perfect_inst_const_cache", "0",
          "il1 and the constant cache are simulated, or their lines do nothing");
    }
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

  [[nodiscard]] GpgpusimCache shipped(const std::string& name, const GpgpusimCache& otherwise) const {
    const auto found = base_.caches.find(name);
    return found == base_.caches.end() ? otherwise : found->second;
  }

  // Where lines cannot be waited for, they become the nearest that can.
  void fit_to_l2(GpgpusimFit& fitted, const std::string& where) const {
    GpgpusimCache& cache = fitted.cache;
    if (set_mshr_type(cache, l2_in_sectors_)) {
      return;
    }
    constexpr std::uint64_t sector_bytes = 32;
    constexpr std::uint64_t half_line_bytes = 64;
    constexpr std::uint64_t longest_line_bytes = 128;
    const std::uint64_t bytes = cache.bytes();
    const std::uint64_t before = cache.line_bytes;
    if (before > longest_line_bytes) {
      cache.line_bytes = longest_line_bytes;
    } else {
      cache.line_bytes = cache.write == 'R' ? half_line_bytes : sector_bytes;
    }
    cache.ways = std::max<std::uint64_t>(1, bytes / (cache.sets * cache.line_bytes));
    static_cast<void>(set_mshr_type(cache, l2_in_sectors_));
    fitted.losses.push_back(
        {.where = where + ".line_bytes",
         .what = fmt::format("{} B became {} B, since the simulator never answers such lines of this "
                             "cache from an L2 in sectors",
                             before, cache.line_bytes)});
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
      add("-gpgpu_flush_l1_cache", "0", "there is none to flush; the simulator fails where it tries");
      add_fixed_l1(true);
      if (profile_.outstanding) {
        lose("outstanding", "MSHRs are fields of dl1, which is none");
      }
      return;
    }
    GpgpusimFit l1{.cache = shipped(name, shipped_dl1), .parts = 1, .losses = {}};
    if (cache != nullptr) {
      l1 = fit("caches." + target, *cache, clues(target), l1.cache, 1);
    } else {
      l1.losses.push_back(nothing_known(name, target));
    }
    fit_outstanding(l1);
    fit_to_l2(l1, "caches." + target);
    const auto adaptive = cache != nullptr ? adaptive_l1(*cache, l1.cache) : std::nullopt;
    if (adaptive) {
      l1.cache.ways = adaptive->ways;
    }
    add(name, to_text(l1.cache), what_of(target, cache != nullptr), l1.losses,
        cache != nullptr || (base_.is_whole && fits_outstanding()));
    sectors_of_load_ = std::max(sectors_of_load_, sectors_asked_by(l1.cache));
    if (cache != nullptr) {
      // All lines of a set may be dirty, and that not be the share of all lines from which on dirty ones may leave.
      add("-gpgpu_l1_cache_write_ratio", "0", "dirty lines leave as others do, or a set that is full of them is stuck");
      add_carveouts(target, *cache, l1.cache, adaptive);
      add_latency("-gpgpu_l1_latency", cache->latency_cycles.hit, "a hit in " + target + " as timed", added_to_l1);
      add_banks();
    } else if (fits_outstanding() && !base_.is_whole) {
      lose("outstanding", "MSHRs are fields of dl1, of which nothing else is known");
    }
  }

  static std::string what_of(const std::string& target, bool is_there) { return is_there ? target : "a stand-in"; }

  // What a miss of one lane asks for.
  static std::uint64_t sectors_asked_by(const GpgpusimCache& cache) {
    return cache.type == 'S' ? 1 : std::max<std::uint64_t>(1, cache.line_bytes / request_of_sectored);
  }

  // So many cycles as timed, less those that the simulator adds.
  void add_latency(const std::string& name, const std::optional<double>& cycles, const std::string& what,
                   double added) {
    if (cycles && *cycles > added) {
      add(name, model::whole_text(*cycles - added),
          fmt::format("{}: {} cycles, of which the simulator adds {}", what, model::to_text(*cycles), added));
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

  // Ways of dl1, and the size of L1 and shared memory together, with which each carve-out leaves the L1 as near as can
  // be to the size that it has. The simulator wants a dl1 of whole KB of which the size of both is a multiple.
  struct AdaptiveL1 {
    std::uint64_t ways = 0;
    std::uint64_t unified_kb = 0;
  };

  static std::optional<std::uint64_t> l1_bytes(const model::Carveout& carveout, const CacheDescription& cache) {
    return carveout.store_lines && cache.line_bytes ? std::optional(*carveout.store_lines * *cache.line_bytes)
                                                    : carveout.onset_bytes;
  }

  // Without those that the GPU rounds up to a larger one: the L1 is as small as with that.
  static std::vector<model::Carveout> real_carveouts(const CacheDescription& cache) {
    std::vector<model::Carveout> real;
    std::ranges::copy_if(cache.carveouts, std::back_inserter(real), [&](const model::Carveout& carveout) {
      return l1_bytes(carveout, cache) && std::ranges::none_of(cache.carveouts, [&](const model::Carveout& other) {
               return other.carveout_kb > carveout.carveout_kb && l1_bytes(other, cache) == l1_bytes(carveout, cache);
             });
    });
    std::ranges::sort(real, {}, &model::Carveout::carveout_kb);
    return real;
  }

  // As the simulator rounds (shader.cc, shader_core_config::max_cta).
  static std::uint64_t ways_at(const AdaptiveL1& l1, std::uint64_t way_bytes, std::uint32_t carveout_kb) {
    const double share = 1 - static_cast<double>(carveout_kb) / static_cast<double>(l1.unified_kb);
    return static_cast<std::uint64_t>(static_cast<double>(l1.unified_kb * kb / way_bytes) * share + 0.5);
  }

  static std::optional<AdaptiveL1> adaptive_l1(const CacheDescription& cache, const GpgpusimCache& l1) {
    const std::vector<model::Carveout> carveouts = real_carveouts(cache);
    std::uint64_t together_bytes = 0;
    std::uint64_t most_kb = 0;
    for (const model::Carveout& carveout : carveouts) {
      together_bytes = std::max(together_bytes, *l1_bytes(carveout, cache) + carveout.carveout_kb * kb);
      most_kb = std::max<std::uint64_t>(most_kb, carveout.carveout_kb);
    }
    if (together_bytes == 0) {
      return std::nullopt;
    }
    constexpr std::uint64_t nearby_kb = 2;
    constexpr std::uint64_t most_ways = 64;
    const std::uint64_t way_bytes = l1.sets * l1.line_bytes;
    std::optional<AdaptiveL1> best;
    std::uint64_t least = 0;
    const std::uint64_t first_kb =
        std::max(most_kb + 1, together_bytes / kb - std::min(together_bytes / kb, nearby_kb));
    for (std::uint64_t unified_kb = first_kb; unified_kb <= together_bytes / kb + nearby_kb; ++unified_kb) {
      for (std::uint64_t ways = most_ways; ways >= 1; --ways) {
        const std::uint64_t dl1_bytes = ways * way_bytes;
        if (dl1_bytes % kb != 0 || unified_kb % (dl1_bytes / kb) != 0) {
          continue;
        }
        const AdaptiveL1 candidate{.ways = ways, .unified_kb = unified_kb};
        std::uint64_t difference = 0;
        for (const model::Carveout& carveout : carveouts) {
          const std::uint64_t bytes = *l1_bytes(carveout, cache);
          const std::uint64_t simulated = ways_at(candidate, way_bytes, carveout.carveout_kb) * way_bytes;
          difference += std::max(simulated, bytes) - std::min(simulated, bytes);
        }
        if (!best || difference < least) {
          best = candidate;
          least = difference;
        }
        break;
      }
    }
    return best;
  }

  void add_carveouts(const std::string& target, const CacheDescription& cache, const GpgpusimCache& l1,
                     const std::optional<AdaptiveL1>& adaptive) {
    if (!adaptive) {
      add_fixed_l1(true);
      if (!cache.carveouts.empty()) {
        lose("caches." + target + ".carveouts", "the L1 keeps its size, however much is set aside");
      }
      return;
    }
    const std::uint64_t way_bytes = l1.sets * l1.line_bytes;
    std::vector<std::uint32_t> options;
    std::vector<std::string> texts;
    for (const model::Carveout& carveout : real_carveouts(cache)) {
      options.push_back(carveout.carveout_kb);
      texts.push_back(fmt::format("{} KB: {} B, measured {}", carveout.carveout_kb,
                                  way_bytes * ways_at(*adaptive, way_bytes, carveout.carveout_kb),
                                  *l1_bytes(carveout, cache)));
    }
    add("-gpgpu_adaptive_cache_config", "1", "the L1 is what shared memory leaves of both");
    add("-gpgpu_unified_l1d_size", std::to_string(adaptive->unified_kb), "L1 and shared memory together, KB",
        {{.where = "caches." + target + ".carveouts",
          .what = fmt::format("{} KB together, a multiple of dl1; the L1 by what is set aside: {}",
                              adaptive->unified_kb, fmt::join(texts, ", "))}});
    add("-gpgpu_shmem_option", fmt::format("{}", fmt::join(options, ",")),
        "what can be set aside, KB, without what the GPU rounds up");
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

  // What fits into the fastest level of straight-line code.
  [[nodiscard]] std::optional<std::uint64_t> instruction_bytes() const {
    const auto code = profile_.code.find("Instruction");
    if (code == profile_.code.end() || !code->second.levels) {
      return std::nullopt;
    }
    return code->second.levels->front().fits_bytes;
  }

  // il1 and the constant cache have one switch.
  [[nodiscard]] bool simulates_instructions() const {
    return instruction_bytes() || cache_of(profile_, "ConstL1") != nullptr;
  }

  const CacheDescription* instruction_cache() {
    instructions_.onset_bytes = instruction_bytes();
    if (!instructions_.onset_bytes) {
      return nullptr;
    }
    return &instructions_;
  }

  void add_read_only(const std::string& name, const std::string& target, const CacheDescription* cache,
                     const GpgpusimCache& shipped) {
    const GpgpusimCache before = this->shipped(name, shipped);
    const std::string key = (profile_.code.contains(target) ? "code." : "caches.") + target;
    GpgpusimFit fitted{.cache = before, .parts = 1, .losses = {}};
    if (cache != nullptr) {
      fitted = fit(key, *cache, clues(target), before, 1);
    } else {
      fitted.losses.push_back(nothing_known(name, target));
    }
    fit_to_l2(fitted, key);
    const bool waits_otherwise = fitted.cache.mshr != before.mshr;
    add(name, to_text(fitted.cache),
        cache == nullptr && waits_otherwise ? "MSHRs that fit the L2" : what_of(target, cache != nullptr),
        fitted.losses, cache != nullptr || waits_otherwise);
  }

  [[nodiscard]] std::string texture_target() const {
    for (const char* const target : {"Texture", "L1tex", "ReadOnly"}) {
      if (has_sizes(profile_, target)) {
        return target;
      }
    }
    return "L1tex";
  }

  void add_texture() {
    const std::string target = texture_target();
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
    add_latency("-gpgpu_smem_latency", shared.latency_cycles.broadcast, "shared memory without conflict",
                added_to_shared);
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
    const CacheDescription* const known = cache_of(profile_, "L2");
    const GpgpusimCache before = shipped("-gpgpu_cache:dl2", shipped_dl2);
    if (known == nullptr && !clues_of_l2.capacity_bytes) {
      return {.cache = before, .parts = base_.parts, .losses = {nothing_known("-gpgpu_cache:dl2", "L2")}};
    }
    CacheDescription cache = known == nullptr ? CacheDescription{} : *known;
    const std::uint64_t parts = slices_as_parts() ? *cache.slices : base_.parts;
    if (std::has_single_bit(parts)) {
      return fit("caches.L2", cache, clues_of_l2, before, parts);
    }
    // One of them by itself: which lines are at home in it, the simulator's own mapping says.
    for (auto* const bytes : {&cache.capacity_bytes, &cache.onset_bytes, &clues_of_l2.capacity_bytes}) {
      *bytes = *bytes ? std::optional(**bytes / parts) : std::nullopt;
    }
    cache.ways = slices_as_parts() ? cache.slice_ways : std::nullopt;
    cache.index.reset();
    GpgpusimFit part = fit("caches.L2", cache, clues_of_l2, before, 1);
    part.parts = parts;
    return part;
  }

  // What the caches before the L2 ask for at once, at most. An L1 in sectors asks for one of them.
  [[nodiscard]] std::uint64_t longest_request() const {
    std::uint64_t longest = request_of_sectored;
    const CacheDescription* const l1 = cache_of(profile_, l1_target_);
    if (l1 != nullptr && l1->line_bytes) {
      const bool in_sectors = *l1->line_bytes == line_of_sectored && l1->sector_bytes.value_or(0) < line_of_sectored;
      longest = in_sectors ? longest : *l1->line_bytes;
    }
    const CacheDescription* const texture = cache_of(profile_, texture_target());
    if (texture != nullptr) {
      longest = std::max(longest, texture->line_bytes.value_or(0));
    }
    return simulates_instructions() ? std::max(longest, line_of_sectored) : longest;
  }

  // An L2 in lines asserts that no request is longer than one (gpu-cache.cc, data_cache::access). An L2 in sectors
  // breaks them up.
  void take_long_requests(GpgpusimFit& l2) const {
    GpgpusimCache& cache = l2.cache;
    if (cache.type == 'S' || cache.line_bytes >= std::min(longest_request(), line_of_sectored)) {
      return;
    }
    const std::uint64_t bytes = cache.bytes();
    const std::uint64_t before = cache.line_bytes;
    cache.type = 'S';
    cache.line_bytes = line_of_sectored;
    cache.sets = std::max<std::uint64_t>(1, cache.sets * before / line_of_sectored);
    cache.ways = std::max<std::uint64_t>(1, bytes / (cache.sets * line_of_sectored));
    cache.write_allocate = cache.write_allocate == 'W' ? 'L' : cache.write_allocate;
    cache.index = cache.index == 'L' || (cache.index == 'P' && has_polynomial(cache.sets)) ? cache.index : 'X';
    l2.losses.push_back(
        {.where = "caches.L2.line_bytes",
         .what =
             fmt::format("{} B became 128 B in sectors of 32 B, since the simulator takes no request that is longer "
                         "than a line, and those of other caches are of {} B",
                         before, longest_request())});
  }

  // Whether the sub-partitions can be as many as the slices.
  [[nodiscard]] bool slices_as_parts() const {
    const CacheDescription* const l2 = cache_of(profile_, "L2");
    return l2 != nullptr && l2->slices.value_or(0) > 0 && base_.takes_any_channels;
  }

  void add_l2(const GpgpusimFit& l2) {
    const CacheDescription* const cache = cache_of(profile_, "L2");
    const bool is_known = cache != nullptr || (base_.is_whole && told_number(profile_, "l2_bytes"));
    add("-gpgpu_cache:dl2", to_text(l2.cache),
        fmt::format("{}, of each of {} sub-partitions; {} B in all", what_of("L2", is_known), l2.parts,
                    l2.cache.bytes() * l2.parts),
        l2.losses, is_known);
    add_parts(l2.parts, is_known);
    add_latencies_behind_l1(cache);
  }

  void add_parts(std::uint64_t parts, bool is_known) {
    const CacheDescription* const l2 = cache_of(profile_, "L2");
    const bool are_slices = slices_as_parts() && parts == *l2->slices;
    const std::uint64_t parts_of_channel = std::gcd(parts, base_.parts_of_channel);
    const std::uint64_t channels = parts / parts_of_channel;
    if (are_slices) {
      add("-gpgpu_n_mem", std::to_string(channels),
          fmt::format("channels of memory for {} slices of the L2, of each {}", parts, parts_of_channel));
    } else {
      const std::string why = l2 != nullptr && l2->slices
                                  ? fmt::format("{} slices became {} sub-partitions, as shipped", *l2->slices, parts)
                                  : "not known; as shipped, so that dl2 is right in all";
      add("-gpgpu_n_mem", std::to_string(channels), "a stand-in: channels of memory",
          {{.where = "-gpgpu_n_mem", .what = why}}, is_known);
    }
    add("-gpgpu_n_sub_partition_per_mchannel", std::to_string(parts_of_channel), "a stand-in: sub-partitions of each",
        {{.where = "-gpgpu_n_sub_partition_per_mchannel", .what = "not known; as shipped"}}, is_known);
    if (parts != base_.parts && !indexing_takes(base_.partition_indexing, channels, parts_of_channel)) {
      add("-gpgpu_memory_partition_indexing", "0",
          fmt::format("channels take turns: the hash of the base is not for {} of them", channels),
          {{.where = "caches.L2.slice_index", .what = "no option; the channels take turns"}}, is_known);
    }
  }

  void add_latencies_behind_l1(const CacheDescription* l2) {
    const CacheDescription* const l1 = cache_of(profile_, l1_target_);
    const auto l2_hit = l2 != nullptr && l2->latency_cycles.hit ? l2->latency_cycles.hit
                        : l1 == nullptr                         ? std::nullopt
                                                                : l1->latency_cycles.miss;
    if (l1 != nullptr && l1->latency_cycles.hit) {
      add_latency("-gpgpu_l2_rop_latency", l2_hit, "a hit in L2 as timed",
                  *l1->latency_cycles.hit - added_to_l1 + added_to_l2);
    } else if (l1 == nullptr && loads_pass_by_l1(profile_)) {
      add_latency("-gpgpu_l2_rop_latency", l2_hit, "a hit in L2 as timed", added_to_l2_without_l1);
    }
    if (l2 != nullptr && l2->latency_cycles.hit && l2->latency_cycles.miss) {
      add_latency("-dram_latency", l2->latency_cycles.miss, "a miss in L2 as timed",
                  *l2->latency_cycles.hit + dram_cycles_of_load());
      if (!base_.dram_cycles && !result_.options.empty() && result_.options.back().name == "-dram_latency") {
        result_.options.back().losses.push_back(
            {.where = "-dram_latency",
             .what = "the simulated memory takes its own time besides, which is not known here"});
      }
    }
  }

  [[nodiscard]] double dram_cycles_of_load() const {
    const GpgpusimBase::DramCycles dram = base_.dram_cycles.value_or(GpgpusimBase::DramCycles{});
    return dram.sector + dram.further_sector * static_cast<double>(sectors_of_load_ - 1);
  }

  void tell_what_has_no_option() {
    const std::set<std::string> with_option{l1_target_, "ConstL1", "L2", texture_target_};
    for (const auto& [target, cache] : profile_.caches) {
      const bool is_in_l1 =
          cache.shared_with && std::ranges::find(*cache.shared_with, l1_target_) != cache.shared_with->end();
      if (!with_option.contains(target) && !is_in_l1) {
        lose("caches." + target, translates(target) ? "translation is not simulated" : "no option");
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
  const GpgpusimBase& base_;
  std::string l1_target_;
  CacheDescription instructions_;
  std::string texture_target_;
  bool l2_in_sectors_ = true;
  std::uint64_t sectors_of_load_ = 1;
  GpgpusimOptions result_;
};

}  // namespace

GpgpusimOptions gpgpusim_options(const model::DeviceDescription& profile, const GpgpusimBase& base) {
  return Builder(profile, base).run();
}

}  // namespace gpuinfer::cli
