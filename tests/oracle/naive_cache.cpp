// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/naive_cache.hpp"

#include <algorithm>

#include "tests/oracle/naive_index.hpp"

namespace gpuinfer::oracle {

using model::AccessEvent;
using model::AccessKind;
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

AccessEvent NaiveCache::access(std::uint64_t address, AccessKind kind) {
  AccessEvent event = cache_.store && cache_.store->cleaning ? touch_and_clean(address, kind) : touch(address, kind);
  // Nothing came, so nothing comes along.
  if (kind == AccessKind::store && (!*cache_.store->allocate || (cache_.store->evicts && !event.way))) {
    return event;
  }
  for (std::uint64_t next = 1; next <= cache_.fill.lines_ahead(); ++next) {
    const auto step = step_of_prefetch(address / *cache_.line_bytes, event.outcome);
    const bool is_below_zero = step && (*step >> 63U) != 0 && address / *cache_.line_bytes < next * (0 - *step);
    if (step && !is_below_zero) {
      touch(address + next * *step * *cache_.line_bytes, AccessKind::load);
    }
  }
  recent_.push_back(address / *cache_.line_bytes);
  if (event.outcome != Outcome::hit && cache_.victim_lines && came_back(event, address / *cache_.line_bytes)) {
    event.outcome = Outcome::hit;
  }
  if (event.outcome != Outcome::hit && twin_ && twin_->access(address, kind).outcome == Outcome::hit) {
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

// What the access sets off is decided before it, and happens after it.
AccessEvent NaiveCache::touch_and_clean(std::uint64_t address, AccessKind kind) {
  const std::uint64_t number = address / *cache_.line_bytes;
  Set& set = sets_.at(naive_set_of(*cache_.index, number * *cache_.line_bytes));
  std::vector<Line> by_age;
  for (const auto& way : set.ways) {
    if (way) {
      by_age.push_back(*way);
    }
  }
  std::ranges::sort(by_age, {}, &Line::used);
  std::vector<std::uint64_t> whole;
  std::vector<std::uint64_t> partial;
  for (const Line& line : by_age) {
    if (is_partial(line)) {
      partial.push_back(line.number);
    } else if (line.is_dirty) {
      whole.push_back(line.number);
    }
  }
  std::set<std::uint64_t> cleaned;
  std::vector<std::uint64_t> completed;
  if (whole.size() >= cache_.store->cleaning->dirty_lines) {
    cleaned.insert(whole.front());
  }
  if (partial.size() >= cache_.store->cleaning->partial_lines && partial.front() != number) {
    completed.push_back(partial.front());
  }
  if (by_age.size() == set.ways.size() && by_age.front().is_dirty && by_age.front().number != number) {
    if (is_partial(by_age.front())) {
      completed.push_back(by_age.front().number);
    } else {
      cleaned.insert(by_age.front().number);
    }
  }
  const bool was_there = std::ranges::find(by_age, number, &Line::number) != by_age.end();
  const AccessEvent event = touch(address, kind);
  if (was_there && !event.way) {
    return event;
  }
  for (auto& way : set.ways) {
    if (way && cleaned.contains(way->number)) {
      way->is_dirty = false;
    }
  }
  for (const std::uint64_t each : completed) {
    for (auto& way : set.ways) {
      if (way && way->number == each && is_partial(*way)) {
        const std::uint64_t granule = *cache_.store->granule_bytes / model::load_bytes;
        for (const std::uint64_t word : std::set(way->words)) {
          for (std::uint64_t other = word / granule * granule; other < (word / granule + 1) * granule; ++other) {
            way->words.insert(other);
          }
        }
        way->is_dirty = false;
        way->used = ++now_;
      }
    }
  }
  return event;
}

bool NaiveCache::is_partial(const Line& line) const {
  return std::ranges::any_of(line.words, [&](std::uint64_t word) { return !has(line, word * model::load_bytes); });
}

AccessEvent NaiveCache::touch(std::uint64_t address, AccessKind kind) {
  const bool is_store = kind == AccessKind::store;
  const std::uint64_t number = address / *cache_.line_bytes;
  const std::uint64_t byte = address % *cache_.line_bytes;
  const std::uint64_t fetched = cache_.fill.fetch_bytes.value_or(*cache_.sector_bytes);
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
    Line& line = *set.ways[way];
    event.outcome = has(line, byte) ? Outcome::hit : Outcome::sector_miss;
    if (is_store && cache_.store->evicts) {
      if (cache_.sweep) {
        dynamic_cast<SweptPolicy&>(*set.policy).take(way);
      }
      set.ways[way].reset();
      event.way.reset();
      return event;
    }
    event.way = way;
    if (!is_store || *cache_.store->touches) {
      set.policy->hit(way);
      line.used = ++now_;
    }
    if (is_store) {
      write(line, byte);
    } else if (event.outcome == Outcome::sector_miss) {
      fetch(line, byte, fetched);
    }
    if (bank_is_full) {
      const bool stays = event.outcome == Outcome::sector_miss || cache_.sweep->keeps_hit_line;
      sweep(bank, cache_.sweep->lines_on_hit, event, number, stays);
    }
    return event;
  }

  if (is_store && !*cache_.store->allocate) {
    event.way.reset();
    return event;
  }
  way = 0;
  while (way < set.ways.size() && set.ways[way]) {
    ++way;
  }
  const bool replaces = way == set.ways.size();
  if (replaces) {
    way = set.policy->victim();
    if (cache_.store && cache_.store->cleaning) {
      const auto dirty_and_age = [](const std::optional<Line>& each) { return std::pair(each->is_dirty, each->used); };
      const auto oldest = std::ranges::min_element(set.ways, {}, dirty_and_age);
      way = static_cast<Way>(oldest - set.ways.begin());
    }
    event.victim_address = model::Address{set.ways.at(way)->number * *cache_.line_bytes};
    event.victim_is_dirty = set.ways.at(way)->is_dirty;
  }
  const bool takes_ghost = !replaces && set.ghosts > 0;
  set.ghosts -= takes_ghost ? 1 : 0;
  set.ways[way] = Line{.number = number, .sectors = {}};
  if (is_store) {
    write(*set.ways[way], byte);
  } else {
    fetch(*set.ways[way], byte, fetched);
  }
  set.policy->fill(way);
  set.ways[way]->used = ++now_;
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
    const bool may_go = event.outcome == Outcome::hit && !cache_.sweep->keeps_hit_line;
    if (may_go || set.ways[way]->number != line) {
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

bool NaiveCache::has(const Line& line, std::uint64_t byte) const {
  if (line.sectors.contains(byte / *cache_.sector_bytes)) {
    return true;
  }
  if (line.words.empty()) {
    return false;
  }
  const std::uint64_t granule = *cache_.store->granule_bytes;
  for (std::uint64_t each = byte / granule * granule; each < (byte / granule + 1) * granule; ++each) {
    if (!line.words.contains(each / model::load_bytes)) {
      return false;
    }
  }
  return true;
}

void NaiveCache::fetch(Line& line, std::uint64_t byte, std::uint64_t bytes) const {
  for (std::uint64_t each = byte / bytes * bytes; each < (byte / bytes + 1) * bytes; each += *cache_.sector_bytes) {
    line.sectors.insert(each / *cache_.sector_bytes);
  }
}

void NaiveCache::write(Line& line, std::uint64_t byte) const {
  const model::Store& store = *cache_.store;
  line.is_dirty = line.is_dirty || store.write == model::Write::back;
  if (!*store.allocate) {
    return;
  }
  if (!*store.fetches) {
    line.words.insert(byte / model::load_bytes);
  } else if (!line.sectors.contains(byte / *cache_.sector_bytes)) {
    fetch(line, byte, store.granule_bytes.value_or(cache_.fill.fetch_bytes.value_or(*cache_.sector_bytes)));
  }
}

}  // namespace gpuinfer::oracle
