// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/trace_fit.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>

#include "model/cache_simulator.hpp"
#include "model/errors.hpp"
#include "model/line_decoder.hpp"

namespace gpuinfer::infer {

namespace {

using model::Measured;
using model::Replacement;
using Supposed = SetSimulation::Supposed;
using Lines = std::vector<std::uint64_t>;

Replacement plain(const char* name) { return {.policy = name, .parameters = {}, .equivalent = {}}; }

bool fits(const Replacement& policy, std::uint32_t ways) {
  try {
    model::check(policy, {ways});
    return true;
  } catch (const InputError&) {
    return false;
  }
}

// For each policy, the number of ways that suits a set best.
struct BestWays {
  std::uint32_t ways = 1;
  std::size_t wrong = SetSimulation::does_not_fit;
};

BestWays best_ways(const SetSimulation& simulation, const Lines& lines, const Replacement& policy,
                   const std::set<std::uint32_t>& ways) {
  std::vector<Supposed> supposed;
  for (const std::uint32_t count : ways) {
    supposed.push_back({.ways = count, .policy = policy});
  }
  const std::vector<std::size_t> wrong = simulation.wrong(lines, supposed);
  BestWays best;
  for (std::size_t i = 0; i < supposed.size(); ++i) {
    if (wrong[i] < best.wrong) {
      best = {.ways = supposed[i].ways, .wrong = wrong[i]};
    }
  }
  return best;
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
  for (const char* name : {"lru", "fifo"}) {
    std::set<std::uint32_t> tried;
    for (std::uint32_t count = 1; count <= lines.size(); count += step) {
      tried.insert(count);
    }
    BestWays best = best_ways(simulation, lines, plain(name), tried);
    if (step > 1) {
      best = best_ways(simulation, lines, plain(name), around({best.ways}, step, lines.size()));
    }
    ways.insert(best.ways);
  }
  return ways;
}

// One split, while ways and policy are looked for and lines are moved.
class SplitFit {
 public:
  // `sample`: a part of the recordings that is enough to see which policies to try.
  SplitFit(const LineSplit& split, const SetSimulation& simulation, const SetSimulation& sample)
      : simulation_(&simulation), sample_(&sample), lines_(split.lines), sets_(split.lines_of_sets()) {
    for (const Lines& lines : sets_) {
      likeliest_.push_back(likely_ways(sample, lines));
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
    const std::vector<std::size_t> wrong = sample_->wrong(sets_[busiest], supposed);
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
    for (const auto& [wrong_in_busiest, policy] : ranked) {
      settle(policy);
    }
  }

  // Takes the policy over when it is better.
  void settle(const Replacement& policy) {
    std::vector<BestWays> best;
    std::size_t total = 0;
    for (std::size_t set = 0; set < sets_.size() && total < wrong_; ++set) {
      best.push_back(best_ways(*simulation_, sets_[set], policy, likely_[set]));
      total += best.back().wrong;
    }
    if (total < wrong_) {
      wrong_ = total;
      policy_ = policy;
      best_ = std::move(best);
    }
  }

  // Lines of sets that fit badly go where they make the predictions better.
  void move_lines(const std::function<bool()>& stop) {
    constexpr int most_rounds = 6;
    for (int round = 0; round < most_rounds && is_bad() && !stop(); ++round) {
      const std::size_t before = wrong_;
      for (const std::uint64_t line : lines_) {
        if (is_bad() && !stop()) {
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

  [[nodiscard]] BestWays best_near(const Lines& lines, std::uint32_t ways) const {
    return lines.empty() ? BestWays{.ways = ways, .wrong = 0}
                         : best_ways(*simulation_, lines, policy_, around({ways}, 1, lines.size()));
  }

  void move(std::uint64_t line) {
    const auto from = static_cast<std::size_t>(
        std::find_if(sets_.begin(), sets_.end(),
                     [line](const Lines& lines) { return std::binary_search(lines.begin(), lines.end(), line); }) -
        sets_.begin());
    Lines rest = sets_[from];
    rest.erase(std::lower_bound(rest.begin(), rest.end(), line));
    const BestWays without = best_near(rest, best_[from].ways);
    if (without.wrong >= best_[from].wrong) {
      return;
    }
    std::size_t best_total = best_[from].wrong;  // of what changes, beside the sets that it may go to
    std::optional<std::size_t> target;
    BestWays in_target;
    for (std::size_t to = 0; to < sets_.size(); ++to) {
      if (to == from || sets_[to].empty()) {
        continue;
      }
      Lines more = sets_[to];
      more.insert(std::lower_bound(more.begin(), more.end(), line), line);
      const BestWays with = best_near(more, best_[to].ways);
      const std::size_t total = without.wrong + with.wrong;
      if (total < best_total + best_[to].wrong && (!target || total - best_[to].wrong < best_total)) {
        best_total = total - std::min(total, best_[to].wrong);
        target = to;
        in_target = with;
      }
    }
    if (target) {
      wrong_ = wrong_ + without.wrong + in_target.wrong - best_[from].wrong - best_[*target].wrong;
      sets_[from] = std::move(rest);
      sets_[*target].insert(std::lower_bound(sets_[*target].begin(), sets_[*target].end(), line), line);
      best_[from] = without;
      best_[*target] = in_target;
    }
  }

  const SetSimulation* simulation_;
  const SetSimulation* sample_;
  Lines lines_;
  std::vector<Lines> sets_;
  std::vector<std::set<std::uint32_t>> likeliest_;
  std::vector<std::set<std::uint32_t>> likely_;
  std::vector<BestWays> best_;
  Replacement policy_ = plain("lru");
  std::size_t wrong_ = SetSimulation::does_not_fit;
};

}  // namespace

SetSimulation::SetSimulation(std::span<const Played> recordings, std::uint64_t line_bytes, std::uint64_t sector_bytes)
    : recordings_(recordings), line_bytes_(line_bytes), sector_bytes_(sector_bytes) {
  for (const Played& played : recordings) {
    for (std::size_t i = 0; i < played.addresses.size(); ++i) {
      lines_.push_back(played.addresses[i] / line_bytes * line_bytes);
      judged_ += played.measured[i] != Measured::unclear ? 1U : 0U;
    }
  }
  std::sort(lines_.begin(), lines_.end());
  lines_.erase(std::unique(lines_.begin(), lines_.end()), lines_.end());
  for (const Played& played : recordings) {
    lengths_.push_back(played.addresses.size());
    std::vector<std::uint32_t>& numbers = line_of_.emplace_back();
    for (const std::uint64_t address : played.addresses) {
      const auto place = std::lower_bound(lines_.begin(), lines_.end(), address / line_bytes * line_bytes);
      numbers.push_back(static_cast<std::uint32_t>(place - lines_.begin()));
    }
  }
}

SetSimulation SetSimulation::beginning(std::size_t accesses) const {
  SetSimulation beginning = *this;
  beginning.judged_ = 0;
  for (std::size_t r = 0; r < recordings_.size(); ++r) {
    const std::vector<Measured>& measured = recordings_[r].measured;
    const auto is_judged = [](Measured one) { return one != Measured::unclear; };
    const auto unseen =
        static_cast<std::size_t>(std::find_if(measured.begin(), measured.end(), is_judged) - measured.begin());
    beginning.lengths_[r] = std::min(lengths_[r], unseen + accesses / recordings_.size());
    beginning.judged_ += static_cast<std::size_t>(std::count_if(
        measured.begin(), measured.begin() + static_cast<std::ptrdiff_t>(beginning.lengths_[r]), is_judged));
  }
  return beginning;
}

template <class Visit>
void SetSimulation::for_each_access(std::span<const std::uint64_t> lines, const Visit& visit) const {
  std::vector<bool> is_member(lines_.size());
  for (const std::uint64_t line : lines) {
    is_member[static_cast<std::size_t>(std::lower_bound(lines_.begin(), lines_.end(), line) - lines_.begin())] = true;
  }
  for (std::size_t r = 0; r < recordings_.size(); ++r) {
    for (std::size_t i = 0; i < lengths_[r]; ++i) {
      if (is_member[line_of_[r][i]]) {
        visit(r, i);
      }
    }
  }
}

std::vector<std::size_t> SetSimulation::wrong(std::span<const std::uint64_t> lines,
                                              std::span<const Supposed> suppositions) const {
  std::vector<std::vector<std::uint64_t>> addresses(recordings_.size());
  std::vector<std::vector<Measured>> measured(recordings_.size());
  for_each_access(lines, [&](std::size_t r, std::size_t i) {
    addresses[r].push_back(recordings_[r].addresses[i]);
    measured[r].push_back(recordings_[r].measured[i]);
  });
  model::HypothesisTester tester(line_bytes_, sector_bytes_);
  for (std::size_t r = 0; r < recordings_.size(); ++r) {
    if (!addresses[r].empty()) {
      tester.add(addresses[r], measured[r]);
    }
  }
  std::vector<model::Hypothesis> hypotheses;
  std::vector<std::size_t> place;
  for (std::size_t i = 0; i < suppositions.size(); ++i) {
    if (fits(suppositions[i].policy, suppositions[i].ways)) {
      hypotheses.push_back(
          {.index = model::BitsIndex{}, .ways = {suppositions[i].ways}, .replacement = suppositions[i].policy});
      place.push_back(i);
    }
  }
  std::vector<std::size_t> result(suppositions.size(), does_not_fit);
  const std::vector<std::size_t> counted = tester.wrong(hypotheses, 1);
  for (std::size_t i = 0; i < place.size(); ++i) {
    result[place[i]] = counted[i];
  }
  return result;
}

SetSimulation::Counts SetSimulation::counts(std::span<const std::uint64_t> lines) const {
  Counts counts;
  for_each_access(lines, [&](std::size_t r, std::size_t i) {
    const Measured measured = recordings_[r].measured[i];
    counts.judged += measured != Measured::unclear ? 1U : 0U;
    counts.misses += measured == Measured::miss ? 1U : 0U;
  });
  return counts;
}

void SetSimulation::predict(std::span<const std::uint64_t> lines, const Supposed& supposed,
                            std::vector<std::vector<bool>>& misses) const {
  model::CacheDescription set;
  set.line_bytes = line_bytes_;
  set.sector_bytes = sector_bytes_;
  set.ways = std::vector<std::uint32_t>{supposed.ways};
  set.index = model::BitsIndex{};
  set.replacement = supposed.policy;
  const auto simulator = model::CacheSimulator::make(set, 1);
  std::optional<std::size_t> current;
  for_each_access(lines, [&](std::size_t r, std::size_t i) {
    if (current != r) {
      simulator->put_into(model::StartState::clean);
      current = r;
    }
    const model::AccessEvent event = simulator->step(recordings_[r].addresses[i], model::AccessKind::load);
    misses[r][i] = is_miss(event.outcome);
  });
}

std::vector<SetSimulation::Prediction> SetSimulation::predictions(std::span<const std::uint64_t> lines,
                                                                  const Supposed& supposed) const {
  std::vector<std::vector<bool>> misses;
  for (const Played& played : recordings_) {
    misses.emplace_back(played.addresses.size());
  }
  predict(lines, supposed, misses);
  std::vector<Prediction> predictions;
  std::map<std::pair<std::size_t, std::uint32_t>, std::size_t> last_load;  // by recording and line
  std::size_t loads = 0;
  for_each_access(lines, [&](std::size_t r, std::size_t i) {
    const std::uint32_t line = line_of_[r][i];
    const auto [last, is_first] = last_load.emplace(std::pair(r, line), loads);
    const Measured measured = recordings_[r].measured[i];
    if (measured != Measured::unclear) {
      predictions.push_back({.line = lines_[line],
                             .age = is_first ? std::nullopt : std::optional(loads - last->second),
                             .miss = misses[r][i],
                             .is_wrong = misses[r][i] != (measured == Measured::miss)});
    }
    last->second = loads++;
  });
  return predictions;
}

std::optional<TraceFit> fit_recordings(const ConflictScores& scores, const SetSimulation& simulation, Care care,
                                       const std::function<bool()>& stop) {
  constexpr std::size_t most_splits = 6;
  constexpr std::size_t accesses_of_sample = 4000;
  const std::size_t judged = simulation.judged();
  const SetSimulation sample = simulation.beginning(accesses_of_sample);
  std::optional<SplitFit> best;
  for (const LineSplit& split : scores.guess_splits(simulation.line_bytes(), most_splits)) {
    SplitFit fit(split, simulation, sample);
    // Once a policy explains most, other splits are tried under that one.
    if (best && best->wrong() * 25 < judged) {
      fit.settle(best->policy());
    } else {
      fit.choose_policy();
    }
    if (!best || fit.wrong() < best->wrong()) {
      best = std::move(fit);
    }
    if (stop() || best->wrong() * 1000 < judged) {
      break;
    }
  }
  if (!best) {
    return std::nullopt;
  }
  // Where much is wrong, more than a few lines are at fault.
  const std::size_t before = best->wrong();
  if (care == Care::thorough && before * 8 < judged) {
    best->move_lines(stop);
    if (best->wrong() < before) {
      best->choose_policy();
      best->move_lines(stop);
    }
  }
  return best->fit();
}

std::size_t wrong_of(const TraceFit& fit, const SetSimulation& simulation) {
  const std::vector<Lines> sets = fit.split.lines_of_sets();
  std::size_t wrong = 0;
  for (std::size_t set = 0; set < sets.size(); ++set) {
    wrong += simulation.wrong(sets[set], {{Supposed{.ways = fit.ways[set], .policy = fit.policy}}}).front();
  }
  return wrong;
}

Rivals rivals_of(const TraceFit& fit, const SetSimulation& simulation, std::size_t tolerated) {
  Rivals rivals;
  const std::vector<Lines> sets = fit.split.lines_of_sets();
  const std::size_t most_wrong = fit.wrong + tolerated;

  std::vector<Replacement> policies;
  std::set<std::string> known;
  for (const std::uint32_t ways : fit.ways) {
    for (Replacement& policy : model::guessed_policies({ways})) {
      if (known.insert(model::to_text(policy)).second) {
        policies.push_back(std::move(policy));
      }
    }
  }
  // Policy by policy, but all of them at once in a set: those that are refuted already are not tried further.
  std::vector<std::size_t> total(policies.size());
  std::vector<std::vector<std::uint32_t>> ways_of(policies.size());
  for (std::size_t set = 0; set < sets.size(); ++set) {
    std::vector<Supposed> supposed;
    std::vector<std::size_t> policy_of;
    for (std::size_t p = 0; p < policies.size(); ++p) {
      if (total[p] <= most_wrong) {
        for (const std::uint32_t ways : around({fit.ways[set]}, 1, std::max<std::size_t>(sets[set].size(), 2))) {
          supposed.push_back({.ways = ways, .policy = policies[p]});
          policy_of.push_back(p);
        }
      }
    }
    const std::vector<std::size_t> wrong = simulation.wrong(sets[set], supposed);
    std::map<std::size_t, BestWays> best_of;
    for (std::size_t i = 0; i < supposed.size(); ++i) {
      BestWays& best = best_of[policy_of[i]];
      if (wrong[i] < best.wrong) {
        best = {.ways = supposed[i].ways, .wrong = wrong[i]};
      }
    }
    for (const auto& [p, best] : best_of) {
      total[p] += best.wrong;
      ways_of[p].push_back(best.ways);
    }
  }
  for (std::size_t p = 0; p < policies.size(); ++p) {
    if (total[p] <= most_wrong) {
      rivals.policies.emplace_back(policies[p], ways_of[p]);
    }
  }

  std::vector<std::size_t> wrong_of_set;
  for (std::size_t set = 0; set < sets.size(); ++set) {
    std::vector<Supposed> supposed;
    const std::uint32_t reach = std::max<std::uint32_t>(2, fit.ways[set] / 2);
    // One way more than there are lines stands for all larger numbers.
    for (const std::uint32_t ways : around({fit.ways[set]}, reach, sets[set].size() + 1)) {
      for (const auto& [policy, suited] : rivals.policies) {
        supposed.push_back({.ways = ways, .policy = policy});
      }
    }
    const std::vector<std::size_t> wrong = simulation.wrong(sets[set], supposed);
    const std::size_t least = *std::min_element(wrong.begin(), wrong.end());
    wrong_of_set.push_back(least);
    std::set<std::uint32_t> possible;
    for (std::size_t i = 0; i < supposed.size(); ++i) {
      if (wrong[i] <= least + tolerated) {
        possible.insert(supposed[i].ways);
      }
    }
    rivals.ways_of_set.emplace_back(possible.begin(), possible.end());
  }

  for (std::size_t i = 0; i < fit.split.lines.size(); ++i) {
    const std::uint32_t from = fit.split.set_of[i];
    Lines rest = sets[from];
    rest.erase(std::lower_bound(rest.begin(), rest.end(), fit.split.lines[i]));
    const auto near = [&](const Lines& lines, std::uint32_t ways) {
      return lines.empty() ? 0U : best_ways(simulation, lines, fit.policy, around({ways}, 1, lines.size())).wrong;
    };
    const std::size_t without = near(rest, fit.ways[from]);
    // A set of its own is possible as well.
    bool is_decided =
        without + simulation.wrong({{fit.split.lines[i]}}, {{Supposed{.ways = 1, .policy = fit.policy}}}).front() >
        wrong_of_set[from] + tolerated;
    for (std::uint32_t to = 0; to < sets.size() && is_decided; ++to) {
      // Without the line its set may be so wrong that no other set makes up for it.
      if (to != from && without <= wrong_of_set[from] + wrong_of_set[to] + tolerated) {
        Lines more = sets[to];
        more.insert(std::lower_bound(more.begin(), more.end(), fit.split.lines[i]), fit.split.lines[i]);
        is_decided = without + near(more, fit.ways[to]) > wrong_of_set[from] + wrong_of_set[to] + tolerated;
      }
    }
    rivals.line_is_decided.push_back(is_decided);
  }
  return rivals;
}

}  // namespace gpuinfer::infer
