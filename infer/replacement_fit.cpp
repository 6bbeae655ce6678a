// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/replacement_fit.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "infer/statistics.hpp"
#include "infer/victims.hpp"
#include "model/hypotheses.hpp"
#include "model/policy_classes.hpp"

namespace gpuinfer::infer {

namespace {

using model::Replacement;

// A question is put to one set of the device and, with line numbers for addresses, to a simulated set of its own.
struct SetQuestion {
  model::Question asked;
  AccessSequence line_numbers;
  std::uint32_t ways = 0;
};

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

SetQuestion random_walk_question(const Interrogator& device, const ConflictClass& set, model::Random& random) {
  const std::size_t lines = std::min<std::size_t>(set.lines.size(), set.ways + std::max<std::size_t>(1, set.ways / 3));
  const std::size_t accesses = std::clamp<std::size_t>(12 * lines, 80, 1500);
  SetQuestion question{.asked = device.question({}, {}), .line_numbers = {}, .ways = set.ways};
  for (std::size_t i = 0; i < accesses; ++i) {
    const std::uint64_t line = random.below(lines);
    question.line_numbers.push_back(line);
    question.asked.record.push_back(set.lines[line]);
  }
  return question;
}

// True when the same question is answered the same way, as far as misreads let it.
bool repeats(Interrogator& device, const SetQuestion& question) {
  const std::vector<model::Question> again(6, question.asked);
  const auto answers = device.latencies(again);
  std::size_t compared = 0;
  std::size_t different = 0;
  for (std::size_t i = 0; i < question.asked.record.size(); ++i) {
    for (std::size_t time = 1; time < answers.size(); ++time) {
      const Reading first = device.classifier().read(answers[0][i]);
      const Reading later = device.classifier().read(answers[time][i]);
      if (first != Reading::unclear && later != Reading::unclear) {
        ++compared;
        different += first != later ? 1U : 0U;
      }
    }
  }
  const double strays = device.classifier().hit_misread_rate() + device.classifier().miss_misread_rate();
  return binomial_upper_tail(different, compared, std::min(0.5, 2 * strays)) > 1e-6;
}

std::string flow_interval(std::pair<double, double> interval) {
  const auto rounded = [](double value) {
    std::string text = std::to_string(std::round(value * 1e4) / 1e4);
    text.erase(text.find_last_not_of('0') + 1);
    return text.back() == '.' ? text + '0' : text;
  };
  return "[" + rounded(interval.first) + ", " + rounded(interval.second) + "]";
}

Replacement policy(std::string name) { return {.policy = std::move(name), .parameters = {}, .equivalent = {}}; }

constexpr std::size_t simulated_per_observed = 4;
constexpr std::size_t simulated_victims = 200000;  // for shares: so many that their own chance does not show
constexpr std::size_t fewest_per_set = 300;

// Beyond so many victims, what the simulation leaves out (strays, say) would begin to show.
constexpr std::size_t most_pooled = 40000;

double fit_of(const Interrogator& device, const std::vector<VictimSequence>& observed, const Replacement& policy,
              std::uint32_t ways) {
  std::size_t victims = 0;
  for (const VictimSequence& sequence : observed) {
    victims += sequence.way.size();
  }
  const auto simulated =
      simulate_victims(device.classifier(), policy, ways, std::max<std::size_t>(2000, simulated_per_observed * victims),
                       device.settings().seed);
  return same_source(observed, simulated, ways);
}

std::vector<double> shares_of(const std::vector<std::size_t>& counts) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  std::vector<double> shares;
  for (const std::size_t count : counts) {
    shares.push_back(static_cast<double>(count) / total);
  }
  return shares;
}

Replacement weighted_random(std::vector<double> weights) {
  return {.policy = "weighted_random", .parameters = {{"victim_weights", std::move(weights)}}, .equivalent = {}};
}

// Misreads, and the end of an answer before the last victim is met, blur what is seen, so the weights are those whose
// simulation, blurred alike, shows what was observed.
std::vector<double> unblurred_shares(const Interrogator& device, const std::vector<std::size_t>& counts) {
  const std::vector<double> observed = shares_of(counts);
  std::vector<double> weights = observed;
  const auto ways = static_cast<std::uint32_t>(counts.size());
  for (int round = 0; round < 2; ++round) {
    const auto simulated =
        shares_of(count_ways(simulate_victims(device.classifier(), weighted_random(weights), ways, simulated_victims,
                                              device.settings().seed + static_cast<std::uint64_t>(round)),
                             ways));
    for (std::size_t way = 0; way < weights.size(); ++way) {
      weights[way] = std::max(0.0, weights[way] + observed[way] - simulated[way]);
    }
  }
  return weights;
}

// Weights as the smallest whole numbers within the statistical error of the shares, else the shares themselves.
std::vector<double> simplest_weights(std::vector<double> shares, std::size_t victims) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const double largest = *std::max_element(shares.begin(), shares.end());
  for (int scale = 1; scale <= 9; ++scale) {
    std::vector<double> weights;
    for (const double share : shares) {
      weights.push_back(std::round(scale * share / largest));
    }
    const double weight_sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    double squares = 0;
    bool possible = true;
    for (std::size_t way = 0; way < weights.size(); ++way) {
      const double expected = weights[way] / weight_sum;
      const double difference = shares[way] / sum - expected;
      possible = possible && expected > 0;
      squares += possible ? difference * difference / expected * static_cast<double>(victims) : 0.0;
    }
    if (possible && chi_square_upper_tail(squares, weights.size() - 1) > 0.01) {
      return weights;
    }
  }
  for (double& share : shares) {
    share = std::round(share / sum * 1e4) / 1e4;
  }
  return shares;
}

// What the policy says of each way in the long run.
std::vector<double> long_run_shares(const Replacement& policy, std::uint32_t ways) {
  std::vector<double> shares(ways, 1.0 / ways);
  if (policy.policy == "fermi") {
    shares.assign(ways, 0.5 / (ways - 1));
    shares[static_cast<std::size_t>(std::get<std::int64_t>(policy.parameters.at("favoured_way")))] = 0.5;
  } else if (policy.policy == "weighted_random") {
    shares = std::get<std::vector<double>>(policy.parameters.at("victim_weights"));
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    std::transform(shares.begin(), shares.end(), shares.begin(), [sum](double weight) { return weight / sum; });
  }
  return shares;
}

// Intervals that together hold the probabilities of all ways with 99 %, freed of what the watching does to a policy
// like this one.
std::string probability_intervals(const Interrogator& device, const std::vector<std::size_t>& counts,
                                  const Replacement& policy) {
  const auto ways = static_cast<std::uint32_t>(counts.size());
  const std::size_t victims = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const std::vector<double> true_shares = long_run_shares(policy, ways);
  const std::vector<double> watched_shares = shares_of(
      count_ways(simulate_victims(device.classifier(), policy, ways, simulated_victims, device.settings().seed), ways));
  std::string intervals;
  for (std::size_t way = 0; way < counts.size(); ++way) {
    const auto [low, high] = wilson_interval(counts[way], victims, 1 - 0.01 / static_cast<double>(ways));
    const double shift = true_shares[way] - watched_shares[way];
    intervals += (intervals.empty() ? "[" : ", ") + flow_interval({std::max(0.0, low + shift), high + shift});
  }
  return intervals + "]";
}

void fit_stochastic(Interrogator& device, const std::vector<const ConflictClass*>& sets, ReplacementFit& fit) {
  if (device.starts_flooded()) {
    fit.candidates = {policy("random"), policy("weighted_random")};
    fit.reason = "only a set that fills from empty numbers its ways, so even chances cannot be told from uneven ones";
    return;
  }
  // A set that repeats what the others leave to chance has a policy of its own.
  for (const ConflictClass* set : sets) {
    model::Random random(device.settings().seed ^ set->lines.front());
    if (repeats(device, random_walk_question(device, *set, random))) {
      fit.reason = "some sets choose their victims by chance, and others repeat theirs exactly";
      return;
    }
  }
  const std::uint32_t ways = sets.front()->ways;
  const bool equal_ways =
      std::all_of(sets.begin(), sets.end(), [&](const ConflictClass* set) { return set->ways == ways; });
  // Chance may make a true hypothesis look bad once; more victims then decide.
  for (const std::size_t effort : {1U, 4U}) {
    std::vector<std::vector<VictimSequence>> observed;
    std::vector<VictimSequence> all_observed;
    std::vector<std::size_t> counts(ways);
    const std::size_t wanted =
        effort *
        std::max(std::max<std::size_t>(ways <= 16 ? 20000 : 10000, 100UL * ways) / sets.size(), fewest_per_set);
    for (const ConflictClass* set : sets) {
      observed.push_back(observe_victims(device, *set, wanted));
      std::size_t pooled = 0;
      for (auto sequence = observed.back().begin();
           sequence != observed.back().end() && pooled * sets.size() < most_pooled; ++sequence) {
        all_observed.push_back(*sequence);
        pooled += sequence->way.size();
      }
      if (equal_ways) {
        const auto counted = count_ways(observed.back(), ways);
        std::transform(counts.begin(), counts.end(), counted.begin(), counts.begin(), std::plus<>());
      }
    }
    std::vector<Replacement> hypotheses{policy("random")};
    if (equal_ways) {
      const std::size_t victims = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
      const std::vector<double> shares = unblurred_shares(device, counts);
      const auto favoured = static_cast<std::int64_t>(std::max_element(shares.begin(), shares.end()) - shares.begin());
      hypotheses.push_back({.policy = "fermi",
                            .parameters = {{"favoured_way", favoured}, {"others", std::string("random")}},
                            .equivalent = {}});
      hypotheses.push_back(weighted_random(simplest_weights(shares, victims)));
    }
    for (const Replacement& hypothesis : hypotheses) {
      bool fits = true;
      for (std::size_t i = 0; i < sets.size() && fits; ++i) {
        try {
          model::check(hypothesis, {sets[i]->ways});
        } catch (const InputError&) {
          fits = false;  // Fermi's rule needs a second way
          break;
        }
        fits = fit_of(device, observed[i], hypothesis, sets[i]->ways) > 1e-4 / static_cast<double>(sets.size());
      }
      // What no set by itself shows, all of them together may.
      fits = fits && (!equal_ways || fit_of(device, all_observed, hypothesis, ways) > 1e-3);
      if (fits) {
        fit.candidates.push_back(hypothesis);
        if (equal_ways) {
          fit.details["victim_probability_intervals"] = probability_intervals(device, counts, hypothesis);
          fit.details["victims_observed"] =
              std::to_string(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
        }
        return;  // the simplest comes first: even chances, then Fermi's rule, then weights fitted to the counts
      }
    }
  }
  fit.reason =
      "victims are drawn by chance, but neither independently of each other and of recency nor by Fermi's rule";
}

// With a single way there is nothing to choose, and every policy that can have one does the same.
Replacement nothing_to_choose() {
  Replacement first;
  for (const std::string_view name : model::policy_names()) {
    Replacement other = policy(std::string(name));
    if (name == "weighted_random") {
      other.parameters["victim_weights"] = std::vector<double>{1};
    }
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

// After a flood only the orders of LRU and FIFO are as good as new; other policies are in a state that nobody knows.
std::vector<Replacement> guesses(const Interrogator& device, const std::vector<const ConflictClass*>& tried) {
  std::vector<std::uint32_t> ways;
  for (const ConflictClass* set : tried) {
    ways.push_back(set->ways);
  }
  std::vector<Replacement> guesses = model::guessed_policies(ways);
  if (device.starts_flooded()) {
    std::erase_if(guesses, [](const Replacement& guess) { return guess.policy != "lru" && guess.policy != "fifo"; });
  }
  return guesses;
}

// Takes out the candidates that predict answers otherwise than they come.
void keep_what_explains(Interrogator& device, const std::vector<SetQuestion>& questions,
                        std::vector<Replacement>& candidates) {
  std::vector<model::Question> asked;
  for (const SetQuestion& question : questions) {
    asked.push_back(question.asked);
  }
  const auto answers = device.ask_voted(asked, device.votes_needed());
  std::vector<std::size_t> wrong(candidates.size());
  std::size_t judged = 0;
  for (std::size_t q = 0; q < questions.size(); ++q) {
    std::vector<model::Measured> measured;
    for (const Reading reading : answers[q]) {
      measured.push_back(reading == Reading::unclear ? model::Measured::unclear
                         : reading == Reading::miss  ? model::Measured::miss
                                                     : model::Measured::hit);
      judged += reading != Reading::unclear ? 1U : 0U;
    }
    model::HypothesisTester tester(1, 1);
    tester.add(questions[q].line_numbers, measured);
    std::vector<model::Hypothesis> hypotheses;
    for (const Replacement& candidate : candidates) {
      hypotheses.push_back({.index = model::BitsIndex{}, .ways = {questions[q].ways}, .replacement = candidate});
    }
    const std::vector<std::size_t> wrong_here = tester.wrong(hypotheses, 1);
    std::transform(wrong.begin(), wrong.end(), wrong_here.begin(), wrong.begin(), std::plus<>());
  }
  std::vector<Replacement> kept;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    if (wrong[c] * 2000 <= judged) {
      kept.push_back(std::move(candidates[c]));
    }
  }
  candidates = std::move(kept);
}

// Asks the sequences on which candidates differ until all that are left behave alike, and makes one of those. Several
// come back where the sets have too many ways to find the difference.
std::vector<Replacement> tell_apart(Interrogator& device, const std::vector<const ConflictClass*>& tried,
                                    std::vector<Replacement> candidates,
                                    std::map<std::string, model::FlowYaml>& details) {
  const model::ComparisonLimits limits{.pairs_of_states = std::size_t{1} << 14U};
  std::optional<unsigned> alike_for_accesses;
  std::size_t first = 0;
  while (first + 1 < candidates.size()) {
    Replacement& representative = candidates[first];
    std::optional<SetQuestion> decisive;
    for (const ConflictClass* set : tried) {
      const model::Comparison comparison = model::compare(representative, candidates[first + 1], set->ways, limits);
      if (comparison.difference) {
        decisive = SetQuestion{.asked = device.question({}, {}), .line_numbers = {}, .ways = set->ways};
        for (const std::uint32_t line : *comparison.difference) {
          decisive->line_numbers.push_back(line);
          decisive->asked.record.push_back(set->lines[line]);
        }
        break;
      }
      if (comparison.depth_accesses) {
        alike_for_accesses =
            std::min(alike_for_accesses.value_or(*comparison.depth_accesses), *comparison.depth_accesses);
      }
    }
    if (!decisive) {
      representative.equivalent.push_back(to_text(candidates[first + 1]));
      candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(first) + 1);
      continue;
    }
    const std::size_t before = candidates.size();
    keep_what_explains(device, {*decisive}, candidates);
    if (candidates.size() == before) {
      ++first;  // the answer was unclear
    }
  }
  if (alike_for_accesses) {
    details["equivalent_for_accesses"] = std::to_string(*alike_for_accesses);
  }
  return candidates;
}

}  // namespace

double fresh_victims_fit(Interrogator& device, const ConflictClass& set, const Replacement& policy,
                         std::size_t wanted) {
  return fit_of(device, observe_victims(device, set, wanted), policy, set.ways);
}

ReplacementFit fit_replacement(Interrogator& device, const std::vector<ConflictClass>& sets) {
  ReplacementFit fit;
  const std::vector<const ConflictClass*> tried = sets_to_try(sets, 4);
  if (tried.empty()) {
    fit.candidates.push_back(nothing_to_choose());
    fit.details["deterministic"] = "true";
    return fit;
  }

  model::Random random(device.settings().seed ^ 0x4e91ULL);
  std::vector<SetQuestion> questions;
  for (const ConflictClass* set : tried) {
    for (std::size_t i = 0; i < 2; ++i) {
      questions.push_back(random_walk_question(device, *set, random));
    }
  }
  const bool deterministic = repeats(device, questions.front());
  const double strays = device.classifier().hit_misread_rate() + device.classifier().miss_misread_rate();
  constexpr double too_many_strays = 0.02;
  fit.details["deterministic"] = strays > 2 * too_many_strays ? "null" : (deterministic ? "true" : "false");
  if (!deterministic) {
    constexpr std::size_t most_sets = 64;
    fit_stochastic(device, sets_to_try(sets, most_sets), fit);
    return fit;
  }
  std::vector<Replacement> candidates = guesses(device, tried);
  fit.details["policies_tried"] = std::to_string(candidates.size());
  keep_what_explains(device, questions, candidates);
  fit.candidates = tell_apart(device, tried, std::move(candidates), fit.details);
  if (fit.candidates.empty()) {
    fit.reason = "the victims repeat exactly, and no deterministic policy that is known here explains them";
  } else if (fit.candidates.size() > 1) {
    fit.reason = "several policies explain all answers";
  }
  return fit;
}

}  // namespace gpuinfer::infer
