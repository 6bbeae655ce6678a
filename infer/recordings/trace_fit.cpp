// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/trace_fit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "model/policy_traits.hpp"

namespace gpuinfer::infer {

namespace {

using model::Replacement;
using Supposed = SetSimulation::Supposed;
using Lines = std::vector<std::uint64_t>;

// For each policy, the number of ways that suits a set best.
struct BestWays {
  std::uint32_t ways = 1;
  std::size_t wrong = SetSimulation::does_not_fit;

  [[nodiscard]] static BestWays from(const Scored& scored) {
    return {.ways = static_cast<std::uint32_t>(scored.variant), .wrong = scored.wrong};
  }
  [[nodiscard]] Scored scored() const { return {.wrong = wrong, .variant = ways}; }
};

// Those that get more than `most` wrong do not suit.
BestWays best_ways(const SetSimulation& simulation, const Lines& lines, const Replacement& policy,
                   const std::set<std::uint32_t>& ways, std::size_t most = SetSimulation::does_not_fit) {
  std::vector<Supposed> supposed;
  for (const std::uint32_t count : ways) {
    supposed.push_back({.ways = count, .policy = policy});
  }
  const auto best = simulation.best(lines, supposed, most);
  return best ? BestWays{.ways = supposed[best->supposition].ways, .wrong = best->wrong} : BestWays{};
}

std::set<std::uint32_t> around(const std::set<std::uint32_t>& ways, std::uint32_t reach, std::size_t lines) {
  std::set<std::uint32_t> all;
  for (const std::uint32_t count : ways) {
    const std::uint32_t low = count > reach ? count - reach : 1;
    for (std::uint32_t near = low; near <= std::min<std::size_t>(count + reach, lines); ++near) {
      all.insert(near);
    }
  }
  return all;
}

// What the number of ways may be. Loads drawn evenly and independently hit in as many cases as the set holds of its
// lines, whatever the policy; other loads are tried under the two policies that most others are near to.
std::set<std::uint32_t> likely_ways(const SetSimulation& simulation, const Lines& lines) {
  const SetSimulation::Counts counts = simulation.counts(lines);
  if (counts.judged == 0 || lines.empty()) {
    return {1};
  }
  const auto size = static_cast<double>(lines.size());
  const double share_of_hits = static_cast<double>(counts.judged - counts.misses) / static_cast<double>(counts.judged);
  std::set<std::uint32_t> ways{static_cast<std::uint32_t>(std::max(1.0, std::round(size * share_of_hits)))};
  constexpr std::uint32_t most_tried = 64;
  const auto step = static_cast<std::uint32_t>((lines.size() + most_tried - 1) / most_tried);
  for (const Replacement& policy : model::typical_policies()) {
    std::set<std::uint32_t> tried;
    for (std::uint32_t count = 1; count <= lines.size(); count += step) {
      tried.insert(count);
    }
    BestWays best = best_ways(simulation, lines, policy, tried);
    if (step > 1) {
      best = best_ways(simulation, lines, policy, around({best.ways}, step, lines.size()));
    }
    ways.insert(best.ways);
  }
  return ways;
}

// One split, while ways and policy are looked for and lines are moved.
class SplitFit {
 public:
  // `sample`: a part of the recordings that is enough to see which policies to try.
  SplitFit(const LineSplit& split, const SetSimulation& simulation, const SetSimulation& sample, const Scorer& scorer,
           const std::function<void()>& at_times)
      : simulation_(&simulation), sample_(&sample), scorer_(&scorer), at_times_(&at_times), lines_(split.lines),
        sets_(split.lines_of_sets()) {
    // Of many sets some stand for all: where these do not have the same ways, few of the lines will fit.
    constexpr std::size_t most_looked_at = 256;
    constexpr std::size_t looked_at = 16;
    std::set<std::uint32_t> of_all;
    for (std::size_t i = 0; sets_.size() > most_looked_at && i < looked_at; ++i) {
      at_times();
      of_all.merge(likely_ways(sample, sets_[i * sets_.size() / looked_at]));
    }
    for (const Lines& lines : sets_) {
      at_times();
      likeliest_.push_back(of_all.empty() ? likely_ways(sample, lines) : of_all);
      likely_.push_back(around(likeliest_.back(), 1 + *likeliest_.back().rbegin() / 8, lines.size()));
    }
  }

  // Policies that fit a busy set best are tried on all.
  void choose_policy() {
    std::size_t busiest = 0;
    std::size_t most = 0;
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      const SetSimulation::Counts counts = sample_->counts(sets_[set]);
      const std::size_t weight = std::min(counts.misses, counts.judged - counts.misses);
      if (weight > most) {
        most = weight;
        busiest = set;
      }
    }
    std::vector<Supposed> supposed = guesses(likeliest_[busiest]);
    // A few hundred accesses show which are out of the question.
    constexpr std::size_t few_accesses = 400;
    constexpr std::size_t most_in_question = 60;
    const SetSimulation few = sample_->beginning(few_accesses * sets_.size() + 4 * lines_.size());
    keep_best(supposed, few.wrong(sets_[busiest], supposed), most_in_question);
    std::set<std::string> in_question;
    for (const Supposed& each : supposed) {
      in_question.insert(model::to_text(each.policy));
    }
    supposed = guesses(likely_[busiest]);
    std::erase_if(supposed, [&](const Supposed& each) { return !in_question.contains(model::to_text(each.policy)); });
    const std::vector<std::size_t> wrong = wrong_of_sample(sets_[busiest], supposed);
    std::map<std::string, std::pair<std::size_t, Replacement>> best_of;
    for (std::size_t i = 0; i < supposed.size(); ++i) {
      const auto [place, is_new] =
          best_of.emplace(model::to_text(supposed[i].policy), std::pair(wrong[i], supposed[i].policy));
      if (!is_new && wrong[i] < place->second.first) {
        place->second.first = wrong[i];
      }
    }
    std::vector<std::pair<std::size_t, Replacement>> ranked;
    for (auto& [text, entry] : best_of) {
      ranked.push_back(std::move(entry));
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    constexpr std::size_t most_policies = 12;
    ranked.resize(std::min(ranked.size(), most_policies));
    in_question_.clear();
    for (const auto& [wrong_in_busiest, policy] : ranked) {
      settle(policy);
      in_question_.push_back(policy);
    }
  }

  // The same sets, by all accesses in place of some.
  [[nodiscard]] SplitFit by_all(const SetSimulation& all) const {
    const TraceFit found = fit();
    SplitFit same(found.split, all, *sample_, *scorer_, *at_times_);
    for (std::size_t set = 0; set < same.sets_.size(); ++set) {
      same.likely_[set] = around({found.ways[set]}, 1, same.sets_[set].size());
    }
    same.settle(policy_);
    // What does not explain them is not worth a choice among policies.
    for (std::size_t i = 0; i < in_question_.size() && !same.is_bad(); ++i) {
      same.settle(in_question_[i]);
    }
    return same;
  }

  // Takes the policy over when it is better.
  void settle(const Replacement& policy) {
    // The same number whoever scores, so that the same sets are looked at.
    constexpr std::size_t sets_at_once = 16;
    std::vector<BestWays> best;
    std::size_t total = 0;
    while (best.size() < sets_.size() && total < wrong_) {
      const std::size_t first = best.size();
      const std::size_t most = wrong_ - total - 1;
      const auto scored = (*scorer_)(std::min(sets_at_once, sets_.size() - first), [&](std::size_t i) {
        return best_ways(*simulation_, sets_[first + i], policy, likely_[first + i], most).scored();
      });
      for (std::size_t i = 0; i < scored.size() && total < wrong_; ++i) {
        best.push_back(BestWays::from(scored[i]));
        total += best.back().wrong;
      }
    }
    if (total < wrong_) {
      wrong_ = total;
      policy_ = policy;
      best_ = std::move(best);
    }
  }

  // Lines of sets that fit badly go where they make the predictions better.
  void move_lines() {
    constexpr int most_rounds = 6;
    for (int round = 0; round < most_rounds && is_bad(); ++round) {
      const std::size_t before = wrong_;
      for (const std::uint64_t line : lines_) {
        if (is_bad()) {
          (*at_times_)();
          move(line);
        }
      }
      if (wrong_ + wrong_ / 50 >= before) {
        return;
      }
    }
  }

  [[nodiscard]] std::size_t wrong() const { return wrong_; }
  [[nodiscard]] const Replacement& policy() const { return policy_; }

  [[nodiscard]] TraceFit fit() const {
    TraceFit fit{.line_bytes = simulation_->line_bytes(),
                 .split = {.lines = lines_, .set_of = {}, .support = 0},
                 .ways = {},
                 .policy = policy_,
                 .wrong = wrong_};
    std::map<std::uint64_t, std::uint32_t> set_of;
    std::uint32_t number = 0;
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      if (!sets_[set].empty()) {
        for (const std::uint64_t line : sets_[set]) {
          set_of[line] = number;
        }
        fit.ways.push_back(best_[set].ways);
        ++number;
      }
    }
    for (const std::uint64_t line : lines_) {
      fit.split.set_of.push_back(set_of.at(line));
    }
    return fit;
  }

 private:
  // More wrong than misreads of 1 in 500 explain: beyond that it is worth a try whether lines are at fault.
  [[nodiscard]] bool is_bad() const { return wrong_ * 500 > simulation_->judged(); }

  // A few million steps at a time.
  [[nodiscard]] std::vector<std::size_t> wrong_of_sample(const Lines& lines,
                                                         const std::vector<Supposed>& supposed) const {
    constexpr std::size_t most_steps = std::size_t{1} << 23U;
    const std::size_t accesses = std::max<std::size_t>(1, sample_->counts(lines).judged);
    const std::size_t at_once = std::max<std::size_t>(1, most_steps / accesses);
    std::vector<std::size_t> all;
    for (std::size_t first = 0; first < supposed.size(); first += at_once) {
      (*at_times_)();
      const std::vector<std::size_t> wrong =
          sample_->wrong(lines, std::span(supposed).subspan(first, std::min(at_once, supposed.size() - first)));
      all.insert(all.end(), wrong.begin(), wrong.end());
    }
    return all;
  }

  static std::vector<Supposed> guesses(const std::set<std::uint32_t>& possible_ways) {
    std::vector<Supposed> guesses;
    for (const std::uint32_t ways : possible_ways) {
      for (Replacement& policy : model::guessed_policies({ways})) {
        guesses.push_back({.ways = ways, .policy = std::move(policy)});
      }
    }
    return guesses;
  }

  static void keep_best(std::vector<Supposed>& supposed, const std::vector<std::size_t>& wrong, std::size_t most) {
    if (supposed.size() <= most) {
      return;
    }
    std::vector<std::size_t> sorted = wrong;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(most), sorted.end());
    std::vector<Supposed> kept;
    for (std::size_t i = 0; i < supposed.size(); ++i) {
      if (wrong[i] <= sorted[most]) {
        kept.push_back(std::move(supposed[i]));
      }
    }
    supposed = std::move(kept);
  }

  [[nodiscard]] BestWays best_near(const Lines& lines, std::uint32_t ways, std::size_t most) const {
    return lines.empty() ? BestWays{.ways = ways, .wrong = 0}
                         : best_ways(*simulation_, lines, policy_, around({ways}, 1, lines.size()), most);
  }

  void move(std::uint64_t line) {
    const auto from = static_cast<std::size_t>(
        std::find_if(sets_.begin(), sets_.end(),
                     [line](const Lines& lines) { return std::binary_search(lines.begin(), lines.end(), line); }) -
        sets_.begin());
    if (best_[from].wrong == 0) {
      return;
    }
    Lines rest = sets_[from];
    rest.erase(std::lower_bound(rest.begin(), rest.end(), line));
    const BestWays without = best_near(rest, best_[from].ways, best_[from].wrong - 1);
    if (without.wrong >= best_[from].wrong) {
      return;
    }
    const auto with_it = [&](std::size_t to) {
      Lines more = sets_[to];
      more.insert(std::lower_bound(more.begin(), more.end(), line), line);
      return more;
    };
    const auto in_sets = (*scorer_)(sets_.size(), [&](std::size_t to) {
      const bool may_go = to != from && !sets_[to].empty();
      const std::size_t most = best_[from].wrong + best_[to].wrong - without.wrong - 1;
      return (may_go ? best_near(with_it(to), best_[to].ways, most) : BestWays{}).scored();
    });
    std::size_t best_total = best_[from].wrong;  // of what changes, beside the sets that it may go to
    std::optional<std::size_t> target;
    for (std::size_t to = 0; to < sets_.size(); ++to) {
      const std::size_t total = without.wrong + in_sets[to].wrong;
      if (total < best_total + best_[to].wrong && (!target || total - best_[to].wrong < best_total)) {
        best_total = total - std::min(total, best_[to].wrong);
        target = to;
      }
    }
    if (target) {
      const BestWays in_target = BestWays::from(in_sets[*target]);
      wrong_ = wrong_ + without.wrong + in_target.wrong - best_[from].wrong - best_[*target].wrong;
      sets_[from] = std::move(rest);
      sets_[*target] = with_it(*target);
      best_[from] = without;
      best_[*target] = in_target;
    }
  }

  const SetSimulation* simulation_;
  const SetSimulation* sample_;
  const Scorer* scorer_;
  const std::function<void()>* at_times_;
  Lines lines_;
  std::vector<Lines> sets_;
  std::vector<std::set<std::uint32_t>> likeliest_;
  std::vector<std::set<std::uint32_t>> likely_;
  std::vector<BestWays> best_;
  std::vector<Replacement> in_question_;
  Replacement policy_ = model::typical_policies().front();
  std::size_t wrong_ = SetSimulation::does_not_fit;
};

}  // namespace

std::optional<TraceFit> fit_recordings(std::span<const LineSplit> splits, const SetSimulation& simulation, Care care,
                                       const Scorer& scorer, const std::function<void()>& at_times) {
  constexpr std::size_t accesses_of_sample = 4000;
  constexpr std::size_t accesses_of_line = 100;  // where there are too many lines to see enough of each otherwise
  constexpr std::size_t accesses_of_fit = 100'000;
  const std::size_t lines = simulation.lines().size();
  const std::size_t many = lines > ConflictScores::most_fills ? accesses_of_line * lines : 0;
  const SetSimulation sample = simulation.beginning(std::max(accesses_of_sample, many));
  // What so many accesses do not show is left to the check by all of them.
  const std::size_t enough = std::max(accesses_of_fit, 2 * many);
  const bool is_long = simulation.judged() > 2 * enough;
  const SetSimulation beginning = is_long ? simulation.beginning(enough, enough / 4) : sample;
  const SetSimulation& fitted = is_long ? beginning : simulation;
  const std::size_t judged = fitted.judged();
  std::optional<SplitFit> best;
  for (const LineSplit& split : splits) {
    SplitFit fit(split, fitted, sample, scorer, at_times);
    // Once a policy explains most, other splits are tried under that one.
    if (best && best->wrong() * 25 < judged) {
      fit.settle(best->policy());
    } else {
      fit.choose_policy();
    }
    if (!best || fit.wrong() < best->wrong()) {
      best = std::move(fit);
    }
    if (best->wrong() * 1000 < judged) {
      break;
    }
  }
  if (!best) {
    return std::nullopt;
  }
  // Where much is wrong, more than a few lines are at fault.
  const std::size_t before = best->wrong();
  if (care == Care::thorough && before * 8 < judged) {
    best->move_lines();
    if (best->wrong() < before) {
      best->choose_policy();
      best->move_lines();
    }
  }
  return is_long ? best->by_all(simulation).fit() : best->fit();
}

std::size_t wrong_of(const TraceFit& fit, const SetSimulation& simulation, const Scorer& scorer) {
  const std::vector<Lines> sets = fit.split.lines_of_sets();
  const std::vector<Scored> of_sets = scorer(sets.size(), [&](std::size_t set) {
    const Supposed supposed{.ways = fit.ways[set], .policy = fit.policy};
    return Scored{.wrong = simulation.wrong(sets[set], {&supposed, 1}).front(), .variant = 0};
  });
  return std::accumulate(of_sets.begin(), of_sets.end(), std::size_t{0},
                         [](std::size_t sum, const Scored& of_set) { return sum + of_set.wrong; });
}

namespace {

// A fit with all that rivals may get wrong.
class Rivalry {
 public:
  Rivalry(const TraceFit& fit, const SetSimulation& simulation, std::size_t tolerated, const Scorer& scorer)
      : fit_(&fit), simulation_(&simulation), tolerated_(tolerated), scorer_(&scorer),
        sets_(fit.split.lines_of_sets()) {}

  Rivals find() {
    find_policies();
    find_ways();
    find_undecided_lines();
    return std::move(rivals_);
  }

 private:
  void find_policies() {
    std::vector<Replacement> policies;
    std::set<std::string> known;
    for (const std::uint32_t ways : fit_->ways) {
      for (Replacement& policy : model::guessed_policies({ways})) {
        if (known.insert(model::to_text(policy)).second) {
          policies.push_back(std::move(policy));
        }
      }
    }
    const std::vector<Scored> scored = (*scorer_)(policies.size(), [&](std::size_t p) {
      const bool is_rival = suiting_ways(policies[p]).has_value();
      return Scored{.wrong = is_rival ? 0U : 1U, .variant = 0};
    });
    for (std::size_t p = 0; p < policies.size(); ++p) {
      if (scored[p].wrong == 0) {
        rivals_.policies.emplace_back(policies[p], *suiting_ways(policies[p]));
      }
    }
  }

  // None when the policy gets too much wrong whatever the ways.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> suiting_ways(const Replacement& policy) const {
    std::vector<std::uint32_t> ways;
    std::size_t left = fit_->wrong + tolerated_;
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      const auto near = around({fit_->ways[set]}, 1, std::max<std::size_t>(sets_[set].size(), 2));
      const BestWays best = best_ways(*simulation_, sets_[set], policy, near, left);
      if (best.wrong > left) {
        return std::nullopt;
      }
      left -= best.wrong;
      ways.push_back(best.ways);
    }
    return ways;
  }

  [[nodiscard]] std::vector<Supposed> rival_policies_with(std::uint32_t ways) const {
    std::vector<Supposed> supposed;
    for (const auto& [policy, suited] : rivals_.policies) {
      supposed.push_back({.ways = ways, .policy = policy});
    }
    return supposed;
  }

  void find_ways() {
    struct WaysOfSet {
      std::size_t set = 0;
      std::uint32_t ways = 0;
    };
    std::vector<WaysOfSet> all;
    std::vector<std::vector<Supposed>> of_sets(sets_.size());
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      const std::uint32_t reach = std::max<std::uint32_t>(2, fit_->ways[set] / 2);
      // One way more than there are lines stands for all larger numbers.
      for (const std::uint32_t ways : around({fit_->ways[set]}, reach, sets_[set].size() + 1)) {
        all.push_back({.set = set, .ways = ways});
        const std::vector<Supposed> with = rival_policies_with(ways);
        of_sets[set].insert(of_sets[set].end(), with.begin(), with.end());
      }
    }
    for (const Scored& least : (*scorer_)(sets_.size(), [&](std::size_t set) {
           return Scored{.wrong = simulation_->best(sets_[set], of_sets[set]).value().wrong, .variant = 0};
         })) {
      wrong_of_set_.push_back(least.wrong);
    }
    const std::vector<Scored> scored = (*scorer_)(all.size(), [&](std::size_t i) {
      const auto& [set, ways] = all[i];
      const auto best = simulation_->best(sets_[set], rival_policies_with(ways), wrong_of_set_[set] + tolerated_);
      return Scored{.wrong = best ? 0U : 1U, .variant = 0};
    });
    rivals_.ways_of_set.resize(sets_.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (scored[i].wrong == 0) {
        rivals_.ways_of_set[all[i].set].push_back(all[i].ways);
      }
    }
  }

  void find_undecided_lines() {
    for (const Scored& scored : (*scorer_)(fit_->split.lines.size(), [&](std::size_t line) {
           return Scored{.wrong = is_decided(line) ? 0U : 1U, .variant = 0};
         })) {
      rivals_.line_is_decided.push_back(scored.wrong == 0);
    }
  }

  // Whether this line of the split would do nowhere else.
  [[nodiscard]] bool is_decided(std::size_t line) const {
    const std::uint64_t moved = fit_->split.lines[line];
    const std::uint32_t from = fit_->split.set_of[line];
    Lines rest = sets_[from];
    rest.erase(std::lower_bound(rest.begin(), rest.end(), moved));
    const auto near = [&](const Lines& lines, std::uint32_t ways, std::size_t most) {
      return lines.empty() ? 0U
                           : best_ways(*simulation_, lines, fit_->policy, around({ways}, 1, lines.size()), most).wrong;
    };
    const std::size_t may_be_wrong = wrong_of_set_[from] + tolerated_;
    // Without the line its set may be so wrong that no other set makes up for it.
    const std::size_t most = may_be_wrong + *std::max_element(wrong_of_set_.begin(), wrong_of_set_.end());
    const std::size_t without = near(rest, fit_->ways[from], most);
    if (without > most) {
      return true;
    }
    // A set of its own is possible as well.
    const Supposed alone{.ways = 1, .policy = fit_->policy};
    if (without <= may_be_wrong) {
      const std::size_t left = may_be_wrong - without;
      if (simulation_->wrong({&moved, 1}, {&alone, 1}, left).front() <= left) {
        return false;
      }
    }
    for (std::uint32_t to = 0; to < sets_.size(); ++to) {
      const std::size_t with_both = may_be_wrong + wrong_of_set_[to];
      if (to != from && without <= with_both) {
        Lines more = sets_[to];
        more.insert(std::lower_bound(more.begin(), more.end(), moved), moved);
        if (near(more, fit_->ways[to], with_both - without) <= with_both - without) {
          return false;
        }
      }
    }
    return true;
  }

  const TraceFit* fit_;
  const SetSimulation* simulation_;
  std::size_t tolerated_;
  const Scorer* scorer_;
  std::vector<Lines> sets_;
  std::vector<std::size_t> wrong_of_set_;  // by the best of the rivals
  Rivals rivals_;
};

}  // namespace

Rivals rivals_of(const TraceFit& fit, const SetSimulation& simulation, std::size_t tolerated, const Scorer& scorer) {
  return Rivalry(fit, simulation, tolerated, scorer).find();
}

}  // namespace gpuinfer::infer
