// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/latency/chase_design.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "infer/asking/pages.hpp"
#include "model/errors.hpp"
#include "model/policies/lru.hpp"

namespace gpuinfer::infer {

using model::AccessClass;
using model::AccessPattern;
using model::AccessSequence;
using model::CacheDescription;
using model::DeviceDescription;
using model::StartState;

namespace {

constexpr std::size_t seeds_of_chance = 16;

// What is taken for granted where nothing is known.
constexpr std::uint64_t smallest_page_bytes = 64U << 10U;
constexpr std::uint64_t smallest_line_bytes = 32;
constexpr std::uint64_t largest_line_bytes = 4096;

bool is_whole(const CacheDescription& cache) {
  return cache.line_bytes && cache.sector_bytes && cache.ways && cache.index && cache.replacement;
}

CacheDescription least_recently_used(std::uint64_t line_bytes, std::vector<std::uint32_t> ways) {
  CacheDescription cache;
  cache.line_bytes = line_bytes;
  cache.sector_bytes = line_bytes;
  cache.index = model::ModuloIndex{.granule_bytes = line_bytes, .sets_count = static_cast<std::uint32_t>(ways.size())};
  cache.ways = std::move(ways);
  cache.replacement = model::plain<model::Lru>();
  return cache;
}

// Of what it may hold, next to nothing: what hits here hits in the true one. A sixteenth of the capacity leaves room
// for any index and policy that spreads lines.
CacheDescription small_stand_in(const CacheDescription& cache, std::uint64_t smallest_bytes) {
  constexpr std::uint64_t part = 16;
  constexpr std::uint64_t most_lines = 512;
  const std::uint64_t line_bytes = cache.sector_bytes.value_or(cache.line_bytes.value_or(smallest_bytes));
  const auto& resident =
      cache.resident_bytes || !cache.partitions ? cache.resident_bytes : cache.partitions->resident_bytes;
  const auto resident_bytes = static_cast<std::uint64_t>(resident ? resident->front() : 0);
  const std::uint64_t held_bytes = cache.capacity_bytes.value_or(cache.onset_bytes.value_or(resident_bytes));
  const std::uint64_t lines = held_bytes / cache.line_bytes.value_or(line_bytes) / part;
  return least_recently_used(line_bytes, {static_cast<std::uint32_t>(std::clamp<std::uint64_t>(lines, 2, most_lines))});
}

// More than it may hold: what misses here misses in the true one.
CacheDescription large_stand_in(const CacheDescription& cache, std::uint64_t largest_bytes) {
  constexpr std::uint64_t times = 4;
  constexpr std::uint64_t most_ways = 512;
  constexpr std::size_t sets_without_end = 2048;
  const std::uint64_t line_bytes = cache.line_bytes.value_or(std::max(largest_bytes, cache.sector_bytes.value_or(0)));
  if (cache.capacity_bytes && *cache.capacity_bytes / line_bytes * times <= most_ways) {
    const std::uint64_t ways = std::max<std::uint64_t>(1, *cache.capacity_bytes / line_bytes) * times;
    return least_recently_used(line_bytes, {static_cast<std::uint32_t>(ways)});
  }
  return least_recently_used(line_bytes, std::vector<std::uint32_t>(sets_without_end, 64));
}

bool is_walk(const AccessClass& access) {
  return access.translation == model::Translation::walk || access.translation == model::Translation::walk_with_switch;
}

unsigned log2_of(std::uint64_t number) { return static_cast<unsigned>(std::bit_width(number)) - 1; }

}  // namespace

ChaseDesigner::ChaseDesigner(const DeviceDescription& known, const std::string& path, const model::BufferFacts& buffer,
                             model::Random random, const std::function<void()>& check_limits)
    : path_name_(path), address_(buffer.address), random_(random) {
  const auto described = known.paths.find(path);
  if (described == known.paths.end()) {
    throw InputError("paths." + path + ": is not described; describe its caches and TLBs");
  }
  path_ = described->second;
  complete(known);
  find_pages(buffer);
  expect_recent_pages(buffer.nearer_bytes.value_or(0));
  try_laps(check_limits);
}

void ChaseDesigner::complete(const DeviceDescription& known) {
  DeviceDescription described = known;
  for (const auto* names : {&path_.caches, &path_.tlbs}) {
    for (const std::string& name : *names) {
      described.caches[name];
    }
  }
  // Numbers do not matter: they only make PathLatencies say which pattern a class is.
  named_ = described;
  named_.paths.at(path_name_).memory_latency_cycles = model::PatternLatencyCycles{1, 2, 3, 4, 5, 6};
  for (auto& [name, cache] : named_.caches) {
    cache.latency_cycles = {.hit = 1, .miss = 2};
  }
  patterns_.emplace(named_, path_name_);

  completed_ = {described};
  bool has_chance = false;
  const auto complete_cache = [&](const std::string& name, std::uint64_t smallest_bytes, std::uint64_t largest_bytes) {
    const CacheDescription cache = described.caches.at(name);
    if (is_whole(cache)) {
      has_chance = has_chance || !model::is_deterministic(*cache.replacement);
      return;
    }
    std::vector<DeviceDescription> both;
    for (const DeviceDescription& each : completed_) {
      for (const CacheDescription& stand_in :
           {small_stand_in(cache, smallest_bytes), large_stand_in(cache, largest_bytes)}) {
        both.push_back(each);
        CacheDescription& completed = both.back().caches.at(name);
        completed = stand_in;
        completed.partitions = cache.partitions;
      }
    }
    completed_ = std::move(both);
  };
  for (const std::string& name : path_.caches) {
    complete_cache(name, smallest_line_bytes, largest_line_bytes);
  }
  for (const std::string& name : path_.tlbs) {
    complete_cache(name, smallest_page_bytes, mapped_page_bytes);
  }
  for (const DeviceDescription& each : completed_) {
    for (std::size_t i = 0; i < (has_chance ? seeds_of_chance : 1); ++i) {
      simulators_.emplace_back(each, path_name_, random_());
    }
  }
}

// Pages that no cache has a different map for than the one that is described.
void ChaseDesigner::find_pages(const model::BufferFacts& buffer) {
  constexpr std::size_t most_pages = 1U << 14U;
  line_bytes_ = smallest_line_bytes;
  page_bytes_ = smallest_page_bytes;
  for (const DeviceDescription& each : completed_) {
    for (const std::string& name : path_.caches) {
      line_bytes_ = std::max(line_bytes_, *each.caches.at(name).line_bytes);
    }
    for (const std::string& name : path_.tlbs) {
      page_bytes_ = std::max(page_bytes_, *each.caches.at(name).line_bytes);
    }
  }
  page_bytes_ = std::max(page_bytes_, line_bytes_);
  const auto is_covered = [&](std::uint64_t page) {
    return std::ranges::all_of(completed_, [&](const DeviceDescription& each) {
      const auto covered = [&](const std::string& name) {
        const model::IndexFunction& index = *each.caches.at(name).index;
        return model::covers(index, address_ + page) && model::covers(index, address_ + (page + page_bytes_ - 1));
      };
      return std::ranges::all_of(path_.caches, covered) && std::ranges::all_of(path_.tlbs, covered);
    });
  };
  const std::uint64_t first = bytes_to_next(address_, page_bytes_);
  const std::uint64_t count = buffer.bytes < first ? 0 : (buffer.bytes - first) / page_bytes_;
  const std::uint64_t step = std::max<std::uint64_t>(1, count / most_pages);
  for (std::uint64_t page = 0; page < count; page += step) {
    if (is_covered(first + page * page_bytes_)) {
      pages_.push_back(first + page * page_bytes_);
    }
  }
  if (pages_.empty()) {
    throw InputError("paths." + path_name_ + ": the buffer of " + std::to_string(buffer.bytes) +
                     " bytes has no whole page that the description covers; describe more of the index");
  }
  if (!path_.tlbs.empty() && is_whole(named_.caches.at(path_.tlbs.back()))) {
    const CacheDescription& last = named_.caches.at(path_.tlbs.back());
    pages_of_set_.resize(last.ways->size());
    for (const std::uint64_t page : pages_) {
      pages_of_set_[model::set_of(*last.index, aligned_down(address_ + page, *last.line_bytes))].push_back(page);
    }
  }
}

// TLBs were seen to find the last few pages that were loaded, even those for which their sets have no room.
void ChaseDesigner::expect_recent_pages(std::uint64_t nearer_bytes) {
  if (const std::uint64_t pages = nearer_bytes / page_bytes_; pages > 0) {
    recent_pages_ =
        model::CacheSimulator::make(least_recently_used(page_bytes_, {static_cast<std::uint32_t>(pages)}), 0);
  }
}

std::optional<AccessPattern> ChaseDesigner::pattern_of(const AccessClass& access) {
  const auto known = std::ranges::find(known_classes_, access, &Known::access);
  if (known != known_classes_.end()) {
    return known->pattern;
  }
  const auto ask = [&]() -> std::optional<AccessPattern> {
    try {
      const model::ClassLatency latency = patterns_->of(access);
      return latency.derived ? std::nullopt : latency.pattern;
    } catch (const InputError&) {
      return std::nullopt;
    }
  };
  const std::optional<AccessPattern> pattern = ask();
  known_classes_.push_back({.access = access, .pattern = pattern});
  if (pattern) {
    class_of_pattern_.at(static_cast<std::size_t>(*pattern)) = access;
  }
  return pattern;
}

void ChaseDesigner::put_into(StartState start) {
  for (model::HierarchySimulator& simulator : simulators_) {
    simulator.put_into(start);
  }
  if (recent_pages_) {
    recent_pages_->put_into(start);
  }
  if (!model::may_hold_others(start)) {
    loaded_lines_.clear();
  }
}

std::vector<std::optional<AccessClass>> ChaseDesigner::play(const AccessSequence& offsets, std::size_t step) {
  const std::vector<std::uint64_t> addresses = model::address_numbers(offsets, address_);
  std::vector<AccessClass> agreed(offsets.size());
  std::vector<char> agree(offsets.size(), 1);
  std::vector<AccessClass> classes(offsets.size());
  for (std::size_t i = 0; i < simulators_.size(); i += step) {
    simulators_[i].play(addresses, i == 0 ? agreed : classes);
    for (std::size_t j = 0; i > 0 && j < offsets.size(); ++j) {
      agree[j] = agree[j] != 0 && agreed[j] == classes[j] ? 1 : 0;
    }
  }
  std::vector<model::Outcome> of_pages(offsets.size(), model::Outcome::line_miss);
  if (recent_pages_) {
    recent_pages_->play(addresses, of_pages);
  }
  const auto is_sure = [&](std::size_t j) {
    return agree[j] != 0 && (!is_walk(agreed[j]) || model::is_miss(of_pages[j]));
  };
  std::vector<std::optional<AccessClass>> played(offsets.size());
  for (std::size_t j = 0; j < offsets.size(); ++j) {
    if (is_sure(j)) {
      played[j] = agreed[j];
    }
  }
  return played;
}

std::uint64_t ChaseDesigner::new_line(std::uint64_t page) {
  constexpr unsigned most_tries = 16;
  std::uint64_t line = 0;
  for (unsigned tries = 0; tries < most_tries; ++tries) {
    line = page + random_.below(page_bytes_ / line_bytes_) * line_bytes_;
    if (loaded_lines_.insert(line).second) {
      break;
    }
  }
  return line;
}

std::vector<std::uint64_t> ChaseDesigner::choose_pages(Pages kind, std::size_t count) {
  std::vector<std::uint64_t> chosen;
  switch (kind) {
    case Pages::neighbours: {
      const auto first = static_cast<std::ptrdiff_t>(random_.below(pages_.size() - count + 1));
      chosen.assign(pages_.begin() + first, pages_.begin() + first + static_cast<std::ptrdiff_t>(count));
      random_.shuffle(chosen);
      break;
    }
    case Pages::from_everywhere: {
      std::unordered_set<std::uint64_t> different;
      while (different.size() < count) {
        const std::uint64_t page = pages_[random_.below(pages_.size())];
        if (different.insert(page).second) {
          chosen.push_back(page);
        }
      }
      break;
    }
    case Pages::of_few_sets: {
      std::vector<std::size_t> order(pages_of_set_.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      random_.shuffle(order);
      for (const std::size_t set : order) {
        chosen.insert(chosen.end(), pages_of_set_[set].begin(), pages_of_set_[set].end());
        if (chosen.size() >= count) {
          break;
        }
      }
      chosen.resize(count);
      random_.shuffle(chosen);
      break;
    }
  }
  return chosen;
}

ChaseDesigner::Part ChaseDesigner::laps(const Laps& laps) {
  const auto around = [this](unsigned log) {
    return (std::size_t{1} << log) + static_cast<std::size_t>(random_.below(std::uint64_t{1} << log));
  };
  const std::size_t pages = std::min(around(laps.log_pages), pages_.size());
  const std::size_t lines = around(laps.log_lines);
  const std::vector<std::uint64_t> chosen = choose_pages(laps.pages, pages);
  AccessSequence lap(pages * lines);
  for (std::size_t page = 0; page < pages; ++page) {
    for (std::size_t line = 0; line < lines; ++line) {
      lap[laps.page_by_page ? page * lines + line : line * pages + page] = new_line(chosen[page]);
    }
  }
  AccessSequence sequence = model::repeated(lap, 2);
  for (const std::uint64_t page : chosen) {
    sequence.push_back(new_line(page));
  }
  return {.offsets = std::move(sequence), .lap_accesses = lap.size()};
}

// All sizes of laps are tried by themselves, on the two simulators that differ most, and remembered for what they
// yield.
void ChaseDesigner::try_laps(const std::function<void()>& check_limits) {
  constexpr unsigned most_log_accesses = 11;
  constexpr std::size_t least_met = 4;
  const std::size_t others = std::max<std::size_t>(1, simulators_.size() - 1);
  const unsigned most_log_pages = std::min(log2_of(pages_.size()), most_log_accesses);
  const unsigned most_log_lines = std::min(log2_of(page_bytes_ / line_bytes_), most_log_accesses);
  std::array<std::size_t, patterns_count> met{};
  for (unsigned log_pages = 0; log_pages <= most_log_pages; ++log_pages) {
    for (unsigned log_lines = 0; log_lines <= most_log_lines && log_pages + log_lines <= most_log_accesses;
         ++log_lines) {
      check_limits();
      put_into(StartState::clean);
      for (const bool page_by_page : {true, false}) {
        for (const Pages pages : {Pages::from_everywhere, Pages::neighbours, Pages::of_few_sets}) {
          if (pages == Pages::of_few_sets && pages_of_set_.empty()) {
            continue;
          }
          Laps tried{.log_pages = log_pages, .log_lines = log_lines, .page_by_page = page_by_page, .pages = pages};
          const AccessSequence sequence = laps(tried).offsets;
          const std::vector<std::optional<AccessClass>> played = play(sequence, others);
          for (std::size_t i = 1; i < played.size(); ++i) {
            if (const auto pattern = played[i] ? pattern_of(*played[i]) : std::nullopt) {
              const auto number = static_cast<std::size_t>(*pattern);
              ++met.at(number);
              tried.yields.at(number) += 1 / static_cast<double>(sequence.size());
            }
          }
          laps_.push_back(tried);
        }
      }
    }
  }
  std::ranges::transform(met, meets_.begin(), [](std::size_t times) { return times >= least_met; });
  put_into(StartState::clean);
}

// By chance, the better the likelier, so that a pattern is met after this and after that.
const ChaseDesigner::Laps& ChaseDesigner::laps_for(std::size_t pattern) {
  const double sum = std::accumulate(laps_.begin(), laps_.end(), 0.0, [pattern](double before, const Laps& each) {
    return before + each.yields.at(pattern);
  });
  double place = random_.unit() * sum;
  for (const Laps& each : laps_) {
    place -= each.yields.at(pattern);
    if (place < 0) {
      return each;
    }
  }
  return laps_.back();
}

Chase ChaseDesigner::next(StartState start, std::size_t times) {
  constexpr std::size_t most_accesses = 48U << 10U;
  put_into(start);
  Chase chase;
  std::array<std::size_t, patterns_count> met{};
  std::array<std::size_t, patterns_count> tried{};
  std::map<std::pair<std::size_t, std::uint64_t>, std::uint32_t> visits;  // by lap and page
  std::size_t laps_before = 0;
  while (chase.offsets.size() < most_accesses) {
    std::optional<std::size_t> rarest;
    for (std::size_t pattern = 0; pattern < patterns_count; ++pattern) {
      const bool is_rarer = !rarest || met.at(pattern) + tried.at(pattern) < met.at(*rarest) + tried.at(*rarest);
      if (meets_.at(pattern) && met.at(pattern) < times && is_rarer) {
        rarest = pattern;
      }
    }
    if (!rarest) {
      break;
    }
    ++tried.at(*rarest);
    const Part part = laps(laps_for(*rarest));
    for (const std::optional<AccessClass>& access : play(part.offsets, 1)) {
      chase.patterns.push_back(access ? pattern_of(*access) : std::nullopt);
      chase.controls.push_back(access && is_control(*access) ? 1 : 0);
      if (chase.patterns.back()) {
        ++met.at(static_cast<std::size_t>(*chase.patterns.back()));
      }
    }
    for (std::size_t i = 0; i < part.offsets.size(); ++i) {
      const std::size_t lap = laps_before + i / part.lap_accesses;
      const auto [visit, is_new] = visits.try_emplace({lap, (address_ + part.offsets[i]) / page_bytes_},
                                                      static_cast<std::uint32_t>(visits.size()));
      chase.visits.push_back(visit->second);
    }
    laps_before += 3;
    chase.offsets.insert(chase.offsets.end(), part.offsets.begin(), part.offsets.end());
  }
  // The first access after an unknown start may find anything.
  if (!chase.patterns.empty()) {
    chase.patterns.front().reset();
    chase.controls.front() = 0;
  }

  std::unordered_map<std::uint64_t, std::size_t> last_of_page;
  std::unordered_map<std::uint64_t, std::size_t> last_of_line;
  const auto recency = [](auto& last, std::uint64_t key, std::size_t now) {
    const auto [place, is_new] = last.try_emplace(key, now);
    const std::optional<unsigned> ago = is_new ? std::nullopt : std::optional(log2_of(now - place->second));
    place->second = now;
    return ago;
  };
  for (std::size_t i = 0; i < chase.offsets.size(); ++i) {
    const model::Address address = address_ + chase.offsets[i];
    chase.recencies.push_back({.page = recency(last_of_page, address / page_bytes_, i),
                               .line = recency(last_of_line, address / line_bytes_, i)});
  }
  return chase;
}

std::vector<std::optional<AccessPattern>> ChaseDesigner::patterns_of(const AccessSequence& offsets, StartState start) {
  put_into(start);
  std::vector<std::optional<AccessPattern>> patterns;
  for (const std::optional<AccessClass>& access : play(offsets, 1)) {
    patterns.push_back(access ? pattern_of(*access) : std::nullopt);
  }
  return patterns;
}

bool ChaseDesigner::needs_controls() const { return path_.caches.size() > 1 && !path_.tlbs.empty(); }

bool ChaseDesigner::is_control(const AccessClass& access) const {
  return needs_controls() && access.cache && *access.cache > 0 && !access.far &&
         access.translation == model::Translation::first_tlb;
}

bool ChaseDesigner::walks_to_memory(AccessPattern pattern) {
  return pattern == AccessPattern::P5 || pattern == AccessPattern::P6;
}

bool ChaseDesigner::meets(AccessPattern pattern) const { return meets_.at(static_cast<std::size_t>(pattern)); }

std::optional<std::string> ChaseDesigner::why_absent(AccessPattern pattern) const {
  using enum AccessPattern;
  if (path_.tlbs.empty() && pattern != P1 && pattern != P4) {
    return "paths." + path_name_ + " has no TLB";
  }
  if (path_.tlbs.size() < 2 && pattern == P2) {
    return "paths." + path_name_ + " has no second TLB";
  }
  if (!path_.page_window_bytes && !path_.page_window_is_unknown && pattern == P6) {
    return "paths." + path_name_ + " has no window of page tables to switch";
  }
  return std::nullopt;
}

std::string ChaseDesigner::said_of(AccessPattern pattern) const {
  const std::optional<AccessClass>& access = class_of_pattern_.at(static_cast<std::size_t>(pattern));
  if (!access) {
    return std::string(to_string(pattern));
  }
  return "data in " + model::data_name(path_, *access) + ", translation in " + model::translation_name(path_, *access) +
         (access->translation == model::Translation::walk_with_switch ? " and a window switch" : "");
}

}  // namespace gpuinfer::infer
