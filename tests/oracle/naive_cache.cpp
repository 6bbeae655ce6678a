// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/naive_cache.hpp"

#include "tests/oracle/naive_index.hpp"

namespace gpuinfer::oracle {

using model::AccessEvent;
using model::Outcome;
using model::StartState;

NaiveCache::NaiveCache(const model::CacheDescription& cache, std::uint64_t seed)
    : cache_(cache), dice_(seed), sets_(cache.ways->size()) {
  put_into(StartState::clean);
}

void NaiveCache::put_into(StartState state) {
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    const Way ways = (*cache_.ways)[i];
    if (state != StartState::keep) {
      sets_[i].ways.assign(ways, std::nullopt);
    }
    if (state == StartState::clean) {
      sets_[i].policy = make_policy(*cache_.replacement, ways, dice_);
    }
  }
}

AccessEvent NaiveCache::load(std::uint64_t address) {
  const AccessEvent event = touch(address);
  if (event.outcome == Outcome::line_miss) {
    for (std::uint64_t next = 1; next <= cache_.fill.prefetch_lines; ++next) {
      touch(address + next * *cache_.line_bytes);
    }
  }
  return event;
}

AccessEvent NaiveCache::touch(std::uint64_t address) {
  const std::uint64_t number = address / *cache_.line_bytes;
  const std::uint64_t sector = address % *cache_.line_bytes / *cache_.sector_bytes;
  // A line lies in one set, that of its first byte, also where the index could tell its bytes apart.
  const std::uint32_t set_number = naive_set_of(*cache_.index, number * *cache_.line_bytes);
  Set& set = sets_.at(set_number);
  AccessEvent event{.outcome = Outcome::line_miss, .set = set_number, .way = 0, .victim_address = {}};

  Way way = 0;
  while (way < set.ways.size() && !(set.ways[way] && set.ways[way]->number == number)) {
    ++way;
  }
  if (way < set.ways.size()) {
    set.policy->hit(way);
    event.way = way;
    event.outcome = fetch(*set.ways[way], sector) ? Outcome::hit : Outcome::sector_miss;
    return event;
  }

  way = 0;
  while (way < set.ways.size() && set.ways[way]) {
    ++way;
  }
  if (way == set.ways.size()) {
    way = set.policy->victim();
    event.victim_address = set.ways.at(way)->number * *cache_.line_bytes;
  }
  set.ways[way] = Line{.number = number, .sectors = {}};
  fetch(*set.ways[way], sector);
  set.policy->fill(way);
  event.way = way;
  return event;
}

bool NaiveCache::fetch(Line& line, std::uint64_t sector) const {
  if (line.sectors.contains(sector)) {
    return true;
  }
  const std::uint64_t sectors_fetched = cache_.fill.fetch_bytes.value_or(*cache_.sector_bytes) / *cache_.sector_bytes;
  const std::uint64_t first = sector - sector % sectors_fetched;
  for (std::uint64_t fetched = first; fetched < first + sectors_fetched; ++fetched) {
    line.sectors.insert(fetched);
  }
  return false;
}

}  // namespace gpuinfer::oracle
