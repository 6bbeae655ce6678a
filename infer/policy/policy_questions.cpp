// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/policy_questions.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "model/access_sequence.hpp"
#include "model/policies/automaton.hpp"
#include "model/policies/permutation.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

// More policies than these, or states of one, are not weighed one by one: a part of them ranks questions as well.
constexpr std::size_t most_weighed = 64;
constexpr std::size_t most_states_weighed = 6;

constexpr std::size_t longest_record = 800;

std::string named(const std::string& what, std::size_t lines) {
  return what + " over " + std::to_string(lines) + " lines";
}

// A question by itself, its clean start and its launch, is as much trouble as so many accesses.
constexpr double accesses_of_asking = 200;

SetLines first_lines(std::uint32_t count) {
  SetLines lines(count);
  std::iota(lines.begin(), lines.end(), 0U);
  return lines;
}

SetLines random_lines(std::uint32_t lines, std::size_t accesses, model::Random& random) {
  SetLines walk;
  while (walk.size() < accesses) {
    walk.push_back(static_cast<std::uint32_t>(random.below(lines)));
  }
  return walk;
}

// Half of the lines are loaded again at once, without which some policies hardly ever keep what is new.
SetLines walk_in_pairs(std::uint32_t lines, std::size_t accesses, model::Random& random) {
  SetLines walk;
  while (walk.size() < accesses) {
    const auto line = static_cast<std::uint32_t>(random.below(lines));
    walk.insert(walk.end(), 1 + random.below(2), line);
  }
  return walk;
}

// Fills the set, touches lines in it, brings new ones, and probes some; several rounds of the last three. What is new
// is loaded `times` in a row.
SetLines fill_touch_evict_probe(const SetFrame& frame, unsigned rounds, unsigned times, model::Random& random) {
  SetLines record;
  std::uint32_t next = 0;
  const auto bring = [&] {
    record.insert(record.end(), times, next);
    next = next + 1 == frame.recorded ? 0 : next + 1;
  };
  for (std::uint32_t line = 0; line < frame.ways; ++line) {
    bring();
  }
  for (unsigned round = 0; round < rounds; ++round) {
    for (std::uint64_t touches = random.below(frame.ways + 1); touches > 0; --touches) {
      record.push_back(static_cast<std::uint32_t>(random.below(frame.recorded)));
    }
    for (std::uint64_t fresh = 1 + random.below(frame.ways); fresh > 0; --fresh) {
      bring();
    }
    SetLines probed = first_lines(frame.recorded);
    random.shuffle(probed);
    record.insert(record.end(), probed.begin(), probed.begin() + (frame.ways + 1) / 2);
  }
  return record;
}

// Brings sets in line that were in different states before, with what hits and misses change. In a set that keeps its
// lines those are then replaced by others, each loaded twice, because some policies keep only what was hit. Whatever
// the seed, since a policy that was learned begins in the state after it, in whichever run it is used.
SetLines replacing_walk(std::uint32_t lines, std::uint32_t recorded) {
  constexpr std::size_t walk_rounds = 16;
  constexpr unsigned replacing_rounds = 2;
  model::Random random(0xc0de ^ lines);
  SetLines accesses = random_lines(lines, walk_rounds * lines, random);
  for (unsigned round = 0; round < replacing_rounds; ++round) {
    for (std::uint32_t line = recorded; line < lines; ++line) {
      accesses.insert(accesses.end(), 2, line);
    }
  }
  return accesses;
}

// With hits in between, a share of the accesses. The last line is filled last.
SetLines filling_walk(std::uint32_t lines, double hit_share, model::Random& random) {
  SetLines walk;
  for (std::uint32_t filled = 0; filled < lines;) {
    const bool hits = filled > 0 && random.unit() < hit_share;
    walk.push_back(hits ? static_cast<std::uint32_t>(random.below(filled)) : filled++);
  }
  return walk;
}

// The accesses to a full set may only exchange the states of a policy (they do under permutation policies), while the
// filling of an empty one brings some of them together, each time anew. What points at a way of the full set, as the
// hand of a clock does, takes long walks, which come last. Whatever the seed, too.
std::vector<SetLines> filling_walks(std::uint32_t ways, std::uint32_t lines) {
  constexpr std::size_t long_walks = 8;
  constexpr std::size_t short_walks = 24;
  constexpr std::size_t walk_rounds = 6;
  model::Random random(0xc0de ^ lines);
  std::vector<SetLines> walks;
  for (std::size_t walk = 0; walk < long_walks; ++walk) {
    walks.push_back(random_lines(lines, walk_rounds * lines, random));
  }
  for (std::size_t walk = 0; walk < short_walks; ++walk) {
    const double hit_share = 0.2 + 0.5 * random.unit();
    walks.insert(walks.begin(), filling_walk(std::min(ways, lines), hit_share, random));
  }
  return walks;
}

}  // namespace

SetStart start_of(const Interrogator& device) {
  if (device.starts_flooded()) {
    return SetStart::flooded;
  }
  return device.question({}, {}).state == model::StartState::clean ? SetStart::empty : SetStart::invalidated;
}

bool begins_conditioned(const model::Replacement& policy) {
  return policy.policy == model::Automaton::name || policy.policy == model::Permutation::name;
}

SetFrame frame_of(std::uint32_t ways, std::size_t lines, SetStart start, const model::RandomStreams& streams) {
  const auto known = static_cast<std::uint32_t>(lines);
  const std::uint32_t most_used = std::min(known, ways + std::max(2U, ways / 2));
  if (start == SetStart::flooded) {
    const std::uint32_t kept = 2 * ways;
    const std::uint32_t recorded = std::clamp(known > kept ? known - kept : 0, std::min(ways + 1, known), most_used);
    return {.ways = ways,
            .recorded = recorded,
            .lines = known,
            .conditioning = {replacing_walk(known, recorded)},
            .streams = streams};
  }
  const std::uint32_t few_more = std::min(known, ways + 1);
  return {.ways = ways,
          .recorded = most_used,
          .lines = most_used,
          .conditioning = start == SetStart::invalidated ? filling_walks(ways, few_more) : std::vector<SetLines>{},
          .streams = streams};
}

void PolicyOnSet::State::invalidate() {
  machine.invalidate();
  line_in.clear();
}

// Where a line was placed last it is, unless another one lies there by now.
bool PolicyOnSet::State::load(std::uint32_t line) {
  if (way_of.size() <= line) {
    way_of.resize(line + 1);
  }
  const std::uint32_t last_way = way_of[line];
  if (last_way < line_in.size() && line_in[last_way] == line) {
    machine.hit(last_way);
    return false;
  }
  const std::uint32_t way = machine.miss();
  if (way == line_in.size()) {
    line_in.push_back(line);
  } else {
    line_in[way] = line;
  }
  way_of[line] = way;
  return true;
}

PolicyOnSet::PolicyOnSet(const model::Replacement& policy, const SetFrame& frame, SetStart start, unsigned histories)
    : streams_(frame.streams), lines_(frame.lines), invalidates_(start == SetStart::invalidated) {
  const model::SetMachine machine(policy, frame.ways);
  if (start == SetStart::empty || (start == SetStart::invalidated && begins_conditioned(policy))) {
    states_.push_back({.machine = machine, .line_in = {}, .way_of = {}});
  } else {
    sample(machine, frame, start, histories);
  }
}

void PolicyOnSet::sample(const model::SetMachine& begin, const SetFrame& frame, SetStart start, unsigned histories) {
  model::Random random = frame.streams.random("states", frame.ways);
  for (unsigned i = 0; i < histories; ++i) {
    State& state = states_.emplace_back(State{.machine = begin, .line_in = {}, .way_of = {}});
    for (std::uint64_t phases = (start == SetStart::flooded ? 8 : 0) + random.below(8); phases > 0; --phases) {
      const auto lines = static_cast<std::uint32_t>(1 + random.below(frame.lines));
      const bool in_turn = random.below(2) == 0;
      const std::uint64_t accesses = random.below(std::uint64_t{4} * frame.ways);
      for (std::uint64_t access = 0; access < accesses; ++access) {
        state.load(static_cast<std::uint32_t>(in_turn ? access % lines : random.below(lines)));
      }
      if (start == SetStart::invalidated && random.below(2) == 0) {
        state.invalidate();
      }
    }
    if (start == SetStart::invalidated) {
      state.invalidate();
    } else {
      for (std::uint64_t stranger = random.below(std::uint64_t{4} * frame.ways); stranger > 0; --stranger) {
        state.load(static_cast<std::uint32_t>(frame.lines + stranger));
      }
    }
  }
  merge_states();
  for (const SetLines& walk : frame.conditioning) {
    for (std::size_t i = 0; i < walk.size(); ++i) {
      for (State& state : states_) {
        state.load(walk[i]);
      }
      if ((i + 1) % frame.ways == 0) {
        merge_states();
      }
    }
    for (State& state : states_) {
      if (start == SetStart::invalidated) {
        state.invalidate();
      }
    }
    merge_states();
  }
}

void PolicyOnSet::merge_states() {
  std::vector<State> merged;
  std::map<std::vector<std::uint32_t>, std::size_t> places;
  for (State& state : states_) {
    std::vector<std::uint32_t> key = state.line_in;
    state.machine.append_state(key);
    const auto [known, is_new] = places.emplace(std::move(key), merged.size());
    if (is_new) {
      merged.push_back(std::move(state));
    } else {
      merged[known->second].weight += state.weight;
    }
  }
  states_ = std::move(merged);
}

std::vector<Prediction> PolicyOnSet::predict(const SetLines& record, std::size_t most_states) const {
  return predict({}, record, most_states);
}

std::vector<Prediction> PolicyOnSet::predict(const std::vector<SetLines>& primer, const SetLines& record,
                                             std::size_t most_states) const {
  std::map<Outcomes, std::size_t> states_of;
  for (std::size_t i = 0; i < std::min(most_states, states_.size()); ++i) {
    State state = states_[i];
    for (const SetLines& part : primer) {
      std::ranges::for_each(part, [&](std::uint32_t line) { state.load(line); });
      state.invalidate();
    }
    Outcomes missed;
    missed.reserve(record.size());
    for (const std::uint32_t line : record) {
      missed.push_back(state.load(line));
    }
    states_of[std::move(missed)] += state.weight;
  }
  std::vector<Prediction> predictions;
  for (const auto& [missed, states] : states_of) {
    predictions.push_back({.missed = missed, .states = states});
  }
  return predictions;
}

// All pairs of states that the same accesses lead to, as in model::compare(), but from any two states.
class PolicyOnSet::Bisimulation {
 public:
  // `limits` outlives it.
  Bisimulation(bool invalidates, const FollowLimits& limits) : invalidates_(invalidates), limits_(&limits) {}

  // As PolicyOnSet::accesses_alike(), of two states. What was found alike before is not followed again. When too many
  // pairs were followed in vain, everything else counts as different.
  std::optional<unsigned> accesses_alike(const State& a, const State& b) {
    met_.clear();
    waiting_.clear();
    depth_limit_.reset();
    parting_.reset();
    if (a.line_in.size() != b.line_in.size() || followed_in_vain_ > limits_->most_pairs) {
      return 0;
    }
    Pair begin{.a = a.machine, .b = b.machine, .way_in_b = {}};
    for (const std::uint32_t line : a.line_in) {
      const auto found = std::find(b.line_in.begin(), b.line_in.end(), line);
      if (found == b.line_in.end()) {
        return 0;
      }
      begin.way_in_b.push_back(static_cast<std::uint32_t>(found - b.line_in.begin()));
    }
    constexpr std::size_t pairs_between_checks = 64;
    for (reach(std::move(begin)); !waiting_.empty() && !depth_limit_; waiting_.pop_front()) {
      if (++followed_ % pairs_between_checks == 0) {
        limits_->check_limits();
      }
      if (!follow(waiting_.front())) {
        followed_in_vain_ += met_.size();
        parting_ = std::move(waiting_.front().inputs);
        return 0;
      }
    }
    if (!depth_limit_) {
      alike_.merge(met_);
    }
    return depth_limit_;
  }

  // What leads from the two states to a miss for which they replace different lines, where that was found.
  [[nodiscard]] const std::optional<std::vector<Input>>& parting() const { return parting_; }

 private:
  struct Pair {
    model::SetMachine a;
    model::SetMachine b;
    std::vector<std::uint32_t> way_in_b;  // by way of `a`
    std::vector<Input> inputs = {};
  };

  void reach(Pair pair) {
    std::vector<std::uint32_t> key = pair.way_in_b;
    pair.a.append_state(key);
    pair.b.append_state(key);
    if (alike_.contains(key) || met_.contains(key)) {
      return;
    }
    if (alike_.size() + met_.size() == limits_->most_pairs) {
      depth_limit_ = depth_limit_.value_or(static_cast<unsigned>(pair.inputs.size()));
    } else {
      met_.insert(std::move(key));
      waiting_.push_back(std::move(pair));
    }
  }

  // False when one more miss replaces different lines.
  bool follow(const Pair& pair) {
    for (std::uint32_t way = 0; way < pair.a.filled(); ++way) {
      Pair next = after(pair, {.kind = InputKind::hit, .way = way});
      next.a.hit(way);
      next.b.hit(pair.way_in_b[way]);
      reach(std::move(next));
    }
    Pair next = after(pair, {.kind = InputKind::miss});
    const std::uint32_t way_in_a = next.a.miss();
    const std::uint32_t way_in_b = next.b.miss();
    if (way_in_a == next.way_in_b.size()) {
      next.way_in_b.push_back(way_in_b);
    } else if (next.way_in_b[way_in_a] != way_in_b) {
      return false;
    }
    reach(std::move(next));
    if (invalidates_) {
      Pair emptied = after(pair, {.kind = InputKind::invalidation});
      emptied.a.invalidate();
      emptied.b.invalidate();
      emptied.way_in_b.clear();
      reach(std::move(emptied));
    }
    return true;
  }

  static Pair after(const Pair& pair, Input input) {
    Pair next = pair;
    next.inputs.push_back(input);
    return next;
  }

  bool invalidates_;
  const FollowLimits* limits_;
  std::size_t followed_in_vain_ = 0;
  std::size_t followed_ = 0;
  std::set<std::vector<std::uint32_t>> alike_;
  std::set<std::vector<std::uint32_t>> met_;
  std::deque<Pair> waiting_;
  std::optional<unsigned> depth_limit_;
  std::optional<std::vector<Input>> parting_;
};

SetLines PolicyOnSet::State::walked(model::Random random) const {
  const std::uint32_t lines = machine.ways() + std::max(2U, machine.ways() / 2);
  return random_lines(lines, std::size_t{20} * lines, random);
}

// What a state answers to a walk, and so only to be compared with states that answer the same.
Outcomes PolicyOnSet::State::walk(model::Random random) const {
  State state = *this;
  Outcomes missed;
  for (const std::uint32_t line : walked(std::move(random))) {
    missed.push_back(state.load(line));
  }
  return missed;
}

const std::multimap<Outcomes, const PolicyOnSet::State*>& PolicyOnSet::by_walk() const {
  if (by_walk_.empty()) {
    for (const State& state : states_) {
      by_walk_.emplace(state.walk(walk_that_sorts()), &state);
    }
  }
  return by_walk_;
}

std::optional<unsigned> PolicyOnSet::accesses_alike(const PolicyOnSet& other, const FollowLimits& limits) const {
  Bisimulation bisimulation(invalidates_, limits);
  std::optional<unsigned> fewest;
  for (const auto& [walked, theirs] : other.by_walk()) {
    const auto [first, last] = by_walk().equal_range(walked);
    if (first == last) {
      return 0;
    }
    // Of a policy with too many states one start was followed as far as can be, and the walk is asked of the others.
    if (fewest) {
      continue;
    }
    std::optional<unsigned> most = 0;
    for (auto candidate = first; candidate != last && most == 0U; ++candidate) {
      most = bisimulation.accesses_alike(*candidate->second, *theirs);
    }
    if (most == 0U) {
      return 0;
    }
    fewest = most;
  }
  return fewest;
}

std::optional<PolicyQuestion> PolicyOnSet::difference(const PolicyOnSet& other, const FollowLimits& limits) const {
  Bisimulation bisimulation(invalidates_, limits);
  for (const auto& [walked, theirs] : other.by_walk()) {
    const auto [first, last] = by_walk().equal_range(walked);
    if (first == last) {
      SetLines walk = theirs->walked(walk_that_sorts());
      return std::ranges::max(walk) < lines_ ? std::optional(PolicyQuestion{.name = "random walk", .record = walk})
                                             : std::nullopt;
    }
    std::optional<PolicyQuestion> question;
    bool is_alike = false;
    for (auto candidate = first; candidate != last && !is_alike; ++candidate) {
      is_alike = bisimulation.accesses_alike(*candidate->second, *theirs) != 0U;
      if (!is_alike && !question && bisimulation.parting()) {
        question = question_of(*candidate->second, *bisimulation.parting());
      }
    }
    if (!is_alike) {
      return question;
    }
  }
  return std::nullopt;
}

std::optional<PolicyQuestion> PolicyOnSet::question_of(State state, const std::vector<Input>& inputs) const {
  PolicyQuestion question{.name = "shortest sequence found", .record = {}};
  const auto load = [&](std::uint32_t line) {
    question.record.push_back(line);
    state.load(line);
  };
  const auto is_here = [&](std::uint32_t line) {
    return std::ranges::find(state.line_in, line) != state.line_in.end();
  };
  const auto miss = [&] {
    std::uint32_t line = 0;
    while (is_here(line)) {
      ++line;
    }
    load(line);
  };
  for (const Input& input : inputs) {
    switch (input.kind) {
      case InputKind::hit:
        load(state.line_in[input.way]);
        break;
      case InputKind::miss:
        miss();
        break;
      case InputKind::invalidation:
        if (!question.record.empty()) {
          question.primer.push_back(std::exchange(question.record, {}));
        }
        state.invalidate();
        break;
    }
  }
  const SetLines before = state.line_in;
  miss();
  // Of the two lines that are given up the one that this state gives up.
  load(*std::ranges::find_if_not(before, is_here));
  const auto is_asked = [&](const SetLines& part) { return std::ranges::max(part) < lines_; };
  return is_asked(question.record) && std::ranges::all_of(question.primer, is_asked) ? std::optional(question)
                                                                                     : std::nullopt;
}

std::optional<unsigned> PolicyOnSet::accesses_mirrored(const model::Replacement& a, const model::Replacement& b,
                                                       std::uint32_t ways, const FollowLimits& limits) {
  constexpr unsigned passes = 8;
  const SetLines lines = first_lines(ways);
  State forwards{.machine = model::SetMachine(a, ways), .line_in = {}, .way_of = {}};
  State backwards{.machine = model::SetMachine(b, ways), .line_in = {}, .way_of = {}};
  std::for_each(lines.begin(), lines.end(), [&](std::uint32_t line) { forwards.load(line); });
  std::for_each(lines.rbegin(), lines.rend(), [&](std::uint32_t line) { backwards.load(line); });
  for (unsigned pass = 0; pass < passes; ++pass) {
    for (const std::uint32_t line : lines) {
      forwards.load(line);
      backwards.load(line);
    }
  }
  return Bisimulation(false, limits).accesses_alike(forwards, backwards);
}

bool is_saturated(std::span<const Prediction> predictions) {
  return predictions.size() == 1 ||
         std::all_of(predictions.begin(), predictions.end(), [](const Prediction& each) { return each.states > 1; });
}

std::vector<PolicyQuestion> question_pool(const SetFrame& frame, std::uint64_t draw) {
  model::Random random = frame.streams.random("questions", draw);
  std::vector<PolicyQuestion> pool;
  for (std::uint32_t lines = frame.ways + 1; lines <= frame.recorded; lines += std::max(1U, frame.ways / 4)) {
    SetLines chase;
    for (unsigned round = 0; round < 3; ++round) {
      const SetLines once = first_lines(lines);
      chase.insert(chase.end(), once.begin(), once.end());
    }
    pool.push_back({.name = named("chase", lines), .record = std::move(chase)});
    for (const std::uint32_t lengths : {2U, 4U, 8U, 16U}) {
      const std::size_t accesses = std::size_t{lengths} * std::max(4U, frame.ways);
      if (accesses <= longest_record) {
        pool.push_back({.name = named("random walk", lines), .record = random_lines(lines, accesses, random)});
      }
    }
  }
  for (const unsigned rounds : {1U, 1U, 2U, 2U, 4U, 4U, 6U, 8U}) {
    SetLines record = fill_touch_evict_probe(frame, rounds, 1, random);
    if (record.size() <= longest_record) {
      pool.push_back({.name = named("fill, touch, drive out, probe", frame.recorded), .record = std::move(record)});
    }
  }
  return pool;
}

std::vector<PolicyQuestion> pool_in_pairs(const SetFrame& frame, std::uint64_t draw) {
  model::Random random = frame.streams.random("questions in pairs", draw);
  std::vector<PolicyQuestion> pool;
  const auto add = [&](const std::string& what, SetLines record) {
    if (record.size() <= longest_record) {
      pool.push_back({.name = named(what, frame.recorded), .record = std::move(record)});
    }
  };
  for (const std::size_t lengths : {4U, 8U, 16U}) {
    add("walk in pairs", walk_in_pairs(frame.recorded, lengths * std::max(4U, frame.ways), random));
  }
  for (const unsigned rounds : {1U, 2U, 4U, 8U}) {
    add("fill, touch, drive out in pairs, probe", fill_touch_evict_probe(frame, rounds, 2, random));
  }
  return pool;
}

namespace {

template <class Walk>
PolicyQuestion long_question(const std::string& what, const SetFrame& frame, std::uint64_t draw, const Walk& walk) {
  model::Random random = frame.streams.random(what, draw);
  const std::uint32_t lines = std::min(frame.recorded, frame.ways + std::max(1U, frame.ways / 3));
  const std::size_t accesses = std::clamp<std::size_t>(std::size_t{8} * lines, 120, 500);
  return {.name = "long " + what + " over " + std::to_string(lines) + " lines",
          .record = walk(lines, accesses, random)};
}

}  // namespace

PolicyQuestion long_walk(const SetFrame& frame, std::uint64_t draw) {
  return long_question("random walk", frame, draw, random_lines);
}

PolicyQuestion long_returning_walk(const SetFrame& frame, std::uint64_t draw) {
  return long_question("returning walk", frame, draw, model::returning_walk);
}

PolicyQuestion chase_past_ways(const SetFrame& frame) {
  const std::uint32_t lines = std::min(frame.recorded, frame.ways + 1);
  SetLines record = first_lines(lines);
  record.insert(record.end(), record.begin(), record.begin() + lines);
  return {.name = named("chase", lines), .record = std::move(record)};
}

std::optional<RankedQuestion> most_informative(std::span<const PolicyQuestion> pool,
                                               std::span<const PolicyOnSet* const> policies, unsigned readings) {
  const std::size_t step = std::max<std::size_t>(1, (policies.size() + most_weighed - 1) / most_weighed);
  std::optional<RankedQuestion> best;
  double best_worth = 0;
  for (const PolicyQuestion& question : pool) {
    std::map<std::vector<Outcomes>, std::size_t> groups;
    std::size_t weighed = 0;
    for (std::size_t i = 0; i < policies.size(); i += step) {
      std::vector<Outcomes> answers;
      for (Prediction& prediction : policies[i]->predict(question.record, most_states_weighed)) {
        answers.push_back(std::move(prediction.missed));
      }
      ++groups[std::move(answers)];
      ++weighed;
    }
    double bits = 0;
    for (const auto& [answers, count] : groups) {
      const double share = static_cast<double>(count) / static_cast<double>(weighed);
      bits -= share * std::log2(share);
    }
    const double worth = bits / (accesses_of_asking + static_cast<double>(readings * question.record.size()));
    if (groups.size() > 1 && worth > best_worth) {
      best_worth = worth;
      best = {.question = question, .bits = bits, .groups = groups.size()};
    }
  }
  return best;
}

}  // namespace gpuinfer::infer
