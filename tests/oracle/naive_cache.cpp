// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/naive_cache.hpp"

#include <algorithm>

#include "tests/oracle/naive_index.hpp"

namespace gpuinfer::oracle {

using model::AccessEvent;
using model::Outcome;
using model::StartState;

NaiveCache::NaiveCache(const model::CacheDescription& cache, std::uint64_t seed)
    : cache_(cache), dice_(seed), sets_(cache.ways->size()) {
  if (cache.twin) {
    described_twin_ = std::make_unique<model::CacheDescription>(cache);
    described_twin_->ways = cache.twin->ways;
    described_twin_->index = cache.twin->index;
    described_twin_->replacement = cache.twin->replacement;
    described_twin_->victim_lines.reset();
    described_twin_->twin.reset();
    twin_ = std::make_unique<NaiveCache>(*described_twin_, seed);
  }
  put_into(StartState::clean);
}

void NaiveCache::put_into(StartState state) {
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    const Way ways = (*cache_.ways)[i];
    if (state == StartState::invalidated && cache_.sweep) {
      sets_[i].ghosts += static_cast<std::size_t>(
          std::ranges::count_if(sets_[i].ways, [](const auto& line) { return line.has_value(); }));
    } else if (state != StartState::keep) {
      sets_[i].ghosts = 0;
    }
    if (state != StartState::keep) {
      sets_[i].ways.assign(ways, std::nullopt);
    }
    if (state == StartState::clean || (state == StartState::invalidated && cache_.sweep)) {
      sets_[i].policy = make_policy(*cache_.replacement, ways, dice_, i, community_);
    }
  }
  if (state == StartState::clean) {
    pointers_.assign(cache_.sweep ? cache_.sweep->banks : 0, 0);
    community_.misses_of_first_above_second = 0;
  }
  if (state != StartState::keep) {
    recent_.clear();
    victims_.clear();
    if (twin_) {
      twin_->put_into(state);
    }
  }
}

AccessEvent NaiveCache::load(std::uint64_t address) {
  AccessEvent event = touch(address);
  for (std::uint64_t next = 1; next <= cache_.fill.prefetch_lines; ++next) {
    const auto step = step_of_prefetch(address / *cache_.line_bytes, event.outcome);
    const bool is_below_zero = step && (*step >> 63U) != 0 && address / *cache_.line_bytes < next * (0 - *step);
    if (step && !is_below_zero) {
      touch(address + next * *step * *cache_.line_bytes);
    }
  }
  recent_.push_back(address / *cache_.line_bytes);
  if (event.outcome != Outcome::hit && cache_.victim_lines && came_back(event, address / *cache_.line_bytes)) {
    event.outcome = Outcome::hit;
  }
  if (event.outcome != Outcome::hit && twin_ && twin_->load(address).outcome == Outcome::hit) {
    event.outcome = Outcome::hit;
  }
  return event;
}

// Modulo 2^64 where it goes back.
std::optional<std::uint64_t> NaiveCache::step_of_prefetch(std::uint64_t line, Outcome outcome) const {
  if (cache_.fill.prefetch_on != model::PrefetchOn::stride) {
    const bool prefetches = outcome == Outcome::line_miss || cache_.fill.prefetch_on == model::PrefetchOn::access;
    return prefetches ? std::optional<std::uint64_t>(1) : std::nullopt;
  }
  if (recent_.size() < 2) {
    return std::nullopt;
  }
  const std::uint64_t last = recent_[recent_.size() - 1];
  const std::uint64_t step = line - last;
  return step != 0 && last - recent_[recent_.size() - 2] == step ? std::optional(step) : std::nullopt;
}

// Whether the line was among those that had to go last; what had to go for it is from now on.
bool NaiveCache::came_back(const AccessEvent& event, std::uint64_t line) {
  const bool was_there = victims_.remove(line) > 0;
  if (event.victim_address) {
    victims_.push_back(*event.victim_address / *cache_.line_bytes);
    if (victims_.size() > *cache_.victim_lines) {
      victims_.pop_front();
    }
  }
  return was_there;
}

AccessEvent NaiveCache::touch(std::uint64_t address) {
  const std::uint64_t number = address / *cache_.line_bytes;
  const std::uint64_t sector = address % *cache_.line_bytes / *cache_.sector_bytes;
  // A line lies in one set, that of its first byte, also where the index could tell its bytes apart.
  const std::uint32_t set_number = naive_set_of(*cache_.index, number * *cache_.line_bytes);
  Set& set = sets_.at(set_number);
  AccessEvent event{.outcome = Outcome::line_miss, .set = set_number, .way = 0, .victim_address = {}};

  const std::size_t bank = cache_.sweep ? set_number / (sets_.size() / cache_.sweep->banks) : 0;
  const bool bank_is_full = cache_.sweep && lines_in_bank(bank) >= *cache_.store_lines / cache_.sweep->banks;

  Way way = 0;
  while (way < set.ways.size() && !(set.ways[way] && set.ways[way]->number == number)) {
    ++way;
  }
  if (way < set.ways.size()) {
    set.policy->hit(way);
    event.way = way;
    event.outcome = fetch(*set.ways[way], sector) ? Outcome::hit : Outcome::sector_miss;
    if (bank_is_full) {
      sweep(bank, cache_.sweep->lines_on_hit, event, number, event.outcome == Outcome::sector_miss);
    }
    return event;
  }

  way = 0;
  while (way < set.ways.size() && set.ways[way]) {
    ++way;
  }
  const bool replaces = way == set.ways.size();
  if (replaces) {
    way = set.policy->victim();
    event.victim_address = set.ways.at(way)->number * *cache_.line_bytes;
  }
  const bool takes_ghost = !replaces && set.ghosts > 0;
  set.ghosts -= takes_ghost ? 1 : 0;
  set.ways[way] = Line{.number = number, .sectors = {}};
  fetch(*set.ways[way], sector);
  set.policy->fill(way);
  event.way = way;
  if (bank_is_full) {
    const bool adds_none = replaces || takes_ghost;
    sweep(bank, adds_none ? cache_.sweep->lines_on_replacement : cache_.sweep->lines_on_fill, event, number,
          takes_ghost);
  }
  return event;
}

std::size_t NaiveCache::lines_in_bank(std::size_t bank) const {
  const std::size_t sets = sets_.size() / cache_.sweep->banks;
  std::size_t lines = 0;
  for (std::size_t i = bank * sets; i < (bank + 1) * sets; ++i) {
    lines += sets_[i].ghosts;
    for (const auto& line : sets_[i].ways) {
      lines += line ? 1U : 0U;
    }
  }
  return lines;
}

void NaiveCache::sweep(std::size_t bank, std::uint64_t lines, const AccessEvent& event, std::uint64_t line,
                       bool counts_itself_first) {
  const std::size_t sets = sets_.size() / cache_.sweep->banks;
  const auto is_there = [](const std::optional<Line>& any) { return any.has_value(); };
  const auto is_empty = [&](std::size_t set) {
    return sets_[bank * sets + set].ghosts == 0 && std::ranges::none_of(sets_[bank * sets + set].ways, is_there);
  };
  std::size_t& pointer = pointers_[bank];
  std::uint64_t found = 0;
  for (std::size_t steps = 0; steps < 2 * sets && found < lines; ++steps) {
    Set& set = sets_[bank * sets + pointer];
    const bool nothing_here = is_empty(pointer);
    pointer = pointer + 1 == sets ? 0 : pointer + 1;
    if (nothing_here) {
      continue;
    }
    if (set.ghosts > 0) {
      --set.ghosts;
      ++found;
      continue;
    }
    auto& policy = dynamic_cast<SweptPolicy&>(*set.policy);
    const Way way = policy.next();
    if (event.outcome == Outcome::hit || set.ways[way]->number != line) {
      policy.take(way);
      set.ways[way].reset();
      ++found;
    } else if (counts_itself_first || found > 0) {
      ++found;
    }
  }
  bool something_ahead = false;
  for (std::size_t set = pointer; set < sets; ++set) {
    something_ahead = something_ahead || !is_empty(set);
  }
  if (!something_ahead) {
    pointer = 0;
  }
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
