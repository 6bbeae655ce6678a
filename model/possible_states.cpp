// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/possible_states.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/cache_simulator.hpp"
#include "model/distinct_rows.hpp"
#include "model/errors.hpp"
#include "model/policies/lru.hpp"
#include "model/set_machine.hpp"

namespace gpuinfer::model {

namespace {

// The parts of an address. A sector here is what a miss brings, because that is there or not as one.
struct Place {
  std::uint32_t set = 0;
  std::uint64_t line = 0;
  std::uint64_t sector = 0;  // one bit
};

class Geometry {
 public:
  explicit Geometry(const CacheDescription& cache)
      : line_bytes_(*cache.line_bytes), fetch_bytes_(cache.fill.fetch_bytes.value_or(*cache.sector_bytes)),
        index_(*cache.index), ways_(*cache.ways) {}

  [[nodiscard]] Place place_of(Address address) const {
    const std::uint64_t line = address / line_bytes_;
    return {.set = covered_set_of(index_, Address{line * line_bytes_}),
            .line = line,
            .sector = std::uint64_t{1} << (address % line_bytes_ / fetch_bytes_)};
  }

  [[nodiscard]] std::uint32_t sets() const { return static_cast<std::uint32_t>(ways_.size()); }
  [[nodiscard]] std::uint32_t ways(std::uint32_t set) const { return ways_[set]; }
  [[nodiscard]] bool is_sectored() const { return fetch_bytes_ < line_bytes_; }

 private:
  std::uint64_t line_bytes_;
  std::uint64_t fetch_bytes_;
  IndexFunction index_;
  std::vector<std::uint32_t> ways_;
};

// A line that is known to be in the cache.
struct PresentLine {
  std::uint64_t sectors = 0;     // those that are there for certain
  bool others_are_open = false;  // whether the others are there is not known

  [[nodiscard]] Possible possible(std::uint64_t sector) const {
    const bool certain = (sectors & sector) != 0;
    return {.hit = certain || others_are_open, .miss = !certain};
  }
};

// Under LRU a set has those lines that were accessed last. So all that a start can leave open is what lies behind the
// lines accessed since, as long as these do not fill the set, and whatever it is goes before any of them.
class RecentLines final : public PossibleStates {
 public:
  RecentLines(const CacheDescription& cache, StartState start)
      : geometry_(cache), start_is_open_(may_hold_others(start)), sets_(geometry_.sets()) {}

  std::optional<Possible> possible(Address address) override {
    const Place place = geometry_.place_of(address);
    Lines& lines = sets_[place.set];
    const auto found = find(lines, place.line);
    return found == lines.end() ? Possible{.hit = has_unknown(place.set), .miss = true}
                                : found->state.possible(place.sector);
  }

  void load(Address address, std::optional<bool> /*missed*/) override {
    const Place place = geometry_.place_of(address);
    Lines& lines = sets_[place.set];
    const auto found = find(lines, place.line);
    if (found != lines.end()) {
      found->state.sectors |= place.sector;
      std::rotate(found, found + 1, lines.end());
      return;
    }
    const bool may_have_been_there = has_unknown(place.set);
    if (lines.size() == geometry_.ways(place.set)) {
      lines.erase(lines.begin());
    }
    lines.push_back({.number = place.line, .state = {.sectors = place.sector, .others_are_open = may_have_been_there}});
  }

 private:
  struct Line {
    std::uint64_t number = 0;
    PresentLine state;
  };
  using Lines = std::vector<Line>;

  static Lines::iterator find(Lines& lines, std::uint64_t number) {
    return std::find_if(lines.begin(), lines.end(), [number](const Line& line) { return line.number == number; });
  }

  [[nodiscard]] bool has_unknown(std::uint32_t set) const {
    return start_is_open_ && sets_[set].size() < geometry_.ways(set);
  }

  Geometry geometry_;
  bool start_is_open_;
  std::vector<Lines> sets_;  // by set, the line accessed last at the end
};

// One possible state of one set.
struct SetState {
  struct Way {
    std::uint32_t name = 0;  // of the line; 0: one that was not accessed yet, or none
    PresentLine state;
  };

  SetAutomaton::State policy = 0;
  std::vector<Way> ways;
};

// States as rows of words: the policy's, then for each way the name, and where there are sectors, what is known of
// them.
class StateRows {
 public:
  StateRows(std::uint32_t ways, bool is_sectored)
      : is_sectored_(is_sectored), rows_(1 + std::size_t{ways} * (is_sectored ? 4 : 1)) {}

  [[nodiscard]] std::size_t size() const { return rows_.size(); }

  // As many ways as the set.
  void add(const SetState& state) {
    row_.assign(1, state.policy);
    for (const SetState::Way& way : state.ways) {
      row_.push_back(way.name);
      if (is_sectored_) {
        row_.push_back(static_cast<std::uint32_t>(way.state.sectors));
        row_.push_back(static_cast<std::uint32_t>(way.state.sectors >> 32U));
        row_.push_back(way.state.others_are_open ? 1 : 0);
      }
    }
    rows_.add(row_);
  }

  // `state` has as many ways as the set.
  void read(std::size_t number, SetState& state) const {
    const std::uint32_t* word = rows_[static_cast<std::uint32_t>(number)].data();
    state.policy = *word++;
    for (SetState::Way& way : state.ways) {
      way = {.name = *word++, .state = {.sectors = 1, .others_are_open = false}};
      if (is_sectored_) {
        way.state = {.sectors = word[0] | std::uint64_t{word[1]} << 32U, .others_are_open = word[2] != 0};
        word += 3;
      }
    }
  }

 private:
  bool is_sectored_;
  DistinctRows rows_;
  std::vector<std::uint32_t> row_;  // of add(), kept for its memory
};

// Every possible state of every set, one by one.
class ListedStates final : public PossibleStates {
 public:
  ListedStates(const CacheDescription& cache, StartState start, std::size_t most_states)
      : geometry_(cache), replacement_(*cache.replacement), start_(start), most_states_(most_states),
        sets_(geometry_.sets()) {}

  std::optional<Possible> possible(Address address) override {
    const Place place = geometry_.place_of(address);
    const Set& set = begun(place.set);
    if (!set.states) {
      return std::nullopt;
    }
    Possible possible;
    visit_successors(*set.states, place, [&](const Possible& here, const SetState&) {
      possible = {.hit = possible.hit || here.hit, .miss = possible.miss || here.miss};
      return !(possible.hit && possible.miss);
    });
    return possible;
  }

  void load(Address address, std::optional<bool> missed) override {
    const Place place = geometry_.place_of(address);
    Set& set = begun(place.set);
    if (set.states) {
      StateRows after = states_after(*set.states, place, missed);
      if (after.size() == 0) {
        after = states_after(*set.states, place, std::nullopt);
      }
      set.states_read += set.states->size();
      ++set.loads;
      set.states.reset();
      if (after.size() <= most_states_ &&
          set.states_read <= patience * most_states_ + states_for_each_load * set.loads) {
        set.states = std::move(after);
      }
    }
    names_.try_emplace(place.line, name_of(place.line));
  }

 private:
  // A policy that never forgets its start keeps many states for ever. How many may be gone through in all: so many for
  // each load, and before they get that few, so many times the most that there may be at once.
  static constexpr std::size_t states_for_each_load = 64;
  static constexpr std::size_t patience = 32;

  struct Set {
    bool has_begun = false;
    std::optional<StateRows> states;  // none before the first access, and where there are too many
    std::size_t states_read = 0;
    std::size_t loads = 0;
  };

  Set& begun(std::uint32_t number) {
    Set& set = sets_[number];
    if (!set.has_begun) {
      set.has_begun = true;
      set.states = states_at_start(geometry_.ways(number));
    }
    return set;
  }

  std::optional<StateRows> states_at_start(std::uint32_t ways) {
    SetAutomaton& policy = policy_of(ways);
    if (!policy.complete(most_states_)) {
      return std::nullopt;
    }
    // Free ways look like this as well.
    const SetState::Way unknown{
        .name = 0, .state = {.sectors = geometry_.is_sectored() ? 0U : 1U, .others_are_open = geometry_.is_sectored()}};
    StateRows states(ways, geometry_.is_sectored());
    for (SetAutomaton::State state = 0; state < policy.size(); ++state) {
      const bool is_possible = may_hold_others(start_) ||
                               (start_ == StartState::invalidated && policy.filled(state) == 0) ||
                               state == SetAutomaton::start;
      if (is_possible) {
        states.add({.policy = state, .ways = std::vector<SetState::Way>(ways, unknown)});
      }
    }
    return states;
  }

  SetAutomaton& policy_of(std::uint32_t ways) {
    const auto found = policies_.find(ways);
    if (found != policies_.end()) {
      return found->second;
    }
    SetAutomaton policy(SetMachine(replacement_, ways), SetAutomaton::Inputs::accesses_and_invalidation);
    return policies_.emplace(ways, std::move(policy)).first->second;
  }

  // Lines are named by their order of first access; one that was not accessed yet gets the next name.
  [[nodiscard]] std::uint32_t name_of(std::uint64_t line) const {
    const auto found = names_.find(line);
    return found == names_.end() ? static_cast<std::uint32_t>(names_.size() + 1) : found->second;
  }

  StateRows states_after(const StateRows& before, const Place& place, std::optional<bool> missed) {
    StateRows after(geometry_.ways(place.set), geometry_.is_sectored());
    visit_successors(before, place, [&](const Possible& possible, const SetState& next) {
      if (!missed || (*missed ? possible.miss : possible.hit)) {
        after.add(next);
      }
      return after.size() <= most_states_;
    });
    return after;
  }

  // Calls visit(outcomes, next) for every way in which the load can go on from one of the states, until that returns
  // false.
  template <class Visit>
  void visit_successors(const StateRows& states, const Place& place, Visit&& visit) {
    const std::uint32_t ways = geometry_.ways(place.set);
    SetAutomaton& policy = policy_of(ways);
    const std::uint32_t name = name_of(place.line);
    const std::uint32_t name_in_state = name > names_.size() ? 0 : name;
    SetState& state = state_;
    SetState& next = next_;
    state.ways.resize(ways);
    for (std::size_t i = 0; i < states.size(); ++i) {
      states.read(i, state);
      bool is_known_to_be_there = false;
      for (std::uint32_t way = 0; way < policy.filled(state.policy); ++way) {
        if (state.ways[way].name == name_in_state) {
          is_known_to_be_there = name_in_state != 0;
          next = state;
          next.policy = policy.after_hit(state.policy, way);
          next.ways[way].name = name;
          next.ways[way].state.sectors |= place.sector;
          if (!visit(state.ways[way].state.possible(place.sector), next)) {
            return;
          }
        }
      }
      if (!is_known_to_be_there) {
        const SetAutomaton::Miss miss = policy.after_miss(state.policy);
        next = state;
        next.policy = miss.next;
        next.ways[miss.way] = {.name = name, .state = {.sectors = place.sector, .others_are_open = false}};
        if (!visit({.hit = false, .miss = true}, next)) {
          return;
        }
      }
    }
  }

  Geometry geometry_;
  Replacement replacement_;
  StartState start_;
  std::size_t most_states_;
  std::vector<Set> sets_;
  std::map<std::uint32_t, SetAutomaton> policies_;  // by number of ways
  SetState state_;                                  // of visit_successors(), kept for its memory, and so is the next
  SetState next_;
  std::unordered_map<std::uint64_t, std::uint32_t> names_;  // by line
};

}  // namespace

std::unique_ptr<PossibleStates> PossibleStates::make(const CacheDescription& cache, StartState start,
                                                     std::size_t most_states) {
  // For its checks.
  static_cast<void>(CacheSimulator::make(cache, 0));
  if (!is_deterministic(*cache.replacement) || cache.fill.lines_ahead() != 0 || cache.victim_lines || cache.twin ||
      cache.sweep) {
    return nullptr;
  }
  if (cache.replacement->policy == Lru::name) {
    return std::make_unique<RecentLines>(cache, start);
  }
  return std::make_unique<ListedStates>(cache, start, most_states);
}

}  // namespace gpuinfer::model
