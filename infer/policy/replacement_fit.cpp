// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/replacement_fit.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "infer/asking/thresholds.hpp"
#include "infer/policy/bimodal_fit.hpp"
#include "infer/policy/conformance.hpp"
#include "infer/policy/learned_automaton.hpp"
#include "infer/policy/policy_search.hpp"
#include "infer/policy/pseudo_random.hpp"
#include "infer/policy/repeatability.hpp"
#include "infer/policy/stochastic_fit.hpp"
#include "infer/policy/victim_order.hpp"
#include "infer/policy/victims.hpp"
#include "model/errors.hpp"
#include "model/policy_traits.hpp"

namespace gpuinfer::infer {

namespace {

using model::Replacement;

constexpr std::size_t most_sets_searched = 4;
constexpr std::size_t most_sets_checked = 64;
constexpr const char* several_explain = "several policies explain all answers";

Replacement policy(std::string name) { return {.policy = std::move(name), .parameters = {}, .equivalent = {}}; }

// Sets that differ in ways come first, then others.
std::vector<const ConflictClass*> sets_to_try(const std::vector<ConflictClass>& sets, std::size_t most) {
  std::vector<const ConflictClass*> chosen;
  const auto add_if = [&](auto wanted) {
    for (const ConflictClass& set : sets) {
      const bool there = std::find(chosen.begin(), chosen.end(), &set) != chosen.end();
      if (chosen.size() < most && !there && wanted(set)) {
        chosen.push_back(&set);
      }
    }
  };
  add_if([&](const ConflictClass& set) {
    return set.ways > 1 && std::none_of(chosen.begin(), chosen.end(),
                                        [&](const ConflictClass* other) { return other->ways == set.ways; });
  });
  add_if([](const ConflictClass& set) { return set.ways > 1; });
  return chosen;
}

// With a single way there is nothing to choose, and every policy that can have one does the same.
Replacement nothing_to_choose() {
  Replacement first;
  const std::vector<Replacement> drawn = model::policies_of_shares({1}, {1});
  for (const std::string_view name : model::policy_names()) {
    const auto found = std::ranges::find(drawn, name, &Replacement::policy);
    Replacement other = found != drawn.end() ? *found : policy(std::string(name));
    try {
      model::check(other, {1});
    } catch (const InputError&) {
      continue;
    }
    if (first.policy.empty()) {
      first = std::move(other);
    } else {
      first.equivalent.push_back(other.policy);
    }
  }
  return first;
}

std::vector<const ConflictClass*> others_than(const std::vector<ConflictClass>& sets,
                                              const std::vector<const ConflictClass*>& tried) {
  std::vector<const ConflictClass*> others = sets_to_try(sets, most_sets_checked);
  std::erase_if(others,
                [&](const ConflictClass* set) { return std::find(tried.begin(), tried.end(), set) != tried.end(); });
  return others;
}

bool starts_empty(const Interrogator& device) { return start_of(device) == SetStart::empty; }

std::vector<Replacement> hypotheses_for(const std::vector<const ConflictClass*>& sets) {
  std::vector<std::uint32_t> ways;
  for (const ConflictClass* set : sets) {
    ways.push_back(set->ways);
  }
  return model::guessed_policies(ways);
}

std::string joined_names(const std::vector<Replacement>& policies) {
  std::string names;
  for (const Replacement& each : policies) {
    names += (names.empty() ? "" : " or ") + model::to_text(each);
  }
  return names;
}

// Walks meet some states of a set hardly ever, so each is tried in one set of every number of ways.
bool conforms_everywhere(Interrogator& device, const std::vector<const ConflictClass*>& sets, const Replacement& policy,
                         ReplacementFit& fit) {
  device.inquire("every state of " + model::to_text(policy) + ", and every access after it",
                 "another machine of few states may differ only where walks hardly ever come");
  std::optional<unsigned> extra_states;
  std::set<std::uint32_t> tried;
  for (const ConflictClass* set : sets) {
    if (!tried.insert(set->ways).second) {
      continue;
    }
    const Conformance conformance = check_conformance(device, *set, policy);
    if (!conformance.holds) {
      device.learned("a set of " + std::to_string(set->ways) + " ways is not " + model::to_text(policy), 1, 0);
      return false;
    }
    const bool is_first = tried.size() == 1;
    extra_states = is_first ? conformance.extra_states : std::min(extra_states, conformance.extra_states);
  }
  if (extra_states) {
    fit.details.conformance_extra_states = *extra_states;
  }
  device.learned(extra_states ? "all are as predicted, and no machine of at most " + std::to_string(*extra_states) +
                                    " states more is the same"
                              : "nothing speaks against it, and there are too many to try them all",
                 1, 1);
  return true;
}

// What the sets do that no known deterministic policy does.
class OutsideTheLibrary {
 public:
  OutsideTheLibrary(Interrogator& device, const std::vector<ConflictClass>& sets,
                    const std::vector<const ConflictClass*>& tried, PolicySearch& search, ReplacementFit& fit)
      : device_(&device), sets_(&sets), tried_(&tried), search_(&search), fit_(&fit) {}

  void find() {
    const ConflictClass& odd_one = *search_->answers().back().set;
    device_->inquire("a long walk over the set that was left unexplained, six times on end",
                     "no policy explains its answers; do they repeat at all?");
    const bool deterministic = repeats_when_conditioned(odd_one);
    device_->learned(deterministic ? "the answers repeat" : "the answers do not repeat");
    if (fit_->details.deterministic->has_value()) {
      fit_->details.deterministic = deterministic;
    }
    if (!deterministic) {
      find_chance(odd_one, walk_over(*device_, odd_one, 7));
      if (!starts_empty(*device_) && fit_->candidates.empty()) {
        fit_->details.deterministic.emplace();
        fit_->reason += "; or a policy whose states no start that the device offers sets";
      }
      return;
    }
    // A wrong place far back in the order hardly ever shows, so each is read twice, which a flood in between prevents.
    if (!device_->starts_flooded() && is_ordered(odd_one)) {
      return;
    }
    // A coin that rarely falls to one side may not have done so in the walk.
    if (auto bimodal = fit_bimodal(*device_, sets_to_try(*sets_, most_sets_checked), fit_->details)) {
      *fit_ = *std::move(bimodal);
      return;
    }
    if (is_adaptive() || (!device_->starts_flooded() && is_learned(odd_one)) ||
        (starts_empty(*device_) && is_generated(odd_one))) {
      return;
    }
    fit_->reason =
        "evictions are deterministic but match no known policy" + (not_learned_.empty() ? "" : "; " + not_learned_);
  }

 private:
  [[nodiscard]] bool repeats_when_conditioned(const ConflictClass& set) {
    const Primer conditioning = search_->conditioning_of(set);
    const Priming priming(*device_, conditioning);
    return repeats_for_long(*device_, set, [&](AccessSequence walk) {
      return device_->starts_flooded() ? device_->question_unflooded(conditioning.front(), std::move(walk))
                                       : device_->question({}, std::move(walk));
    });
  }

  void find_chance(const ConflictClass& set, const model::Question& walk) {
    device_->inquire("the same walk again and again", "what does not repeat is random or changes with time");
    // A policy that changes often does so within a long walk, too; short ones are answered by one policy.
    model::Question short_walk = walk;
    short_walk.record.resize(std::min<std::size_t>(walk.record.size(), std::size_t{5} * set.ways));
    if (answers_come_in_order(*device_, walk) || answers_come_in_order(*device_, short_walk)) {
      device_->learned("the answers come in an order");
      // So they do, too, where a question takes about a whole number of periods of a generator.
      if (!(starts_empty(*device_) && is_generated(set))) {
        fit_->reason = "adaptive: the same question has a few answers, which come in an order";
      }
      return;
    }
    device_->learned("the answers come in no order");
    *fit_ = fit_stochastic(*device_, sets_to_try(*sets_, most_sets_checked), fit_->details);
  }

  bool is_adaptive() {
    const SetAnswer& odd_one = search_->answers().back();
    if (tried_->size() > 1 && !device_->starts_flooded()) {
      device_->inquire(odd_one.question.name + ", with and without accesses to other sets before",
                       "sets that duel, or share a generator, change with what is asked of others");
      const SetAnswer beside_others = search_->ask_anew(odd_one, true);
      const SetAnswer alone = search_->ask_anew(odd_one, false);
      if (search_->differ(beside_others, alone)) {
        const std::string found = "what a set does depends on what was asked of other sets before";
        device_->learned(found);
        if (!is_generated(*odd_one.set)) {
          fit_->reason = "adaptive: " + found;
        }
        return true;
      }
      device_->learned("the answer is the same");
    }
    device_->inquire("the first question once more", "a policy that drifts answers otherwise by now");
    const SetAnswer& first = search_->answers().front();
    if (search_->differ(first, search_->ask_anew(first, true))) {
      return adaptive("the same question is answered otherwise later");
    }
    device_->learned("the answer is the same");
    return tried_->size() > 1 && sets_differ();
  }

  bool adaptive(const std::string& why) {
    fit_->reason = "adaptive: " + why;
    device_->learned(fit_->reason);
    return true;
  }

  // Each set by itself may follow a policy that is known.
  bool sets_differ() {
    std::set<std::string> found;
    for (const ConflictClass* set : *tried_) {
      PolicySearch search(*device_, {set}, {}, hypotheses_for({set}));
      search.narrow();
      search.confirm();
      found.insert(search.are_proven() ? joined_names(search.survivors()) : "");
    }
    if (found.size() < 2) {
      return false;
    }
    std::string names;
    for (const std::string& name : found) {
      names += (names.empty() ? "" : "; ") + (name.empty() ? "none that is known here" : name);
    }
    fit_->reason = "adaptive: sets follow different policies: " + names;
    return true;
  }

  // An order of the ways is none of the library's guesses, as there are too many, but the victims tell it.
  bool is_ordered(const ConflictClass& set) {
    device_->inquire("misses alone on a full set", "the ways may go in an order of their own");
    const Priming priming(*device_, search_->conditioning_of(set));
    std::vector<Replacement> ordered = ordered_policies(oracle_of(*device_, set), set.ways, set.lines.size(),
                                                        most_accesses(set.ways), start_of(*device_));
    device_->learned(ordered.empty() ? "a way goes again before all others went" : "the ways go in an order", {},
                     ordered.size());
    if (ordered.empty() || !has_equal_ways()) {
      return false;
    }
    PolicySearch search(*device_, *tried_, others_than(*sets_, *tried_), std::move(ordered));
    search.narrow();
    search.confirm();
    search.check_others();
    const std::vector<Replacement> survivors = search.survivors();
    if (survivors.empty() || !search.are_proven() ||
        (survivors.size() == 1 && starts_empty(*device_) &&
         !conforms_everywhere(*device_, *tried_, survivors.front(), *fit_))) {
      return false;
    }
    fit_->candidates = survivors;
    if (survivors.size() > 1) {
      fit_->reason = several_explain;
    }
    return true;
  }

  [[nodiscard]] bool has_equal_ways() const {
    return std::all_of(tried_->begin(), tried_->end(),
                       [&](const ConflictClass* set) { return set->ways == tried_->front()->ways; });
  }

  bool is_learned(const ConflictClass& set) {
    constexpr std::uint32_t most_ways = 32;
    // One machine in 70 that passes all other tests is wrong, and shows in 2,400 of these accesses (median; at most
    // 20,000 of 113 that were tried).
    constexpr std::size_t random_accesses = 100'000;
    constexpr std::size_t random_accesses_per_state = 3'000;
    if (set.ways > most_ways) {
      return false;
    }
    LearningLimits limits;
    limits.seed = device_->settings().seed;
    limits.accesses = most_accesses(set.ways);
    limits.random_accesses = random_accesses;
    limits.random_accesses_per_state = random_accesses_per_state;
    device_->inquire("sequences that learn a machine", "no known policy explains the set, and its answers repeat");
    const Learning learning = learn_conditioned(set, limits);
    fit_->details.learning_sequences = learning.sequences;
    fit_->details.learning_accesses = learning.accesses;
    if (!learning.learned) {
      not_learned_ = "no machine was learned: " + learning.reason;
      device_->learned(not_learned_);
      return false;
    }
    const LearnedPolicy& learned = *learning.learned;
    fit_->details.learned_states = learned.states;
    fit_->details.learned_conformance_extra_states = learned.extra_states;
    device_->learned("a machine: " + learned.policy.policy);
    return holds_elsewhere(learned.policy);
  }

  // Many questions follow, and the last walks of the conditioning may do for them. What is learned begins in the state
  // that all the walks lead to as well. A state that a set is hardly ever in shows only among the many questions.
  [[nodiscard]] Learning learn_conditioned(const ConflictClass& set, LearningLimits limits) {
    const Primer whole = search_->conditioning_of(set);
    Learning all;
    for (std::size_t walks = std::min<std::size_t>(1, whole.size());; walks = more_walks(walks, whole.size())) {
      const Primer last(whole.end() - static_cast<std::ptrdiff_t>(walks), whole.end());
      const bool is_whole = walks == whole.size();
      if (!is_whole && !forgets_what_was_before(*device_, set, last)) {
        continue;
      }
      const Priming priming(*device_, last);
      Learning learning = learn_policy(oracle_of(*device_, set), set.ways, set.lines.size(), limits);
      limits.accesses -= std::min(limits.accesses, learning.accesses);
      learning.sequences += all.sequences;
      learning.accesses += all.accesses;
      learning.round_trips += all.round_trips;
      all = std::move(learning);
      if (all.learned || all.repeats || is_whole || limits.accesses == 0) {
        return all;
      }
    }
  }

  static std::size_t more_walks(std::size_t walks, std::size_t most) {
    return std::min(most, walks + std::max<std::size_t>(1, walks / 2));
  }

  bool holds_elsewhere(const Replacement& learned) {
    if (!has_equal_ways()) {
      not_learned_ = "a machine was learned for sets of one kind only";
      return false;
    }
    PolicySearch search(*device_, *tried_, others_than(*sets_, *tried_), {learned});
    search.confirm();
    search.check_others();
    if (search.survivors().empty()) {
      fit_->reason = "adaptive: the machine that was learned of one set does not explain " +
                     std::string(search.answers().back().has_context ? "it after accesses to others" : "the others");
      return true;
    }
    fit_->candidates = search.survivors();
    return true;
  }

  // A generator that a clean start sets back repeats itself exactly. So does every machine, but soon.
  bool is_generated(const ConflictClass& set) {
    constexpr std::size_t chase_accesses = 8000;
    device_->inquire("victims of a long chase", "a generator of pseudo-random victims repeats from a clean start");
    const auto generator = find_generator(observe_long(*device_, set, chase_accesses, 2), set.ways);
    device_->learned(generator ? "the victims " + to_text(*generator) : "nothing betrays a generator");
    if (!generator) {
      return false;
    }
    fit_->details.period = generator->period_victims;
    fit_->details.linear_complexity = generator->linear_complexity;
    if (!generator->linear_complexity && generator->period_victims.value_or(0) <= std::size_t{4} * set.ways) {
      return false;
    }
    fit_->reason =
        "pseudo-random: the victims " + to_text(*generator) + (not_learned_.empty() ? "" : "; " + not_learned_);
    return true;
  }

  // Any machine of few ways may be learned, and of many ways hardly more than permutation policies.
  [[nodiscard]] std::size_t most_accesses(std::uint32_t ways) const {
    constexpr std::uint32_t few_ways = 6;
    std::size_t most = ways <= few_ways ? 2'000'000 : 1'500'000;
    if (const auto budget = device_->settings().budget_accesses) {
      most = std::min(most, (*budget - std::min<std::size_t>(*budget, device_->accesses_asked())) / 2);
    }
    return most / device_->votes_needed();
  }

  Interrogator* device_;
  const std::vector<ConflictClass>* sets_;
  const std::vector<const ConflictClass*>* tried_;
  PolicySearch* search_;
  ReplacementFit* fit_;
  std::string not_learned_;
};

}  // namespace

ReplacementFit fit_replacement(Interrogator& device, const std::vector<ConflictClass>& sets) {
  ReplacementFit fit;
  const std::vector<const ConflictClass*> tried = sets_to_try(sets, most_sets_searched);
  if (tried.empty()) {
    fit.candidates.push_back(nothing_to_choose());
    fit.details.deterministic = true;
    return fit;
  }
  const double strays = device.classifier().hit_misread_rate() + device.classifier().miss_misread_rate();
  fit.details.deterministic = strays > 2 * most_misread ? std::nullopt : std::optional(true);

  std::vector<Replacement> hypotheses = hypotheses_for(tried);
  fit.details.policies_tried = hypotheses.size();
  PolicySearch search(device, tried, others_than(sets, tried), std::move(hypotheses));
  search.narrow();
  fit.details.sequences_to_narrow = search.sequences();
  search.confirm();
  search.check_others();
  if (search.survivors().empty()) {
    OutsideTheLibrary(device, sets, tried, search, fit).find();
    return fit;
  }
  // A coin that rarely falls to one side may not have done so in the search.
  const std::vector<Replacement> survivors = search.survivors();
  if (std::any_of(survivors.begin(), survivors.end(), [&](const Replacement& survivor) {
        return new_lines_stay_at_times(device, *tried.front(), survivor);
      })) {
    fit.details.deterministic = false;
    if (auto bimodal = fit_bimodal(device, sets_to_try(sets, most_sets_checked), fit.details)) {
      return *std::move(bimodal);
    }
    fit.reason = "as " + model::to_text(survivors.front()) +
                 ", but now and then a new line stays, and no coin that is known here explains when";
    return fit;
  }
  if (survivors.size() == 1 && starts_empty(device) && !conforms_everywhere(device, tried, survivors.front(), fit)) {
    OutsideTheLibrary(device, sets, tried, search, fit).find();
    return fit;
  }
  if (search.alike_for_accesses()) {
    fit.details.equivalent_for_accesses = *search.alike_for_accesses();
  }
  fit.candidates = search.survivors();
  if (fit.candidates.size() > 1) {
    fit.reason = several_explain;
  } else if (!search.are_proven()) {
    fit.reason = model::to_text(fit.candidates.front()) +
                 " may remain, in one of more states than can be followed from a start that is not clean";
    fit.candidates.clear();
  }
  return fit;
}

}  // namespace gpuinfer::infer
