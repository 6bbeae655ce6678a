// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/mealy_machine.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "model/policies/automaton.hpp"
#include "model/set_machine.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::size_t claims_at_once = 4096;

// Words that tell states apart, by refinement of partitions (Moore, "Gedanken-experiments on sequential machines",
// 1956): classes_[n] are the states that no word with n inputs before its last miss tells apart.
class Separation {
 public:
  explicit Separation(const MealyMachine& machine) : machine_(&machine) {
    std::vector<std::vector<std::uint32_t>> keys;
    for (const MealyMachine::State& state : machine.states) {
      keys.push_back({state.filled, state.filled == machine.ways ? state.victim : 0});
    }
    std::size_t classes = 0;
    while (number(keys) > classes) {
      classes = 1 + *std::max_element(classes_.back().begin(), classes_.back().end());
      for (std::uint32_t state = 0; state < keys.size(); ++state) {
        keys[state] = {classes_.back()[state]};
        for (const std::uint32_t input : machine.inputs(state)) {
          keys[state].push_back(classes_.back()[machine.next(state, input)]);
        }
      }
    }
  }

  // By state.
  [[nodiscard]] const std::vector<std::uint32_t>& classes() const { return classes_.back(); }

  // A shortest word with other victims after `a` than after `b`, which are of different classes and equally filled.
  [[nodiscard]] SetWord separating_word(std::uint32_t a, std::uint32_t b) const {
    const auto level = static_cast<std::size_t>(
        std::find_if(classes_.begin(), classes_.end(), [&](const auto& classes) { return classes[a] != classes[b]; }) -
        classes_.begin());
    if (level == 0) {
      return {machine_->ways};
    }
    for (const std::uint32_t input : machine_->inputs(a)) {
      const std::uint32_t next_a = machine_->next(a, input);
      const std::uint32_t next_b = machine_->next(b, input);
      if (classes_[level - 1][next_a] != classes_[level - 1][next_b]) {
        SetWord word = separating_word(next_a, next_b);
        word.insert(word.begin(), input);
        return word;
      }
    }
    return {};
  }

 private:
  // Appends the partition by equal keys; its number of classes.
  std::size_t number(const std::vector<std::vector<std::uint32_t>>& keys) {
    std::map<std::vector<std::uint32_t>, std::uint32_t> number_of;
    std::vector<std::uint32_t>& classes = classes_.emplace_back();
    for (const std::vector<std::uint32_t>& key : keys) {
      classes.push_back(number_of.emplace(key, static_cast<std::uint32_t>(number_of.size())).first->second);
    }
    return number_of.size();
  }

  const MealyMachine* machine_;
  std::vector<std::vector<std::uint32_t>> classes_;
};

// For each state, words that tell it from all others that are equally filled; for any two of them, one word that does
// begins a word of each.
class Identification {
 public:
  explicit Identification(const MealyMachine& machine)
      : machine_(&machine), separation_(machine), words_(machine.states.size()) {
    std::map<std::uint32_t, std::vector<std::uint32_t>> by_filled;
    for (std::uint32_t state = 0; state < machine.states.size(); ++state) {
      by_filled[machine.states[state].filled].push_back(state);
    }
    for (const auto& [filled, states] : by_filled) {
      tell_apart(states);
    }
  }

  [[nodiscard]] const std::vector<SetWord>& words(std::uint32_t state) const { return words_[state]; }

 private:
  // A word from the start costs the way to the state once more, about so many accesses.
  static constexpr double accesses_to_state = 8;

  [[nodiscard]] std::map<Victims, std::vector<std::uint32_t>> parts(const std::vector<std::uint32_t>& states,
                                                                    const SetWord& before, const SetWord& word) const {
    std::map<Victims, std::vector<std::uint32_t>> parts;
    for (const std::uint32_t state : states) {
      parts[machine_->victims(machine_->reached(state, before), word)].push_back(state);
    }
    return parts;
  }

  // The word that tells most for its accesses about which of the states it was before the word `before`. Empty: none
  // does.
  [[nodiscard]] SetWord best_word(const std::vector<std::uint32_t>& states, const SetWord& before,
                                  double more_accesses) const {
    constexpr std::size_t words_tried = 32;
    const std::size_t step = 1 + states.size() / words_tried;
    SetWord best;
    double most_worth = 0;
    for (std::size_t i = 1; i < states.size(); i += step) {
      const std::uint32_t a = machine_->reached(states[i / 2], before);
      const std::uint32_t b = machine_->reached(states[i], before);
      if (a == b) {
        continue;
      }
      const SetWord word = separation_.separating_word(a, b);
      double bits = 0;
      for (const auto& [victims, part] : parts(states, before, word)) {
        const double share = static_cast<double>(part.size()) / static_cast<double>(states.size());
        bits -= share * std::log2(share);
      }
      const double worth = bits / (static_cast<double>(word.size()) + more_accesses);
      if (worth > most_worth) {
        most_worth = worth;
        best = word;
      }
    }
    return best;
  }

  void tell_apart(const std::vector<std::uint32_t>& states) {
    if (states.size() > 1) {
      const SetWord word = best_word(states, {}, accesses_to_state);
      for (const auto& [victims, part] : parts(states, {}, word)) {
        go_on(part, word);
      }
    }
  }

  // Where the word told no more of the states apart than these.
  void go_on(const std::vector<std::uint32_t>& states, const SetWord& told) {
    const SetWord next = best_word(states, told, 0);
    if (next.empty()) {
      for (const std::uint32_t state : states) {
        words_[state].push_back(told);
      }
      tell_apart(states);
      return;
    }
    for (const auto& [victims, part] : parts(states, told, next)) {
      go_on(part, joined(told, next));
    }
  }

  const MealyMachine* machine_;
  Separation separation_;
  std::vector<std::vector<SetWord>> words_;
};

// A shortest word to each state, by breadth-first search.
std::vector<SetWord> shortest_words(const MealyMachine& machine) {
  std::vector<SetWord> words(machine.states.size());
  std::vector<bool> is_met(machine.states.size());
  std::vector<std::uint32_t> queue{0};
  is_met[0] = true;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const std::uint32_t input : machine.inputs(queue[i])) {
      const std::uint32_t next = machine.next(queue[i], input);
      if (!is_met[next]) {
        is_met[next] = true;
        words[next] = joined(words[queue[i]], {input});
        queue.push_back(next);
      }
    }
  }
  return words;
}

class ConformanceTests {
 public:
  explicit ConformanceTests(const MealyMachine& machine)
      : machine_(&machine), identification_(machine), words_to_(shortest_words(machine)), by_filled_(machine.ways + 1) {
    for (std::uint32_t state = 0; state < machine.states.size(); ++state) {
      by_filled_[machine.states[state].filled].push_back(state);
    }
  }

  // Calls visit(word) for each test that begins with the shortest word to `state`.
  template <class Visit>
  void for_each(std::uint32_t state, unsigned inputs, const Visit& visit) const {
    visit_after(words_to_[state], state, inputs, visit);
  }

  // The same with more inputs than all of them can be tried for, drawn at random. Few states are those of a set with
  // many free ways, few inputs stay among them, and what differs there is forgotten soon. So half of the words begin
  // with any number of filled ways and not with any state, and half of them hit more often than inputs drawn alike.
  [[nodiscard]] SetWord any(model::Random& random) const {
    constexpr double often = 0.75;
    const bool is_any_state = random.below(2) == 0;
    const bool hits_often = random.below(2) == 0;
    std::uint32_t state = 0;
    if (is_any_state) {
      state = static_cast<std::uint32_t>(random.below(words_to_.size()));
    } else {
      const std::vector<std::uint32_t>& states = by_filled_[random.below(by_filled_.size())];
      state = states[random.below(states.size())];
    }
    SetWord word = words_to_[state];
    for (std::uint64_t inputs = 1 + random.below(3 * std::uint64_t{machine_->ways}); inputs > 0; --inputs) {
      const std::uint32_t filled = machine_->states[state].filled;
      const bool hits = hits_often ? filled > 0 && random.unit() < often : random.below(filled + 1) < filled;
      word.push_back(hits ? static_cast<std::uint32_t>(random.below(filled)) : machine_->ways);
      state = machine_->next(state, word.back());
    }
    const std::vector<SetWord>& identifying = identification_.words(state);
    return identifying.empty() ? word : joined(word, identifying[random.below(identifying.size())]);
  }

 private:
  template <class Visit>
  void visit_after(const SetWord& word, std::uint32_t state, unsigned inputs, const Visit& visit) const {
    if (identification_.words(state).empty()) {
      visit(word);
    }
    for (const SetWord& identifying : identification_.words(state)) {
      visit(joined(word, identifying));
    }
    for (const std::uint32_t input : inputs > 0 ? machine_->inputs(state) : std::vector<std::uint32_t>{}) {
      visit_after(joined(word, {input}), machine_->next(state, input), inputs - 1, visit);
    }
  }

  const MealyMachine* machine_;
  Identification identification_;
  std::vector<SetWord> words_to_;
  std::vector<std::vector<std::uint32_t>> by_filled_;
};

bool examine_words(SetExplorer& explorer, const MealyMachine& machine, std::vector<SetWord>& words) {
  std::sort(words.begin(), words.end());
  std::vector<VictimClaim> claims;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i + 1 == words.size() || !is_beginning(words[i], words[i + 1])) {
      claims.push_back({.word = words[i], .victims = machine.victims(0, words[i])});
    }
  }
  words.clear();
  return explorer.examine(claims, SetExplorer::LastVictim::is_as_claimed);
}

VictimClaim claim_of(model::SetMachine set, SetWord word) {
  VictimClaim claim{.word = std::move(word), .victims = {}};
  for (const std::uint32_t input : claim.word) {
    if (input != set.ways()) {
      set.hit(input);
      continue;
    }
    const bool is_full = set.filled() == set.ways();
    const std::uint32_t way = set.miss();
    if (is_full) {
      claim.victims.push_back(way);
    }
  }
  return claim;
}

// The set fills, with hits in between as often as in any later stretch. At the end all ways are replaced, if they are
// ever, which shows where they stand.
SetWord stretches(std::uint32_t ways, model::Random& random) {
  constexpr std::uint64_t most_stretches = 20;
  constexpr std::uint64_t few = 3;
  SetWord word;
  std::uint32_t filled = 0;
  const auto miss = [&] {
    word.push_back(ways);
    filled = std::min(filled + 1, ways);
  };
  const std::uint64_t wanted = 1 + random.below(most_stretches);
  for (std::uint64_t stretch = 0; stretch < wanted || filled < ways; ++stretch) {
    if (filled == 0 || random.below(4) == 0) {
      for (std::uint64_t misses = 1 + random.below(random.below(2) == 0 ? few : 2 * std::uint64_t{ways}); misses > 0;
           --misses) {
        miss();
      }
      continue;
    }
    std::vector<std::uint32_t> lines(filled);
    std::iota(lines.begin(), lines.end(), 0U);
    if (random.below(2) == 0) {
      lines.resize(1 + random.below(few));
      std::generate(lines.begin(), lines.end(), [&] { return static_cast<std::uint32_t>(random.below(filled)); });
    }
    const double miss_share = random.below(2) == 0 ? 0 : 0.3 * random.unit();
    for (std::uint64_t accesses = 1 + random.below(std::uint64_t{ways}); accesses > 0; --accesses) {
      if (random.unit() < miss_share) {
        miss();
      } else {
        word.push_back(lines[random.below(lines.size())]);
      }
    }
  }
  word.insert(word.end(), ways, ways);
  return word;
}

// Lines as they are accessed, and what the policy makes of them.
struct TestWalk {
  VictimClaim claim;
  std::vector<std::uint32_t> lines;
  std::vector<bool> misses;
};

TestWalk fresh_walk(const model::SetMachine& set, std::size_t lines_available, model::Random& random) {
  constexpr std::size_t accesses_per_way = 40;
  TestWalk walk{.claim = claim_of(set, random_walk(set.ways(), accesses_per_way * set.ways(), random)),
                .lines = {},
                .misses = {}};
  std::vector<std::uint32_t> line_in;
  std::vector<std::uint32_t> absent(lines_available);
  std::iota(absent.begin(), absent.end(), 0U);
  auto victim = walk.claim.victims.begin();
  for (const std::uint32_t input : walk.claim.word) {
    walk.misses.push_back(input == set.ways());
    if (input != set.ways()) {
      walk.lines.push_back(line_in[input]);
      continue;
    }
    std::swap(absent[random.below(absent.size())], absent.back());
    walk.lines.push_back(absent.back());
    if (line_in.size() < set.ways()) {
      line_in.push_back(absent.back());
      absent.pop_back();
    } else {
      std::swap(line_in[*victim++], absent.back());
    }
  }
  return walk;
}

}  // namespace

std::uint32_t MealyMachine::reached(std::uint32_t state, const SetWord& word) const {
  for (const std::uint32_t input : word) {
    state = next(state, input);
  }
  return state;
}

Victims MealyMachine::victims(std::uint32_t state, const SetWord& word) const {
  Victims victims;
  for (const std::uint32_t input : word) {
    if (input == ways && states[state].filled == ways) {
      victims.push_back(states[state].victim);
    }
    state = next(state, input);
  }
  return victims;
}

std::vector<std::uint32_t> MealyMachine::inputs(std::uint32_t state) const {
  std::vector<std::uint32_t> inputs(states[state].filled);
  std::iota(inputs.begin(), inputs.end(), 0U);
  inputs.push_back(ways);
  return inputs;
}

MealyMachine minimized(const MealyMachine& machine) {
  const Separation separation(machine);
  const std::vector<std::uint32_t>& class_of = separation.classes();
  std::map<std::uint32_t, std::uint32_t> number_of{{class_of[0], 0}};
  std::vector<std::uint32_t> members{0};
  MealyMachine smallest{.ways = machine.ways, .states = {}};
  for (std::size_t i = 0; i < members.size(); ++i) {
    MealyMachine::State state = machine.states[members[i]];
    for (const std::uint32_t input : machine.inputs(members[i])) {
      const std::uint32_t next = machine.next(members[i], input);
      const auto [place, is_new] = number_of.emplace(class_of[next], static_cast<std::uint32_t>(members.size()));
      state.next[input] = place->second;
      if (is_new) {
        members.push_back(next);
      }
    }
    smallest.states.push_back(std::move(state));
  }
  return smallest;
}

double accesses_to_conform(const MealyMachine& machine, unsigned inputs) {
  const ConformanceTests tests(machine);
  double accesses = 0;
  for (std::uint32_t state = 0; state < machine.states.size(); ++state) {
    tests.for_each(state, inputs, [&](const SetWord& word) { accesses += static_cast<double>(word.size() + 1); });
  }
  return accesses;
}

unsigned inputs_to_conform(const MealyMachine& machine, std::size_t accesses) {
  constexpr unsigned most_inputs = 10;
  const auto affordable = static_cast<double>(accesses);
  auto words = static_cast<double>(machine.states.size());  // no fewer are tried in full sets
  unsigned inputs = 0;
  while (inputs < most_inputs && words <= affordable && accesses_to_conform(machine, inputs + 1) <= affordable) {
    ++inputs;
    words *= machine.ways;
  }
  return inputs;
}

bool conforms(SetExplorer& explorer, const MealyMachine& machine, unsigned inputs) {
  const ConformanceTests tests(machine);
  std::vector<SetWord> words;
  bool agree = true;
  for (std::uint32_t state = 0; state < machine.states.size() && agree; ++state) {
    tests.for_each(state, inputs, [&](const SetWord& word) { words.push_back(word); });
    if (words.size() >= claims_at_once) {
      agree = examine_words(explorer, machine, words);
    }
  }
  return agree && examine_words(explorer, machine, words);
}

bool conforms_beyond(SetExplorer& explorer, const MealyMachine& machine, std::size_t accesses, model::Random& random) {
  constexpr std::size_t first_claims_at_once = 64;
  const ConformanceTests tests(machine);
  std::size_t at_once = first_claims_at_once;
  for (std::size_t drawn = 0; drawn < accesses; at_once = std::min(2 * at_once, claims_at_once)) {
    std::vector<SetWord> words;
    while (words.size() < at_once && drawn < accesses) {
      words.push_back(tests.any(random));
      drawn += words.back().size() + 1;
    }
    if (!examine_words(explorer, machine, words)) {
      return false;
    }
  }
  return true;
}

bool stretches_agree(SetExplorer& explorer, const model::Replacement& policy, std::size_t accesses,
                     model::Random& random) {
  constexpr std::size_t claims_together = 64;
  const model::SetMachine empty_set(policy, explorer.ways());
  for (std::size_t drawn = 0; drawn < accesses;) {
    std::vector<VictimClaim> claims;
    while (claims.size() < claims_together && drawn < accesses) {
      claims.push_back(claim_of(empty_set, stretches(explorer.ways(), random)));
      drawn += claims.back().word.size() + 1;
    }
    if (!explorer.examine(claims, SetExplorer::LastVictim::is_as_claimed)) {
      return false;
    }
  }
  return true;
}

std::optional<unsigned> extra_states_refuted(SetExplorer& explorer, const MealyMachine& machine,
                                             const LearningLimits& limits, model::Random& random) {
  const std::size_t wanted = std::max(limits.random_accesses, limits.random_accesses_per_state * machine.states.size());
  unsigned inputs = limits.extra_states + 1;
  if (!conforms(explorer, machine, inputs)) {
    return std::nullopt;
  }
  if (!conforms_beyond(explorer, machine, std::min(wanted, explorer.accesses_left() / 2), random)) {
    return std::nullopt;
  }
  const unsigned deeper = inputs_to_conform(machine, std::min(wanted, explorer.accesses_left() / 2));
  if (deeper > inputs) {
    inputs = deeper;
    if (!conforms(explorer, machine, inputs)) {
      return std::nullopt;
    }
  }
  return inputs - 1;
}

SetWord random_walk(std::uint32_t ways, std::size_t accesses, model::Random& random) {
  const double miss_share = 0.1 + 0.5 * random.unit();
  SetWord word;
  std::uint32_t filled = 0;
  while (word.size() < accesses) {
    if (filled == 0 || random.unit() < miss_share) {
      word.push_back(ways);
      filled = std::min(filled + 1, ways);
    } else {
      word.push_back(static_cast<std::uint32_t>(random.below(filled)));
    }
  }
  return word;
}

bool walks_agree(SetExplorer& explorer, const model::Replacement& policy, std::size_t walks, model::Random& random) {
  const model::SetMachine empty_set(policy, explorer.ways());
  std::vector<TestWalk> planned;
  std::vector<std::vector<std::uint32_t>> lines;
  for (std::size_t i = 0; i < walks; ++i) {
    planned.push_back(fresh_walk(empty_set, explorer.lines_available(), random));
    lines.push_back(planned.back().lines);
  }
  const std::vector<std::vector<bool>> missed = explorer.ask(lines);
  bool had_error = false;
  for (std::size_t i = 0; i < walks; ++i) {
    if (missed.at(i) == planned[i].misses) {
      continue;
    }
    if (explorer.ask({planned[i].lines}).at(0) == planned[i].misses) {
      explorer.note_contradiction();
      if (std::exchange(had_error, true)) {
        throw SetDoesNotRepeat("fresh walks do not always miss alike, so this is no machine");
      }
      continue;
    }
    if (!explorer.examine({planned[i].claim}, SetExplorer::LastVictim::is_as_claimed)) {
      return false;
    }
    throw NothingLearned("it matters which line it is that misses, so this is no machine of one set");
  }
  return true;
}

model::Replacement as_policy(const MealyMachine& machine) {
  std::vector<std::vector<double>> hits;
  std::vector<double> victims;
  std::vector<double> misses;
  std::vector<double> fills;
  for (std::uint32_t number = 0; number < machine.states.size(); ++number) {
    const MealyMachine::State& state = machine.states[number];
    std::copy_n(state.next.begin(), state.filled, hits.emplace_back(machine.ways, number).begin());
    const bool is_full = state.filled == machine.ways;
    victims.push_back(is_full ? state.victim : 0);
    misses.push_back(is_full ? state.next.back() : number);
    fills.push_back(is_full ? number : state.next.back());
  }
  return model::Automaton::of(std::move(hits), std::move(victims), std::move(misses), std::move(fills));
}

std::optional<MealyMachine> as_machine(const model::Replacement& policy, std::uint32_t ways, std::size_t most_states) {
  model::SetAutomaton states(model::SetMachine(policy, ways));
  if (!states.complete(most_states)) {
    return std::nullopt;
  }
  MealyMachine machine{.ways = ways, .states = {}};
  for (std::uint32_t number = 0; number < states.size(); ++number) {
    MealyMachine::State state{.filled = states.filled(number), .victim = 0, .next = {}};
    state.next.resize(ways + 1);
    for (std::uint32_t way = 0; way < state.filled; ++way) {
      state.next[way] = states.after_hit(number, way);
    }
    const model::SetAutomaton::Miss miss = states.after_miss(number);
    state.next.back() = miss.next;
    state.victim = state.filled == ways ? miss.way : 0;
    machine.states.push_back(std::move(state));
  }
  return machine;
}

}  // namespace gpuinfer::infer
