// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policy_classes.hpp"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "model/random.hpp"
#include "model/set_machine.hpp"

namespace gpuinfer::model {

namespace {

// Inputs of a set machine, one after the other: a way that is hit, or, where it is the number of ways, a miss.
using Word = std::vector<std::uint32_t>;

// The way that a missed line goes to.
std::optional<std::uint32_t> take(SetMachine& machine, std::uint32_t input) {
  if (input == machine.ways()) {
    return machine.miss();
  }
  machine.hit(input);
  return std::nullopt;
}

// What most policies that differ differ on: many misses, few misses, and what lies between. Always the same.
std::vector<Word> random_words(std::uint32_t ways) {
  constexpr unsigned words = 64;
  const std::size_t inputs = 16 * std::size_t{ways};
  Random random(2013);
  std::vector<Word> drawn(words);
  for (unsigned i = 0; i < words; ++i) {
    const std::uint64_t one_miss_in = std::uint64_t{2} << (i % 4);
    std::uint32_t filled = 0;
    while (drawn[i].size() < inputs) {
      if (filled == 0 || random.below(one_miss_in) == 0) {
        drawn[i].push_back(ways);
        filled = std::min(filled + 1, ways);
      } else {
        drawn[i].push_back(static_cast<std::uint32_t>(random.below(filled)));
      }
    }
  }
  return drawn;
}

// All ways that lines are placed in along the words.
std::vector<std::uint32_t> placements(const SetMachine& start, const std::vector<Word>& words) {
  std::vector<std::uint32_t> ways;
  SetMachine machine = start;
  for (const Word& word : words) {
    machine = start;
    for (const std::uint32_t input : word) {
      if (const auto way = take(machine, input)) {
        ways.push_back(*way);
      }
    }
  }
  return ways;
}

// The accesses of a word whose last input is the first on which the two machines part, and one more access that shows
// it: to the line that `a` gave up and `b` did not.
std::vector<std::uint32_t> accesses_that_show(SetMachine a, const Word& word) {
  std::vector<std::uint32_t> lines;
  std::vector<std::uint32_t> contents;
  std::uint32_t given_up = 0;
  for (const std::uint32_t input : word) {
    if (const auto way = take(a, input)) {
      std::uint32_t line = 0;
      while (std::find(contents.begin(), contents.end(), line) != contents.end()) {
        ++line;
      }
      contents.resize(std::max<std::size_t>(contents.size(), *way + 1));
      given_up = std::exchange(contents[*way], line);
      lines.push_back(line);
    } else {
      lines.push_back(contents[input]);
    }
  }
  lines.push_back(given_up);
  return lines;
}

// The beginning of a word up to the input on which the two machines part. None where they do not, or where a way is to
// be hit that is not filled yet.
std::optional<Word> parting_of(SetMachine a, SetMachine b, const Word& word) {
  for (auto input = word.begin(); input != word.end(); ++input) {
    if (*input != a.ways() && *input >= a.filled()) {
      return std::nullopt;
    }
    if (take(a, *input) != take(b, *input)) {
      return Word(word.begin(), input + 1);
    }
  }
  return std::nullopt;
}

// The shortest word on which the machines part that comes of these by taking inputs out.
std::optional<Word> difference_within(const SetMachine& a, const SetMachine& b, const std::vector<Word>& words) {
  std::optional<Word> shortest;
  for (const Word& word : words) {
    const auto parting = parting_of(a, b, word);
    if (parting && (!shortest || parting->size() < shortest->size())) {
      shortest = parting;
    }
  }
  for (std::size_t i = shortest ? shortest->size() - 1 : 0; i-- > 0;) {
    Word shorter = *shortest;
    shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(i));
    if (auto parting = parting_of(a, b, shorter)) {
      shortest = std::move(parting);
    }
  }
  return shortest;
}

// States of two automata, in sets of those that behave alike unless the automata differ somewhere.
class UnionFind {
 public:
  // True when the two were in different sets until now.
  [[nodiscard]] bool are_apart(std::uint32_t a, std::uint32_t b) { return root(2 * a) != root(2 * b + 1); }
  void join(std::uint32_t a, std::uint32_t b) {
    const std::uint32_t of_a = root(2 * a);
    const std::uint32_t of_b = root(2 * b + 1);
    above_[std::max(of_a, of_b)] = std::min(of_a, of_b);
  }

 private:
  std::uint32_t root(std::uint32_t element) {
    while (above_.size() <= element) {
      above_.push_back(static_cast<std::uint32_t>(above_.size()));
    }
    while (above_[element] != element) {
      above_[element] = above_[above_[element]];
      element = above_[element];
    }
    return element;
  }

  std::vector<std::uint32_t> above_;  // itself where there is none
};

struct Followed {
  std::optional<Word> difference;
  std::optional<unsigned> depth_accesses;
};

// All pairs of states that the same word leads to, breadth first. A pair that follows from others, because both states
// were found alike to a third, is not followed: a word that tells it apart tells one of those apart, and they are no
// deeper. So the first difference is a shortest one even so.
class PairsOfStates {
 public:
  PairsOfStates(SetAutomaton& a, SetAutomaton& b) : a_(&a), b_(&b) {}

  Followed follow(const ComparisonLimits& limits) {
    reach({.a = SetAutomaton::start, .b = SetAutomaton::start, .from = 0, .input = 0, .depth = 0}, limits);
    const std::uint32_t ways = a_->ways();
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      const Pair pair = pairs_[i];
      const auto after_a = a_->after_miss(pair.a);
      const auto after_b = b_->after_miss(pair.b);
      const auto reached = [&](std::uint32_t a, std::uint32_t b, std::uint32_t input) {
        reach({.a = a, .b = b, .from = static_cast<std::uint32_t>(i), .input = input, .depth = pair.depth + 1}, limits);
      };
      if (after_a.way != after_b.way) {
        return {.difference = word_to(i, ways), .depth_accesses = {}};
      }
      reached(after_a.next, after_b.next, ways);
      for (std::uint32_t way = 0; way < a_->filled(pair.a); ++way) {
        reached(a_->after_hit(pair.a, way), b_->after_hit(pair.b, way), way);
      }
    }
    return {.difference = {}, .depth_accesses = depth_accesses_};
  }

 private:
  struct Pair {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    std::uint32_t from = 0;  // index of the pair before, and the input that leads here from it
    std::uint32_t input = 0;
    std::uint32_t depth = 0;  // inputs from the start
  };

  void reach(const Pair& pair, const ComparisonLimits& limits) {
    if (!alike_.are_apart(pair.a, pair.b)) {
      return;
    }
    if (pairs_.size() == limits.pairs_of_states) {
      // All pairs that are less deep get followed. So words as long as this one is deep place lines alike, and the
      // access after them hits or misses alike.
      depth_accesses_ = depth_accesses_.value_or(pair.depth + 1);
      return;
    }
    alike_.join(pair.a, pair.b);
    pairs_.push_back(pair);
  }

  [[nodiscard]] Word word_to(std::size_t pair, std::uint32_t last_input) const {
    Word word{last_input};
    for (; pair != 0; pair = pairs_[pair].from) {
      word.push_back(pairs_[pair].input);
    }
    std::reverse(word.begin(), word.end());
    return word;
  }

  SetAutomaton* a_;
  SetAutomaton* b_;
  UnionFind alike_;
  std::vector<Pair> pairs_;
  std::optional<unsigned> depth_accesses_;
};

// Policies that answer random words alike, sorted into classes one by one.
class ClassesOfOneKind {
 public:
  ClassesOfOneKind(std::uint32_t ways, const ComparisonLimits& limits) : ways_(ways), limits_(limits) {}

  void add(const Replacement& replacement, std::size_t place) {
    SetAutomaton automaton(SetMachine(replacement, ways_));
    for (Class& each : classes_) {
      const Followed followed = PairsOfStates(each.representative, automaton).follow(limits_);
      if (!followed.difference) {
        each.found.members.push_back(replacement);
        if (followed.depth_accesses) {
          each.found.depth_accesses =
              std::min(each.found.depth_accesses.value_or(*followed.depth_accesses), *followed.depth_accesses);
        }
        return;
      }
    }
    classes_.push_back({.place = place,
                        .representative = std::move(automaton),
                        .found = {.members = {replacement}, .depth_accesses = {}}});
  }

  void hand_over(std::map<std::size_t, PolicyClass>& by_first_member) {
    for (Class& each : classes_) {
      by_first_member.emplace(each.place, std::move(each.found));
    }
  }

 private:
  struct Class {
    std::size_t place = 0;  // of the first member among all policies
    SetAutomaton representative;
    PolicyClass found;
  };

  std::uint32_t ways_;
  ComparisonLimits limits_;
  std::deque<Class> classes_;
};

}  // namespace

Comparison compare(const Replacement& a, const Replacement& b, std::uint32_t ways, const ComparisonLimits& limits) {
  // To look for a shorter one than was found already.
  constexpr std::size_t pairs_for_a_shorter = std::size_t{1} << 14U;
  const SetMachine machine_a(a, ways);
  const SetMachine machine_b(b, ways);
  const std::optional<Word> found = difference_within(machine_a, machine_b, random_words(ways));
  SetAutomaton automaton_a(machine_a);
  SetAutomaton automaton_b(machine_b);
  ComparisonLimits reach = limits;
  if (found) {
    reach.pairs_of_states = std::min(reach.pairs_of_states, pairs_for_a_shorter);
  }
  const Followed followed = PairsOfStates(automaton_a, automaton_b).follow(reach);
  if (const auto& difference = followed.difference ? followed.difference : found) {
    return {.difference = accesses_that_show(machine_a, *difference), .depth_accesses = {}};
  }
  return {.difference = {}, .depth_accesses = followed.depth_accesses};
}

bool are_alike_when_swept(const Replacement& a, const Replacement& b, std::uint32_t ways,
                          const ComparisonLimits& limits) {
  struct Pair {
    SweptSetMachine a;
    SweptSetMachine b;
  };
  std::set<std::vector<std::uint32_t>> met;
  std::deque<Pair> waiting;
  const auto reach = [&](Pair pair) {
    std::vector<std::uint32_t> key;
    pair.a.append_state(key);
    pair.b.append_state(key);
    if (met.insert(std::move(key)).second) {
      waiting.push_back(std::move(pair));
    }
  };
  for (reach({.a = {a, ways}, .b = {b, ways}}); !waiting.empty(); waiting.pop_front()) {
    const Pair& pair = waiting.front();
    if (met.size() > limits.pairs_of_states) {
      return false;
    }
    bool is_empty = true;
    for (std::uint32_t way = 0; way < ways; ++way) {
      if (pair.a.is_filled()[way]) {
        is_empty = false;
        Pair next = pair;
        next.a.hit(way);
        next.b.hit(way);
        reach(std::move(next));
      }
    }
    Pair filled = pair;
    Pair swept = pair;
    if (filled.a.miss() != filled.b.miss() || (!is_empty && swept.a.sweep() != swept.b.sweep())) {
      return false;
    }
    reach(std::move(filled));
    if (!is_empty) {
      reach(std::move(swept));
    }
  }
  return true;
}

std::vector<PolicyClass> policy_classes(std::uint32_t ways, std::span<const Replacement> replacements,
                                        const ComparisonLimits& limits) {
  const std::vector<Word> words = random_words(ways);
  std::map<std::vector<std::uint32_t>, std::vector<std::size_t>> kinds;
  for (std::size_t i = 0; i < replacements.size(); ++i) {
    kinds[placements(SetMachine(replacements[i], ways), words)].push_back(i);
  }
  std::map<std::size_t, PolicyClass> by_first_member;
  for (const auto& [answers, places] : kinds) {
    ClassesOfOneKind classes(ways, limits);
    for (const std::size_t place : places) {
      classes.add(replacements[place], place);
    }
    classes.hand_over(by_first_member);
  }
  std::vector<PolicyClass> found;
  for (auto& [place, each] : by_first_member) {
    found.push_back(std::move(each));
  }
  return found;
}

}  // namespace gpuinfer::model
