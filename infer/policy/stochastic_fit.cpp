// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/stochastic_fit.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/policy/bimodal_fit.hpp"
#include "infer/policy/policy_questions.hpp"
#include "infer/policy/pseudo_random.hpp"
#include "infer/policy/repeatability.hpp"
#include "infer/policy/victims.hpp"
#include "model/errors.hpp"
#include "model/policies/weighted_random.hpp"
#include "model/policy_traits.hpp"

namespace gpuinfer::infer {

namespace {

using model::Replacement;

constexpr std::size_t simulated_per_observed = 4;
constexpr std::size_t simulated_victims = 200000;  // for shares: so many that their own chance does not show
constexpr std::size_t fewest_per_set = 300;

// Beyond so many victims, what the simulation leaves out (strays, say) would begin to show.
constexpr std::size_t most_pooled = 40000;

// How often accesses are misread is known within limits only, so several rates are tried: as counted, never quite
// zero, and up to the bounds and as far below. Thousands of victims tell such rates apart. After a flood, hits that
// were counted as misread may have been misses, as chance keeps lines or not.
std::vector<ReadingRates> possible_rates(const Interrogator& device, const std::vector<VictimSequence>& observed) {
  const LevelClassifier& classifier = device.classifier();
  const ReadingRates counted = reading_rates(classifier, observed);
  std::vector<ReadingRates> rates{counted,
                                  {.hit_misreads = classifier.hit_misread_rate(),
                                   .miss_misreads = classifier.miss_misread_rate(),
                                   .unclear = unclear_share(observed)}};
  const auto towards = [](double counted_rate, double bound, double part) {
    return std::max(0.0, std::lerp(counted_rate, bound, part));
  };
  for (const double part : {0.5, 1.0, -0.5, -1.0}) {
    rates.push_back(counted);
    rates.back().hit_misreads = towards(counted.hit_misreads, classifier.hit_misread_bound(), part);
    rates.back().miss_misreads = towards(counted.miss_misreads, classifier.miss_misread_bound(), part);
  }
  if (device.starts_flooded()) {
    for (const double share : {0.8, 0.65, 0.5, 0.35, 0.2, 0.0}) {
      rates.push_back(counted);
      rates.back().hit_misreads *= share;
    }
  }
  return rates;
}

// With the rates that fit best.
double fit_of(const Interrogator& device, const std::vector<VictimSequence>& observed, const Replacement& policy,
              std::uint32_t ways) {
  const std::size_t victims = victims_in(observed);
  constexpr double never = 1e-9;
  double best = 0;
  for (const ReadingRates& rates : possible_rates(device, observed)) {
    const auto simulated =
        simulate_victims(device, policy, ways, std::max<std::size_t>(2000, simulated_per_observed * victims),
                         stream(device.settings(), "victims of a candidate")(), rates);
    double fit = same_source(observed, simulated, ways);
    if (device.starts_flooded()) {
      const double even = as_even(observed, simulated, ways);
      if (even < never) {
        return even;  // at any rate: misreads leave chances as even as they are
      }
      fit = std::min(fit, even);
    }
    best = std::max(best, fit);
    if (best > 0.01) {
      break;
    }
  }
  return best;
}

std::vector<double> shares_of(const std::vector<std::size_t>& counts) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  std::vector<double> shares;
  for (const std::size_t count : counts) {
    shares.push_back(static_cast<double>(count) / total);
  }
  return shares;
}

// Misreads, and the end of an answer before the last victim is met, blur what is seen, so the weights are those whose
// simulation, blurred alike, shows what was observed.
std::vector<double> unblurred_shares(const Interrogator& device, const std::vector<std::size_t>& counts,
                                     const ReadingRates& rates) {
  std::vector<double> observed = shares_of(counts);
  std::vector<double> weights = observed;
  const auto ways = static_cast<std::uint32_t>(counts.size());
  for (int round = 0; round < 2; ++round) {
    const auto simulated =
        shares_of(count_ways(simulate_victims(device, model::WeightedRandom::of(weights), ways, simulated_victims,
                                              stream(device.settings(), "blurred victims", round)(), rates),
                             ways));
    for (std::size_t way = 0; way < weights.size(); ++way) {
      weights[way] = std::max(0.0, weights[way] + observed[way] - simulated[way]);
    }
    // Where the answers contradict each other so much that a simulation has no victim to follow.
    if (std::accumulate(weights.begin(), weights.end(), 0.0) <= 0) {
      return observed;
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

// Intervals each of which holds the probability of its way with this confidence, freed of what the watching does to a
// policy like this one.
model::Victims probability_intervals(const Interrogator& device, const std::vector<std::size_t>& counts,
                                     const ReadingRates& rates, const Replacement& policy, double confidence) {
  const auto ways = static_cast<std::uint32_t>(counts.size());
  const std::size_t victims = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const std::vector<double> true_shares = model::long_run_shares(policy, ways);
  const std::vector<double> watched_shares = shares_of(count_ways(
      simulate_victims(device, policy, ways, simulated_victims, stream(device.settings(), "watched victims")(), rates),
      ways));
  const auto rounded = [](double value) { return std::round(value * 1e4) / 1e4; };
  model::Victims intervals;
  for (std::size_t way = 0; way < counts.size(); ++way) {
    const auto [low, high] = wilson_interval(counts[way], victims, confidence);
    const double shift = true_shares[way] - watched_shares[way];
    intervals.push_back({rounded(std::max(0.0, low + shift)), rounded(high + shift)});
  }
  return intervals;
}

// Victims of all sets that were watched.
struct Watched {
  std::vector<std::vector<VictimSequence>> of_set;
  std::vector<VictimSequence> pooled;  // of all sets, as many of each
  std::vector<std::size_t> counts;     // by way; empty where sets differ in ways

  [[nodiscard]] std::size_t victims() const { return std::accumulate(counts.begin(), counts.end(), std::size_t{0}); }
};

Watched watch(Interrogator& device, const std::vector<const ConflictClass*>& sets, std::size_t wanted,
              bool equal_ways) {
  Watched watched;
  watched.counts.resize(equal_ways ? sets.front()->ways : 0);
  for (const ConflictClass* set : sets) {
    const auto& observed = watched.of_set.emplace_back(observe_victims(device, *set, wanted));
    std::size_t pooled = 0;
    for (auto sequence = observed.begin(); sequence != observed.end() && pooled * sets.size() < most_pooled;
         ++sequence) {
      watched.pooled.push_back(*sequence);
      pooled += sequence->way.size();
    }
    if (equal_ways) {
      const auto counted = count_ways(observed, set->ways);
      std::transform(watched.counts.begin(), watched.counts.end(), counted.begin(), watched.counts.begin(),
                     std::plus<>());
    }
  }
  return watched;
}

std::vector<Replacement> hypotheses_for(const Interrogator& device, const Watched& watched) {
  if (watched.counts.empty() || watched.victims() == 0 || device.starts_flooded()) {
    return model::policies_of_shares({}, {});
  }
  const std::vector<double> shares =
      unblurred_shares(device, watched.counts, reading_rates(device.classifier(), watched.pooled));
  return model::policies_of_shares(shares, simplest_weights(shares, watched.victims()));
}

bool explains(const Interrogator& device, const std::vector<const ConflictClass*>& sets, const Watched& watched,
              const Replacement& hypothesis) {
  for (std::size_t i = 0; i < sets.size(); ++i) {
    try {
      model::check(hypothesis, {sets[i]->ways});
    } catch (const InputError&) {
      return false;  // it needs more ways
    }
    if (fit_of(device, watched.of_set[i], hypothesis, sets[i]->ways) <= 1e-4 / static_cast<double>(sets.size())) {
      return false;
    }
  }
  // What no set by itself shows, all of them together may.
  return watched.counts.empty() || fit_of(device, watched.pooled, hypothesis, sets.front()->ways) > 1e-3;
}

// Only a set that fills from empty numbers its ways; in others, uneven chances must be seen to be absent.
bool would_be_uneven(const Interrogator& device, const std::vector<const ConflictClass*>& sets,
                     const Watched& watched) {
  const auto is_refuted = [&](const std::vector<VictimSequence>& observed, std::uint32_t ways) {
    std::vector<double> weights;
    for (std::uint32_t way = 0; way < ways; ++way) {
      weights.push_back(1 + way % 2);
    }
    return as_even(observed,
                   simulate_victims(device, model::WeightedRandom::of(std::move(weights)), ways, simulated_victims,
                                    stream(device.settings(), "uneven victims")(),
                                    reading_rates(device.classifier(), observed)),
                   ways) < wrong_verdict;
  };
  if (!watched.counts.empty()) {
    return is_refuted(watched.pooled, sets.front()->ways);
  }
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (!is_refuted(watched.of_set[i], sets[i]->ways)) {
      return false;
    }
  }
  return true;
}

// A question in which some lines of a full set are hit, then new ones come, and all are met again.
struct HitsThenVictims {
  model::Question question;
  std::vector<bool> was_hit;  // of the lines that are met again, which end the question

  [[nodiscard]] int more_victims_among_hits(const LevelClassifier& classifier, std::span<const float> latencies) const {
    int more = 0;
    const auto met_again = latencies.last(was_hit.size());
    for (std::size_t i = 0; i < was_hit.size(); ++i) {
      more += classifier.read(met_again[i]) != Reading::miss ? 0 : was_hit[i] ? 1 : -1;
    }
    return more;
  }
};

HitsThenVictims hits_then_victims(const Interrogator& device, const ConflictClass& set, model::Random& random) {
  AccessSequence lines(set.lines.begin(), set.lines.begin() + set.ways);
  random.shuffle(lines);
  const auto half = static_cast<std::ptrdiff_t>(set.ways / 2);
  AccessSequence again(lines.begin(), lines.begin() + 2 * half);
  random.shuffle(again);
  const std::set<std::uint64_t> hit(again.begin(), again.begin() + half);
  AccessSequence record;
  for (int times = 0; times < 2; ++times) {
    record.insert(record.end(), hit.begin(), hit.end());
  }
  const std::size_t others = std::min<std::size_t>(set.lines.size() - set.ways, std::max(1U, set.ways / 2));
  record.insert(record.end(), set.lines.begin() + set.ways,
                set.lines.begin() + static_cast<std::ptrdiff_t>(set.ways + others));
  random.shuffle(again);
  record.insert(record.end(), again.begin(), again.end());
  HitsThenVictims asked{.question = device.question(lines, std::move(record)), .was_hit = {}};
  for (const std::uint64_t line : again) {
    asked.was_hit.push_back(hit.contains(line));
  }
  return asked;
}

// p-value of the hypothesis that a line goes as often whether it was hit or not. Which lines are hit, and in which
// order all are met again, is drawn each time anew, so nothing else tells one half from the other.
double hits_do_not_matter(Interrogator& device, const std::vector<const ConflictClass*>& sets) {
  constexpr std::size_t lines_met_again = 70000;  // where victims are spared one time in ten, eight deviations then
  constexpr std::size_t questions_at_once = 64;
  model::Random random = stream(device.settings(), "lines that are hit");
  double more = 0;
  double squares = 0;
  for (std::size_t met = 0, number = 0; met < lines_met_again;) {
    std::vector<HitsThenVictims> asked;
    std::vector<model::Question> batch;
    for (; asked.size() < questions_at_once; ++number) {
      asked.push_back(hits_then_victims(device, *sets[number % sets.size()], random));
      batch.push_back(asked.back().question);
      met += asked.back().was_hit.size();
    }
    const auto latencies = device.latencies(batch);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const double difference = asked[i].more_victims_among_hits(device.classifier(), latencies[i]);
      more += difference;
      squares += difference * difference;
    }
  }
  return squares == 0 ? 1.0 : std::erfc(std::abs(more) / std::sqrt(2 * squares));
}

bool spares_lines_that_were_hit(Interrogator& device, const std::vector<const ConflictClass*>& sets) {
  constexpr double rarer_than = 1e-5;
  // Only an empty set is full of the lines that are loaded into it.
  if (start_of(device) == SetStart::flooded || std::ranges::any_of(sets, [](const ConflictClass* set) {
        return set->ways < 2 || set->lines.size() <= set->ways;
      })) {
    return false;
  }
  device.inquire("half of the lines of a full set, then new ones, then all of that set",
                 "lines that were hit may be evicted less often");
  const bool spares = hits_do_not_matter(device, sets) < rarer_than;
  device.learned(spares ? "lines that were hit are evicted more or less often than others" : "hits make no difference");
  return spares;
}

constexpr std::size_t long_chase_accesses = 8000;

// The victims that are not of this way, with the ways numbered as if it were not there.
void leave_out(std::vector<VictimSequence>& sequences, std::uint32_t left_out) {
  for (VictimSequence& sequence : sequences) {
    VictimSequence others;
    for (std::size_t i = 0; i < sequence.way.size(); ++i) {
      if (sequence.way[i] != left_out) {
        others.way.push_back(sequence.way[i] - (sequence.way[i] > left_out ? 1 : 0));
        others.recency_rank.push_back(sequence.recency_rank[i]);
        others.access.push_back(sequence.access[i]);
      }
    }
    sequence = std::move(others);
  }
}

// `law`: of chance, which explains the victims. Whatever it says of them betrays no generator.
std::optional<Generator> generator_of(Interrogator& device, const ConflictClass& set, const Watched& watched,
                                      const std::optional<Replacement>& law) {
  // So long that periods of a thousand victims are met twice, every second line or so being one.
  const std::size_t accesses = device.starts_flooded()
                                   ? std::max<std::size_t>(long_chase_accesses, 1100UL * (set.ways + 1))
                                   : long_chase_accesses;
  std::vector<VictimSequence> chases = observe_long(device, set, accesses, 2);
  std::vector<VictimSequence> short_ones = watched.of_set.front();
  std::uint32_t ways = set.ways;
  if (const auto in_turn = law ? model::way_in_turn(*law) : std::nullopt) {
    leave_out(chases, *in_turn);
    leave_out(short_ones, *in_turn);
    --ways;
  }
  const auto generator = find_generator(chases, ways);
  return generator ? generator : find_generator(short_ones, ways);
}

// How long a period would have shown: it is met twice in the longest sequence.
std::size_t periods_excluded(const Watched& watched) {
  std::size_t longest = 0;
  for (const VictimSequence& sequence : watched.of_set.front()) {
    longest = std::max(longest, sequence.way.size());
  }
  return longest / 2;
}

// A set that repeats what the others leave to chance has a policy of its own.
bool some_repeat(Interrogator& device, const std::vector<const ConflictClass*>& sets) {
  return std::ranges::any_of(sets, [&](const ConflictClass* set) {
    return repeats_for_long(device, *set, [&](AccessSequence walk) { return device.question({}, std::move(walk)); });
  });
}

// Of each set.
std::size_t victims_wanted(const std::vector<const ConflictClass*>& sets, bool floods) {
  constexpr std::size_t fewest_flooded = 2000;
  const std::uint32_t ways = sets.front()->ways;
  const std::size_t most_ways = std::ranges::max(sets, {}, &ConflictClass::ways)->ways;
  return std::max(std::max<std::size_t>(ways <= 16 ? 20000 : 10000, 100UL * ways) / sets.size(),
                  floods ? std::max(fewest_flooded, 100UL * most_ways) : fewest_per_set);
}

void tell(const Generator& generator, ReplacementFit& fit) {
  fit.details.period = generator.period_victims;
  fit.details.linear_complexity = generator.linear_complexity;
  fit.reason = "pseudo-random: the victims " + to_text(generator);
}

void tell(const Interrogator& device, const Watched& watched, const Replacement& law, ReplacementFit& fit) {
  fit.candidates.push_back(law);
  fit.details.periods_excluded_up_to = periods_excluded(watched);
  if (!watched.counts.empty() && !device.starts_flooded()) {
    const ReadingRates rates = reading_rates(device.classifier(), watched.pooled);
    const auto ways = static_cast<double>(watched.counts.size());
    fit.details.victim_probability_intervals =
        probability_intervals(device, watched.counts, rates, law, 1 - 0.01 / ways);
    fit.details.victim_probability_intervals_95_percent_each =
        probability_intervals(device, watched.counts, rates, law, 0.95);
    fit.details.victims_observed = watched.victims();
  }
}

}  // namespace

ReplacementFit fit_stochastic(Interrogator& device, std::vector<const ConflictClass*> sets,
                              model::EvidenceDetails details) {
  if (auto bimodal = fit_bimodal(device, sets, details)) {
    return *std::move(bimodal);
  }
  ReplacementFit fit{.candidates = {}, .reason = {}, .details = std::move(details)};
  if (some_repeat(device, sets)) {
    fit.reason = "some sets choose random victims, and others repeat theirs exactly";
    return fit;
  }
  constexpr std::size_t most_flooded = 4;  // sets that are watched
  const bool floods = device.starts_flooded();
  if (floods) {
    sets.resize(std::min(sets.size(), most_flooded));
  }
  const bool equal_ways = std::ranges::all_of(
      sets, [&](std::uint32_t ways) { return ways == sets.front()->ways; }, &ConflictClass::ways);
  // Chance may make a true hypothesis look bad once; more victims then decide.
  for (const std::size_t effort : {1U, 4U}) {
    const std::size_t wanted = effort * victims_wanted(sets, floods);
    const std::string of_sets = std::to_string(sets.size()) + (sets.size() == 1 ? " set" : " sets");
    device.inquire("victims of " + of_sets + ", at least " + std::to_string(wanted) + " each",
                   effort == 1 ? "the same question is answered differently, so victims are random"
                               : "no law of chance fits, which chance itself may do; more victims decide");
    const Watched watched = watch(device, sets, wanted, equal_ways);
    const std::vector<Replacement> hypotheses = hypotheses_for(device, watched);
    const auto fitting = std::ranges::find_if(
        hypotheses, [&](const Replacement& hypothesis) { return explains(device, sets, watched, hypothesis); });
    const bool is_told = fitting != hypotheses.end() && (!floods || would_be_uneven(device, sets, watched));
    const std::optional<Replacement> law = is_told ? std::optional(*fitting) : std::nullopt;
    if (effort == 1 || law) {
      if (const auto generator = generator_of(device, *sets.front(), watched, law)) {
        tell(*generator, fit);
        device.learned(fit.reason);
        return fit;
      }
    }
    if (law && spares_lines_that_were_hit(device, sets)) {
      fit.reason = "victims are drawn by chance, and whether a line was hit changes its chance";
      return fit;
    }
    if (law) {
      device.learned("the victims are those of " + model::to_text(*law), hypotheses.size(), 1);
      tell(device, watched, *law, fit);
      return fit;
    }
    device.learned("none of the known laws of chance draws such victims", hypotheses.size(), 0);
  }
  fit.reason =
      floods
          ? "chance decides, and by which law cannot be told: even chances do not explain the victims, or too few were "
            "followed for long enough, and only a set that fills from empty numbers its ways"
          : "victims are random, but neither independently of each other and of recency nor by Fermi's rule";
  return fit;
}

double fresh_victims_fit(Interrogator& device, const ConflictClass& set, const Replacement& policy,
                         std::size_t wanted) {
  if (model::tosses_coin(policy)) {
    constexpr std::size_t answers = 60;
    return fresh_bimodal_fit(device, {&set}, policy, answers);
  }
  return fit_of(device, observe_victims(device, set, wanted), policy, set.ways);
}

std::uint32_t lines_for_fresh_victims(const Interrogator& device, const Replacement& policy, std::uint32_t ways) {
  return model::tosses_coin(policy) ? lines_to_follow(device, policy, ways) : ways + 1;
}

}  // namespace gpuinfer::infer
