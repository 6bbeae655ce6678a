// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/bimodal_fit.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <span>

#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "infer/policy/repeatability.hpp"
#include "model/cache_simulator.hpp"
#include "model/coin_set.hpp"
#include "model/policy_traits.hpp"
#include "model/random.hpp"

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

struct Walk {
  std::vector<Line> warm;
  std::vector<Line> record;
};

// So many hits on end leave nothing of the prediction that a line came with.
constexpr std::uint64_t hits_to_forget = 7;

// Each line is hit before the next one comes, which BIP otherwise places in the way that it has just filled: so these
// lines are in the set afterwards, whatever was in it before.
std::vector<Line> hits_that_forget(std::uint32_t ways) {
  std::vector<Line> accesses;
  for (std::uint32_t line = 0; line < ways; ++line) {
    accesses.insert(accesses.end(), 1 + hits_to_forget, static_cast<Line>(line));
  }
  return accesses;
}

// The longer lines take turns, the longer the walk: no round is much of it, and the coins of its start, which nothing
// shows, are few among all.
std::size_t least_length(std::uint32_t ways, std::size_t turns) {
  return std::max({std::size_t{160}, std::size_t{3} * ways, 12 * turns});
}

// Two lines take turns, each of which evicts the other unless the coin falls on the rare side.
void take_turns(Line first, Line second, std::uint64_t turns, std::vector<Line>& record) {
  for (; turns > 0 && second != first; --turns) {
    record.push_back(first);
    record.push_back(second);
  }
}

// Three new lines come once each, some of the older ones are hit, those that were hit longest ago first, and others
// take turns. Whether a line that the coin let stay is still there says into which place it came.
void meet_again(std::uint32_t ways, std::uint64_t turns, model::Random& random, std::vector<Line>& record) {
  const auto newcomer = [ways](std::uint32_t number) { return static_cast<Line>(ways + number); };
  std::vector<Line> older(ways - 1);
  std::iota(older.begin(), older.end(), Line{0});
  random.shuffle(older);
  for (const Line line : older) {
    record.insert(record.end(), 2, line);  // the second one is a hit
  }
  const std::array<Line, 3> once{newcomer(0), newcomer(1), newcomer(2)};
  record.insert(record.end(), once.begin(), once.end());
  record.insert(record.end(), older.begin(), older.begin() + static_cast<std::ptrdiff_t>(random.below(ways)));
  take_turns(newcomer(3), newcomer(4), turns, record);
  record.insert(record.end(), once.begin(), once.end());
}

constexpr std::uint32_t newcomers_to_meet = 5;

// Rounds: some lines are accessed, and so protected from going next; then two lines take turns. Or what meet_again()
// says.
Walk draw_walk(std::uint32_t ways, std::size_t lines, std::size_t turns, bool from_empty, model::Random& random) {
  Walk walk;
  if (!from_empty) {
    walk.warm = hits_that_forget(ways);
  }
  const std::size_t known = std::min<std::size_t>(lines, 60000);
  const auto one_of = [&](std::size_t first, std::size_t count) {
    return static_cast<Line>(first + random.below(count));
  };
  std::vector<Line> base(std::min<std::size_t>(known, ways + 1U));
  std::iota(base.begin(), base.end(), Line{0});
  // Lines that were all hit often differ again once one is evicted and the others are hit, each another number of
  // times, which is seen in the order in which they go.
  if (random.below(2) == 0) {
    walk.record.push_back(one_of(ways, 1));
    for (std::uint32_t line = 0; line < ways; ++line) {
      walk.record.insert(walk.record.end(), random.below(hits_to_forget + 2), static_cast<Line>(line));
    }
  }
  const std::size_t length = walk.record.size() + least_length(ways, turns);
  constexpr std::array<double, 5> shares{0.0, 0.3, 0.7, 0.9, 1.0};
  constexpr std::array<std::size_t, 4> most_hits{1, 1, 2, 4};
  while (walk.record.size() < length) {
    if (ways > 1 && known >= ways + newcomers_to_meet && random.below(2) == 0) {
      meet_again(ways, 1 + random.below(turns), random, walk.record);
      continue;
    }
    const double share = shares[random.below(shares.size())];
    const std::size_t most = most_hits[random.below(most_hits.size())];
    random.shuffle(base);
    for (const Line line : base) {
      if (random.unit() < share) {
        walk.record.insert(walk.record.end(), 1 + random.below(most), line);
      }
    }
    const std::size_t extra = std::min<std::size_t>(known - ways, 6);
    Line first = one_of(ways, extra);
    for (std::size_t pairs = 1 + random.below(3); pairs > 0; --pairs) {
      const Line second = extra > 1 && random.unit() < 0.7 ? one_of(ways, extra) : one_of(0, ways);
      take_turns(first, second, 1 + random.below(turns), walk.record);
      first = second;
    }
  }
  return walk;
}

struct MisreadRates {
  double of_hits = 0;
  double of_misses = 0;
};

// What an answer says under a policy and a chance of the rare side of the coin.
struct Explained {
  double log_likelihood = 0;
  double rare = 0;  // expected number of coins that fell so
  double coins = 0;
  std::size_t surprises = 0;  // accesses that no coins explain, but misreads alone
  std::size_t accesses = 0;   // that were followed
};

// Another place than in front, into which a share of the lines goes that the coin lets stay.
struct Elsewhere {
  std::size_t place = 0;  // counted from the line accessed last
  double share = 0;
};

class CoinFilter {
 public:
  CoinFilter(const Replacement& policy, std::uint32_t ways, double chance, MisreadRates rates, Elsewhere elsewhere)
      : begin_(policy, ways), chance_(chance), elsewhere_(elsewhere), rates_(rates) {}

  // The first `accesses`; else those before the coins that are open become too many to be followed, because to leave
  // some out would favour the side on which coins fall more often.
  [[nodiscard]] Explained explain(const Walk& walk, const std::vector<Reading>& readings,
                                  std::optional<std::size_t> accesses) {
    Path first{.set = begin_, .weight = 1, .rare = 0, .coins = 0};
    for (const Line line : walk.warm) {
      if (const auto place = first.set.find(line)) {
        first.set.hit(*place);
      } else {
        first.set.miss(line, false);
      }
    }
    paths_.assign(1, first);
    Explained all;
    for (std::size_t i = 0; i < accesses.value_or(walk.record.size()); ++i) {
      if (!accesses && paths_.size() > most_paths) {
        break;
      }
      ++all.accesses;
      const std::size_t before = paths_.size();
      access(walk.record[i], readings[i]);
      const double sum = std::accumulate(paths_.begin(), paths_.end(), 0.0,
                                         [](double sum_so_far, const Path& path) { return sum_so_far + path.weight; });
      all.log_likelihood += std::log(sum);
      all.surprises += sum < 1.5 * std::max(rates_.of_hits, rates_.of_misses) ? 1U : 0U;
      for (Path& path : paths_) {
        path.weight /= sum;
      }
      // Without new ones they hardly come together, and may wait.
      if (paths_.size() > before || paths_.size() > most_paths / 2) {
        merge();
      }
    }
    for (const Path& path : paths_) {
      all.rare += path.weight * path.rare;
      all.coins += path.weight * path.coins;
    }
    return all;
  }

 private:
  struct Path {
    CoinSet set;
    double weight = 1;
    double rare = 0;
    double coins = 0;
  };

  void access(Line line, Reading reading) {
    const double if_hit = reading == Reading::unclear ? 1
                          : reading == Reading::miss  ? rates_.of_hits
                                                      : 1 - rates_.of_hits;
    const double if_miss = reading == Reading::unclear ? 1
                           : reading == Reading::hit   ? rates_.of_misses
                                                       : 1 - rates_.of_misses;
    for (std::size_t i = 0, before = paths_.size(); i < before; ++i) {
      if (const auto place = paths_[i].set.find(line)) {
        paths_[i].set.hit(*place);
        paths_[i].weight *= if_hit;
        continue;
      }
      paths_[i].weight *= if_miss;
      ++paths_[i].coins;
      for (const auto& [place, share] : {Elsewhere{.place = 0, .share = 1 - elsewhere_.share}, elsewhere_}) {
        if (share > 0) {
          Path rare = paths_[i];
          rare.set.miss(line, true, place);
          rare.weight *= chance_ * share;
          ++rare.rare;
          paths_.push_back(std::move(rare));
        }
      }
      paths_[i].set.miss(line, false);
      paths_[i].weight *= 1 - chance_;
    }
  }

  static constexpr std::size_t most_paths = 200;

  // Paths that have come together go on as one; those that are far too unlikely end.
  void merge() {
    constexpr double negligible = 1e-8;
    merged_.clear();
    slots_.assign(std::bit_ceil(2 * paths_.size()), {});
    for (Path& path : paths_) {
      if (path.weight < negligible) {
        continue;
      }
      const std::uint64_t hash = path.set.hash();
      std::size_t at = hash & (slots_.size() - 1);
      while (slots_[at].place && slots_[at].hash != hash) {
        at = (at + 1) & (slots_.size() - 1);
      }
      if (!slots_[at].place) {
        slots_[at] = {.hash = hash, .place = merged_.size()};
        merged_.push_back(std::move(path));
        continue;
      }
      Path& same = merged_[*slots_[at].place];
      const double sum = same.weight + path.weight;
      same.rare = (same.rare * same.weight + path.rare * path.weight) / sum;
      same.coins = (same.coins * same.weight + path.coins * path.weight) / sum;
      same.weight = sum;
    }
    constexpr auto most_kept = std::ptrdiff_t{2 * most_paths};
    if (std::ssize(merged_) > most_kept) {
      std::nth_element(merged_.begin(), merged_.begin() + most_kept, merged_.end(),
                       [](const Path& a, const Path& b) { return a.weight > b.weight; });
      merged_.erase(merged_.begin() + most_kept, merged_.end());
    }
    paths_.swap(merged_);
  }

  CoinSet begin_;
  double chance_;
  Elsewhere elsewhere_;
  struct Slot {
    std::uint64_t hash = 0;
    std::optional<std::size_t> place;  // in merged_
  };

  MisreadRates rates_;
  std::vector<Path> paths_;
  std::vector<Path> merged_;
  std::vector<Slot> slots_;  // of a table of hashes, twice as many as paths
};

AccessSequence offsets_of(const ConflictClass& set, const std::vector<Line>& lines) {
  AccessSequence offsets;
  for (const Line line : lines) {
    offsets.push_back(set.lines[line]);
  }
  return offsets;
}

std::vector<model::Outcome> outcomes_in_one_set(const Walk& walk, std::uint32_t ways, const Replacement& policy,
                                                std::uint64_t seed) {
  model::Question question;
  question.warm.assign(walk.warm.begin(), walk.warm.end());
  question.record.assign(walk.record.begin(), walk.record.end());
  return outcomes_of(*model::CacheSimulator::make(model::one_set(policy, ways), seed), question, 0);
}

struct Answered {
  std::size_t set = 0;  // its place among the sets
  Walk walk;
  std::vector<Reading> readings;
  std::optional<std::size_t> usable_accesses;  // the first ones, where more cannot be followed under all policies
};

class BimodalExperiment {
 public:
  BimodalExperiment(Interrogator& device, const std::vector<const ConflictClass*>& sets, model::Random random)
      : device_(&device), sets_(&sets), random_(random), rates_{.of_hits = device.classifier().hit_misread_rate(),
                                                                .of_misses = device.classifier().miss_misread_rate()} {}

  void set_turns(std::size_t turns) { turns_ = turns; }

  // What a flood leaves, the first accesses of a walk evict.
  [[nodiscard]] model::Question question_of(const ConflictClass& set, const Walk& walk) const {
    return device_->question_unflooded(offsets_of(set, walk.warm), offsets_of(set, walk.record));
  }

  // Of a walk over the first set, but for those before its rounds.
  [[nodiscard]] double least_accesses() const {
    return static_cast<double>(least_length(sets_->front()->ways, turns_));
  }

  // Answers of all sets in turn; every fourth from an empty set, if so wished and possible.
  [[nodiscard]] std::vector<Answered> ask(std::size_t answers, bool some_from_empty) {
    // Else an empty set is in whatever state its policy was left in.
    const bool empty_is_known = device_->question({}, {}).state == model::StartState::clean;
    std::vector<Answered> asked;
    std::vector<model::Question> batch;
    for (std::size_t i = 0; i < answers; ++i) {
      const std::size_t number = next_set_++ % sets_->size();
      const ConflictClass& set = *(*sets_)[number];
      asked.push_back({.set = number,
                       .walk = draw_walk(set.ways, set.lines.size(), turns_,
                                         some_from_empty && empty_is_known && random_.below(4) == 0, random_),
                       .readings = {},
                       .usable_accesses = {}});
      batch.push_back(question_of(set, asked.back().walk));
    }
    const auto latencies = device_->latencies(batch);
    for (std::size_t i = 0; i < answers; ++i) {
      for (const float latency : latencies[i]) {
        asked[i].readings.push_back(device_->classifier().read(latency));
      }
    }
    return asked;
  }

  // Whether a long question, of so many walks in one, has the same answer each time: then no coin is tossed.
  [[nodiscard]] bool answers_repeat(std::size_t walks) {
    const ConflictClass& set = *sets_->front();
    Walk walk = draw_walk(set.ways, set.lines.size(), turns_, false, random_);
    for (std::size_t i = 1; i < walks; ++i) {
      const Walk more = draw_walk(set.ways, set.lines.size(), turns_, false, random_);
      walk.record.insert(walk.record.end(), more.record.begin(), more.record.end());
    }
    return repeats(*device_, question_of(set, walk));
  }

  [[nodiscard]] Explained explain(const Answered& answer, const Replacement& policy, double chance,
                                  Elsewhere elsewhere = {}) const {
    return CoinFilter(policy, ways_of(answer), chance, rates_, elsewhere)
        .explain(answer.walk, answer.readings, answer.usable_accesses);
  }

  // Likelihoods can be compared where they are those of the same accesses.
  void keep_what_is_usable(std::vector<Answered>& answers, const Replacement& policy, double chance) const {
    for (Answered& answer : answers) {
      const std::size_t before = answer.usable_accesses.value_or(answer.readings.size());
      answer.usable_accesses.reset();
      answer.usable_accesses = std::min(before, explain(answer, policy, chance).accesses);
    }
  }

  [[nodiscard]] double log_likelihood(const std::vector<Answered>& answers, const Replacement& policy,
                                      double chance) const {
    double sum = 0;
    for (const Answered& answer : answers) {
      sum += explain(answer, policy, chance).log_likelihood;
    }
    return sum;
  }

  [[nodiscard]] std::uint32_t ways_of(const Answered& answer) const { return (*sets_)[answer.set]->ways; }

  // The same answers, of sets that toss such coins.
  [[nodiscard]] std::vector<Answered> simulate(const std::vector<Answered>& answers, const Replacement& policy) {
    std::vector<Answered> simulated_answers;
    for (const Answered& answer : answers) {
      simulated_answers.push_back(simulate(answer, policy, rates_, random_));
    }
    return simulated_answers;
  }

  // p-value of the worst of seven statistics. Under the policy, the answer of the device is one of five of a kind with
  // four simulated ones. How often accesses are misread is known within limits only: what was taken for a hit in the
  // calibration may have been evicted by chance.
  [[nodiscard]] double fit(const std::vector<Answered>& answers, const Replacement& policy) const {
    const LevelClassifier& classifier = device_->classifier();
    const auto towards_bounds = [&](double part) {
      return MisreadRates{.of_hits = std::lerp(rates_.of_hits, classifier.hit_misread_bound(), part),
                          .of_misses = std::lerp(rates_.of_misses, classifier.miss_misread_bound(), part)};
    };
    double best = 0;
    for (const MisreadRates rates :
         {MisreadRates{.of_hits = classifier.hit_misread_share(), .of_misses = classifier.miss_misread_share()}, rates_,
          towards_bounds(0.25), towards_bounds(0.5), towards_bounds(1),
          MisreadRates{.of_hits = rates_.of_hits / 3, .of_misses = rates_.of_misses / 3}, MisreadRates{}}) {
      best = std::max(best, fit(answers, policy, rates));
      if (best > 0.05) {
        break;
      }
    }
    return best;
  }

 private:
  static constexpr std::size_t simulated = 4;
  static constexpr std::size_t statistics = 7;

  [[nodiscard]] double fit(const std::vector<Answered>& answers, const Replacement& policy, MisreadRates rates) const {
    const double chance = 1.0 / model::one_in(policy);
    std::array<double, statistics> excess{};
    std::array<double, statistics> variance{};
    model::Random random = stream(device_->settings(), "simulated coins");
    for (const Answered& answer : answers) {
      std::array<std::array<double, statistics>, simulated + 1> of{};
      Answered whole = answer;
      whole.usable_accesses.reset();
      for (std::size_t i = 0; i <= simulated; ++i) {
        of[i] = measure(i == 0 ? whole : simulate(whole, policy, rates, random), policy, chance);
      }
      add_spread(of);
      for (std::size_t s = 0; s < statistics; ++s) {
        double mean = 0;
        double squares = 0;
        for (const auto& one : of) {
          mean += one[s] / (simulated + 1);
        }
        for (const auto& one : of) {
          squares += (one[s] - mean) * (one[s] - mean) / (simulated + 1);
        }
        excess[s] += of[0][s] - mean;
        variance[s] += squares;
      }
    }
    double worst = 1;
    for (std::size_t s = 0; s < statistics; ++s) {
      if (variance[s] > 0) {
        worst = std::min(worst, std::erfc(std::abs(excess[s]) / std::sqrt(2 * variance[s])));
      }
    }
    return worst;
  }

  [[nodiscard]] Answered simulate(const Answered& answer, const Replacement& policy, MisreadRates rates,
                                  model::Random& random) const {
    Answered result = answer;
    const auto outcomes = outcomes_in_one_set(answer.walk, ways_of(answer), policy, random());
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const bool miss = model::is_miss(outcomes[i]);
      const bool misread = random.unit() < (miss ? rates.of_misses : rates.of_hits);
      if (result.readings[i] != Reading::unclear) {
        result.readings[i] = miss != misread ? Reading::miss : Reading::hit;
      }
    }
    return result;
  }

  // Likelihood, coins, misses, misses in the first half, places for two spreads, and surprises.
  [[nodiscard]] std::array<double, statistics> measure(const Answered& answer, const Replacement& policy,
                                                       double chance) const {
    const Explained explained = explain(answer, policy, chance);
    const auto middle = answer.readings.begin() + static_cast<std::ptrdiff_t>(answer.readings.size() / 2);
    const auto early = static_cast<double>(std::count(answer.readings.begin(), middle, Reading::miss));
    const auto late = static_cast<double>(std::count(middle, answer.readings.end(), Reading::miss));
    return {
        explained.log_likelihood, explained.rare, early + late, early, 0, 0, static_cast<double>(explained.surprises)};
  }

  // A coin that falls in turn rather than by chance has the right number of rare sides, too evenly spread.
  static void add_spread(std::array<std::array<double, statistics>, simulated + 1>& of) {
    for (std::size_t s = 0; s < 2; ++s) {
      double mean = 0;
      for (const auto& one : of) {
        mean += one[s] / (simulated + 1);
      }
      for (auto& one : of) {
        one[4 + s] = (one[s] - mean) * (one[s] - mean);
      }
    }
  }

  Interrogator* device_;
  const std::vector<const ConflictClass*>* sets_;
  model::Random random_;
  MisreadRates rates_;
  std::size_t turns_ = 12;
  std::size_t next_set_ = 0;
};

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
void maximise(const BimodalExperiment& experiment, const std::vector<Answered>& answers, Fitted& fitted, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    Explained sum;
    for (const Answered& answer : answers) {
      const Explained one = experiment.explain(answer, fitted.policy, fitted.chance, fitted.elsewhere);
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
std::optional<Intervals> one_in_intervals(const BimodalExperiment& experiment, const std::vector<Answered>& answers,
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
bool sets_agree(const BimodalExperiment& experiment, const std::vector<Answered>& answers, std::size_t sets,
                const Fitted& fitted) {
  std::vector<double> rare(sets);
  std::vector<double> coins(sets);
  for (const Answered& answer : answers) {
    const Explained one = experiment.explain(answer, fitted.policy, fitted.chance);
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
struct Spread {
  double squares = 0;
  std::size_t blocks = 0;
};

struct Spreads {
  Spread in_all;   // answers
  Spread in_sets;  // in those of each set by itself
};

void add_spreads(Spreads& spreads, const BimodalExperiment& experiment, const std::vector<Answered>& answers,
                 std::size_t sets, const Replacement& policy, double chance) {
  constexpr double rare_in_block = 4;  // the more blocks, the better their spread is known
  struct Block {
    double rare = 0;
    double coins = 0;
  };
  const auto add = [&](Block& block, Spread& spread, const Explained& more) {
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
  for (const Answered& answer : answers) {
    const Explained explained = experiment.explain(answer, policy, chance);
    add(of_all, spreads.in_all, explained);
    add(of_set[answer.set], spreads.in_sets, explained);
  }
}

// A count that lets every so many lines stay has the right number of them, and even when it goes on from question to
// question, they come too regularly; a chance that changes makes them come too irregularly (F test).
bool falls_by_chance(BimodalExperiment& experiment, const std::vector<Answered>& answers, std::size_t sets,
                     const Replacement& policy) {
  constexpr int simulations = 4;
  const auto is_plausible = [](const Spread& of_device, const Spread& of_coins) {
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
  const auto add = [&](Spreads& spreads, const std::vector<Answered>& of) {
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

model::RealInterval rounded(std::pair<double, double> interval) {
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
      // Which line lies in which way only shows where a set fills from empty.
      if (!device.starts_flooded() || !CoinSet(policies[number], 1).depends_on_ways()) {
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
  void keep_what_is_usable(std::vector<Answered>& answers, std::optional<double> chance) {
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
    std::vector<Answered> pilot = experiment_.ask(pilot_answers, false);
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
      intervals.push_back(each.one_in ? std::optional(rounded(each.one_in->of_95_percent)) : std::nullopt);
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
  BimodalExperiment experiment_;
  std::size_t possible_ = 0;
  std::vector<Fitted> fitted_;
  double rare_per_answer_ = 0;
  std::vector<Answered> answers_;
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
  BimodalExperiment experiment(device, sets,
                               stream(device.settings(), "fresh walks of a coin", device.questions_asked()));
  experiment.set_turns(static_cast<std::size_t>(std::clamp(static_cast<double>(model::one_in(policy)), 6.0, 40.0)));
  return experiment.fit(experiment.ask(answers, true), policy);
}

bool new_lines_stay_at_times(Interrogator& device, const ConflictClass& set, const Replacement& policy) {
  constexpr std::size_t turns = 400;
  constexpr unsigned times = 8;
  if (set.lines.size() < set.ways + std::size_t{2}) {
    return false;
  }
  Walk walk{.warm = hits_that_forget(set.ways), .record = {}};
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
