// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/cache_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cli/leaf_table.hpp"
#include "cli/targets.hpp"
#include "model/description/sections.hpp"
#include "model/description_yaml.hpp"

namespace gpuinfer::cli {

namespace {

using model::CacheDescription;

}  // namespace

char bit_role(unsigned bit, const CacheDescription& cache, std::uint64_t index_bits) {
  const std::uint64_t value = std::uint64_t{1} << bit;
  if ((index_bits & value) != 0) {
    return 'S';
  }
  if (value < *cache.sector_bytes) {
    return 'o';
  }
  return value < *cache.line_bytes ? 's' : 't';
}

std::vector<std::vector<std::uint64_t>> placed_lines(const CacheDescription& cache) {
  std::vector<std::vector<std::uint64_t>> placed(cache.ways->size());
  if (!cache.index || !cache.line_bytes) {
    return placed;
  }
  const std::uint64_t first = covered(*cache.index).begin / *cache.line_bytes;
  const std::uint64_t lines = std::accumulate(cache.ways->begin(), cache.ways->end(), std::uint64_t{0});
  for (std::uint64_t line = first; line < first + lines && covers(*cache.index, line * *cache.line_bytes); ++line) {
    const std::uint32_t set = set_of(*cache.index, line * *cache.line_bytes);
    if (set < placed.size() && placed[set].size() < (*cache.ways)[set]) {
      placed[set].push_back(line);
    }
  }
  return placed;
}

std::vector<std::optional<std::size_t>> drawn(std::size_t count, std::size_t room) {
  std::vector<std::optional<std::size_t>> chosen;
  if (count <= room) {
    for (std::size_t i = 0; i < count; ++i) {
      chosen.emplace_back(i);
    }
    return chosen;
  }
  for (std::size_t i = 0; i + 2 < room; ++i) {
    chosen.emplace_back(i);
  }
  chosen.emplace_back(std::nullopt);
  chosen.emplace_back(count - 1);
  return chosen;
}

std::vector<std::optional<std::size_t>> drawn_sets(const std::vector<std::uint32_t>& ways) {
  constexpr std::size_t most_in_run = 8;
  constexpr std::size_t most = 24;
  std::vector<std::optional<std::size_t>> sets;
  for (std::size_t begin = 0; begin < ways.size();) {
    std::size_t end = begin;
    while (end < ways.size() && ways[end] == ways[begin]) {
      ++end;
    }
    for (const std::optional<std::size_t>& each : drawn(end - begin, most_in_run)) {
      sets.push_back(each ? std::optional(begin + *each) : std::nullopt);
    }
    begin = end;
  }
  if (sets.size() <= most) {
    return sets;
  }
  std::vector<std::optional<std::size_t>> fewer;
  for (const std::optional<std::size_t>& each : drawn(sets.size(), most)) {
    fewer.push_back(each ? sets[*each] : std::nullopt);
  }
  return fewer;
}

std::string sets_text(const std::vector<std::uint32_t>& ways) {
  const bool equal = std::all_of(ways.begin(), ways.end(), [&](std::uint32_t count) { return count == ways.front(); });
  return equal ? fmt::format("{} set{} x {} ways", ways.size(), ways.size() == 1 ? "" : "s", ways.front())
               : fmt::format("{} unequal sets, of {} ways", ways.size(), model::words::ways(ways));
}

std::string prefetch_text(const model::Fill& fill) {
  const char* const after = fill.prefetch_on == model::PrefetchOn::miss     ? "a miss"
                            : fill.prefetch_on == model::PrefetchOn::access ? "every access"
                                                                            : "two steps of one width";
  return fmt::format("{} lines after {}", fill.prefetch_lines, after);
}

std::string size_text(const std::string& target, const CacheDescription& cache) {
  const auto& capacity = cache.capacity_bytes;
  std::string text = capacity ? model::words::bytes(*capacity) : "capacity not known";
  if (translates(target) && capacity && cache.line_bytes) {
    text = fmt::format("{} entries of pages of {}, {} together", grouped(*capacity / *cache.line_bytes),
                       model::words::bytes(*cache.line_bytes), text);
  }
  if (cache.carveout_kb) {
    text += fmt::format(" at a carve-out of {} KB", *cache.carveout_kb);
  }
  if (cache.onset_bytes) {
    text += ", largest conflict-free footprint " + model::words::bytes(*cache.onset_bytes);
  }
  std::vector<std::uint64_t> sizes;
  for (const model::Carveout& carveout : cache.carveouts) {
    if (carveout.onset_bytes) {
      sizes.push_back(*carveout.onset_bytes);
    }
  }
  if (!sizes.empty()) {
    const auto [least, most] = std::ranges::minmax(sizes);
    text += fmt::format("; {} to {} by carve-out", model::words::bytes(least), model::words::bytes(most));
  }
  if (const auto tags = cache.store_lines ? model::tag_bytes(cache) : std::nullopt) {
    text += "; tags for " + model::words::bytes(*tags);
  }
  return text;
}

std::string policy_text(const CacheDescription& cache) {
  if (!cache.replacement) {
    return "not known";
  }
  std::string text =
      cache.replacement->parameters.empty() ? cache.replacement->policy : model::to_flow_yaml(*cache.replacement);
  if (!cache.replacement->equivalent.empty()) {
    text += fmt::format(", here the same as {}", fmt::join(cache.replacement->equivalent, ", "));
  }
  return text;
}

}  // namespace gpuinfer::cli
