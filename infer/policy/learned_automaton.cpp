// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/learned_automaton.hpp"

#include <algorithm>
#include <utility>

#include "infer/policy/learned_permutation.hpp"
#include "infer/policy/mealy_machine.hpp"
#include "infer/policy/set_explorer.hpp"
#include "model/errors.hpp"
#include "model/random_streams.hpp"

namespace gpuinfer::infer {

namespace {

// Learns with a tree of words that tell states apart (Kearns & Vazirani, "An introduction to computational learning
// theory", 1994, chapter 8), a wrong machine being split where the binary search of Rivest & Schapire, "Inference of
// finite automata using homing sequences", 1993, finds it wrong.
class Learner {
 public:
  Learner(SetExplorer& explorer, std::size_t most_states);

  // A machine that agrees with everything that the explorer knows.
  MealyMachine machine();

 private:
  // Of the tree: a word and what it showed, or a leaf with a state. No outcome is the beginning of another.
  struct Node {
    SetWord word;
    std::vector<std::pair<Victims, std::size_t>> nodes;  // by outcome
    std::optional<std::uint32_t> state;
  };

  struct State {
    SetWord access;
    std::uint32_t filled = 0;
    std::size_t leaf = 0;
    std::vector<std::uint32_t> next;
  };

  // A transition on its way down the tree.
  struct Sought {
    std::uint32_t from = 0;
    std::uint32_t input = 0;
    SetWord word;
    std::size_t node = 0;
  };

  std::uint32_t add_state(SetWord access, std::size_t leaf);
  void seek(std::uint32_t from, std::uint32_t input, std::size_t node);
  void find_sought();
  std::optional<VictimClaim> descend(Sought& sought);
  [[nodiscard]] std::optional<SetWord> disagreement(const MealyMachine& machine) const;
  void split(const MealyMachine& machine, const SetWord& word);
  [[nodiscard]] bool agrees_from(const MealyMachine& machine, const SetWord& word, std::size_t place);
  [[nodiscard]] MealyMachine hypothesis() const;

  SetExplorer* explorer_;
  std::size_t most_states_;
  std::vector<Node> nodes_;  // the first ones are the roots, by ways filled
  std::vector<State> states_;
  std::vector<Sought> sought_;
};

Victims from(const Victims& victims, std::size_t place) {
  return {victims.begin() + static_cast<std::ptrdiff_t>(std::min(place, victims.size())), victims.end()};
}

// The shortest one with so many misses on the full set.
SetWord beginning(const SetWord& word, std::uint32_t ways, std::size_t replacements) {
  SetWord part;
  for (std::size_t misses = 0; misses < ways + replacements; misses += part.back() == ways ? 1U : 0U) {
    part.push_back(word[part.size()]);
  }
  return part;
}

Learner::Learner(SetExplorer& explorer, std::size_t most_states) : explorer_(&explorer), most_states_(most_states) {
  const std::uint32_t ways = explorer.ways();
  for (std::uint32_t filled = 0; filled <= ways; ++filled) {
    nodes_.push_back({.word = SetWord(ways - filled + 1, explorer.miss()), .nodes = {}, .state = {}});
  }
  Sought start;
  std::optional<VictimClaim> claim;
  while ((claim = descend(start))) {
    explorer.examine({*claim}, SetExplorer::LastVictim::is_any);
  }
}

std::uint32_t Learner::add_state(SetWord access, std::size_t leaf) {
  if (states_.size() == most_states_) {
    throw NothingLearned("the set has more than " + std::to_string(most_states_) + " states");
  }
  const auto number = static_cast<std::uint32_t>(states_.size());
  const std::uint32_t filled = explorer_->filled_after(access);
  states_.push_back({.access = std::move(access), .filled = filled, .leaf = leaf, .next = {}});
  states_.back().next.resize(explorer_->ways() + 1);
  nodes_[leaf].state = number;
  for (std::uint32_t way = 0; way < filled; ++way) {
    seek(number, way, filled);
  }
  seek(number, explorer_->miss(), std::min(filled + 1, explorer_->ways()));
  return number;
}

void Learner::seek(std::uint32_t from, std::uint32_t input, std::size_t node) {
  sought_.push_back({.from = from, .input = input, .word = joined(states_[from].access, {input}), .node = node});
}

// As far as is known. Nothing: the transition has arrived; else what to examine.
std::optional<VictimClaim> Learner::descend(Sought& sought) {
  while (!nodes_[sought.node].state) {
    const SetWord word = joined(sought.word, nodes_[sought.node].word);
    const Victims before = explorer_->known_victims(sought.word);
    const Victims outcome = from(explorer_->known_victims(word), before.size());
    auto& nodes = nodes_[sought.node].nodes;
    const auto met =
        std::find_if(nodes.begin(), nodes.end(), [&](const auto& each) { return is_beginning(each.first, outcome); });
    if (met != nodes.end()) {
      sought.node = met->second;
      continue;
    }
    const auto possible =
        std::find_if(nodes.begin(), nodes.end(), [&](const auto& each) { return is_beginning(outcome, each.first); });
    if (possible != nodes.end() || outcome.empty()) {
      VictimClaim claim{.word = {}, .victims = before};
      const Victims claimed = possible != nodes.end() ? possible->first : Victims{0};
      claim.victims.insert(claim.victims.end(), claimed.begin(), claimed.end());
      claim.word = beginning(word, explorer_->ways(), claim.victims.size());
      return claim;
    }
    // So much as no other outcome begins with.
    Victims shortest;
    for (const std::uint32_t victim : outcome) {
      shortest.push_back(victim);
      if (std::none_of(nodes.begin(), nodes.end(),
                       [&](const auto& each) { return is_beginning(shortest, each.first); })) {
        break;
      }
    }
    const std::size_t leaf = nodes_.size();
    nodes.emplace_back(std::move(shortest), leaf);
    nodes_.emplace_back();
    add_state(sought.word, leaf);
    sought.node = leaf;
  }
  return std::nullopt;
}

void Learner::find_sought() {
  while (!sought_.empty()) {
    std::vector<Sought> seeking;
    seeking.swap(sought_);
    std::vector<VictimClaim> claims;
    for (Sought& sought : seeking) {
      const std::optional<VictimClaim> claim = descend(sought);
      if (claim) {
        claims.push_back(*claim);
        sought_.push_back(std::move(sought));
      } else {
        states_[sought.from].next[sought.input] = *nodes_[sought.node].state;
      }
    }
    explorer_->examine(claims, SetExplorer::LastVictim::is_any);
  }
}

MealyMachine Learner::hypothesis() const {
  MealyMachine machine{.ways = explorer_->ways(), .states = {}};
  for (const State& state : states_) {
    machine.states.push_back({.filled = state.filled, .victim = 0, .next = state.next});
    if (state.filled == explorer_->ways()) {
      machine.states.back().victim = explorer_->known_victims(joined(state.access, {explorer_->miss()})).back();
    }
  }
  return machine;
}

// A word at whose last miss the machine is wrong.
std::optional<SetWord> Learner::disagreement(const MealyMachine& machine) const {
  const std::vector<SetExplorer::Known>& known = explorer_->known();
  struct Visit {
    std::uint32_t node = 0;
    std::uint32_t state = 0;
    std::size_t from = 0;  // place in the queue
  };
  std::vector<Visit> queue{Visit{}};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const Visit visit = queue[i];
    for (const std::uint32_t node : known[visit.node].next) {
      if (known[node].victim && *known[node].victim != machine.states[visit.state].victim) {
        SetWord word{known[node].input};
        for (std::size_t back = i; back > 0; back = queue[back].from) {
          word.push_back(known[queue[back].node].input);
        }
        std::reverse(word.begin(), word.end());
        return word;
      }
      queue.push_back({.node = node, .state = machine.next(visit.state, known[node].input), .from = i});
    }
  }
  return std::nullopt;
}

// Whether the word goes on from `place` as the machine says when the state there is reached by its own access word.
bool Learner::agrees_from(const MealyMachine& machine, const SetWord& word, std::size_t place) {
  const auto middle = word.begin() + static_cast<std::ptrdiff_t>(place);
  const std::uint32_t state = machine.reached(0, {word.begin(), middle});
  const SetWord rest(middle, word.end());
  VictimClaim claim{.word = joined(states_[state].access, rest),
                    .victims = explorer_->known_victims(states_[state].access)};
  const Victims expected = machine.victims(state, rest);
  claim.victims.insert(claim.victims.end(), expected.begin(), expected.end());
  return explorer_->examine({claim}, SetExplorer::LastVictim::is_as_claimed);
}

void Learner::split(const MealyMachine& machine, const SetWord& word) {
  std::size_t wrong = 0;
  std::size_t right = word.size();
  while (right - wrong > 1) {
    const std::size_t middle = wrong + (right - wrong) / 2;
    (agrees_from(machine, word, middle) ? right : wrong) = middle;
  }
  const auto place = word.begin() + static_cast<std::ptrdiff_t>(wrong);
  const std::uint32_t state = machine.reached(0, {word.begin(), place});
  const std::uint32_t old_state = machine.next(state, *place);
  const SetWord access = joined(states_[state].access, {*place});
  const Victims expected = machine.victims(old_state, {place + 1, word.end()});
  const Victims seen =
      from(explorer_->known_victims(joined(access, {place + 1, word.end()})), explorer_->known_victims(access).size());
  // Up to the first victim that differs.
  const auto alike = static_cast<std::size_t>(
      std::mismatch(seen.begin(), seen.end(), expected.begin(), expected.end()).first - seen.begin());
  if (alike == seen.size()) {
    throw NothingLearned("what was learned from the set contradicts itself");
  }
  const SetWord whole = beginning(joined(access, {place + 1, word.end()}), explorer_->ways(),
                                  explorer_->known_victims(access).size() + alike + 1);
  SetWord telling(whole.begin() + static_cast<std::ptrdiff_t>(access.size()), whole.end());
  const std::size_t node = states_[old_state].leaf;
  const auto end = static_cast<std::ptrdiff_t>(alike + 1);
  nodes_[node] = {.word = std::move(telling),
                  .nodes = {{{expected.begin(), expected.begin() + end}, nodes_.size()},
                            {{seen.begin(), seen.begin() + end}, nodes_.size() + 1}},
                  .state = {}};
  nodes_.resize(nodes_.size() + 2);
  states_[old_state].leaf = nodes_.size() - 2;
  nodes_[nodes_.size() - 2].state = old_state;
  for (std::uint32_t other = 0; other < states_.size(); ++other) {
    for (const std::uint32_t input : machine.inputs(other)) {
      if (machine.next(other, input) == old_state) {
        seek(other, input, node);
      }
    }
  }
  add_state(access, nodes_.size() - 1);
}

MealyMachine Learner::machine() {
  while (true) {
    find_sought();
    MealyMachine machine = hypothesis();
    const std::optional<SetWord> wrong = disagreement(machine);
    if (!wrong) {
      return machine;
    }
    split(machine, *wrong);
  }
}

// Walks of growing length, which find most of what is wrong with a first machine in the fewest accesses.
bool learning_walks_agree(SetExplorer& explorer, const MealyMachine& machine, model::Random& random) {
  constexpr std::size_t walks = 8;
  for (const std::size_t accesses_per_way : {3U, 6U, 12U}) {
    std::vector<VictimClaim> claims;
    for (std::size_t i = 0; i < walks; ++i) {
      SetWord word = random_walk(machine.ways, accesses_per_way * machine.ways, random);
      word.push_back(machine.ways);
      Victims victims = machine.victims(0, word);
      claims.push_back({.word = std::move(word), .victims = std::move(victims)});
    }
    if (!explorer.examine(claims, SetExplorer::LastVictim::is_as_claimed)) {
      return false;
    }
  }
  return true;
}

LearnedPolicy automaton(SetExplorer& explorer, const LearningLimits& limits) {
  Learner learner(explorer, limits.states);
  model::Random random = model::RandomStreams(limits.seed).random("automaton");
  while (true) {
    const MealyMachine machine = minimized(learner.machine());
    if (!learning_walks_agree(explorer, machine, random)) {
      continue;
    }
    if (explorer.accesses_left() / 2 < limits.fewest_random_accesses()) {
      throw NothingLearned("a machine of " + std::to_string(machine.states.size()) +
                           " states explains all answers, and to make sure of it takes more accesses than are left");
    }
    const std::optional<unsigned> extra_states = extra_states_refuted(explorer, machine, limits, random);
    if (!extra_states) {
      continue;
    }
    model::Replacement policy = as_policy(machine);
    if (walks_agree(explorer, policy, limits.walks, random)) {
      return {.policy = std::move(policy), .states = machine.states.size(), .extra_states = extra_states};
    }
  }
}

void check(const LearningLimits& limits) {
  constexpr std::size_t fewest_walks = 20;
  if (limits.walks < fewest_walks) {
    throw InputError("walks: are " + std::to_string(limits.walks) + "; give " + std::to_string(fewest_walks) +
                     " or more");
  }
}

// `learn` is called until it names a policy; the last reason stands.
template <class... Learn>
Learning learning(const SetOracle& oracle, std::uint32_t ways, std::size_t lines_available,
                  const LearningLimits& limits, const Learn&... learn) {
  check(limits);
  Learning learning;
  try {
    SetExplorer explorer(oracle, ways, lines_available, limits.accesses, learning);
    const auto learn_by = [&](const auto& how) {
      try {
        learning.learned = how(explorer, limits);
        learning.reason.clear();
        learning.repeats = true;
      } catch (const SetDoesNotRepeat& why) {
        learning.reason = why.what();
        learning.repeats = false;
      } catch (const NothingLearned& why) {
        learning.reason = why.what();
        learning.repeats = true;
      }
      return learning.learned.has_value();
    };
    static_cast<void>((learn_by(learn) || ...));
  } catch (const NothingLearned& why) {
    learning.reason = why.what();
  }
  return learning;
}

}  // namespace

Learning learn_policy(const SetOracle& oracle, std::uint32_t ways, std::size_t lines_available,
                      const LearningLimits& limits) {
  return learning(oracle, ways, lines_available, limits, permutation, automaton);
}

Learning learn_automaton(const SetOracle& oracle, std::uint32_t ways, std::size_t lines_available,
                         const LearningLimits& limits) {
  return learning(oracle, ways, lines_available, limits, automaton);
}

Learning learn_permutation(const SetOracle& oracle, std::uint32_t ways, std::size_t lines_available,
                           const LearningLimits& limits) {
  return learning(oracle, ways, lines_available, limits, permutation);
}

}  // namespace gpuinfer::infer
