// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/hinted_cache.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>

#include "model/errors.hpp"
#include "model/lru_cache.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::model {

namespace {

// In place of the number of a line: one that is never loaded.
constexpr std::uint64_t never_loaded = std::numeric_limits<std::uint64_t>::max();

const CacheDescription& checked(const CacheDescription& cache) {
  check_plain_lru(cache, "hints");
  if (cache.partitions) {
    throw InputError("hints: cannot be simulated together with partitions; remove one of them");
  }
  return cache;
}

}  // namespace

std::uint32_t protected_ways(const CacheDescription& cache, const Question& question) {
  const auto& asked = question.circumstances.set_aside_bytes;
  if (!asked) {
    return cache.hints->protected_ways;
  }
  const auto enough = std::ranges::lower_bound(*cache.set_asides, *asked, {}, &SetAside::bytes);
  if (enough == cache.set_asides->end()) {
    throw InputError("set_asides: says nothing of " + to_text(*asked) + " bytes; ask for less");
  }
  return enough->protected_ways;
}

HintedCache::HintedCache(const CacheDescription& cache)
    : decoder_(*cache.line_bytes, *cache.sector_bytes), fetched_with_(fetch_masks(checked(cache))), ways_(*cache.ways),
      finder_(*cache.index, *cache.line_bytes, std::accumulate(ways_.begin(), ways_.end(), std::size_t{0})),
      hints_(*cache.hints), sets_(ways_.size()) {}

void HintedCache::put_into(StartState state) {
  if (state == StartState::keep) {
    return;
  }
  for (std::size_t set = 0; set < sets_.size(); ++set) {
    sets_[set].assign(state == StartState::flooded ? ways_[set] : 0, {.number = never_loaded});
  }
}

Outcome HintedCache::access(Address address, AccessKind kind) {
  const std::uint64_t number = decoder_.line_number(number_of(address));
  const std::uint64_t sector = decoder_.sector_of(number_of(address));
  std::uint32_t set = 0;
  finder_.find({&number, 1}, &set);
  Lines& lines = sets_[set];
  const auto found = std::ranges::find(lines, number, &Line::number);
  const bool is_there = found != lines.end();
  Line line = is_there ? *found : Line{.number = number};
  const Outcome outcome = !is_there                              ? Outcome::line_miss
                          : ((line.sectors >> sector) & 1U) != 0 ? Outcome::hit
                                                                 : Outcome::sector_miss;
  if (is_miss(outcome)) {
    line.sectors |= fetched_with_[sector];
  }
  line.mark = mark_after(line.mark, kind);
  if (is_there && kind == AccessKind::evict_unchanged && hints_.unchanged_keeps_place) {
    *found = line;
    return outcome;
  }
  if (is_there) {
    lines.erase(found);
  } else if (lines.size() == ways_[set]) {
    lines.erase(victim_in(lines));
  }
  lines.push_back(line);
  unprotect_what_is_too_many(lines);
  return outcome;
}

HintedCache::Mark HintedCache::mark_after(Mark before, AccessKind kind) const {
  const Mark of_other = before == Mark::last && !hints_.loads_unprotect ? Mark::last : Mark::none;
  switch (kind) {
    case AccessKind::evict_first:
      return of_other == Mark::none && hints_.first_goes_next ? Mark::first : of_other;
    case AccessKind::evict_last:
      return hints_.protected_ways > 0 ? Mark::last : of_other;
    case AccessKind::evict_unchanged:
      return hints_.unchanged_keeps_place ? before : of_other;
    case AccessKind::load:
    case AccessKind::store:
      break;
  }
  return of_other;
}

HintedCache::Lines::iterator HintedCache::victim_in(Lines& lines) {
  const auto first = std::ranges::find(lines, Mark::first, &Line::mark);
  if (first != lines.end()) {
    return first;
  }
  const auto oldest = std::ranges::find_if(lines, [](const Line& line) { return line.mark != Mark::last; });
  return oldest == lines.end() ? lines.begin() : oldest;
}

void HintedCache::unprotect_what_is_too_many(Lines& lines) const {
  auto too_many = std::ranges::count(lines, Mark::last, &Line::mark) - std::ptrdiff_t{hints_.protected_ways};
  for (auto line = lines.begin(); too_many > 0; ++line) {
    if (line->mark == Mark::last) {
      line->mark = Mark::none;
      --too_many;
    }
  }
}

std::vector<Outcome> outcomes_of(HintedCache& cache, const Question& question, Address address_of_buffer) {
  const std::vector<AccessKind> kinds = kinds_of(question);
  cache.put_into(question.state);
  for (std::size_t i = 0; i < question.warm.size(); ++i) {
    static_cast<void>(cache.access(address_of_buffer + question.warm[i], kinds[i]));
  }
  std::vector<Outcome> outcomes;
  for (std::size_t i = 0; i < question.record.size(); ++i) {
    outcomes.push_back(cache.access(address_of_buffer + question.record[i], kinds[question.warm.size() + i]));
  }
  return outcomes;
}

}  // namespace gpuinfer::model
