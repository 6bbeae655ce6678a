// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/rare_departures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/policy/policy_questions.hpp"
#include "model/access_sequence.hpp"
#include "model/index_function.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::uint64_t histories = 12;
constexpr std::uint64_t more_histories = 500;

// A fill that is left out of a simulation shows more than most other departures do.
constexpr double as_visible = 0.5;

// What an access says for "loads go either way here" against "loads go as predicted", by its log likelihood ratio.
double either_way(double against_prediction) { return std::log(0.5 + 0.5 * std::exp(against_prediction)); }

struct Events {
  std::size_t all = 0;         // loads of one set that speak against the prediction by more than misreads do
  std::size_t departures = 0;  // of those that follow each other closely, the first
};

// One departure may show in many loads: what it leads to is over when all lines of the set were met twice as predicted.
Events count_events(std::span<const std::uint32_t> set_of, std::span<const double> against,
                    std::span<const std::uint32_t> ways) {
  struct Course {
    double sum = 0;
    std::optional<std::size_t> loads_as_predicted;  // since a departure showed
  };
  std::unordered_map<std::uint32_t, Course> courses;
  Events events;
  for (std::size_t i = 0; i < against.size(); ++i) {
    Course& course = courses[set_of[i]];
    const std::size_t twice_all = 2 * (std::size_t{ways[set_of[i]]} + 1);
    if (course.loads_as_predicted) {
      course.loads_as_predicted = against[i] > 0 ? 0 : *course.loads_as_predicted + 1;
    }
    course.sum = std::max(0.0, course.sum + either_way(against[i]));
    if (course.sum > departure_log_ratio) {
      ++events.all;
      events.departures += !course.loads_as_predicted || *course.loads_as_predicted > twice_all ? 1U : 0U;
      course = {.sum = 0, .loads_as_predicted = 0};
    } else if (course.loads_as_predicted && *course.loads_as_predicted > twice_all) {
      course.loads_as_predicted.reset();
    }
  }
  return events;
}

double against_prediction(std::optional<bool> is_miss, double log_ratio) {
  return !is_miss ? 0 : (*is_miss ? -log_ratio : log_ratio);
}

}  // namespace

bool misreads_are_independent(const LevelClassifier& classifier) {
  constexpr double most_overlap = 1e-3;
  return classifier.overlap() <= most_overlap;
}

std::uint64_t DepartureTally::line_of(std::uint64_t offset) const {
  return device_->address_of(offset) / *cache_->line_bytes;
}

std::vector<std::uint32_t> DepartureTally::sets_of(const AccessSequence& loads) const {
  std::vector<std::uint32_t> sets;
  std::ranges::transform(loads, std::back_inserter(sets), [&](std::uint64_t offset) {
    return model::set_of(*cache_->index, aligned_down(device_->address_of(offset), *cache_->line_bytes));
  });
  return sets;
}

void DepartureTally::add(const FreshQuestion& fresh, std::span<const std::optional<bool>> predicted,
                         std::span<const float> cycles, model::Random& random) {
  const std::vector<double> ratios = device_->classifier().log_ratios(cycles);
  const std::vector<std::uint32_t> set_of = sets_of(fresh.question.record);
  const auto count = [&] {
    std::vector<double> against(ratios.size());
    std::ranges::transform(predicted, ratios, against.begin(), against_prediction);
    return std::pair(count_events(set_of, against, *cache_->ways),
                     static_cast<std::size_t>(std::ranges::count_if(against, [](double each) { return each > 0; })));
  };
  auto [events, mispredicted] = count();
  // More of what may have been there before may explain them.
  std::vector<std::optional<bool>> after_more;
  if (events.all > 0) {
    predicted = after_more = predicted_misses(*device_, *cache_, fresh, more_histories);
    std::tie(events, mispredicted) = count();
  }
  std::vector<std::size_t> fills;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    if (predicted[i] == true) {
      fills.push_back(i);
    }
  }
  fills_ += fills.size();
  mispredicted_ += mispredicted;
  events_ += events.all;
  departures_ += events.departures;
  count_lines(fresh, predicted, random);

  constexpr std::size_t trials = 2;
  for (std::size_t trial = 0; trial < trials && !fills.empty(); ++trial) {
    const std::size_t left_out = fills[random.below(fills.size())];
    FreshQuestion without = fresh;
    without.question.record.erase(without.question.record.begin() + static_cast<std::ptrdiff_t>(left_out));
    std::vector<std::optional<bool>> departing = predicted_misses(*device_, *cache_, without, 1);
    departing.insert(departing.begin() + static_cast<std::ptrdiff_t>(left_out), true);
    std::vector<double> shown(ratios.size());
    std::size_t differing = 0;
    for (std::size_t i = 0; i < ratios.size(); ++i) {
      const bool differs = predicted[i] && departing[i] && *predicted[i] != *departing[i];
      shown[i] = !predicted[i] ? 0 : (differs ? std::abs(ratios[i]) : -std::abs(ratios[i]));
      differing += differs && ratios[i] != 0 ? 1U : 0U;
    }
    const double stands_for = static_cast<double>(fills.size()) / trials;
    fills_that_show_ += count_events(set_of, shown, *cache_->ways).all > 0 ? stands_for : 0;
    fills_that_mispredict_ += differing > 0 ? stands_for : 0;
  }
}

bool DepartureTally::is_missed(std::uint64_t line, const FreshQuestion& fresh,
                               std::span<const std::optional<bool>> predicted) const {
  const auto is_of_line = [&](std::uint64_t offset) { return line_of(offset) == line; };
  FreshQuestion without = fresh;
  std::erase_if(without.question.warm, is_of_line);
  std::erase_if(without.question.record, is_of_line);
  const std::vector<std::optional<bool>> departing = predicted_misses(*device_, *cache_, without, 1);
  std::size_t left = 0;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    if (is_of_line(fresh.question.record[i])) {
      continue;
    }
    if (predicted[i] && departing[left] && *predicted[i] != *departing[left]) {
      return true;
    }
    ++left;
  }
  return false;
}

// A line that is loaded once may be anywhere.
void DepartureTally::count_lines(const FreshQuestion& fresh, std::span<const std::optional<bool>> predicted,
                                 model::Random& random) {
  constexpr std::size_t trials = 3;
  std::unordered_map<std::uint64_t, std::size_t> loads_of;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    loads_of[line_of(fresh.question.record[i])] += predicted[i] ? 1U : 0U;
  }
  std::vector<std::uint64_t> lines;
  for (const auto& [line, loads] : loads_of) {
    if (loads > 1) {
      lines.push_back(line);
    }
  }
  if (lines.empty()) {
    return;
  }
  std::ranges::sort(lines);
  std::size_t missed = 0;
  for (std::size_t trial = 0; trial < trials; ++trial) {
    missed += is_missed(lines[random.below(lines.size())], fresh, predicted) ? 1U : 0U;
  }
  for (const std::uint64_t line : lines) {
    hidden_.try_emplace(line, 1).first->second *= 1 - static_cast<double>(missed) / trials;
  }
}

double DepartureTally::departures_below() const {
  // Either count may be the better one, so each gets half of what 99 % leave.
  constexpr double each = 1 - (1 - excluded_at) / 2;
  const auto bound = [&](std::size_t seen, double fills) {
    return fills == 0 ? 1 : std::min(1.0, poisson_mean_limit(seen, each) / (as_visible * fills));
  };
  return std::min(bound(events_, fills_that_show_), bound(mispredicted_, fills_that_mispredict_));
}

double DepartureTally::odd_lines_below(double confidence) const {
  const double all =
      std::floor(static_cast<double>(device_->buffer().bytes) / static_cast<double>(*cache_->line_bytes));
  double tested = 0;
  for (const auto& [line, hidden] : hidden_) {
    tested += 1 - hidden;
  }
  return std::max(infer::odd_lines_below(tested, all, confidence),
                  misreads_are_independent(device_->classifier()) ? 0 : departures_below());
}

double odd_lines_below(double tested, double all, double confidence) {
  if (tested == 0) {
    return 1;
  }
  // So many odd lines of all would hardly all have been left out.
  const double left_out = std::max(0.0, 1 - tested / all);
  const double odd = left_out == 0 ? 1 : std::max(1.0, std::log(1 - confidence) / std::log(left_out));
  return std::min(1.0, odd / all);
}

std::pair<double, double> DepartureTally::departing_share() const {
  const auto [low, high] = wilson_interval(departures_, std::max<std::size_t>(1, fills_));
  const double visible = as_visible * fills_that_show_ / static_cast<double>(std::max<std::size_t>(1, fills_));
  return {low, std::min(1.0, high / std::max(visible, low))};
}

double fills_that_exclude(double share) { return poisson_mean_limit(0, excluded_at) / (as_visible * share); }

model::DepartureBound bound_of(double departures_below) {
  const double scale = std::pow(10, 2 - std::floor(std::log10(departures_below)));
  return {.departures_below = std::min(1.0, std::ceil(departures_below * scale) / scale), .at = excluded_at};
}

namespace {

// Answers that are noisy and yet the same come from a recording: they say no more than one of them.
bool are_played_back(const std::vector<float>& a, const std::vector<float>& b) {
  constexpr std::size_t latencies_without_noise = 4;
  return a == b && std::set<float>(a.begin(), a.end()).size() > latencies_without_noise;
}

// One in each line that is loaded.
Offsets places_in_lines(const Interrogator& device, std::uint64_t line_bytes, const AccessSequence& loads) {
  Offsets places;
  std::set<std::uint64_t> lines;
  std::ranges::copy_if(loads, std::back_inserter(places), [&](std::uint64_t offset) {
    return lines.insert(device.address_of(offset) / line_bytes).second;
  });
  return places;
}

}  // namespace

std::optional<Contradiction> contradiction_that_repeats(Interrogator& device, const model::CacheDescription& cache,
                                                        const FreshQuestion& fresh,
                                                        std::span<const std::optional<bool>> predicted,
                                                        const Answers& answers) {
  constexpr std::size_t most_times = 8;
  constexpr std::size_t fewest_times = 3;
  if (!misreads_are_independent(device.classifier())) {
    return std::nullopt;
  }
  std::vector<double> sums(predicted.size());
  std::vector<std::size_t> open(predicted.size());
  std::iota(open.begin(), open.end(), std::size_t{0});
  std::vector<float> before;
  bool is_checked = false;  // after more histories
  for (std::size_t time = 0; time < std::max(most_times, answers.size()); ++time) {
    std::vector<float> answer;
    try {
      answer = time < answers.size() ? answers[time] : ask_times(device, {&fresh, 1}, 1).front();
    } catch (const QuestionRefused&) {
      return std::nullopt;  // as recordings do that hold no more answers
    }
    if (are_played_back(answer, before)) {
      return std::nullopt;
    }
    const std::vector<double> ratios = device.classifier().log_ratios(answer);
    std::erase_if(open, [&](std::size_t i) {
      const double against = against_prediction(predicted[i], ratios[i]);
      sums[i] += against;
      return against < 0 || sums[i] <= 0;
    });
    const auto speaks_against = [&](std::size_t i) { return sums[i] > repeated_log_ratio; };
    if (time + 1 >= fewest_times && std::ranges::any_of(open, speaks_against) && !is_checked) {
      const auto after_more = predicted_misses(device, cache, fresh, more_histories);
      std::erase_if(open, [&](std::size_t i) { return !after_more[i]; });
      is_checked = true;
    }
    const auto found = std::ranges::find_if(open, speaks_against);
    if (time + 1 >= fewest_times && found != open.end()) {
      return Contradiction{.sentence = "load " + std::to_string(*found + 1) + " of a sequence of " +
                                       std::to_string(predicted.size()) + (*predicted[*found] ? " hits" : " misses") +
                                       " each of " + std::to_string(time + 1) + " times, and is predicted to " +
                                       (*predicted[*found] ? "miss" : "hit"),
                           .lines = places_in_lines(device, *cache.line_bytes, fresh.question.record)};
    }
    if (open.empty()) {
      return std::nullopt;
    }
    before = std::move(answer);
  }
  return std::nullopt;
}

namespace {

class RareDepartureSearch {
 public:
  RareDepartureSearch(Interrogator& device, const model::CacheDescription& cache, DepartureTally& tally)
      : device_(device), cache_(cache), tally_(tally), random_(stream(device.settings(), "rare departures")),
        order_(cache.ways->size()) {
    std::iota(order_.begin(), order_.end(), 0U);
    place_ = order_.size();
  }

  std::optional<Contradiction> run() {
    const double wanted = 1 / static_cast<double>(device_.settings().fills_to_test);
    const auto planned = static_cast<std::size_t>(std::ceil(fills_that_exclude(wanted)));
    const std::size_t before = device_.accesses_asked();
    constexpr std::size_t kinds = 2;  // of in_use()
    for (std::size_t asked = 0; asked < kinds || device_.accesses_asked() - before < planned / 2; ++asked) {
      if (auto found = judge(in_use())) {
        return found;
      }
    }
    const std::size_t fills_before = tally_.fills();
    // What departs by a counter that a clean start sets back does so late, and may show in another set only.
    const auto long_chases = [&]() -> std::optional<Contradiction> {
      // Of single sets, in each of which it shows once at most, and not always.
      constexpr std::size_t single_sets = 3;
      for (std::size_t time = 0; time <= single_sets; ++time) {
        if (auto found = judge(long_chase(time < single_sets ? 1 : most_chased_ways))) {
          return found;
        }
      }
      for (int time = 0; time < 3 && order_.size() > 1; ++time) {
        if (auto found = judge(chase_beside_full_sets())) {
          return found;
        }
      }
      return std::nullopt;
    };
    if (auto found = long_chases()) {
      return found;
    }
    const std::size_t before_chases = device_.accesses_asked();
    const double least_share = static_cast<double>(*cache_.line_bytes) / static_cast<double>(device_.buffer().bytes);
    // Of few lines two may do otherwise, just as many as the bound allows, so it is tested further than it says.
    const double asked_to = 2 * least_share > wanted ? 0.9999 : excluded_at;
    const auto is_open = [&] {
      return tally_.departures_below() > wanted || tally_.odd_lines_below(asked_to) > std::max(wanted, 2 * least_share);
    };
    while (tally_.fills() - fills_before < planned ||
           (is_open() && device_.accesses_asked() - before_chases < 3 * planned)) {
      // A policy under which hardly anything is replaced, or a start that leaves everything open.
      if (device_.accesses_asked() - before_chases > 4 * planned) {
        break;
      }
      if (auto found = judge(chase())) {
        return found;
      }
    }
    try {
      return judge(long_stays());
    } catch (const QuestionRefused&) {  // by a recording, of which all that is above has been answered
      return std::nullopt;
    }
  }

 private:
  std::optional<Contradiction> judge(const FreshQuestion& fresh) {
    const std::vector<std::optional<bool>> predicted = predicted_misses(device_, cache_, fresh, histories);
    const Answers answers = ask_times(device_, {&fresh, 1}, 1);
    tally_.add(fresh, predicted, answers.front(), random_);
    return contradiction_that_repeats(device_, cache_, fresh, predicted, answers);
  }

  // The next sets that together have so many ways at most, all in turn.
  std::vector<std::uint32_t> next_sets(std::size_t most_ways) {
    std::vector<std::uint32_t> chosen;
    std::size_t ways = 0;
    while (chosen.size() < order_.size()) {
      if (place_ == order_.size()) {
        random_.shuffle(order_);
        place_ = 0;
        if (!chosen.empty()) {
          break;
        }
      }
      ways += (*cache_.ways)[order_[place_]];
      if (!chosen.empty() && ways > most_ways) {
        break;
      }
      chosen.push_back(order_[place_++]);
    }
    return chosen;
  }

  // Mostly of lines side by side, since lines from everywhere come half from near the start, again and again; sometimes
  // of every 2nd, 4th, .. line, where what is no set shows.
  StrideExponent next_stride() {
    constexpr std::size_t kinds = 4;
    constexpr std::uint64_t exponents = 6;
    switch (questions_++ % kinds) {
      case 0:
        return everywhere;
      case 1:
        return 1 + static_cast<unsigned>(random_.below(exponents));
      default:
        return side_by_side;
    }
  }

  // Lines more than ways of each of the sets.
  [[nodiscard]] std::vector<std::uint32_t> lines_to_ask(std::span<const std::uint32_t> sets, std::uint32_t more) const {
    std::vector<std::uint32_t> asked(order_.size());
    for (const std::uint32_t set : sets) {
      asked[set] = (*cache_.ways)[set] + more;
    }
    return asked;
  }

  FreshQuestion chase_over(const std::vector<std::uint32_t>& asked, std::size_t fewest_laps, std::size_t fewest_loads,
                           StrideExponent lying) {
    Pool pool = pool_of_lines(device_, cache_, asked, lying, random_);
    Offsets lap = pool.all();
    random_.shuffle(lap);
    const std::size_t laps = std::max(fewest_laps, 1 + fewest_loads / std::max<std::size_t>(1, lap.size()));
    return question_over(device_, std::move(pool), model::repeated(lap, laps));
  }

  FreshQuestion chase() {
    const std::vector<std::uint32_t> sets = next_sets(most_chased_ways);
    return chase_over(lines_to_ask(sets, 1), 2, 0, next_stride());
  }

  FreshQuestion long_chase(std::size_t most_ways) {
    constexpr std::size_t more_laps = 2;
    const std::vector<std::uint32_t> sets = next_sets(most_ways);
    const std::size_t lap =
        std::accumulate(sets.begin(), sets.end(), sets.size(),
                        [&](std::size_t sum, std::uint32_t set) { return sum + (*cache_.ways)[set]; });
    return chase_over(lines_to_ask(sets, 1), more_laps, device_.settings().fills_to_test + more_laps * lap,
                      side_by_side);
  }

  // Some sets miss all the time, and the others are just full: what comes along with a miss evicts a line there.
  FreshQuestion chase_beside_full_sets() {
    constexpr std::size_t chased_one_in = 4;  // sets
    constexpr std::size_t laps_between = 8;
    const std::vector<std::uint32_t> sets = next_sets(most_chased_ways);
    const std::span chased = std::span(sets).first((sets.size() + chased_one_in - 1) / chased_one_in);
    std::vector<std::uint32_t> asked = lines_to_ask(sets, 0);
    for (const std::uint32_t set : chased) {
      ++asked[set];
    }
    Pool pool = pool_of_lines(device_, cache_, asked, everywhere, random_);
    Offsets lap;
    for (const std::uint32_t set : chased) {
      lap.insert(lap.end(), pool.asked[set].begin(), pool.asked[set].end());
      pool.asked[set].clear();
    }
    random_.shuffle(lap);
    const Offsets full = pool.all();
    AccessSequence record = full;
    const std::size_t fewest_loads = 2 * device_.settings().fills_to_test;
    while (record.size() < fewest_loads) {
      const AccessSequence laps = model::repeated(lap, laps_between);
      record.insert(record.end(), laps.begin(), laps.end());
      record.insert(record.end(), full.begin(), full.end());
    }
    return question_over(device_, std::move(pool), std::move(record));
  }

  // Each set in turn gets a line that comes but once, and then all that are in use.
  FreshQuestion in_use() {
    constexpr std::size_t most_loads = 4000;
    constexpr std::size_t rounds_wanted = 8;
    std::vector<std::uint32_t> asked(order_.size());
    // Of a set by itself so many come that an outer cache, which sees none of the hits, has dropped the lines in use.
    const std::vector<std::uint32_t> sets = next_sets(questions_ % 2 == 0 ? most_loads / rounds_wanted : 1);
    std::size_t loads_of_round = 0;
    for (const std::uint32_t set : sets) {
      loads_of_round += (*cache_.ways)[set];
    }
    const auto rounds = static_cast<std::uint32_t>(std::max(rounds_wanted, most_loads / loads_of_round));
    for (const std::uint32_t set : sets) {
      asked[set] = (*cache_.ways)[set] - 1 + rounds;
    }
    Pool pool = pool_of_lines(device_, cache_, asked, next_stride(), random_);
    AccessSequence record;
    for (std::size_t round = 0; round < rounds; ++round) {
      for (const std::uint32_t set : sets) {
        const Offsets& lines = pool.asked[set];
        const std::size_t in_use = (*cache_.ways)[set] - 1;
        if (in_use + round < lines.size()) {
          record.push_back(lines[in_use + round]);
          record.insert(record.end(), lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(in_use));
        }
      }
    }
    if (record.empty()) {
      record = pool.all();
    }
    return question_over(device_, std::move(pool), std::move(record));
  }

  // Longer than all other sequences, and in between one line is loaded again and again: what ages while others are
  // loaded, or changes after so many loads from a clean start, shows here.
  FreshQuestion long_stays() {
    constexpr std::array<std::size_t, 4> stays{256, 1024, 4096, 8192};
    constexpr std::size_t fewest_loads = std::size_t{1} << 15U;
    model::Random random = stream(device_.settings(), "long stays");
    std::vector<std::uint32_t> asked(order_.size());
    for (const std::uint32_t set : next_sets(most_chased_ways)) {
      const std::uint32_t ways = (*cache_.ways)[set];
      asked[set] = ways + (ways + 1) / 2;
    }
    Pool pool = pool_of_lines(device_, cache_, asked, everywhere, random);
    const Offsets lines = pool.all();
    AccessSequence record;
    const auto walk = [&](std::size_t loads) {
      for (const std::uint32_t line : model::returning_walk(static_cast<std::uint32_t>(lines.size()), loads, random)) {
        record.push_back(lines[line]);
      }
    };
    for (const std::size_t stay : stays) {
      walk(2 * lines.size());
      record.insert(record.end(), stay, record.back());
    }
    walk(std::max(2 * lines.size(), fewest_loads - std::min(fewest_loads, record.size())));
    return question_over(device_, std::move(pool), std::move(record));
  }

  static constexpr std::size_t most_chased_ways = 1024;  // of the sets of one chase

  Interrogator& device_;
  const model::CacheDescription& cache_;
  DepartureTally& tally_;
  model::Random random_;
  std::vector<std::uint32_t> order_;
  std::size_t place_ = 0;
  std::size_t questions_ = 0;
};

}  // namespace

std::optional<Contradiction> search_departures(Interrogator& device, const model::CacheDescription& cache,
                                               DepartureTally& tally) {
  return RareDepartureSearch(device, cache, tally).run();
}

bool departs(const Interrogator& asker, const DepartureTally& tally) {
  return misreads_are_independent(asker.classifier()) && tally.events() > 0 &&
         tally.departures_below() > 1 / static_cast<double>(asker.settings().fills_to_test);
}

std::string share_text(std::pair<double, double> share) {
  return "between one in " + model::whole_text(1 / share.second) + " and one in " + model::whole_text(1 / share.first) +
         " fills";
}

void describe_departing(const DepartureTally& tally, Claim<model::Replacement>& claim) {
  const auto [fewest, most] = tally.departing_share();
  claim.reason = "it does as " + model::to_text(*claim.value) + " but for " + share_text({fewest, most});
  claim.details.deterministic.emplace();
  claim.details.mostly = {.policy = *claim.value, .departs = {fewest, most}};
  claim.value.reset();
}

}  // namespace gpuinfer::infer
