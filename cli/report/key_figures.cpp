// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/key_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "cli/cache_sheet.hpp"
#include "cli/leaf_table.hpp"
#include "cli/targets.hpp"
#include "model/provenance.hpp"

namespace gpuinfer::cli::report {

namespace {

using model::CacheDescription;
using model::DeviceDescription;
using model::words::bytes;

// Leaves that tell how a level is built, and the words for them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> key_leaves{{{"capacity_bytes", "size"},
                                                                                    {"line_bytes", "line"},
                                                                                    {"sector_bytes", "sector"},
                                                                                    {"ways", "sets"},
                                                                                    {"index", "index"},
                                                                                    {"replacement", "policy"},
                                                                                    {"latency_cycles", "latency"},
                                                                                    {"banks", "banks"},
                                                                                    {"levels", "levels"},
                                                                                    {"line_texels", "line"},
                                                                                    {"sector_texels", "sector"}}};

Target facts_of(std::string_view target) {
  const Target* const known = known_target(target);
  return known == nullptr ? Target{.name = target, .what = {}} : *known;
}

std::string cache_size(const std::string& target, const CacheDescription& cache) {
  if (!cache.capacity_bytes) {
    return "";
  }
  if (translates(target) && cache.line_bytes) {
    return fmt::format("{} pages of {} = {}", grouped(*cache.capacity_bytes / *cache.line_bytes),
                       bytes(*cache.line_bytes), bytes(*cache.capacity_bytes));
  }
  return bytes(*cache.capacity_bytes);
}

std::string line_text(const std::string& target, const CacheDescription& cache) {
  if (!cache.line_bytes || translates(target)) {
    return !cache.line_bytes && cache.sector_bytes ? "fills " + bytes(*cache.sector_bytes) : "";
  }
  return bytes(*cache.line_bytes) + (cache.sector_bytes && *cache.sector_bytes < *cache.line_bytes
                                         ? fmt::format(", sectors {}", bytes(*cache.sector_bytes))
                                         : "");
}

void add_geometry(Level& level, const CacheDescription& cache) {
  if (!cache.ways) {
    level.geometry = cache.slices ? fmt::format("{} slices", *cache.slices) : "";
    return;
  }
  const std::vector<std::uint32_t>& ways = *cache.ways;
  if (std::ranges::all_of(ways, [&](std::uint32_t count) { return count == ways.front(); })) {
    level.geometry = fmt::format("{} x {}", ways.size(), ways.front());
    level.geometry_unit = "ways";
  } else {
    level.geometry = fmt::format("{} sets of {} ways", ways.size(), model::words::ways(ways));
  }
}

void add_bandwidth(Level& level, const DeviceDescription& profile, std::string_view name) {
  const auto found = profile.bandwidth.find(std::string(name));
  if (found == profile.bandwidth.end() || !found->second.best) {
    return;
  }
  constexpr double bits_of_byte = 8;
  const model::ElementBandwidth& best = *found->second.best;
  level.bytes_per_sm_clock = best.elements_per_sm_clock * best.element_bits / bits_of_byte;
  level.bytes_per_second = best.bytes_per_second;
}

Level level_of(const std::string& target, const DeviceDescription& profile) {
  const CacheDescription& cache = profile.caches.at(target);
  const Target facts = facts_of(target);
  Level level{.targets = {target},
              .name = target,
              .place = facts.place.value_or(Place::data),
              .capacity_bytes = cache.capacity_bytes,
              .size = cache_size(target, cache),
              .size_range = range_by_carveout(cache),
              .line = line_text(target, cache),
              .geometry = {},
              .geometry_unit = {},
              .policy = cache.replacement ? cache.replacement->policy : "",
              .hit = cycles_text(cache.latency_cycles.hit),
              .piece = {},
              .hit_cycles = cache.latency_cycles.hit,
              .miss_cycles = cache.latency_cycles.miss,
              .bytes_per_sm_clock = {},
              .bytes_per_second = {},
              .groups_of_sms = cache.shared_by_sms.size(),
              .unverified = unverified_leaves(profile, target)};
  add_geometry(level, cache);
  if (cache.partitions && cache.latency_cycles.hit) {
    level.hit += fmt::format(", far half {}", cycles_text(*cache.latency_cycles.hit + cache.partitions->far_cycles));
  }
  if (translates(target) && cache.latency_cycles.miss) {
    level.hit += fmt::format(", miss {}", cycles_text(cache.latency_cycles.miss));
  }
  if (size_words(level).empty() && !facts.size_fact.empty()) {
    level.capacity_bytes = model::told<std::uint64_t>(profile.device.provenance, target, facts.size_fact);
    level.size = level.capacity_bytes ? bytes(*level.capacity_bytes) + " by its driver" : "";
  }
  add_bandwidth(level, profile, facts.bandwidth);
  return level;
}

bool are_one(const DeviceDescription& profile, const std::string& one, const std::string& other) {
  const auto finds = [&](const std::string& from, const std::string& to) {
    const auto& with = profile.caches.at(from).shared_with;
    return with && std::ranges::find(*with, to) != with->end();
  };
  return finds(one, other) && finds(other, one);
}

void add_caches(std::vector<Level>& levels, const DeviceDescription& profile) {
  for (const Target& target : known_targets()) {
    const std::string name(target.name);
    if (!profile.caches.contains(name)) {
      continue;
    }
    const auto same = std::ranges::find_if(levels, [&](const Level& level) {
      return profile.caches.contains(level.targets.front()) && are_one(profile, level.targets.front(), name);
    });
    if (same == levels.end()) {
      levels.push_back(level_of(name, profile));
    } else {
      same->targets.push_back(name);
      same->name += ", " + name;
    }
  }
}

void add_code(std::vector<Level>& levels, const std::string& target, const DeviceDescription& profile) {
  const model::CodeDescription& code = profile.code.at(target);
  const Place place = facts_of(target).place.value_or(Place::code);
  const std::vector<Unverified> unverified = unverified_leaves(profile, target);
  if (!code.levels) {
    levels.push_back({.targets = {target}, .name = target, .place = place, .unverified = unverified});
    return;
  }
  std::size_t number = 0;
  for (const model::CodeLevel& each : *code.levels) {
    if (each.fits_bytes) {
      levels.push_back({.targets = {target},
                        .name = fmt::format("{} {}", target, ++number),
                        .place = place,
                        .capacity_bytes = each.fits_bytes,
                        .size = bytes(*each.fits_bytes),
                        .hit = cycles_text(each.cycles),
                        .piece = bytes(code.piece_bytes),
                        .hit_cycles = each.cycles,
                        .unverified = number == 1 ? unverified : std::vector<Unverified>{}});
    }
  }
}

// Loads that miss all data caches and find their translation in the first TLB. Misses of the outermost cache may come
// from several levels, so that only the pattern has a latency.
std::optional<double> memory_cycles(const std::vector<Level>& levels, const DeviceDescription& profile) {
  constexpr std::size_t data_in_memory = 3;
  static_assert(model::pattern_names.at(data_in_memory) == "P4");
  const auto outermost = std::ranges::find(levels.rbegin(), levels.rend(), Place::shared_by_sms, &Level::place);
  if (outermost != levels.rend() && outermost->miss_cycles) {
    return outermost->miss_cycles;
  }
  return profile.memory_latency_cycles ? profile.memory_latency_cycles->at(data_in_memory) : std::nullopt;
}

// Memory, or, of a profile of one cache, what is behind that.
void add_outermost(std::vector<Level>& levels, const DeviceDescription& profile) {
  Level last{.name = "Memory", .place = Place::memory, .hit_cycles = memory_cycles(levels, profile)};
  add_bandwidth(last, profile, "DRAM_load");
  const auto is_inner = [](const Level& level) { return level.place == Place::data && level.miss_cycles; };
  const bool has_outer =
      std::ranges::any_of(levels, [](const Level& level) { return level.place == Place::shared_by_sms; });
  if (!last.hit_cycles && !last.bytes_per_second && !has_outer && std::ranges::count_if(levels, is_inner) == 1) {
    last.name = "Next level";
    last.hit_cycles = std::ranges::find_if(levels, is_inner)->miss_cycles;
  }
  last.hit = cycles_text(last.hit_cycles);
  if (last.hit_cycles || last.bytes_per_second) {
    levels.push_back(last);
  }
}

}  // namespace

std::string size_words(const Level& level) {
  return level.size + (level.size.empty() || level.size_range.empty() ? "" : "; ") + level.size_range;
}

std::string geometry_words(const Level& level) {
  return level.geometry + (level.geometry_unit.empty() ? "" : " ") + level.geometry_unit;
}

std::string to_string(const Unverified& unverified) {
  return fmt::format("{}: {}", to_string(unverified.status), unverified.leaves);
}

std::string words(const std::vector<Unverified>& unverified) {
  std::vector<std::string> texts;
  for (const Unverified& each : unverified) {
    texts.push_back(to_string(each));
  }
  return model::words::joined(texts, "; ");
}

std::vector<Unverified> unverified_leaves(const DeviceDescription& profile, const std::string& section) {
  std::vector<Unverified> found;
  const auto evidence = profile.evidence.find(section);
  if (evidence == profile.evidence.end()) {
    return found;
  }
  for (const auto status : {model::EvidenceStatus::ambiguous, model::EvidenceStatus::unknown}) {
    std::vector<std::string> names;
    for (const auto& [leaf, name] : key_leaves) {
      const auto entry = evidence->second.leaves.find(std::string(leaf));
      if (entry != evidence->second.leaves.end() && entry->second.status == status) {
        names.emplace_back(name);
      }
    }
    if (!names.empty()) {
      found.push_back({.status = status, .leaves = model::words::joined(names)});
    }
  }
  return found;
}

std::optional<std::uint32_t> carveout_of(const DeviceDescription& profile, const std::string& target) {
  const CacheDescription& cache = profile.caches.at(target);
  if (cache.carveout_kb) {
    return cache.carveout_kb;
  }
  const auto asked = model::told<std::uint32_t>(profile.device.provenance, target, model::carveout_fact);
  const bool is_known =
      asked && std::ranges::find(cache.carveouts, *asked, &model::Carveout::carveout_kb) != cache.carveouts.end();
  return is_known ? asked : std::nullopt;
}

std::string cycles_text(const std::optional<double>& cycles) {
  constexpr double tenth = 10;
  return cycles ? number_text(std::round(*cycles * tenth) / tenth) : "";
}

std::vector<Level> levels_of(const DeviceDescription& profile) {
  std::vector<Level> levels;
  add_caches(levels, profile);
  if (profile.shared_memory) {
    const auto& shared = *profile.shared_memory;
    Level level{.targets = {"Shared"},
                .name = "Shared memory",
                .is_shared_memory = true,
                .geometry = shared.banks && shared.bank_width_bytes
                                ? fmt::format("{} banks x {} B", *shared.banks, *shared.bank_width_bytes)
                                : "",
                .hit = cycles_text(shared.latency_cycles.broadcast),
                .hit_cycles = shared.latency_cycles.broadcast,
                .unverified = unverified_leaves(profile, "shared_memory")};
    add_bandwidth(level, profile, facts_of("Shared").bandwidth);
    levels.push_back(level);
  }
  for (const auto& [target, texture] : profile.textures) {
    Level level{.targets = {target},
                .name = target,
                .line = texture.line_texels ? to_string(*texture.line_texels) + " texels" : "",
                .hit = cycles_text(texture.latency_cycles.hit),
                .hit_cycles = texture.latency_cycles.hit,
                .miss_cycles = texture.latency_cycles.miss,
                .unverified = unverified_leaves(profile, target)};
    add_bandwidth(level, profile, facts_of(target).bandwidth);
    levels.push_back(level);
  }
  for (const auto& [target, code] : profile.code) {
    add_code(levels, target, profile);
  }
  add_outermost(levels, profile);
  std::ranges::stable_sort(levels, {}, &Level::place);
  return levels;
}

Table key_figures(const std::vector<Level>& levels) {
  Table table{.head = {"level", "size", "line", "sets x ways", "policy", "cycles", "B/clk/SM", "GB/s", "not verified"},
              .rows = {}};
  constexpr double giga = 1e9;
  for (const Level& level : levels) {
    table.rows.push_back(
        {level.name, size_words(level), level.line, level.geometry, level.policy,
         level.hit + (level.piece.empty() ? "" : " for ") + level.piece,
         level.bytes_per_sm_clock ? model::words::rounded(*level.bytes_per_sm_clock, 3) : "",
         level.bytes_per_second ? grouped(static_cast<std::uint64_t>(*level.bytes_per_second / giga)) : "",
         words(level.unverified)});
  }
  return table;
}

}  // namespace gpuinfer::cli::report
