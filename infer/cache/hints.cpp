// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/hints.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "infer/asking/settle_claim.hpp"
#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/asking/written_leaf.hpp"
#include "infer/cache/conclude.hpp"
#include "infer/cache/fresh_questions.hpp"
#include "infer/cache/mixed_questions.hpp"
#include "infer/policy/policy_questions.hpp"
#include "model/hinted_cache.hpp"
#include "model/number_text.hpp"
#include "model/policies/lru.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

using model::AccessKind;
using model::CacheDescription;
using model::Hints;
using model::SetAside;

constexpr std::uint32_t most_ways_of_hints = 64;
constexpr int rounds_of_flush = 3;
constexpr std::uint32_t fewest_lines_of_sequence = 3;  // that sequences are drawn from; few ways may be left to them
constexpr std::uint32_t most_more_lines = 8;           // than fit

// Accesses to lines of few sets, and of each what it is. What begins it is not judged.
struct HintedSequence {
  Pool pool;
  Offsets lines;  // that are judged
  AccessSequence record;
  std::vector<AccessKind> kinds;
  std::size_t judged_from = 0;

  void access(std::uint64_t line, AccessKind kind) {
    record.push_back(line);
    kinds.push_back(kind);
  }
};

using Sets = std::vector<std::uint32_t>;

std::uint32_t any_set(const CacheDescription& cache, model::Random& random) {
  return static_cast<std::uint32_t>(random.below(cache.ways->size()));
}

// Of each of these sets lines by chance, as many as there are up to `most`, and as many again as fit; the latter have
// passed often enough to be alone in the set, protected as far as that goes, if that is asked for. A set that has fewer
// than `fewest` beside those is left out. None: all are.
std::optional<HintedSequence> begun(const Interrogator& device, const CacheDescription& cache, const Sets& sets,
                                    std::size_t fewest, std::size_t most, bool flushes, model::Random& random) {
  std::vector<std::uint32_t> asked(cache.ways->size());
  for (const std::uint32_t set : sets) {
    asked[set] = static_cast<std::uint32_t>(most) + (*cache.ways)[set];
  }
  HintedSequence sequence{
      .pool = pool_of_lines(device, cache, asked, everywhere, random), .lines = {}, .record = {}, .kinds = {}};
  for (const std::uint32_t set : sets) {
    Offsets& of_set = sequence.pool.asked[set];
    const std::uint32_t ways = (*cache.ways)[set];
    if (of_set.size() < fewest + ways) {
      continue;
    }
    random.shuffle(of_set);
    const auto others = of_set.end() - static_cast<std::ptrdiff_t>(ways);
    sequence.lines.insert(sequence.lines.end(), of_set.begin(), others);
    for (int round = 0; flushes && round < rounds_of_flush; ++round) {
      for (const AccessKind kind : {AccessKind::evict_last, AccessKind::load}) {
        std::for_each(others, of_set.end(), [&](std::uint64_t line) { sequence.access(line, kind); });
      }
    }
  }
  if (sequence.lines.empty()) {
    return std::nullopt;
  }
  sequence.judged_from = sequence.record.size();
  return sequence;
}

// Loads often or rarely with a hint, of lines by chance or in turn: then a line comes back when all others have passed.
template <class Hint>
void load_by_chance(HintedSequence& sequence, std::size_t accesses, Hint hint, model::Random& random) {
  constexpr std::array<std::uint64_t, 4> one_hint_in{2, 4, 8, 16};
  const std::uint64_t rarity = one_hint_in[random.below(one_hint_in.size())];
  const bool in_turn = random.below(2) == 0;
  for (std::size_t i = 0; i < accesses; ++i) {
    const std::size_t line = in_turn ? i % sequence.lines.size() : random.below(sequence.lines.size());
    const bool is_hinted = random.below(rarity) == 0;
    sequence.access(sequence.lines[line], is_hinted ? hint() : AccessKind::load);
  }
}

// Some lines with hints, few of them without one at once, which are left alone while few others pass, or all, and
// loaded again.
template <class Hint>
void load_in_turns(HintedSequence& sequence, std::size_t accesses, Hint hint, model::Random& random) {
  constexpr std::size_t few = 3;
  while (sequence.record.size() < sequence.judged_from + accesses) {
    random.shuffle(sequence.lines);
    const std::size_t hinted = 1 + random.below(sequence.lines.size() - 1);
    for (std::size_t i = 0; i < hinted; ++i) {
      sequence.access(sequence.lines[i], hint());
    }
    for (std::uint64_t again = random.below(few); again > 0; --again) {
      sequence.access(sequence.lines[random.below(hinted)], AccessKind::load);
    }
    const std::size_t others = sequence.lines.size() - hinted;
    const std::size_t end = hinted + (random.below(2) == 0 ? others : 1 + random.below(std::min(few, others)));
    for (std::uint64_t round = random.below(2); round < 2; ++round) {
      for (std::size_t i = hinted; i < end; ++i) {
        sequence.access(sequence.lines[i], AccessKind::load);
      }
    }
    for (std::size_t i = random.below(hinted); i < hinted; ++i) {
      sequence.access(sequence.lines[i], AccessKind::load);
    }
  }
}

// Loads without hints and with each, or with one alone. Where sets can be empty they sometimes are, as protected lines
// stay that once were.
std::optional<HintedSequence> drawn_sequence(const Interrogator& device, const CacheDescription& cache,
                                             const Sets& sets, SetsAtStart start, model::Random& random) {
  constexpr std::size_t accesses_of_set = 120;
  const std::size_t count =
      fewest_lines_of_sequence + random.below(cache.ways->front() + most_more_lines - fewest_lines_of_sequence + 1);
  const bool flushes = start == SetsAtStart::full || random.below(2) == 0;
  auto sequence = begun(device, cache, sets, fewest_lines_of_sequence, count, flushes, random);
  if (!sequence) {
    return std::nullopt;
  }
  const std::size_t which = random.below(model::hint_kinds.size() + 1);
  const auto hint = [&] {
    const std::size_t any = random.below(model::hint_kinds.size());
    return model::hint_kinds.at(which < model::hint_kinds.size() ? which : any);
  };
  const std::size_t accesses = accesses_of_set * sets.size();
  random.below(2) == 0 ? load_by_chance(*sequence, accesses, hint, random)
                       : load_in_turns(*sequence, accesses, hint, random);
  return sequence;
}

FreshQuestion question_of(const Interrogator& device, const HintedSequence& sequence,
                          std::optional<std::uint64_t> set_aside_bytes) {
  FreshQuestion fresh = question_over(device, sequence.pool, sequence.record);
  const auto warm = static_cast<std::uint32_t>(fresh.question.warm.size());
  for (std::size_t i = 0; i < sequence.kinds.size(); ++i) {
    if (sequence.kinds[i] != AccessKind::load) {
      fresh.question.circumstances.hints[sequence.kinds[i]].push_back(warm + static_cast<std::uint32_t>(i));
    }
  }
  fresh.question.circumstances.set_aside_bytes = set_aside_bytes;
  return fresh;
}

using Predicted = std::vector<PredictedLoad>;

// What the rule says of each access; none of those that are not judged.
Predicted predicted(const Interrogator& device, const CacheDescription& cache, const Hints& rule,
                    const HintedSequence& sequence) {
  CacheDescription with_rule = cache;
  with_rule.hints = rule;
  model::HintedCache simulated(with_rule);
  Predicted loads(sequence.record.size());
  for (std::size_t i = 0; i < sequence.record.size(); ++i) {
    const bool missed = is_miss(simulated.access(device.address_of(sequence.record[i]), sequence.kinds[i]));
    if (i >= sequence.judged_from && sequence.kinds[i] == AccessKind::load) {
      loads[i].misses = missed;
    }
  }
  return loads;
}

// Of the loads of fresh sequences by votes, by an answer to each, and by an answer to each where none has a hint.
struct Check {
  JudgedLoads voted;
  JudgedLoads single;
  JudgedLoads unhinted;
};

// Whether loads among loads with hints are otherwise than predicted more often than those of the same lines in the same
// order without hints, which are misread as often.
bool hints_depart(const Check& check) {
  constexpr double rarer_than = 1e-3;
  const double share =
      static_cast<double>(check.single.loads) / static_cast<double>(check.single.loads + check.unhinted.loads);
  return check.single.wrong > 0 &&
         binomial_upper_tail(check.single.wrong, check.single.wrong + check.unhinted.wrong, share) <= rarer_than;
}

constexpr const char* too_few_lines_of_sets = "hints show in sets of which more lines are known";

// The rules that predict drawn sequences, of which each time that one is asked which tells most of them apart.
class SearchOfHints {
 public:
  // Throws Undecided where sets have too few lines.
  SearchOfHints(Interrogator& device, const CacheDescription& cache, SetsAtStart start)
      : device_(&device), cache_(&cache), start_(start), random_(stream(device.settings(), "hints")) {
    for (const Hints& rule : rules_of_hints(std::ranges::max(*cache.ways))) {
      alive_.push_back({.rule = rule, .wrong = 0});
    }
  }

  void narrow() {
    constexpr int most_questions = 80;
    constexpr int futile_rounds = 32;
    int futile = 0;
    for (int asked = 0; asked < most_questions && futile < futile_rounds && alive_.size() > 1;) {
      const auto best = best_sequence();
      if (!best) {
        ++futile;
        continue;
      }
      futile = 0;
      ++asked;
      const std::vector<Reading> readings = ask_mixed(*device_, question_of(*device_, best->sequence, {}));
      for (std::size_t i = 0; i < alive_.size(); ++i) {
        alive_[i].wrong += judged(best->predicted[i], readings).wrong;
      }
      // One may have been misread.
      std::erase_if(alive_, [](const Alive& each) { return each.wrong > 1; });
    }
  }

  [[nodiscard]] std::vector<Hints> alive() const {
    std::vector<Hints> rules;
    std::ranges::transform(alive_, std::back_inserter(rules), &Alive::rule);
    return rules;
  }

  // Of sequences that took no part, of several sets at a time, one after the other.
  [[nodiscard]] Check check(const Hints& rule) {
    constexpr int sequences = 80;
    constexpr std::size_t most_sets = 4;
    Sets order(cache_->ways->size());
    std::iota(order.begin(), order.end(), 0U);
    random_.shuffle(order);
    auto next = order.begin();
    Check check;
    for (int i = 0; i < sequences; ++i) {
      Sets sets(1 + random_.below(std::min(most_sets, order.size())));
      for (std::uint32_t& set : sets) {
        set = *next++;
        next = next == order.end() ? order.begin() : next;
      }
      const HintedSequence sequence = most_telling(rule, sets);
      const FreshQuestion fresh = question_of(*device_, sequence, {});
      const Predicted loads = predicted(*device_, *cache_, rule, sequence);
      check.voted += judged(loads, ask_mixed(*device_, fresh));
      // What hints do now and then only is outvoted.
      check.single += judged(loads, ask_mixed_once(*device_, fresh));
      HintedSequence unhinted = sequence;
      std::ranges::fill(unhinted.kinds, AccessKind::load);
      check.unhinted += judged(predicted(*device_, *cache_, rule, unhinted),
                               ask_mixed_once(*device_, question_of(*device_, unhinted, {})));
    }
    return check;
  }

 private:
  struct Alive {
    Hints rule;
    std::size_t wrong = 0;
  };

  struct Candidate {
    HintedSequence sequence;
    std::vector<Predicted> predicted;  // by rule
  };

  [[nodiscard]] HintedSequence drawn(const Sets& sets) {
    auto sequence = drawn_sequence(*device_, *cache_, sets, start_, random_);
    if (!sequence) {
      throw Undecided(too_few_lines_of_sets);
    }
    return *std::move(sequence);
  }

  // Of some sequences that one in which most loads are otherwise where one of the hints, drawn by chance, is not given.
  [[nodiscard]] HintedSequence most_telling(const Hints& rule, const Sets& sets) {
    constexpr int tried = 6;
    constexpr int left_out = 8;
    std::optional<HintedSequence> best;
    std::size_t most = 0;
    for (int i = 0; i < tried; ++i) {
      HintedSequence sequence = drawn(sets);
      const Predicted loads = predicted(*device_, *cache_, rule, sequence);
      std::vector<std::size_t> hinted;
      for (std::size_t access = sequence.judged_from; access < sequence.kinds.size(); ++access) {
        if (sequence.kinds[access] != AccessKind::load) {
          hinted.push_back(access);
        }
      }
      std::size_t shown = 0;
      for (int each = 0; each < left_out && !hinted.empty(); ++each) {
        HintedSequence without = sequence;
        without.kinds[hinted[random_.below(hinted.size())]] = AccessKind::load;
        const Predicted otherwise = predicted(*device_, *cache_, rule, without);
        for (std::size_t access = 0; access < loads.size(); ++access) {
          shown += loads[access].misses && loads[access] != otherwise[access] ? hinted.size() : 0U;
        }
      }
      if (!best || shown > most) {
        most = shown;
        best = std::move(sequence);
      }
    }
    return *std::move(best);
  }

  // None: none of some tells any two apart.
  [[nodiscard]] std::optional<Candidate> best_sequence() {
    constexpr int tried = 6;
    std::optional<Candidate> best;
    std::size_t most_kinds = 1;
    for (int i = 0; i < tried; ++i) {
      Candidate candidate{.sequence = drawn({any_set(*cache_, random_)}), .predicted = {}};
      std::set<Predicted> kinds;
      for (const Alive& each : alive_) {
        candidate.predicted.push_back(predicted(*device_, *cache_, each.rule, candidate.sequence));
        kinds.insert(candidate.predicted.back());
      }
      if (kinds.size() > most_kinds) {
        most_kinds = kinds.size();
        best = std::move(candidate);
      }
    }
    return best;
  }

  Interrogator* device_;
  const CacheDescription* cache_;
  SetsAtStart start_;
  model::Random random_;
  std::vector<Alive> alive_;
};

std::string find_hints(Interrogator& device, const CacheDescription& cache, SetsAtStart start, Claim<Hints>& claim) {
  SearchOfHints search(device, cache, start);
  search.narrow();
  const std::vector<Hints> rules = search.alive();
  if (rules.empty()) {
    return "hints do otherwise than each of " + std::to_string(rules_of_hints(std::ranges::max(*cache.ways)).size()) +
           " rules";
  }
  if (rules.size() > 1) {
    constexpr std::size_t most_alternatives = 8;
    if (rules.size() <= most_alternatives) {
      claim.alternatives = rules;
    }
    return "sequences of loads with hints leave " + std::to_string(rules.size()) + " rules";
  }
  const Check check = search.check(rules.front());
  const auto& [voted, single, unhinted] = check;
  const std::string counted = std::to_string(voted.wrong) + " of " + std::to_string(voted.loads) +
                              " loads in fresh sequences of loads with hints are not as predicted, of single answers " +
                              std::to_string(single.wrong) + " of " + std::to_string(single.loads) +
                              ", without hints " + std::to_string(unhinted.wrong) + " of " +
                              std::to_string(unhinted.loads);
  // Votes get hardly any wrong. Hints that are ignored now and then are outvoted but for few.
  constexpr double wrong_by_votes = 10 * wrong_verdict;
  if (voted.wrong > 0 && binomial_upper_tail(voted.wrong, voted.loads, wrong_by_votes) <= least_p_value) {
    claim.alternatives = rules;
    return counted;
  }
  if (hints_depart(check) || !misreads_explain(device.classifier(), single)) {
    claim.alternatives = rules;
    return "of " + std::to_string(single.loads) + " loads in fresh sequences of loads with hints " +
           std::to_string(single.wrong) + " are not predicted, now these and now those, and without hints " +
           std::to_string(unhinted.wrong) + " of " + std::to_string(unhinted.loads) + ": some hints do otherwise";
  }
  claim.value = rules.front();
  claim.trials = voted.loads;
  claim.details.fresh_loads = voted.loads;
  claim.details.fresh_loads_wrong = voted.wrong;
  return written_leaf("hints", &CacheDescription::hints, claim.value) + "; " + counted;
}

// Asks how many ways are protected where so much is set aside.
class ProtectedWays {
 public:
  ProtectedWays(Interrogator& device, const CacheDescription& cache)
      : device_(&device), cache_(&cache), random_(stream(device.settings(), "set-asides")) {}

  // As many lines as fit are to be evicted last, others pass, and those that are left are counted from the last one on.
  // Throws Undecided where they are not the last ones.
  [[nodiscard]] std::uint32_t at(std::uint64_t bytes) {
    const std::uint32_t ways = cache_->ways->front();
    const std::uint32_t set = any_set(*cache_, random_);
    auto sequence = begun(*device_, *cache_, {set}, ways, ways, true, random_);
    if (!sequence) {
      throw Undecided(too_few_lines_of_sets);
    }
    const Offsets lines = sequence->pool.asked[set];
    for (std::uint32_t line = 0; line < ways; ++line) {
      sequence->access(lines[line], AccessKind::evict_last);
    }
    for (int round = 0; round < 2; ++round) {
      for (std::size_t line = ways; line < lines.size(); ++line) {
        sequence->access(lines[line], AccessKind::load);
      }
    }
    const std::size_t first = sequence->record.size();
    for (std::uint32_t line = ways; line > 0; --line) {
      sequence->access(lines[line - 1], AccessKind::load);
    }
    constexpr int most_times = 3;  // one of the readings may be unclear
    for (int time = 0; time < most_times; ++time) {
      const std::vector<Reading> readings = ask_mixed(*device_, question_of(*device_, *sequence, bytes));
      const auto begin = readings.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end_of_hits = std::find_if(begin, readings.end(), [](Reading each) { return each != Reading::hit; });
      if (std::all_of(end_of_hits, readings.end(), [](Reading each) { return each == Reading::miss; })) {
        return static_cast<std::uint32_t>(end_of_hits - begin);
      }
    }
    throw Undecided("of lines that are to be evicted last others are left than the last ones");
  }

  [[nodiscard]] std::uint64_t random_size(std::uint64_t most) { return random_.below(most + 1); }

 private:
  Interrogator* device_;
  const CacheDescription* cache_;
  model::Random random_;
};

// Sizes are told to this.
constexpr std::uint64_t set_aside_step_bytes = 4096;

// Appends where the number changes above `from` steps, where it is `ways`, up to `to`.
void find_changes(ProtectedWays& ways_of, std::uint64_t from, std::uint32_t ways, std::uint64_t to,
                  std::uint32_t ways_at_end, std::vector<SetAside>& found) {
  if (ways == ways_at_end) {
    return;
  }
  if (to - from == 1) {
    found.push_back({.bytes = from * set_aside_step_bytes, .protected_ways = ways});
    return;
  }
  const std::uint64_t middle = from + (to - from) / 2;
  const std::uint32_t of_middle = ways_of.at(middle * set_aside_step_bytes);
  find_changes(ways_of, from, ways, middle, of_middle, found);
  find_changes(ways_of, middle, of_middle, to, ways_at_end, found);
}

std::string find_set_asides(Interrogator& device, const CacheDescription& cache, std::uint64_t largest_bytes,
                            Claim<std::vector<SetAside>>& claim) {
  constexpr std::size_t fresh_sizes = 32;
  ProtectedWays ways_of(device, cache);
  const std::uint64_t steps = largest_bytes / set_aside_step_bytes;
  std::vector<SetAside> found;
  const std::uint32_t of_most = ways_of.at(largest_bytes);
  if (steps > 0) {
    // One after the other: compilers ask arguments of a call in an order of their own.
    const std::uint32_t of_none = ways_of.at(0);
    const std::uint32_t of_all_steps = ways_of.at(steps * set_aside_step_bytes);
    find_changes(ways_of, 0, of_none, steps, of_all_steps, found);
  }
  found.push_back({.bytes = largest_bytes, .protected_ways = of_most});
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < fresh_sizes; ++i) {
    // A size within the step in which the number changes may be either.
    const std::uint64_t bytes =
        std::min(ways_of.random_size(largest_bytes) / set_aside_step_bytes * set_aside_step_bytes, largest_bytes);
    const auto enough = std::ranges::lower_bound(found, bytes, {}, &SetAside::bytes);
    wrong += ways_of.at(bytes) != enough->protected_ways ? 1U : 0U;
  }
  if (wrong > 0) {
    return std::to_string(wrong) + " of " + std::to_string(fresh_sizes) +
           " fresh sizes protect another number of ways than those next to them";
  }
  claim.value = std::move(found);
  claim.trials = fresh_sizes;
  return std::to_string(claim.value->size()) + " numbers of protected ways; all of " + std::to_string(fresh_sizes) +
         " fresh sizes protect as many as those next to them";
}

}  // namespace

std::vector<Hints> rules_of_hints(std::uint32_t ways) {
  std::vector<Hints> rules;
  for (const bool first_goes_next : {false, true}) {
    for (const bool unchanged_keeps_place : {false, true}) {
      Hints rule{.first_goes_next = first_goes_next, .unchanged_keeps_place = unchanged_keeps_place};
      rules.push_back(rule);
      for (rule.protected_ways = 1; rule.protected_ways <= ways; ++rule.protected_ways) {
        for (const bool loads_unprotect : {false, true}) {
          rule.loads_unprotect = loads_unprotect;
          rules.push_back(rule);
        }
      }
    }
  }
  return rules;
}

void claim_hints(Interrogator& device, SetsAtStart start, CacheClaims& claims) {
  const model::DeviceFacts& facts = device.facts();
  if (!device.is_among(facts.hinted_targets) || !are_sets_proven(claims) || claims.sweep ||
      device.buffer().nearer_bytes) {
    return;
  }
  const CacheDescription cache = claimed_cache(claims);
  const bool have_as_many_ways = std::ranges::count(*cache.ways, cache.ways->front()) == std::ssize(*cache.ways);
  if (cache.replacement->policy != model::Lru::name || !have_as_many_ways || cache.ways->front() > most_ways_of_hints) {
    return;
  }
  device.report("hints", 0.99);
  settle_claim(device, claims.hints, "loads with hints among loads without, of lines of a set, few or more than fit",
               "which loads miss differs from rule to rule",
               [&](Claim<Hints>& claim) { return find_hints(device, cache, start, claim); });
  const bool protects = claims.hints->value && claims.hints->value->protected_ways > 0;
  if (protects && facts.largest_set_aside_bytes) {
    settle_claim(device, claims.set_asides,
                 "as many lines as fit, to be evicted last, where more and more is set aside for such lines",
                 "how many of them outlive others is how many ways are protected",
                 [&](Claim<std::vector<SetAside>>& claim) {
                   return find_set_asides(device, cache, *facts.largest_set_aside_bytes, claim);
                 });
  }
}

}  // namespace gpuinfer::infer
