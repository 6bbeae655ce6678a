// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/hierarchy.hpp"

#include <algorithm>
#include <numeric>

#include "model/errors.hpp"
#include "model/partitions.hpp"
#include "model/printable.hpp"
#include "model/random.hpp"

namespace gpuinfer::model {

namespace {

// Accesses that are taken through the path together: enough to make the levels' own loops long, few enough to stay in
// the host's caches.
constexpr std::size_t block_accesses = 4096;

const PathDescription& path_of(const DeviceDescription& device, const std::string& name) {
  const auto path = device.paths.find(name);
  if (path == device.paths.end()) {
    throw InputError("paths." + printable(name) + ": is not described; describe it or name another path");
  }
  return path->second;
}

}  // namespace

HierarchySimulator::HierarchySimulator(const DeviceDescription& device, const std::string& path, std::uint64_t seed)
    : page_window_bytes_(path_of(device, path).page_window_bytes) {
  const PathDescription& described = path_of(device, path);
  Random seeds(seed);
  const auto level = [&](const std::string& name) -> Level {
    const CacheDescription& cache = device.caches.at(name);
    try {
      return {.name = name,
              .cache = CacheSimulator::make(cache, seeds()),
              .partitions = cache.partitions,
              .sector_bytes = *cache.sector_bytes};
    } catch (const InputError& error) {
      throw InputError(printable("paths." + path + ": caches." + name + "." + error.what()));
    }
  };
  std::transform(described.caches.begin(), described.caches.end(), std::back_inserter(caches_), level);
  std::transform(described.tlbs.begin(), described.tlbs.end(), std::back_inserter(tlbs_), level);
  if (described.translated_from) {
    const auto from = std::find(described.caches.begin(), described.caches.end(), *described.translated_from);
    translated_from_ = static_cast<std::size_t>(from - described.caches.begin());
  }
}

void HierarchySimulator::put_into(StartState state) {
  for (const std::vector<Level>* levels : {&caches_, &tlbs_}) {
    for (const Level& level : *levels) {
      level.cache->put_into(state);
    }
  }
  if (state == StartState::clean || state == StartState::flooded) {
    active_window_.reset();
  }
}

void HierarchySimulator::play(std::span<const std::uint64_t> addresses, std::span<AccessClass> classes) {
  for (std::size_t begin = 0; begin < addresses.size(); begin += block_accesses) {
    const std::size_t accesses = std::min(block_accesses, addresses.size() - begin);
    play_block(addresses.subspan(begin, accesses));
    if (!classes.empty()) {
      std::copy(classes_.begin(), classes_.end(), classes.begin() + static_cast<std::ptrdiff_t>(begin));
    }
  }
}

// The state of a level depends on nothing but the accesses that reach it and their order, so a whole block may pass one
// level before any of it goes on to the next.
void HierarchySimulator::play_block(std::span<const std::uint64_t> addresses) {
  classes_.assign(addresses.size(), {});
  Positions missing(addresses.size());
  std::iota(missing.begin(), missing.end(), 0U);
  for (std::size_t cache = 0; cache < caches_.size(); ++cache) {
    if (cache == translated_from_) {
      translate(addresses, missing);
    }
    look_up_data(static_cast<std::uint8_t>(cache), addresses, missing);
  }
}

void HierarchySimulator::look_up_data(std::uint8_t cache, std::span<const std::uint64_t> addresses,
                                      Positions& missing) {
  const Level& level = caches_[cache];
  const bool has_far_parts = level.partitions && !level.partitions->keeps_copies;
  look_up(level, addresses, missing);
  std::size_t still_missing = 0;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const std::uint32_t position = missing[i];
    const bool misses = is_miss(outcomes_[i]);
    // Without a branch, which nobody could foretell. The place is written again by the next one.
    missing[still_missing] = position;
    still_missing += misses ? 1U : 0U;
    classes_[position].cache = misses ? std::nullopt : std::optional(cache);
    if (has_far_parts && !misses) {
      classes_[position].far = home_of(*level.partitions, level.sector_bytes, Address{addresses[position]},
                                       "caches." + level.name + ".partitions.index") != level.partitions->near;
    }
  }
  missing.resize(still_missing);
}

void HierarchySimulator::translate(std::span<const std::uint64_t> addresses, Positions missing) {
  for (std::size_t tlb = 0; tlb < tlbs_.size(); ++tlb) {
    look_up(tlbs_[tlb], addresses, missing);
    std::size_t still_missing = 0;
    for (std::size_t i = 0; i < missing.size(); ++i) {
      const std::uint32_t position = missing[i];
      if (is_miss(outcomes_[i])) {
        missing[still_missing++] = position;
      } else {
        classes_[position].translation = tlb == 0 ? Translation::first_tlb : Translation::second_tlb;
      }
    }
    missing.resize(still_missing);
  }
  if (!tlbs_.empty()) {
    walk(addresses, missing);
  }
}

void HierarchySimulator::walk(std::span<const std::uint64_t> addresses, const Positions& walking) {
  for (const std::uint32_t position : walking) {
    classes_[position].translation = Translation::walk;
    if (page_window_bytes_) {
      const std::uint64_t window = addresses[position] / *page_window_bytes_;
      if (active_window_.value_or(window) != window) {
        classes_[position].translation = Translation::walk_with_switch;
      }
      active_window_ = window;
    }
  }
}

// Leaves in outcomes_ what the level says of the accesses at `positions`.
void HierarchySimulator::look_up(const Level& level, std::span<const std::uint64_t> addresses,
                                 const Positions& positions) {
  outcomes_.resize(positions.size());
  if (positions.size() < addresses.size()) {
    looked_up_.resize(positions.size());
    std::transform(positions.begin(), positions.end(), looked_up_.begin(),
                   [&](std::uint32_t position) { return addresses[position]; });
    addresses = looked_up_;
  }
  try {
    level.cache->play(addresses, outcomes_);
  } catch (const InputError& error) {
    throw InputError(printable("caches." + level.name + "." + error.what()));
  }
}

std::vector<AccessClass> classes_of(HierarchySimulator& path, const Question& question, Address address_of_buffer) {
  std::vector<AccessClass> classes(question.record.size());
  path.put_into(question.state);
  path.play(address_numbers(question.warm, address_of_buffer), {});
  path.play(address_numbers(question.record, address_of_buffer), classes);
  return classes;
}

PathLatencies::PathLatencies(const DeviceDescription& device, const std::string& path)
    : name_("paths." + printable(path)), path_(path_of(device, path)) {
  const auto patterns_of = [&](const PathDescription& described) {
    return described.memory_latency_cycles ? described.memory_latency_cycles : device.memory_latency_cycles;
  };
  const auto patterns = patterns_of(path_);
  if (!patterns) {
    throw InputError(name_ + ".memory_latency_cycles: is null, and so is that of the device; give P1, P2, ...");
  }
  patterns_ = *patterns;
  if (path_.caches.size() > 1) {
    first_cache_miss_cycles_ = device.caches.at(path_.caches.front()).latency_cycles.miss;
    for (const auto& [name, other] : device.paths) {
      const bool has_others_latencies = other.memory_latency_cycles || path_.memory_latency_cycles;
      if (other.caches == std::vector{path_.caches.back()} && other.tlbs == path_.tlbs && has_others_latencies) {
        patterns_without_first_cache_ = patterns_of(other);
      }
    }
  }
  for (const std::string& name : path_.caches) {
    const auto& partitions = device.caches.at(name).partitions;
    far_cycles_.push_back(partitions ? partitions->far_cycles : 0);
  }
}

ClassLatency PathLatencies::of(const AccessClass& access) const {
  ClassLatency latency = of_near(access);
  if (access.far) {
    latency.cycles += far_cycles_.at(access.cache.value());
    latency.derived = true;
  }
  return latency;
}

ClassLatency PathLatencies::of_near(const AccessClass& access) const {
  using enum AccessPattern;
  const auto cycles = [&](AccessPattern pattern) { return cycles_of(pattern, access); };
  const auto published = [&](AccessPattern pattern) {
    return ClassLatency{.cycles = cycles(pattern), .pattern = pattern, .derived = false};
  };
  const auto derived = [](double sum) { return ClassLatency{.cycles = sum, .pattern = {}, .derived = true}; };

  const bool has_two = path_.caches.size() > 1;
  const bool in_first_of_two = has_two && access.cache == 0;
  if (in_first_of_two && access.translation > Translation::first_tlb) {
    throw InputError(said_of(access) +
                     " has no published latency, and none that it could be derived from; say with translated_from "
                     "that it needs no translation, or leave such accesses out");
  }
  switch (access.translation) {
    case Translation::not_needed:
    case Translation::first_tlb:
      if (!access.cache) {
        return published(P4);
      }
      return has_two && !in_first_of_two ? derived(second_cache_hit_cycles(access)) : published(P1);
    case Translation::second_tlb:
      if (!access.cache) {
        const double first_tlb_cycles = has_two ? second_cache_hit_cycles(access) : cycles(P1);
        return derived(cycles(P4) + (cycles(P2) - first_tlb_cycles));
      }
      return published(P2);
    case Translation::walk:
      return published(access.cache ? P3 : P5);
    case Translation::walk_with_switch:
      return access.cache ? derived(cycles(P3) + (cycles(P6) - cycles(P5))) : published(P6);
  }
  return published(P1);
}

// Of a hit in the second of two caches with a hit in the first TLB.
double PathLatencies::second_cache_hit_cycles(const AccessClass& needed_for) const {
  if (patterns_without_first_cache_) {
    const std::optional<double> p1 = patterns_without_first_cache_->at(0);
    const std::optional<double> p2 = patterns_without_first_cache_->at(1);
    if (p1 && p2) {
      return cycles_of(AccessPattern::P2, needed_for) - (*p2 - *p1);
    }
  }
  if (first_cache_miss_cycles_) {
    return *first_cache_miss_cycles_;
  }
  throw InputError(said_of(needed_for) + " has no published latency; describe a path with " +
                   printable(path_.caches.back()) + " alone, from which it could be derived, or give caches." +
                   printable(path_.caches.front()) + ".latency_cycles.miss");
}

double PathLatencies::cycles_of(AccessPattern pattern, const AccessClass& needed_for) const {
  const std::optional<double>& cycles = patterns_.at(static_cast<std::size_t>(pattern));
  if (!cycles) {
    throw InputError(said_of(needed_for) + " needs memory_latency_cycles." + std::string(to_string(pattern)) +
                     ", which is null; give it a value");
  }
  return *cycles;
}

std::string PathLatencies::said_of(const AccessClass& access) const {
  const std::string in_other_window = access.translation == Translation::walk_with_switch ? " and a window switch" : "";
  return name_ + ": data in " + data_name(path_, access) + ", translation in " + translation_name(path_, access) +
         in_other_window;
}

std::string data_name(const PathDescription& path, const AccessClass& access) {
  return access.cache ? path.caches.at(*access.cache) : "memory";
}

std::string translation_name(const PathDescription& path, const AccessClass& access) {
  switch (access.translation) {
    case Translation::not_needed:
      return "none";
    case Translation::first_tlb:
      return path.tlbs.at(0);
    case Translation::second_tlb:
      return path.tlbs.at(1);
    case Translation::walk:
    case Translation::walk_with_switch:
      return "walk";
  }
  return "walk";
}

}  // namespace gpuinfer::model
