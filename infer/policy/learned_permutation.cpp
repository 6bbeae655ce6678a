// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/learned_permutation.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "infer/policy/mealy_machine.hpp"
#include "model/policies/permutation.hpp"
#include "model/random_streams.hpp"

namespace gpuinfer::infer {

namespace {

constexpr const char* no_permutation = "the ways do not move as permutations of positions";

// By position: which one it goes to.
using Moves = std::vector<std::uint32_t>;

// Positions are named by the way that stands there once the set has been filled without a hit.
struct Positions {
  std::uint32_t victim = 0;
  Moves after_miss;
  std::vector<Moves> after_hit;  // by position of the way that is hit
};

// Learns where the ways move on the full set. Who stands at the victim's position is what a miss shows. Who stands at
// another one shows once an input has moved it to a position that can be seen: a miss, or a hit of the way at a
// position that is seen already. So more and more positions are seen, and those that never are must stand still.
class PositionLearner {
 public:
  explicit PositionLearner(SetExplorer& explorer)
      : explorer_(&explorer), full_(explorer.ways(), explorer.miss()), steps_(explorer.ways()), costs_(explorer.ways()),
        inverse_(explorer.ways() + 1, Row(explorer.ways())) {
    for (std::uint32_t way = 0; way < explorer.ways(); ++way) {
      start_.push_back({.way = way});
    }
  }

  Positions positions() {
    const std::uint32_t ways = explorer_->ways();
    const std::uint32_t victim = explorer_->victims(after(full_, explorer_->miss())).back();
    seen_.push_back(victim);
    // Misses first: one word with many of them shows many positions.
    for (std::size_t input = 0; input <= seen_.size(); ++input) {
      try_input(input == 0 ? explorer_->miss() : seen_[input - 1]);
      for (std::size_t before = 0; before < input; ++before) {
        try_input(before == 0 ? explorer_->miss() : seen_[before - 1]);
      }
    }
    for (std::uint32_t way = 0; way < ways; ++way) {
      try_input(way);
    }
    Positions found{.victim = victim, .after_miss = moves(explorer_->miss()), .after_hit = {}};
    for (std::uint32_t way = 0; way < ways; ++way) {
      found.after_hit.push_back(moves(way));
    }
    return found;
  }

 private:
  using Row = std::vector<std::optional<std::uint32_t>>;

  struct Guess {
    std::uint32_t way = 0;
    bool is_known = true;
  };

  // The input, a miss or a position to hit, that moves a position to another one that is seen.
  struct Step {
    std::uint32_t input = 0;
    std::uint32_t to = 0;
  };

  static SetWord after(SetWord word, std::uint32_t input) {
    word.push_back(input);
    return word;
  }

  [[nodiscard]] bool is_seen(std::uint32_t position) const {
    return std::find(seen_.begin(), seen_.end(), position) != seen_.end();
  }

  // Which position the input moves to each that is seen. Those that come from one not seen yet make it so.
  void try_input(std::uint32_t input) {
    Row& from = inverse_[input];
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      const std::uint32_t to = seen_[i];
      if (!from[to]) {
        Victims victims;
        if (input == explorer_->miss()) {
          victims.push_back(seen_.front());
        }
        const std::uint32_t position = way_at(to, after(full_, input), moved(start_, input), std::move(victims));
        if (std::find(from.begin(), from.end(), position) != from.end()) {
          throw NothingLearned(no_permutation);
        }
        from[to] = position;
      }
      see(*from[to], {.input = input, .to = to});
    }
  }

  // By the step if that takes fewer than any before.
  void see(std::uint32_t position, Step step) {
    if (!is_seen(position)) {
      if (step.input != explorer_->miss() && !is_seen(step.input)) {
        throw NothingLearned(no_permutation);
      }
      seen_.push_back(position);
      costs_[position] = std::numeric_limits<double>::infinity();
    }
    const double cost_of_input = step.input == explorer_->miss() ? 0 : costs_[step.input];
    const double cost = 1 + cost_of_input + costs_[step.to];
    if (cost < costs_[position]) {
      costs_[position] = cost;
      steps_[position] = step;
    }
  }

  // `ways`: after the word, by position; `victims`: of the misses on the full set in it, as they follow.
  std::uint32_t way_at(std::uint32_t position, const SetWord& word, const std::vector<Guess>& ways, Victims victims) {
    if (ways[position].is_known) {
      return ways[position].way;
    }
    const std::optional<Step> step = steps_[position];
    if (!step || step->input == explorer_->miss()) {
      victims.push_back(ways[seen_.front()].way);
    }
    if (!step) {
      return explorer_->victims(after(word, explorer_->miss()), victims).back();
    }
    const bool is_hit = step->input != explorer_->miss();
    const std::uint32_t input = is_hit ? way_at(step->input, word, ways, victims) : step->input;
    return way_at(step->to, after(word, input), moved(ways, step->input), std::move(victims));
  }

  // As far as is known.
  [[nodiscard]] std::vector<Guess> moved(const std::vector<Guess>& ways, std::uint32_t input) const {
    std::vector<Guess> after;
    for (std::uint32_t to = 0; to < ways.size(); ++to) {
      const std::optional<std::uint32_t> from = inverse_[input][to];
      after.push_back(from ? ways[*from] : Guess{.way = ways[to].way, .is_known = false});
    }
    return after;
  }

  [[nodiscard]] Moves moves(std::uint32_t input) const {
    Moves moves(explorer_->ways());
    for (std::uint32_t position = 0; position < moves.size(); ++position) {
      moves[inverse_[input][position].value_or(position)] = position;
    }
    return moves;
  }

  SetExplorer* explorer_;
  SetWord full_;
  std::vector<Guess> start_;  // after it
  std::vector<std::uint32_t> seen_;
  std::vector<std::optional<Step>> steps_;  // by position that is seen; none at the victim's
  std::vector<double> costs_;               // steps to see what is there, by position that is seen
  std::vector<Row> inverse_;                // by input, then by position: where from
};

// Where the ways stand before they are filled. A way is filled at the victim's position, and what was there takes its
// place, so that shows where a hit has moved a filled way to the victim's position while there were free ones. Found by
// trying, with what contradicts a guess asked until nothing does.
class FillLearner {
 public:
  FillLearner(SetExplorer& explorer, const Positions& positions, model::Random random)
      : explorer_(&explorer), positions_(&positions), random_(random) {}

  // By way. The first one stands at the victim's position.
  std::vector<std::uint32_t> starts() {
    int stuck = 0;
    do {
      starts_.assign(explorer_->ways(), std::nullopt);
      starts_.front() = positions_->victim;
      tried_ = 0;
      if (is_possible() && complete()) {
        continue;
      }
      if (tried_ <= most_tried) {
        throw NothingLearned(no_permutation);
      }
      if (++stuck > most_stuck) {
        throw NothingLearned("it was not found out where a permutation policy has its free ways");
      }
      start_anywhere();
    } while (!fills_as_guessed() && is_contradicted());
    std::vector<std::uint32_t> starts;
    for (const std::optional<std::uint32_t>& start : starts_) {
      starts.push_back(start.value());
    }
    return starts;
  }

  // Whether the explorer knows a word that the last guess does not explain. The next one will.
  bool is_contradicted() {
    const std::vector<SetExplorer::Known>& known = explorer_->known();
    const std::size_t before = seen_.size();
    std::vector<Seen> to_visit{Seen{}};
    while (!to_visit.empty()) {
      const Seen visit = std::move(to_visit.back());
      to_visit.pop_back();
      for (const std::uint32_t next : known[visit.node].next) {
        Seen longer = visit;
        longer.node = next;
        longer.word.push_back(known[next].input);
        if (known[next].victim) {
          longer.victims.push_back(*known[next].victim);
        }
        to_visit.push_back(std::move(longer));
      }
      if (seen_.size() < before + most_seen_at_once && known[visit.node].next.empty() &&
          !follow(visit.word, visit.victims)) {
        seen_.push_back(visit);
      }
    }
    return seen_.size() > before;
  }

 private:
  static constexpr std::size_t most_tried = 200;
  static constexpr int most_stuck = 5;
  static constexpr std::size_t most_seen_at_once = 60;

  using Ways = std::vector<std::optional<std::uint32_t>>;  // by position, where it is known

  struct Seen {
    SetWord word;
    Victims victims;
    std::uint32_t node = 0;  // of what the explorer knows
  };

  static void move(Ways& ways, const Moves& moves, Ways& before) {
    ways.swap(before);
    for (std::size_t position = 0; position < ways.size(); ++position) {
      ways[moves[position]] = before[position];
    }
  }

  // What is known after the word when ways start where they are guessed to, where they are. Nothing: other victims than
  // those that were seen.
  [[nodiscard]] std::optional<Ways> follow(const SetWord& word, const Victims& victims) const {
    const std::uint32_t all_ways = explorer_->ways();
    Ways ways(all_ways);
    Ways before(all_ways);
    for (std::uint32_t way = 0; way < all_ways; ++way) {
      if (starts_[way]) {
        ways[*starts_[way]] = way;
      }
    }
    std::uint32_t filled = 0;
    auto victim = victims.begin();
    for (const std::uint32_t input : word) {
      std::optional<std::uint32_t>& last = ways[positions_->victim];
      const bool is_fill = input == all_ways && filled < all_ways;
      if (input == all_ways && !is_fill) {
        if (victim == victims.end()) {
          return ways;
        }
        const auto found = std::find(ways.begin(), ways.end(), *victim);
        if (last ? *last != *victim : found != ways.end()) {
          return std::nullopt;
        }
        last = *victim++;
        move(ways, positions_->after_miss, before);
        continue;
      }
      const std::uint32_t way = is_fill ? filled : input;
      const auto place = std::find(ways.begin(), ways.end(), way);
      if (is_fill) {
        ++filled;
        if (place != ways.end()) {
          *place = std::exchange(last, way);
        }
        last = way;
        move(ways, positions_->after_miss, before);
      } else if (place != ways.end()) {
        move(ways, positions_->after_hit[static_cast<std::size_t>(place - ways.begin())], before);
      } else {
        return ways;
      }
    }
    return ways;
  }

  [[nodiscard]] bool is_possible() const {
    const std::optional<Ways> full = follow(SetWord(explorer_->ways(), explorer_->miss()), {});
    for (std::uint32_t position = 0; position < full->size(); ++position) {
      if ((*full)[position].value_or(position) != position) {
        return false;
      }
    }
    return std::all_of(seen_.begin(), seen_.end(),
                       [&](const Seen& seen) { return follow(seen.word, seen.victims).has_value(); });
  }

  // Positions that the way may start at, going by the other guesses; first the one that comes to be the victim's when
  // the way's turn is.
  [[nodiscard]] std::vector<std::uint32_t> possible_starts(std::uint32_t way) {
    const Moves& moves = positions_->after_miss;
    std::uint32_t natural = positions_->victim;
    for (std::uint32_t fill = 0; fill < way; ++fill) {
      natural = static_cast<std::uint32_t>(std::find(moves.begin(), moves.end(), natural) - moves.begin());
    }
    std::vector<std::uint32_t> positions(moves.size());
    std::iota(positions.begin(), positions.end(), 0U);
    std::rotate(positions.begin(), positions.begin() + natural, positions.end());
    std::vector<std::uint32_t> possible;
    for (const std::uint32_t position : positions) {
      if (std::find(starts_.begin(), starts_.end(), position) == starts_.end()) {
        starts_[way] = position;
        if (is_possible()) {
          possible.push_back(position);
        }
        starts_[way].reset();
      }
    }
    return possible;
  }

  // Next comes the way that may start at the fewest positions.
  bool complete() {
    if (++tried_ > most_tried) {
      return false;
    }
    std::optional<std::uint32_t> next;
    std::vector<std::uint32_t> possible;
    for (std::uint32_t way = 0; way < starts_.size(); ++way) {
      if (!starts_[way]) {
        std::vector<std::uint32_t> of_way = possible_starts(way);
        if (!next || of_way.size() < possible.size()) {
          next = way;
          possible = std::move(of_way);
        }
      }
      if (next && possible.size() < 2) {
        break;
      }
    }
    if (!next) {
      return true;
    }
    for (const std::uint32_t start : possible) {
      starts_[*next] = start;
      if (complete()) {
        return true;
      }
    }
    starts_[*next].reset();
    return false;
  }

  // The set is filled with hits in between; then as many misses follow as there are ways, or a walk.
  SetWord fill_word(bool has_walk) {
    const std::uint32_t ways = explorer_->ways();
    const double miss_share = 0.2 + 0.5 * random_.unit();
    SetWord word;
    for (std::uint32_t misses = 0; misses < 2 * ways;) {
      const bool hits = misses > 0 && (misses < ways || has_walk) && random_.unit() > miss_share;
      word.push_back(hits ? static_cast<std::uint32_t>(random_.below(std::min(misses, ways))) : ways);
      misses += hits ? 0U : 1U;
    }
    return word;
  }

  // A guess that is good for questions only.
  void start_anywhere() {
    for (std::uint32_t way = 0; way < starts_.size(); ++way) {
      for (std::uint32_t position = 0; !starts_[way]; ++position) {
        if (std::find(starts_.begin(), starts_.end(), position) == starts_.end()) {
          starts_[way] = position;
        }
      }
    }
  }

  // Few words find most of what is wrong, and more of them what shows seldom.
  bool fills_as_guessed() {
    constexpr int few = 40;
    constexpr int many = 200;
    return fill_as_guessed(few) && fill_as_guessed(many);
  }

  bool fill_as_guessed(int words) {
    std::vector<VictimClaim> claims;
    for (int i = 0; i < words; ++i) {
      claims.push_back({.word = fill_word(i % 2 == 1), .victims = {}});
      claims.back().victims = expected(claims.back().word);
    }
    return explorer_->examine(claims, SetExplorer::LastVictim::is_as_claimed);
  }

  [[nodiscard]] Victims expected(const SetWord& word) const {
    Victims victims;
    const auto misses = static_cast<std::size_t>(std::count(word.begin(), word.end(), explorer_->miss()));
    while (victims.size() + explorer_->ways() < misses) {
      victims.push_back(*(*follow(word, victims))[positions_->victim]);
    }
    return victims;
  }

  SetExplorer* explorer_;
  const Positions* positions_;
  model::Random random_;
  std::vector<std::optional<std::uint32_t>> starts_;  // by way: its position before the first fill, as guessed so far
  std::vector<Seen> seen_;
  std::size_t tried_ = 0;
};

// The policy numbers its positions by the ways that start there.
model::Replacement as_policy(const Positions& positions, const std::vector<std::uint32_t>& starts) {
  const std::size_t ways = starts.size();
  std::vector<std::uint32_t> number(ways);
  for (std::size_t way = 0; way < ways; ++way) {
    number[starts[way]] = static_cast<std::uint32_t>(ways - 1 - way);
  }
  const auto numbered = [&](const Moves& moves) {
    std::vector<double> list(ways);
    for (std::size_t position = 0; position < ways; ++position) {
      list[number[position]] = number[moves[position]];
    }
    return list;
  };
  std::vector<std::vector<double>> hits(ways);
  for (std::size_t position = 0; position < ways; ++position) {
    hits[number[position]] = numbered(positions.after_hit[position]);
  }
  return model::Permutation::of(std::move(hits), numbered(positions.after_miss));
}

// Nothing: the explorer knows a word that the policy does not explain.
std::optional<LearnedPolicy> verified(SetExplorer& explorer, model::Replacement policy, const LearningLimits& limits,
                                      model::Random& random) {
  constexpr std::size_t share_for_errors = 10;
  if (!walks_agree(explorer, policy, limits.walks, random)) {
    return std::nullopt;
  }
  LearnedPolicy learned{.policy = std::move(policy), .states = {}, .extra_states = {}};
  const std::optional<MealyMachine> machine = as_machine(learned.policy, explorer.ways(), limits.states);
  if (machine) {
    const MealyMachine smallest = minimized(*machine);
    learned.states = smallest.states.size();
    if (accesses_to_conform(smallest, limits.extra_states + 1) <= static_cast<double>(explorer.accesses_left())) {
      learned.extra_states = extra_states_refuted(explorer, smallest, limits, random);
      if (!learned.extra_states) {
        return std::nullopt;
      }
    }
  }
  const std::size_t left = explorer.accesses_left() - explorer.accesses_left() / share_for_errors;
  if (!learned.extra_states && left < limits.fewest_random_accesses()) {
    throw NothingLearned(
        "a permutation policy explains all answers, and to make sure of it takes more accesses than "
        "are left");
  }
  if (!stretches_agree(explorer, learned.policy, std::min(limits.random_accesses, left), random)) {
    return std::nullopt;
  }
  return learned;
}

}  // namespace

LearnedPolicy permutation(SetExplorer& explorer, const LearningLimits& limits) {
  const Positions positions = PositionLearner(explorer).positions();
  const model::RandomStreams streams(limits.seed);
  FillLearner fills(explorer, positions, streams.random("fills"));
  model::Random random = streams.random("permutation");
  do {
    const std::optional<LearnedPolicy> learned =
        verified(explorer, as_policy(positions, fills.starts()), limits, random);
    if (learned) {
      return *learned;
    }
  } while (fills.is_contradicted());
  throw NothingLearned(no_permutation);
}

}  // namespace gpuinfer::infer
