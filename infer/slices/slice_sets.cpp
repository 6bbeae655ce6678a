// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/slice_sets.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

#include "infer/asking/stream.hpp"
#include "infer/slices/eviction_sets.hpp"
#include "model/cache_simulator.hpp"
#include "model/policies/lru.hpp"

namespace gpuinfer::infer {

namespace {

using Lines = SliceLines;

constexpr std::uint64_t most_line_bytes = 4096;
constexpr std::size_t at_once = 32;

// Lines that are in no set are fewer than half of what a set has, or there is one more.
constexpr std::size_t parts_of_set = 2;

// Says why the slice has no sets of lines.
class NoSliceSets : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A load of the same line would be as good as one of the sector itself.
Lines without_neighbours_of(const Asker& device, const Lines& some, const Lines& sectors) {
  std::set<std::uint64_t> near;
  for (const SliceLine line : some) {
    near.insert(device.address_of(line) / most_line_bytes);
  }
  Lines others;
  std::ranges::copy_if(sectors, std::back_inserter(others),
                       [&](SliceLine sector) { return !near.contains(device.address_of(sector) / most_line_bytes); });
  return others;
}

// Sets of as many ways as most have, whose lines are sectors.
struct FirstSets {
  std::uint32_t ways = 0;
  std::vector<EvictionSet> sets;
};

// Of fewer lines at once where those of many are in each other's way, as they lie in the same sets.
FirstSets find_first_sets(const Asker& device, SlicePlayer& player, const Lines& sectors) {
  FirstSets first_sets;
  std::map<std::size_t, std::size_t> sizes;
  std::size_t asked = 0;
  for (const std::size_t count : {at_once, std::size_t{8}, std::size_t{1}}) {
    sizes.clear();
    asked = 0;
    first_sets.sets.clear();
    constexpr std::size_t lines_asked = 8;
    while (asked < std::max(count, lines_asked) && asked + count < sectors.size()) {
      const auto first = sectors.begin() + static_cast<std::ptrdiff_t>(asked);
      const Lines some(first, first + static_cast<std::ptrdiff_t>(count));
      for (EvictionSet& set : eviction_sets_of(player, some, without_neighbours_of(device, some, sectors))) {
        ++sizes[set.others.size()];
        first_sets.sets.push_back(std::move(set));
      }
      asked += count;
    }
    const auto most = std::ranges::max_element(sizes, {}, [](const auto& size) { return size.second; });
    if (most != sizes.end() && 2 * most->second >= asked) {
      first_sets.ways = static_cast<std::uint32_t>(most->first);
      std::erase_if(first_sets.sets, [&](const EvictionSet& set) { return set.others.size() != first_sets.ways; });
      return first_sets;
    }
  }
  std::string reason = "of " + std::to_string(asked) + " lines of a slice " + std::to_string(first_sets.sets.size()) +
                       " are driven out by a few others";
  for (const auto& [others, lines_driven] : sizes) {
    reason += ", " + std::to_string(lines_driven) + " by " + std::to_string(others);
  }
  throw NoSliceSets(reason);
}

// How many of the sets are as good with what lies so far from the last line, which it may be a part of, and how many
// were asked. A neighbour takes the place of a line among those that evict one where it is in the same line; another
// line of the set would do so too, but evicts one more.
struct Neighbours {
  std::size_t asked = 0;
  std::size_t in_line = 0;
};
Neighbours ask_neighbours(const Asker& device, SlicePlayer& player, const std::vector<EvictionSet>& sets,
                          std::uint64_t step) {
  Neighbours neighbours;
  for (const EvictionSet& set : sets) {
    const SliceLine neighbour = (device.address_of(set.others.back()) ^ step) - device.buffer().address;
    if (neighbour >= device.buffer().bytes) {
      continue;
    }
    player.load_all_but_last_of(set);
    player.load(neighbour);
    player.is_gone(set.line);
    player.load(set.line);
    player.load(Lines(set.others.begin() + 1, set.others.end()));
    player.load(neighbour);
    player.is_gone(set.line);
    player.end_sequence();
    ++neighbours.asked;
  }
  const std::vector<bool> gone = player.answers();
  for (std::size_t i = 0; i < neighbours.asked; ++i) {
    neighbours.in_line += gone[2 * i] && !gone[2 * i + 1] ? 1U : 0U;
  }
  return neighbours;
}

std::uint64_t find_line_of_slice(const Asker& device, SlicePlayer& player, const std::vector<EvictionSet>& sets,
                                 std::uint64_t sector_bytes) {
  std::uint64_t line_bytes = sector_bytes;
  for (; line_bytes < most_line_bytes; line_bytes *= 2) {
    const auto [asked, in_line] = ask_neighbours(device, player, sets, line_bytes);
    if (10 * in_line < asked) {
      break;
    }
    if (10 * in_line < 9 * asked) {
      throw NoSliceSets("some neighbours " + std::to_string(line_bytes) + " bytes apart share a line, and some do not");
    }
  }
  return line_bytes;
}

// Without those whose line lies in the set of an earlier one.
std::vector<EvictionSet> apart(SlicePlayer& player, std::vector<EvictionSet> sets) {
  std::vector<EvictionSet> kept;
  for (EvictionSet& set : sets) {
    for (const EvictionSet& other : kept) {
      player.load_all_but_last_of(other);
      player.load(set.line);
      player.is_gone(other.line);
    }
    if (std::ranges::none_of(player.answers(), std::identity{})) {
      kept.push_back(std::move(set));
    }
  }
  return kept;
}

// A line in one of several sets.
using MemberLine = std::pair<SliceLine, std::size_t>;

// Which of the lines may lie in which of the sets: a few lines are loaded behind all sets, each full, and one of these
// lost its oldest line.
std::vector<MemberLine> possible_members_of(SlicePlayer& player, std::span<const EvictionSet> sets,
                                            const Lines& lines) {
  constexpr std::size_t together = 8;
  for (std::size_t first = 0; first < lines.size(); first += together) {
    for (const EvictionSet& set : sets) {
      player.load_all_but_last_of(set);
    }
    for (std::size_t i = first; i < std::min(lines.size(), first + together); ++i) {
      player.load(lines[i]);
    }
    for (const EvictionSet& set : sets) {
      player.is_gone(set.line);
    }
    player.end_sequence();
  }
  const std::vector<bool> lost = player.answers();
  std::vector<MemberLine> members;
  for (std::size_t i = 0; i < lost.size(); ++i) {
    const std::size_t first = i / sets.size() * together;
    for (std::size_t line = first; lost[i] && line < std::min(lines.size(), first + together); ++line) {
      members.emplace_back(lines[line], i % sets.size());
    }
  }
  return members;
}

// Those that do: each is asked by itself.
std::vector<MemberLine> members_of(SlicePlayer& player, std::span<const EvictionSet> sets, const Lines& lines) {
  std::vector<MemberLine> members = possible_members_of(player, sets, lines);
  for (int time = 0; time < 3; ++time) {
    for (const auto& [line, set] : members) {
      player.load_all_but_last_of(sets[set]);
      player.load(line);
      player.is_gone(sets[set].line);
      player.end_sequence();
    }
    const std::vector<bool> gone = player.answers();
    std::vector<MemberLine> kept;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (gone[i]) {
        kept.push_back(members[i]);
      }
    }
    members = std::move(kept);
  }
  return members;
}

std::vector<MemberLine> members_of_any(SlicePlayer& player, std::span<const EvictionSet> sets, const Lines& lines) {
  std::vector<MemberLine> all;
  for (std::size_t first = 0; first < sets.size(); first += at_once) {
    const auto some = sets.subspan(first, std::min(at_once, sets.size() - first));
    for (const auto& [line, set] : members_of(player, some, lines)) {
      all.emplace_back(line, first + set);
    }
  }
  return all;
}

// Lines in sets, each of which is told by an eviction set of it.
struct Partitioned {
  std::vector<EvictionSet> known;
  std::vector<Lines> sets;  // as `known`
  std::size_t placed = 0;
  Lines left;
};

// Takes the lines of these sets from those that are left.
void take_members(SlicePlayer& player, const std::vector<EvictionSet>& sets, Partitioned& partitioned) {
  if (sets.empty()) {
    return;
  }
  std::map<SliceLine, std::size_t> set_of;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    set_of[sets[i].line] = i;
    for (const SliceLine line : sets[i].others) {
      set_of[line] = i;
    }
  }
  Lines others;
  std::ranges::copy_if(partitioned.left, std::back_inserter(others),
                       [&](SliceLine line) { return !set_of.contains(line); });
  for (const auto& [line, set] : members_of(player, sets, others)) {
    set_of[line] = set;
  }
  const std::size_t first = partitioned.sets.size();
  partitioned.sets.resize(first + sets.size());
  partitioned.known.insert(partitioned.known.end(), sets.begin(), sets.end());
  for (const auto& [line, set] : set_of) {
    partitioned.sets[first + set].push_back(line);
  }
  partitioned.placed += set_of.size();
  std::erase_if(partitioned.left, [&](SliceLine line) { return set_of.contains(line); });
}

// Lines that a misread hid from their sets, in those.
void place_left(SlicePlayer& player, Partitioned& partitioned) {
  std::map<SliceLine, std::size_t> set_of;
  for (const auto& [line, set] : members_of_any(player, partitioned.known, partitioned.left)) {
    if (set_of.emplace(line, set).second) {
      partitioned.sets[set].push_back(line);
      ++partitioned.placed;
    }
  }
  std::erase_if(partitioned.left, [&](SliceLine line) { return set_of.contains(line); });
}

// So many at once that few lie in the same set, which their sets have to be told apart for.
std::size_t lines_asked_of(std::size_t unplaced, std::uint32_t ways) {
  constexpr std::size_t sets_for_each = 10;
  const std::size_t most_sets = unplaced / (ways + 1);
  return std::clamp<std::size_t>(most_sets / sets_for_each, 1, at_once);
}

Partitioned partition(Asker& device, SlicePlayer& player, Lines lines, std::uint32_t ways) {
  Partitioned partitioned{.known = {}, .sets = {}, .left = std::move(lines)};
  Lines& left = partitioned.left;
  std::size_t tried_in_vain = 0;
  std::size_t most = at_once;  // fewer where lines that are left seem to be of few sets
  while (tried_in_vain < std::min(left.size(), 2 * at_once)) {
    const auto count = static_cast<std::ptrdiff_t>(std::min(most, lines_asked_of(left.size(), ways)));
    const Lines some(left.end() - count, left.end());
    left.erase(left.end() - count, left.end());
    std::vector<EvictionSet> sets = eviction_sets_of(player, some, left);
    std::erase_if(sets, [&](const EvictionSet& set) { return set.others.size() != ways; });
    sets = apart(player, std::move(sets));
    left.insert(left.begin(), some.begin(), some.end());
    tried_in_vain = sets.empty() ? tried_in_vain + some.size() : 0;
    most = sets.empty() ? std::max<std::size_t>(1, some.size() / 2) : most;
    take_members(player, sets, partitioned);
    device.report("sets of a slice", 0.3 + 0.65 * static_cast<double>(partitioned.placed) /
                                               static_cast<double>(partitioned.placed + left.size()));
  }
  place_left(player, partitioned);
  if (left.size() * partitioned.sets.size() * parts_of_set > partitioned.placed) {
    throw NoSliceSets("of " + std::to_string(left.size() + partitioned.placed) + " lines of a slice " +
                      std::to_string(left.size()) + " lie in none of " + std::to_string(partitioned.sets.size()) +
                      " sets");
  }
  return partitioned;
}

// Which of the lines, that took no part in finding the sets, lie in one of them and no other; by set.
std::vector<Lines> sorted_into(SlicePlayer& player, const std::vector<EvictionSet>& sets, const Lines& fresh) {
  std::map<SliceLine, std::vector<std::size_t>> sets_of;
  for (const auto& [line, set] : members_of_any(player, sets, fresh)) {
    sets_of[line].push_back(set);
  }
  std::vector<Lines> sorted(sets.size());
  std::size_t in_one = 0;
  for (const auto& [line, numbers] : sets_of) {
    if (numbers.size() == 1) {
      sorted[numbers.front()].push_back(line);
      ++in_one;
    }
  }
  const std::size_t elsewhere = fresh.size() - in_one;
  if (elsewhere * sets.size() * parts_of_set > fresh.size()) {
    throw NoSliceSets("of " + std::to_string(fresh.size()) + " fresh lines of a slice " + std::to_string(elsewhere) +
                      " lie in none or in several of " + std::to_string(sets.size()) + " sets");
  }
  return sorted;
}

// Throws NoSliceSets.
SliceSets sets_of(Asker& device, const SliceView& view, const std::vector<std::uint64_t>& sectors,
                  std::uint64_t sector_bytes) {
  constexpr std::size_t most_fresh = 2500;
  SlicePlayer player(device, view);
  const FirstSets first = find_first_sets(device, player, sectors);
  const std::uint64_t line_bytes = find_line_of_slice(device, player, first.sets, sector_bytes);
  Lines lines = one_of_each_line(device, sectors, line_bytes);
  const std::size_t fresh_count = std::min<std::size_t>(lines.size() / 4, most_fresh);
  const Lines fresh(lines.end() - static_cast<std::ptrdiff_t>(fresh_count), lines.end());
  lines.resize(lines.size() - fresh_count);
  Partitioned partitioned = partition(device, player, std::move(lines), first.ways);
  std::vector<Lines> fresh_of_sets = sorted_into(player, partitioned.known, fresh);
  std::size_t in_one_set = 0;
  for (const Lines& of_set : fresh_of_sets) {
    in_one_set += of_set.size();
  }
  return {.ways = first.ways,
          .line_bytes = line_bytes,
          .sets = std::move(partitioned.sets),
          .lines_placed = partitioned.placed,
          .lines_left = partitioned.left.size(),
          .fresh_lines = fresh.size(),
          .fresh_in_one_set = in_one_set,
          .fresh_of_sets = std::move(fresh_of_sets)};
}

}  // namespace

SliceLines one_of_each_line(const Asker& device, const SliceLines& sectors, std::uint64_t line_bytes) {
  Lines lines;
  std::set<std::uint64_t> seen;
  for (const SliceLine sector : sectors) {
    if (seen.insert(device.address_of(sector) / line_bytes).second) {
      lines.push_back(sector);
    }
  }
  return lines;
}

FoundSliceSets find_slice_sets(Asker& device, const SliceView& view, std::vector<std::uint64_t> sectors,
                               std::uint64_t sector_bytes) {
  constexpr int attempts = 2;
  model::Random random = stream(device.settings(), "slice sets");
  for (int attempt = 1;; ++attempt) {
    random.shuffle(sectors);
    try {
      return {.sets = sets_of(device, view, sectors, sector_bytes)};
    } catch (const NoSliceSets& missing) {
      if (attempt == attempts) {
        return {.sets = {}, .reason = missing.what()};
      }
    }
  }
}

std::vector<SliceLines> members_among(Asker& device, const SliceView& view, std::span<const SliceLines> sets,
                                      std::uint32_t ways, const SliceLines& lines) {
  std::vector<EvictionSet> known;
  for (const SliceLines& of_set : sets) {
    known.push_back({.line = of_set.front(),
                     .others = {of_set.begin() + 1, of_set.begin() + 1 + static_cast<std::ptrdiff_t>(ways)}});
  }
  SlicePlayer player(device, view);
  std::vector<SliceLines> members(sets.size());
  for (const auto& [line, set] : members_of(player, known, lines)) {
    members[set].push_back(line);
  }
  return members;
}

LruPrediction& LruPrediction::operator+=(const LruPrediction& other) {
  sets += other.sets;
  accesses += other.accesses;
  misses += other.misses;
  wrong += other.wrong;
  wrong_in_other_sets += other.wrong_in_other_sets;
  return *this;
}

LruPrediction predict_lru(Asker& device, const SliceView& view, std::span<const SliceLines> sets, std::uint32_t ways,
                          model::Random random) {
  constexpr std::size_t sequences = 64;
  constexpr std::size_t loads = 4096;
  constexpr std::size_t sets_at_once = 4;
  std::vector<std::size_t> order(sets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  random.shuffle(order);
  SlicePlayer player(device, view);
  LruPrediction prediction{.sets = std::min(order.size(), sequences * sets_at_once)};
  std::vector<bool> predicted;
  std::vector<bool> in_other_sets;
  for (std::size_t sequence = 0; sequence < sequences; ++sequence) {
    struct PlayedLine {
      SliceLine line = 0;
      std::size_t set = 0;
      std::size_t other_set = 0;
    };
    std::vector<PlayedLine> lines;
    const std::size_t sets_played = std::min(sets_at_once, order.size());
    for (std::size_t i = 0; i < sets_played; ++i) {
      const SliceLines& of_set = sets[order[(sequence * sets_at_once + i) % order.size()]];
      // Of which a third to a half miss, for an index of sets to show.
      const std::size_t count = std::min<std::size_t>(of_set.size(), ways + 1 + ways / 4 + random.below(ways));
      for (std::size_t line = 0; line < count; ++line) {
        lines.push_back({.line = of_set[line], .set = i, .other_set = random.below(sets_played)});
      }
    }
    std::vector<std::unique_ptr<model::CacheSimulator>> simulators;
    std::vector<std::unique_ptr<model::CacheSimulator>> others;
    for (std::size_t i = 0; i < sets_played; ++i) {
      simulators.push_back(model::CacheSimulator::make(model::one_set(model::plain<model::Lru>(), ways), 0));
      others.push_back(model::CacheSimulator::make(model::one_set(model::plain<model::Lru>(), ways), 0));
    }
    const auto misses = [&](auto& played, std::size_t set, std::size_t line) {
      return model::is_miss(played[set]->step(model::Address{line}, model::AccessKind::load).outcome);
    };
    for (std::size_t line = 0; line < lines.size(); ++line) {
      player.load(lines[line].line);
      static_cast<void>(misses(simulators, lines[line].set, line));
      static_cast<void>(misses(others, lines[line].other_set, line));
    }
    for (std::size_t i = 0; i < loads; ++i) {
      const std::size_t line = random.below(lines.size());
      player.is_gone(lines[line].line);
      predicted.push_back(misses(simulators, lines[line].set, line));
      in_other_sets.push_back(misses(others, lines[line].other_set, line));
    }
    player.end_sequence();
  }
  const std::vector<bool> gone = player.answers();
  for (std::size_t i = 0; i < gone.size(); ++i) {
    prediction.misses += gone[i] ? 1U : 0U;
    prediction.wrong += gone[i] != predicted[i] ? 1U : 0U;
    prediction.wrong_in_other_sets += gone[i] != in_other_sets[i] ? 1U : 0U;
  }
  prediction.accesses = gone.size();
  return prediction;
}

std::size_t count_present(Asker& device, const SliceView& view, const std::vector<std::uint64_t>& lines) {
  SlicePlayer player(device, view);
  player.load(lines);
  for (std::size_t i = lines.size(); i-- > 0;) {
    player.is_gone(lines[i]);
  }
  return static_cast<std::size_t>(std::ranges::count(player.answers(), false));
}

}  // namespace gpuinfer::infer
