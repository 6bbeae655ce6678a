// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/stores.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "infer/asking/settle_claim.hpp"
#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/asking/written_leaf.hpp"
#include "infer/cache/conclude.hpp"
#include "infer/cache/known_outcomes.hpp"
#include "infer/cache/mixed_questions.hpp"
#include "infer/cache/rare_departures.hpp"
#include "infer/cache/store_rules.hpp"
#include "model/number_text.hpp"
#include "model/policies/lru.hpp"

namespace gpuinfer::infer {

namespace {

using model::CacheDescription;
using model::Store;

// With what such caches were seen to do in time a rule explains 9,994 loads of 10,000.
constexpr double most_wrong_of_cleaning = 0.001;

std::string text_of(const Store& rule) { return written_leaf("store", &CacheDescription::store, std::optional(rule)); }

// Loads that miss in full sets: those for which a line goes that would be dirty if stores were written back, and the
// others.
struct Evictions {
  std::vector<double> dirty_cycles;
  std::vector<double> clean_cycles;
};

// As many lines as fit of one set and of another; stores to those of one of the two; then new lines of the first. What
// has just been stored is as much, and as long ago, whether dirty lines go or clean ones. Of a single set, so many
// lines pass after the stores in every other question.
FreshQuestion question_of_evictions(const Interrogator& device, const CacheDescription& cache, bool is_dirty,
                                    model::Random& random) {
  constexpr std::uint32_t most_stores = 16;
  constexpr std::uint32_t most_new = 8;
  const auto sets = static_cast<std::uint32_t>(cache.ways->size());
  const auto first = static_cast<std::uint32_t>(random.below(sets));
  const std::uint32_t other =
      sets == 1 ? first : static_cast<std::uint32_t>((first + 1 + random.below(sets - 1)) % sets);
  const std::uint32_t ways = (*cache.ways)[first];
  const std::uint32_t passing = other == first && !is_dirty ? 2 * ways : 0;
  std::vector<std::uint32_t> asked(sets);
  asked[other] = (*cache.ways)[other];
  asked[first] = ways + passing + std::min(ways, most_new);
  Pool pool = pool_of_lines(device, cache, asked, everywhere, random);
  const auto word = [&] { return random.below(*cache.line_bytes / model::load_bytes) * model::load_bytes; };
  AccessSequence record;
  std::vector<std::uint32_t> stores;
  const auto load_all = [&](std::span<const std::uint64_t> lines) {
    for (const std::uint64_t line : lines) {
      record.push_back(line + word());
    }
  };
  const std::span<const std::uint64_t> of_first = pool.asked[first];
  const std::span<const std::uint64_t> of_other = pool.asked[other];
  const std::size_t held = std::min<std::size_t>(ways, of_first.size());
  load_all(of_first.first(held));
  if (other != first) {
    load_all(of_other);
  }
  const std::span<const std::uint64_t> stored = is_dirty || other == first ? of_first.first(held) : of_other;
  for (const std::uint64_t line : stored.first(std::min<std::size_t>(stored.size(), most_stores))) {
    stores.push_back(static_cast<std::uint32_t>(record.size()));
    record.push_back(line + word());
  }
  load_all(of_first.subspan(held));
  return question_with_stores(device, std::move(pool), std::move(record), stores);
}

Evictions find_evictions(Interrogator& device, const CacheDescription& cache, std::uint64_t attempt) {
  constexpr std::size_t enough = 150;
  constexpr int most_questions = 400;
  constexpr int at_once = 20;
  model::Random random = stream(device.settings(), "evictions", attempt);
  Evictions found;
  for (int asked = 0; asked < most_questions && std::min(found.dirty_cycles.size(), found.clean_cycles.size()) < enough;
       asked += at_once) {
    std::vector<FreshQuestion> questions;
    for (int i = 0; i < at_once; ++i) {
      questions.push_back(question_of_evictions(device, cache, i % 2 == 0, random));
    }
    const Answers answers = ask_times(device, questions, 1);
    for (std::size_t q = 0; q < questions.size(); ++q) {
      const std::vector<PredictedLoad> predicted =
          predicted_loads(device, cache, questions[q], histories_of(cache, 100));
      for (std::size_t i = 0; i < predicted.size(); ++i) {
        if (predicted[i].victim_is_dirty) {
          (*predicted[i].victim_is_dirty ? found.dirty_cycles : found.clean_cycles).push_back(answers[q][i]);
        }
      }
    }
  }
  return found;
}

// How many deviations the ranks of `a` lie above those of `b` (Mann & Whitney 1947).
double rank_excess(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> sorted = b;
  std::ranges::sort(sorted);
  double above = 0;
  for (const double value : a) {
    const auto [first, end] = std::equal_range(sorted.begin(), sorted.end(), value);
    above += static_cast<double>(first - sorted.begin()) + static_cast<double>(end - first) / 2;
  }
  const auto n = static_cast<double>(a.size());
  const auto m = static_cast<double>(b.size());
  return (above - n * m / 2) / std::sqrt(n * m * (n + m + 1) / 12);
}

struct FoundWrite {
  std::optional<model::Write> write = {};
  std::optional<double> dirty_miss_cycles = {};
  std::string reason = {};
};

FoundWrite find_write(Interrogator& device, const CacheDescription& cache, Store rule) {
  if (rule.evicts && !*rule.allocate) {
    return {.write = model::Write::through};
  }
  // Once in 10^9 and once more, which no chance does.
  constexpr double far_above = 6;
  constexpr std::size_t fewest = 40;
  rule.write = model::Write::back;
  std::vector<double> medians;
  std::size_t loads = 0;
  for (const std::uint64_t attempt : {1U, 2U}) {
    const Evictions found = find_evictions(device, with_rule(cache, rule), attempt);
    if (std::min(found.dirty_cycles.size(), found.clean_cycles.size()) < fewest) {
      return {.reason = "hardly a load is certain to make a line go that stores have written"};
    }
    loads += found.dirty_cycles.size();
    medians.push_back(median(found.dirty_cycles));
    if (rank_excess(found.dirty_cycles, found.clean_cycles) < far_above ||
        medians.back() <= median(found.clean_cycles)) {
      return {.reason = std::to_string(loads) +
                        " loads for which a line went that stores had written took no longer than others; so it is "
                        "where stores are written at once, and where lines are written back while nobody waits"};
    }
  }
  return {.write = model::Write::back, .dirty_miss_cycles = medians.back()};
}

struct FreshCheck {
  std::size_t accesses = 0;        // that the first rule predicts
  std::vector<std::size_t> wrong;  // by rule
  std::size_t wrong_of_other = 0;
};

// A load that is read otherwise than predicted has to be so again when its question comes again. `other`: a rule that
// is judged by what was read for the first ones.
FreshCheck check_on_fresh_sequences(Interrogator& device, const CacheDescription& cache,
                                    const std::vector<Store>& rules, std::uint64_t attempt,
                                    const std::optional<Store>& other = std::nullopt) {
  constexpr std::array footprints{0.7, 1.2, 1.5, 2.0, 2.5, 3.0};
  constexpr std::size_t accesses = 1000;
  constexpr std::size_t sets = 16;
  constexpr std::size_t few_sets = 4;
  model::Random random = stream(device.settings(), "fresh stores", attempt);
  FreshCheck check{.wrong = std::vector<std::size_t>(rules.size())};
  const auto judge = [&](const FreshQuestion& question) {
    std::vector<Reading> readings = ask_mixed(device, question);
    bool is_confirmed = false;
    for (std::size_t rule = 0; rule < rules.size(); ++rule) {
      const std::vector<PredictedLoad> predicted =
          predicted_loads(device, with_rule(cache, rules[rule]), question, histories_of(cache, 400));
      if (judged(predicted, readings).wrong > 0 && !is_confirmed) {
        const std::vector<Reading> again = ask_mixed(device, question);
        for (std::size_t i = 0; i < again.size(); ++i) {
          readings[i] = again[i] == readings[i] ? again[i] : Reading::unclear;
        }
        is_confirmed = true;
      }
      const JudgedLoads of_rule = judged(predicted, readings);
      check.wrong[rule] += of_rule.wrong;
      check.accesses += rule == 0 ? of_rule.loads : 0;
    }
    if (other) {
      check.wrong_of_other += judged(predicted_loads(device, with_rule(cache, *other), question, 1), readings).wrong;
    }
  };
  for (const double footprint : footprints) {
    // Side by side, too: what a store does to the line next to it shows there only.
    for (const StrideExponent lying : {everywhere, side_by_side}) {
      judge(question_over_sets(device, cache, mixed_question, sets, footprint, accesses, lying, random));
    }
    if (cache.sweep) {
      judge(mixed_question(device, cache, pool_of_store(device, cache, footprint, random), accesses, random));
    }
  }
  // Lines that are cleaned before they go show where many miss in a row.
  if (cache.replacement->policy == model::Lru::name && *rules.front().allocate && !rules.front().evicts) {
    model::Random scattered = stream(device.settings(), "fresh scattered stores", attempt);
    try {
      for (const double footprint : footprints) {
        judge(question_over_sets(device, cache, scattered_question, few_sets, footprint, accesses, everywhere,
                                 scattered));
      }
    } catch (const QuestionRefused&) {
      // A recording from before these were asked.
    }
  }
  return check;
}

// What single answers to many sequences say of stores that do otherwise now and then, by chance or by a counter.
struct StoreTally {
  JudgedLoads judged;
  double stores_that_show = 0;  // had they done otherwise

  // With 99 %, more frequent departures are excluded.
  [[nodiscard]] double departures_below() const {
    return stores_that_show == 0 ? 1 : std::min(1.0, poisson_mean_limit(judged.wrong, excluded_at) / stores_that_show);
  }
};

// How a store might do otherwise: as if there were none, or as a load.
enum class OtherwiseAs : std::uint8_t { nothing, load };

// Whether a load shows that the recorded access `place`, a store, did otherwise.
bool shows(const Interrogator& device, const CacheDescription& cache, const FreshQuestion& fresh, std::size_t place,
           OtherwiseAs otherwise, const std::vector<PredictedLoad>& predicted) {
  FreshQuestion other = fresh;
  std::vector<std::uint32_t>& stores = other.question.circumstances.stores;
  const auto number = static_cast<std::uint32_t>(fresh.question.warm.size() + place);
  stores.erase(std::ranges::lower_bound(stores, number));
  if (otherwise == OtherwiseAs::nothing) {
    other.question.record.erase(other.question.record.begin() + static_cast<std::ptrdiff_t>(place));
    for (std::uint32_t& store : stores) {
      store -= store > number ? 1U : 0U;
    }
  }
  std::vector<PredictedLoad> departing = predicted_loads(device, cache, other, 1);
  if (otherwise == OtherwiseAs::nothing) {
    departing.insert(departing.begin() + static_cast<std::ptrdiff_t>(place), PredictedLoad{});
  }
  departing[place] = {};
  return differ(predicted, departing);
}

// Asks until departures more frequent than once in settings().fills_to_test stores are excluded, or that is not worth
// its accesses.
StoreTally tally_stores(Interrogator& device, const CacheDescription& cache) {
  constexpr std::array footprints{1.2, 1.5, 2.0, 3.0};
  constexpr std::size_t accesses = 1000;
  constexpr std::size_t most_sets = 4;
  constexpr std::size_t tried_of_question = 4;
  model::Random random = stream(device.settings(), "rare departures of stores");
  const auto wanted = static_cast<double>(device.settings().fills_to_test);
  const std::size_t most_accesses = 40 * device.settings().fills_to_test;
  StoreTally tally;
  std::size_t asked = 0;
  for (std::size_t number = 0; asked < most_accesses && tally.departures_below() * wanted > 1; ++number) {
    const FreshQuestion fresh = question_over_sets(device, cache, mixed_question, 1 + random.below(most_sets),
                                                   footprints[number % footprints.size()], accesses,
                                                   number % 2 == 0 ? everywhere : side_by_side, random);
    const std::vector<PredictedLoad> predicted = predicted_loads(device, cache, fresh, histories_of(cache, 1));
    const std::vector<Reading> readings = ask_mixed_once(device, fresh);
    asked += readings.size();
    tally.judged += judged(predicted, readings);
    const std::vector<std::uint32_t>& stores = fresh.question.circumstances.stores;
    double shown = 0;
    for (std::size_t i = 0; i < tried_of_question && !stores.empty(); ++i) {
      const std::size_t place = stores[random.below(stores.size())] - fresh.question.warm.size();
      shown += shows(device, cache, fresh, place, i % 2 == 0 ? OtherwiseAs::nothing : OtherwiseAs::load, predicted)
                   ? 1.0 / tried_of_question
                   : 0;
    }
    tally.stores_that_show += shown * static_cast<double>(stores.size());
  }
  return tally;
}

// Empty: misreads explain what is read otherwise.
std::string departures_of(const Interrogator& device, const StoreTally& tally) {
  if (misreads_explain(device.classifier(), tally.judged)) {
    return {};
  }
  return "of " + std::to_string(tally.judged.loads) + " loads in fresh sequences of loads and stores " +
         std::to_string(tally.judged.wrong) + " are not predicted, now these and now those: some stores do otherwise";
}

template <class Value>
std::optional<Value> common(const std::vector<Store>& rules, std::optional<Value> Store::*member) {
  const bool is_one =
      std::ranges::all_of(rules, [&](const Store& rule) { return rule.*member == rules.front().*member; });
  return is_one ? rules.front().*member : std::nullopt;
}

// Of members on which the rules differ: what each has.
void claim_differences(const std::vector<Store>& rules, CacheClaims& claims) {
  const auto claim = [&]<class Value>(const char* leaf, std::optional<Value> Store::*member, auto text) {
    std::vector<model::FlowYaml> alternatives;
    for (const Store& rule : rules) {
      const std::string value = rule.*member ? text(*(rule.*member)) : "null";
      if (std::ranges::find(alternatives, value) == alternatives.end()) {
        alternatives.push_back(value);
      }
    }
    if (alternatives.size() > 1) {
      claims.of_store[leaf] = {.alternatives = std::move(alternatives),
                               .reason = "no sequence of loads and stores tells them apart on this cache"};
    }
  };
  const auto truth = [](bool value) { return std::string(value ? "true" : "false"); };
  claim("store.granule_bytes", &Store::granule_bytes, [](std::uint64_t bytes) { return model::to_text(bytes); });
  claim("store.fetches", &Store::fetches, truth);
  claim("store.touches", &Store::touches, truth);
}

// Why they are not told; none: they are.
std::optional<std::string> leave_open(const FoundRules& found, Claim<Store>& claim) {
  const std::vector<Store>& rules = found.rules;
  const bool differ_in_what_comes = std::ranges::any_of(rules, [&](const Store& rule) {
    return rule.allocate != rules.front().allocate || rule.evicts != rules.front().evicts ||
           rule.cleaning != rules.front().cleaning;
  });
  if (found.is_narrow && !differ_in_what_comes) {
    return std::nullopt;
  }
  constexpr std::size_t most_alternatives = 8;
  if (rules.size() <= most_alternatives) {
    claim.alternatives = rules;
  }
  return "sequences of loads and stores leave " + std::to_string(rules.size()) + " rules";
}

// Of members on which rules differ that nothing tells apart there is no value.
void claim_rule(const std::vector<Store>& rules, const FreshCheck& check, std::optional<model::Write> write,
                CacheClaims& claims, Claim<Store>& claim) {
  Store rule = rules.front();
  rule.granule_bytes = common(rules, &Store::granule_bytes);
  rule.fetches = common(rules, &Store::fetches);
  rule.touches = common(rules, &Store::touches);
  rule.write = write;
  claim.value = rule;
  claim.trials = check.accesses;
  claim.details.fresh_loads = check.accesses;
  claim_differences(rules, claims);
}

// Whether misreads explain what departs from the rule; where they do not, the claim has alternatives and the sentence
// says so.
std::optional<std::string> departs(Interrogator& device, const CacheDescription& cache, const std::vector<Store>& rules,
                                   Claim<Store>& claim) {
  if (!model::is_deterministic(*cache.replacement) || !misreads_are_independent(device.classifier())) {
    return std::nullopt;
  }
  const StoreTally tally = tally_stores(device, with_rule(cache, rules.front()));
  if (tally.judged.wrong > 0) {
    look_at_misreads(device);  // which may be more frequent than was known
  }
  if (std::string departures = departures_of(device, tally); !departures.empty()) {
    claim.alternatives = rules;
    return departures;
  }
  claim.bound = bound_of(tally.departures_below());
  return std::nullopt;
}

// Rules of lines that are cleaned before they go. What such a cache does depends on how long things take as well, if
// only a little, so that a few loads may be otherwise.
std::string find_cleaning(Interrogator& device, const CacheDescription& cache, CacheClaims& claims,
                          Claim<Store>& claim) {
  const FoundRules found = search_rules(device, cache,
                                        {.rules = cleaning_rules_of_stores(cache),
                                         .question = scattered_question,
                                         .most_wrong = 4 * most_wrong_of_cleaning},
                                        "rules of stores and cleaning");
  const std::vector<Store>& rules = found.rules;
  if (rules.empty()) {
    return {};
  }
  if (const auto reason = leave_open(found, claim)) {
    return *reason;
  }
  Store without = rules.front();
  without.cleaning.reset();
  const FreshCheck check = check_on_fresh_sequences(device, cache, rules, 1, without);
  const std::size_t wrong = std::ranges::max(check.wrong);
  const std::size_t wrong_without = check.wrong_of_other;
  const std::string counted = std::to_string(wrong) + " of " + std::to_string(check.accesses) +
                              " loads in fresh sequences of loads and stores are not as predicted, without cleaning " +
                              std::to_string(wrong_without);
  // Where lines are cleaned at once cleaning shows nowhere, and stores may do otherwise now and then.
  constexpr std::size_t times_as_many = 20;
  if (static_cast<double>(wrong) > most_wrong_of_cleaning * static_cast<double>(check.accesses) ||
      wrong_without < std::max(times_as_many * wrong, wrong + 2)) {
    claim.alternatives = rules;
    return counted;
  }
  if (wrong == 0) {
    if (const auto departures = departs(device, cache, rules, claim)) {
      return *departures;
    }
  }
  claim_rule(rules, check, model::Write::back, claims, claim);
  claim.details.fresh_loads_wrong = wrong;
  return text_of(*claim.value) + "; " + counted;
}

std::string find_stores(Interrogator& device, CacheClaims& claims, Claim<Store>& claim) {
  const CacheDescription cache = claimed_cache(claims);
  const std::vector<Store> all = rules_of_stores(cache);
  const FoundRules found =
      search_rules(device, cache, {.rules = all, .histories = histories_of(cache, 100)}, "rules of stores");
  std::vector<Store> rules = found.rules;
  if (rules.empty()) {
    const std::string learned = find_cleaning(device, cache, claims, claim);
    return learned.empty() ? "stores do otherwise than each of " + std::to_string(all.size()) + " rules" : learned;
  }
  if (const auto reason = leave_open(found, claim)) {
    return *reason;
  }
  FreshCheck check = check_on_fresh_sequences(device, cache, rules, 1);
  if (std::ranges::count(check.wrong, 0U) != 0 && std::ranges::count(check.wrong, 0U) != std::ssize(rules)) {
    // Long sequences told them apart at last, and took part in that.
    std::vector<Store> left;
    for (std::size_t rule = 0; rule < rules.size(); ++rule) {
      if (check.wrong[rule] == 0) {
        left.push_back(rules[rule]);
      }
    }
    rules = std::move(left);
    check = check_on_fresh_sequences(device, cache, rules, 2);
  }
  if (const std::size_t wrong = std::ranges::max(check.wrong); wrong > 0) {
    if (const std::string learned = find_cleaning(device, cache, claims, claim); claim.value) {
      return learned;
    }
    claim.alternatives = rules;
    return "of " + std::to_string(check.accesses) + " loads in fresh sequences of loads and stores " +
           std::to_string(wrong) + " are not predicted";
  }
  if (const auto departures = departs(device, cache, rules, claim)) {
    return *departures;
  }
  const FoundWrite write = find_write(device, cache, rules.front());
  claim_rule(rules, check, write.write, claims, claim);
  if (!write.write) {
    claims.of_store["store.write"] = {.alternatives = {"back", "through"}, .reason = write.reason};
  }
  if (write.dirty_miss_cycles) {
    claims.latency_cycles.value->dirty_miss = write.dirty_miss_cycles;
  }
  return text_of(*claim.value) + "; all " + std::to_string(check.accesses) +
         " loads in fresh sequences are as it predicts";
}

}  // namespace

void claim_stores(Interrogator& device, CacheClaims& claims) {
  if (!device.is_among(device.facts().stored_targets)) {
    return;
  }
  if (claims.sweep && !device.settings().asks_stores_of_sweeps) {
    return;
  }
  claims.store.emplace();
  if (device.buffer().nearer_bytes) {
    claims.store->reason =
        "stores pass a nearer level first, and what they do there is not told from what they do here";
    return;
  }
  if (!are_sets_proven(claims)) {
    claims.store->reason = "what stores do shows only where sets, index and policy are proven";
    return;
  }
  device.report("stores", 0.99);
  settle_claim(device, claims.store, "sequences of loads and stores",
               "which loads find what was stored, and what went for it, differs from rule to rule",
               [&](Claim<Store>& claim) { return find_stores(device, claims, claim); });
  if (!claims.store->value) {
    claims.of_store.clear();
  }
}

}  // namespace gpuinfer::infer
