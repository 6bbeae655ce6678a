// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/bimodal_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>

#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "infer/policy/coin_experiment.hpp"
#include "model/coin_set.hpp"
#include "model/policy_traits.hpp"

namespace gpuinfer::infer {

namespace {

using model::CoinSet;
using model::Replacement;
using Line = CoinSet::Line;

// Whether no accesses and no coins tell two policies apart in a set of so many ways: all pairs of states are gone
// through. False also where there are too many.
bool are_alike(const Replacement& a, const Replacement& b, std::size_t ways) {
  constexpr std::size_t most_pairs = 20000;
  std::vector<std::pair<CoinSet, CoinSet>> open{{CoinSet(a, ways), CoinSet(b, ways)}};
  std::set<std::vector<std::uint32_t>> seen;
  while (!open.empty()) {
    const auto [in_a, in_b] = std::move(open.back());
    open.pop_back();
    std::vector<std::uint32_t> name_of(ways + 1);
    for (std::size_t place = 0; place < in_a.lines().size(); ++place) {
      name_of[in_a.lines()[place]] = static_cast<std::uint32_t>(place);
    }
    std::vector<std::uint32_t> key = in_a.key(name_of);
    const auto key_b = in_b.key(name_of);
    key.insert(key.end(), key_b.begin(), key_b.end());
    if (!seen.insert(std::move(key)).second) {
      continue;
    }
    if (seen.size() > most_pairs) {
      return false;
    }
    for (std::size_t number = 0; number <= ways; ++number) {
      const auto line = static_cast<Line>(number);
      if (const auto place = in_a.find(line)) {
        auto next = std::pair(in_a, in_b);
        next.first.hit(*place);
        next.second.hit(*in_b.find(line));
        open.push_back(std::move(next));
        continue;
      }
      for (const bool coin : {false, true}) {
        auto next = std::pair(in_a, in_b);
        if (next.first.miss(line, coin) != next.second.miss(line, coin)) {
          return false;
        }
        open.push_back(std::move(next));
      }
    }
  }
  return true;
}

struct Intervals {
  std::pair<double, double> of_95_percent;
  std::pair<double, double> of_999_permille;  // even where it is the best of three
};

// A policy with the chance that fits it best.
struct Fitted {
  std::size_t number = 0;  // its place in coin_policies()
  Replacement policy;      // whatever its chance
  double chance = 0.1;
  double log_likelihood = 0;
  double coins = 0;
  std::vector<std::size_t> alike;  // numbers of others that nothing tells apart from this one
  std::optional<Intervals> one_in;
  Elsewhere elsewhere;
};

// Expectation maximisation (Dempster, Laird & Rubin 1977).
void maximise(const CoinExperiment& experiment, const std::vector<CoinAnswer>& answers, Fitted& fitted, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    ExplainedByCoins sum;
    for (const CoinAnswer& answer : answers) {
      const ExplainedByCoins one = experiment.explain(answer, fitted.policy, fitted.chance, fitted.elsewhere);
      sum.log_likelihood += one.log_likelihood;
      sum.rare += one.rare;
      sum.coins += one.coins;
    }
    fitted.log_likelihood = sum.log_likelihood;
    fitted.coins = sum.coins;
    fitted.chance = std::clamp(sum.rare / std::max(1.0, sum.coins), 1e-6, 1 - 1e-6);
  }
}

// Moves the chance to the top of the likelihood, by parabolas in the logarithm of the odds. None: it is not found.
std::optional<Intervals> one_in_intervals(const CoinExperiment& experiment, const std::vector<CoinAnswer>& answers,
                                          Fitted& fitted) {
  constexpr double step = 0.15;
  constexpr int most_moves = 8;
  double odds = std::log(fitted.chance / (1 - fitted.chance));
  const auto likelihood_at = [&](double at) {
    return experiment.log_likelihood(answers, fitted.policy, 1 / (1 + std::exp(-at)));
  };
  for (int move = 0; move < most_moves; ++move) {
    const double here = likelihood_at(odds);
    const double below = likelihood_at(odds - step);
    const double above = likelihood_at(odds + step);
    const double chance = 1 / (1 + std::exp(-odds));
    // Coins that are seen only through what they lead to tell no more than as many seen in the open.
    const double curvature =
        std::clamp((2 * here - below - above) / (step * step), 1e-9, fitted.coins * chance * (1 - chance));
    const double shift = std::clamp((above - below) / (2 * step) / curvature, -0.5, 0.5);
    odds += shift;
    if (std::abs(shift) < step / 2) {
      fitted.chance = 1 / (1 + std::exp(-odds));
      const auto within = [&](double deviations) {
        const double half = deviations / std::sqrt(curvature);
        return std::pair(1 + std::exp(-(odds + half)), 1 + std::exp(-(odds - half)));
      };
      return Intervals{.of_95_percent = within(1.96), .of_999_permille = within(3.59)};
    }
  }
  return std::nullopt;
}

// The only power of two in the interval, else the whole numbers in it.
std::vector<std::int64_t> whole_numbers_in(std::pair<double, double> interval) {
  std::vector<std::int64_t> powers;
  for (std::int64_t power = 2; static_cast<double>(power) <= interval.second && power < (std::int64_t{1} << 30);
       power *= 2) {
    if (static_cast<double>(power) >= interval.first) {
      powers.push_back(power);
    }
  }
  if (powers.size() == 1) {
    return powers;
  }
  constexpr std::size_t most_listed = 8;
  std::vector<std::int64_t> all;
  for (auto number = static_cast<std::int64_t>(std::ceil(std::max(2.0, interval.first)));
       static_cast<double>(number) <= interval.second && all.size() < most_listed; ++number) {
    all.push_back(number);
  }
  return all;
}

// Each set by itself must toss the same coin.
bool sets_agree(const CoinExperiment& experiment, const std::vector<CoinAnswer>& answers, std::size_t sets,
                const Fitted& fitted) {
  std::vector<double> rare(sets);
  std::vector<double> coins(sets);
  for (const CoinAnswer& answer : answers) {
    const ExplainedByCoins one = experiment.explain(answer, fitted.policy, fitted.chance);
    rare[answer.set] += one.rare;
    coins[answer.set] += one.coins;
  }
  for (std::size_t set = 0; set < sets; ++set) {
    const auto tossed = static_cast<std::size_t>(std::lround(coins[set]));
    const auto fell = static_cast<std::size_t>(std::lround(std::min(rare[set], coins[set])));
    const double bound = 1e-4 / static_cast<double>(sets);
    if (binomial_upper_tail(fell, tossed, fitted.chance) < bound ||
        binomial_upper_tail(tossed - fell, tossed, 1 - fitted.chance) < bound) {
      return false;
    }
  }
  return true;
}

// How far the numbers of coins that fell on the rare side, in blocks of answers that follow each other, are from what
// is expected, in squares of their deviations by chance.
struct CoinSpread {
  double squares = 0;
  std::size_t blocks = 0;
};

struct Spreads {
  CoinSpread in_all;   // answers
  CoinSpread in_sets;  // in those of each set by itself
};

void add_spreads(Spreads& spreads, const CoinExperiment& experiment, const std::vector<CoinAnswer>& answers,
                 std::size_t sets, const Replacement& policy, double chance) {
  constexpr double rare_in_block = 4;  // the more blocks, the better their spread is known
  struct Block {
    double rare = 0;
    double coins = 0;
  };
  const auto add = [&](Block& block, CoinSpread& spread, const ExplainedByCoins& more) {
    block.rare += more.rare;
    block.coins += more.coins;
    const double expected = block.coins * chance;
    if (expected >= rare_in_block) {
      spread.squares += (block.rare - expected) * (block.rare - expected) / (expected * (1 - chance));
      ++spread.blocks;
      block = {};
    }
  };
  Block of_all;
  std::vector<Block> of_set(sets);
  for (const CoinAnswer& answer : answers) {
    const ExplainedByCoins explained = experiment.explain(answer, policy, chance);
    add(of_all, spreads.in_all, explained);
    add(of_set[answer.set], spreads.in_sets, explained);
  }
}

// A count that lets every so many lines stay has the right number of them, and even when it goes on from question to
// question, they come too regularly; a chance that changes makes them come too irregularly (F test).
bool falls_by_chance(CoinExperiment& experiment, const std::vector<CoinAnswer>& answers, std::size_t sets,
                     const Replacement& policy) {
  constexpr int simulations = 4;
  const auto is_plausible = [](const CoinSpread& of_device, const CoinSpread& of_coins) {
    constexpr double rarer_than = 1e-4;
    const std::size_t seen_halves = of_device.blocks / 2;
    const std::size_t halves = seen_halves + of_coins.blocks / 2;
    if (seen_halves == 0 || seen_halves == halves) {
      return true;
    }
    const double share = of_device.squares / (of_device.squares + of_coins.squares);
    return binomial_upper_tail(seen_halves, halves - 1, share) > rarer_than &&
           binomial_upper_tail(halves - seen_halves, halves - 1, 1 - share) > rarer_than;
  };
  const auto add = [&](Spreads& spreads, const std::vector<CoinAnswer>& of) {
    add_spreads(spreads, experiment, of, sets, policy, 1.0 / model::one_in(policy));
  };
  Spreads seen;
  add(seen, answers);
  Spreads simulated;
  for (int i = 0; i < simulations; ++i) {
    add(simulated, experiment.simulate(answers, policy));
  }
  return is_plausible(seen.in_all, simulated.in_all) && is_plausible(seen.in_sets, simulated.in_sets);
}

bool are_alike_in_all(const Replacement& a, const Replacement& b, const std::vector<const ConflictClass*>& sets) {
  std::set<std::uint32_t> ways;
  for (const ConflictClass* set : sets) {
    ways.insert(set->ways);
  }
  return std::all_of(ways.begin(), ways.end(), [&](std::uint32_t count) { return are_alike(a, b, count); });
}

model::RealInterval rounded_interval(std::pair<double, double> interval) {
  const auto hundredths = [](double value) { return std::round(value * 100) / 100; };
  return {hundredths(interval.first), hundredths(interval.second)};
}

constexpr const char* no_coin = "no coin explains which lines stay";

// From a pilot to more answers to fresh ones, each of which leaves fewer policies.
class CoinSearch {
 public:
  CoinSearch(Interrogator& device, const std::vector<const ConflictClass*>& sets)
      : device_(device), sets_(sets), experiment_(device, sets, stream(device.settings(), "walks of a coin")) {
    const std::vector<Replacement> policies = model::coin_policies(2);
    for (std::size_t number = 0; number < policies.size(); ++number) {
      if (experiment_.knows_ways() || !CoinSet(policies[number], 1).depends_on_ways()) {
        fitted_.push_back({.number = number,
                           .policy = policies[number],
                           .chance = 0.1,
                           .log_likelihood = 0,
                           .coins = 0,
                           .alike = {},
                           .one_in = {},
                           .elsewhere = {}});
      }
    }
    possible_ = fitted_.size();
  }

  std::optional<ReplacementFit> run() {
    device_.inquire("new lines that take turns, in sets whose other lines were hit before",
                    "whether a new line stays may be decided by a coin");
    if (!fit_pilot()) {
      device_.learned(no_coin);
      return std::nullopt;
    }
    join_alike();
    narrow();
    std::optional<ReplacementFit> fit = confirmed();
    if (!fit || answers_repeat()) {
      device_.learned(no_coin, possible_, 0);
      return std::nullopt;
    }
    if (fit->candidates.size() > 1) {
      fit->reason = "several policies that toss a coin for each new line explain all answers";
    }
    device_.learned(
        "a coin decides: " + model::to_text(fit->candidates.front()) + (fit->candidates.size() > 1 ? " or others" : ""),
        possible_, fit->candidates.size());
    return fit;
  }

 private:
  void keep_what_is_usable(std::vector<CoinAnswer>& answers, std::optional<double> chance) {
    for (const Fitted& each : fitted_) {
      experiment_.keep_what_is_usable(answers, each.policy, chance.value_or(each.chance));
    }
  }

  void drop_worse_than(double margin) {
    const double best = std::ranges::max(fitted_, {}, &Fitted::log_likelihood).log_likelihood;
    std::erase_if(fitted_, [&](const Fitted& each) { return each.log_likelihood < best - margin; });
  }

  // False where no coin explains them.
  bool fit_pilot() {
    constexpr double far_worse = 30;  // in natural logarithms of a likelihood ratio
    std::vector<CoinAnswer> pilot = experiment_.ask(pilot_answers, false);
    keep_what_is_usable(pilot, 0.2);
    for (Fitted& each : fitted_) {
      maximise(experiment_, pilot, each, 4);
    }
    drop_worse_than(far_worse);
    // The pilot says little of the chance, and small whole numbers are far from each other.
    const auto explains_pilot = [&](const Fitted& each) {
      const double one_in = 1 / std::max(1e-4, each.chance);
      const std::array<double, 2> next_to_it{std::floor(one_in), std::ceil(one_in)};
      return std::ranges::any_of(next_to_it, [&](double number) {
        return experiment_.fit(pilot, policy_of(each.number, std::max(2L, std::lround(number)))) > 1e-6;
      });
    };
    const Fitted& first = fitted_.front();
    return first.coins * first.chance >= 3 && first.chance <= 0.9 && std::ranges::any_of(fitted_, explains_pilot);
  }

  [[nodiscard]] static Replacement policy_of(std::size_t number, std::int64_t one_in) {
    return model::coin_policies(one_in)[number];
  }

  void join_alike() {
    for (std::size_t i = 0; i < fitted_.size(); ++i) {
      for (std::size_t other = fitted_.size() - 1; other > i; --other) {
        if (are_alike_in_all(fitted_[i].policy, fitted_[other].policy, sets_)) {
          fitted_[i].alike.push_back(fitted_[other].number);
          fitted_.erase(fitted_.begin() + static_cast<std::ptrdiff_t>(other));
        }
      }
    }
  }

  // Asks so much that the chance is known within a tenth, and that no set is taken for one of another kind.
  void narrow() {
    constexpr double rare_wanted = 500;
    constexpr double rare_per_set = 14;
    constexpr std::size_t most_answers = 2500;
    constexpr int most_rounds = 3;
    constexpr double worse = 16;
    const double chance = fitted_.front().chance;
    const double wanted = std::max(rare_wanted, rare_per_set * static_cast<double>(sets_.size()));
    const double accesses = experiment_.least_accesses();
    experiment_.set_turns(static_cast<std::size_t>(std::clamp(1 / chance, 6.0, 40.0)));
    rare_per_answer_ =
        chance * (fitted_.front().coins / static_cast<double>(pilot_answers) * experiment_.least_accesses() / accesses);
    const std::size_t answers_at_once = std::min(
        most_answers, std::max<std::size_t>(60, static_cast<std::size_t>(std::ceil(wanted / rare_per_answer_))));
    for (int round = 0; round < most_rounds && (round == 0 || !is_settled()); ++round) {
      std::ranges::move(experiment_.ask(answers_at_once, false), std::back_inserter(answers_));
      keep_what_is_usable(answers_, std::nullopt);
      for (Fitted& each : fitted_) {
        maximise(experiment_, answers_, each, 3);
      }
      drop_worse_than(worse);
      for (Fitted& each : fitted_) {
        each.one_in = one_in_intervals(experiment_, answers_, each);
      }
    }
  }

  [[nodiscard]] bool is_settled() const {
    return fitted_.size() == 1 && fitted_.front().one_in &&
           whole_numbers_in(fitted_.front().one_in->of_999_permille).size() <= 1;
  }

  // What is neither confirmed nor refuted by fresh answers stays a candidate, and then nothing is certain. None: not
  // one is confirmed.
  std::optional<ReplacementFit> confirmed() {
    ReplacementFit fit;
    auto& intervals = fit.details.one_in_interval_95_percent;
    bool one_holds = false;
    for (const Fitted& each : fitted_) {
      const auto found = each.one_in ? whole_numbers_in(each.one_in->of_999_permille) : std::vector<std::int64_t>{};
      const std::vector<std::int64_t> numbers =
          found.empty() ? std::vector{std::max<std::int64_t>(2, std::lround(1 / std::max(1e-4, each.chance)))} : found;
      const double p_value = p_value_of(each, policy_of(each.number, numbers[numbers.size() / 2]));
      if (p_value < 1e-4 || !goes_in_front(each)) {
        continue;
      }
      one_holds = one_holds || (p_value > 0.01 && !found.empty());
      intervals.push_back(each.one_in ? std::optional(rounded_interval(each.one_in->of_95_percent)) : std::nullopt);
      for (const std::int64_t number : numbers) {
        fit.candidates.push_back(with_those_alike(each, number));
      }
    }
    if (!one_holds) {
      return std::nullopt;
    }
    return fit;
  }

  // Whether the answers tell the front from other places, and do not speak for some lines going there.
  [[nodiscard]] bool goes_in_front(const Fitted& fitted) const {
    constexpr double told_apart = 8;  // in natural logarithms of a likelihood ratio
    const std::size_t ways = std::ranges::min(sets_, {}, &ConflictClass::ways)->ways;
    if (CoinSet(fitted.policy, ways).depends_on_ways()) {
      return true;
    }
    const double in_front = experiment_.log_likelihood(answers_, fitted.policy, fitted.chance);
    const auto elsewhere = [&](std::size_t place, double share) {
      Fitted other = fitted;
      other.elsewhere = {.place = place, .share = share};
      maximise(experiment_, answers_, other, 3);
      return other.log_likelihood;
    };
    const std::set<std::size_t> places{1, ways / 4, ways / 2, 3 * ways / 4};
    return std::ranges::all_of(places, [&](std::size_t place) {
      const bool is_an_end = place == 0 || place + 1 >= ways;
      return is_an_end ||
             (elsewhere(place, 1) < in_front - told_apart && elsewhere(place, 0.5) < in_front + told_apart);
    });
  }

  [[nodiscard]] double p_value_of(const Fitted& fitted, const Replacement& likeliest) {
    constexpr std::size_t fresh_answers = 120;
    double p_value = sets_agree(experiment_, answers_, sets_.size(), fitted) &&
                             falls_by_chance(experiment_, answers_, sets_.size(), likeliest)
                         ? 1e-5
                         : 0.0;
    for (int attempt = 0; attempt < 2 && p_value > 0 && p_value < 0.01; ++attempt) {
      const auto fresh = experiment_.ask(std::max(fresh_answers, sets_.size()), true);
      p_value = std::max(p_value, std::min(1.0, 7 * experiment_.fit(fresh, likeliest)));
    }
    return p_value;
  }

  [[nodiscard]] static Replacement with_those_alike(const Fitted& fitted, std::int64_t one_in) {
    Replacement candidate = policy_of(fitted.number, one_in);
    for (const std::size_t alike : fitted.alike) {
      const Replacement same = policy_of(alike, one_in);
      candidate.equivalent.push_back(model::to_text(same));
      candidate.equivalent.insert(candidate.equivalent.end(), same.equivalent.begin(), same.equivalent.end());
    }
    return candidate;
  }

  [[nodiscard]] bool answers_repeat() {
    constexpr double rare_in_one = 20;
    return experiment_.answers_repeat(
        static_cast<std::size_t>(std::clamp(std::ceil(rare_in_one / rare_per_answer_), 1.0, 40.0)));
  }

  static constexpr std::size_t pilot_answers = 60;  // a coin of one in 64 shows in them

  Interrogator& device_;
  const std::vector<const ConflictClass*>& sets_;
  CoinExperiment experiment_;
  std::size_t possible_ = 0;
  std::vector<Fitted> fitted_;
  double rare_per_answer_ = 0;
  std::vector<CoinAnswer> answers_;
};

}  // namespace

std::optional<ReplacementFit> fit_bimodal(Interrogator& device, const std::vector<const ConflictClass*>& sets,
                                          model::EvidenceDetails details) {
  if (std::any_of(sets.begin(), sets.end(), [](const ConflictClass* set) { return set->lines.size() <= set->ways; })) {
    return std::nullopt;
  }
  std::optional<ReplacementFit> fit = CoinSearch(device, sets).run();
  if (fit) {
    details.deterministic = false;
    details.one_in_interval_95_percent = std::move(fit->details.one_in_interval_95_percent);
    fit->details = std::move(details);
  }
  return fit;
}

double fresh_bimodal_fit(Interrogator& device, const std::vector<const ConflictClass*>& sets, const Replacement& policy,
                         std::size_t answers) {
  CoinExperiment experiment(device, sets, stream(device.settings(), "fresh walks of a coin", device.questions_asked()));
  experiment.set_turns(static_cast<std::size_t>(std::clamp(static_cast<double>(model::one_in(policy)), 6.0, 40.0)));
  return experiment.fit(experiment.ask(answers, true), policy);
}

std::uint32_t lines_to_follow(const Interrogator& device, const Replacement& policy, std::uint32_t ways) {
  return device.starts_flooded() && CoinSet(policy, 1).depends_on_ways() ? 2 * ways : ways + 1;
}

bool new_lines_stay_at_times(Interrogator& device, const ConflictClass& set, const Replacement& policy) {
  constexpr std::size_t turns = 400;
  constexpr unsigned times = 8;
  if (set.lines.size() < set.ways + std::size_t{2}) {
    return false;
  }
  CoinWalk walk{.warm = hits_that_forget(set.ways), .record = {}};
  for (std::size_t turn = 0; turn < turns; ++turn) {
    walk.record.push_back(static_cast<Line>(set.ways + turn % 2));
  }
  const std::vector<model::Outcome> predicted = outcomes_in_one_set(walk, set.ways, policy, 0);
  if (!std::all_of(predicted.begin(), predicted.end(), model::is_miss)) {
    return false;
  }
  const std::vector<model::Question> batch(times,
                                           device.question(offsets_of(set, walk.warm), offsets_of(set, walk.record)));
  device.inquire("two new lines that take turns, again and again", "a coin may let one stay now and then");
  std::size_t read = 0;
  std::size_t hits = 0;
  for (const std::vector<float>& answer : device.latencies(batch)) {
    for (const float latency : answer) {
      const Reading reading = device.classifier().read(latency);
      read += reading == Reading::unclear ? 0U : 1U;
      hits += reading == Reading::hit ? 1U : 0U;
    }
  }
  const bool stays = binomial_upper_tail(hits, read, device.classifier().miss_misread_bound()) < 1e-6;
  device.learned(stays ? "now and then one stays" : "none ever stays");
  return stays;
}

}  // namespace gpuinfer::infer
