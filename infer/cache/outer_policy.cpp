// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/outer_policy.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "infer/asking/conflict_class.hpp"
#include "infer/asking/stream.hpp"
#include "infer/cache/fresh_questions.hpp"
#include "infer/cache/granularity.hpp"
#include "infer/cache/outer_laps.hpp"
#include "infer/cache/past_nearer_level.hpp"
#include "infer/cache/rare_departures.hpp"
#include "infer/cache/set_map.hpp"
#include "infer/policy/replacement_fit.hpp"
#include "model/access_sequence.hpp"
#include "model/device_description.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

// The others are those whose lines drive lines out of the nearer level.
constexpr std::size_t most_sets_asked = 32;
constexpr std::size_t sets_of_an_asked_one = 2;

// Of the questions themselves, without the loads in between, which are many times as many.
constexpr std::size_t most_asked_accesses = 40'000;

constexpr std::size_t laps_to_settle = 6;
constexpr std::size_t loads_of_a_sequence = 384;

// It departs: no more loads than are asked exclude what was seen so often.
constexpr std::size_t enough_events = 16;

constexpr std::uint64_t histories_of_a_set = 48;  // large ones have many states

// A few sets may be odd because something else lies in them, or because the nearer level keeps lines of theirs.
constexpr std::size_t one_of_sets_may_be_odd = 4;

// Who asks for the level tells how far it is.
Settings silent(Settings settings) {
  settings.on_progress = [](const Progress&) {};
  return settings;
}

Settings limited(Settings settings) {
  settings.budget_accesses = most_asked_accesses;
  return settings;
}

// Sets drawn at random, each with some of its lines, which may be anywhere.
std::vector<ConflictClass> drawn_sets(const Interrogator& asker, const model::IndexFunction& index,
                                      const std::vector<std::uint32_t>& ways, std::uint64_t line_bytes,
                                      model::Random& random) {
  const std::uint64_t start = aligned_start(asker);
  std::vector<ConflictClass> sets(ways.size());
  for (std::uint64_t offset = start; offset + line_bytes <= asker.buffer().bytes; offset += line_bytes) {
    sets[model::set_of(index, asker.address_of(offset))].lines.push_back(offset);
  }
  for (std::size_t set = 0; set < sets.size(); ++set) {
    sets[set].ways = ways[set];
    random.shuffle(sets[set].lines);
    sets[set].lines.resize(std::min<std::size_t>(sets[set].lines.size(), 2 * std::size_t{ways[set]} + 2));
  }
  std::erase_if(sets, [](const ConflictClass& set) { return set.lines.size() <= set.ways; });
  random.shuffle(sets);
  sets.resize(std::min({sets.size(), most_sets_asked, ways.size() / sets_of_an_asked_one}));
  return sets;
}

std::vector<bool> sets_of(const std::vector<ConflictClass>& drawn, const Interrogator& asker,
                          const model::IndexFunction& index) {
  std::vector<bool> is_asked(model::sets(index));
  for (const ConflictClass& set : drawn) {
    is_asked[model::set_of(index, asker.address_of(set.lines.front()))] = true;
  }
  return is_asked;
}

// Lines of all sets, or of as many as may be asked of, drawn at random; each comes back when at least half of the
// others were loaded in between, which drive it out of the nearer level. So each load gets to the level behind, and no
// loads in between, as PastNearerLevel has them, hide what lies beside that level.
struct LateReturns {
  AccessSequence warm;
  AccessSequence record;
};

std::optional<LateReturns> drawn_late_returns(Interrogator& asker, const model::CacheDescription& cache,
                                              model::Random& random) {
  constexpr std::size_t most_lines = 8192;
  constexpr std::size_t times_each_before = 4;
  constexpr std::size_t times_each = 16;
  constexpr std::size_t times_each_of_few = 64;
  constexpr std::size_t loads_of_few = std::size_t{1} << 16U;
  std::vector<std::uint32_t> order(cache.ways->size());
  std::iota(order.begin(), order.end(), 0U);
  random.shuffle(order);
  std::vector<std::uint32_t> wanted(cache.ways->size());
  std::size_t lines_wanted = 0;
  for (const std::uint32_t set : order) {
    const std::uint32_t ways = (*cache.ways)[set];
    const std::uint32_t lines = ways + 1 + static_cast<std::uint32_t>(random.below(1 + ways / 2));
    if (lines_wanted > 0 && lines_wanted + lines > most_lines) {
      break;
    }
    wanted[set] = lines;
    lines_wanted += lines;
  }
  Offsets by_recency;  // the one that came last at the end
  for (const Offsets& of_set : LinesOfSets(asker, *cache.index, *cache.line_bytes).draw(wanted, random)) {
    by_recency.insert(by_recency.end(), of_set.begin(), of_set.end());
  }
  random.shuffle(by_recency);
  const std::size_t half = by_recency.size() / 2;
  if (half < 2 * OuterLaps(asker, *cache.line_bytes).lines_past_nearer_level()) {
    return std::nullopt;
  }
  const auto walk = [&](std::size_t loads) {
    AccessSequence sequence(loads);
    for (std::uint64_t& offset : sequence) {
      const auto place = by_recency.begin() + static_cast<std::ptrdiff_t>(random.below(by_recency.size() - half));
      offset = *place;
      std::rotate(place, place + 1, by_recency.end());
    }
    return sequence;
  };
  AccessSequence warm = walk(times_each_before * by_recency.size());
  const std::size_t loads =
      std::clamp(loads_of_few, times_each * by_recency.size(), times_each_of_few * by_recency.size());
  return LateReturns{.warm = std::move(warm), .record = walk(loads)};
}

Interrogator interrogator_of(PastNearerLevel& level, const Interrogator& device, const Settings& settings) {
  Asker asker(level, device.target(), settings);
  asker.choose_start();
  return {std::move(asker), device.classifier()};
}

class OuterPolicy {
 public:
  OuterPolicy(Interrogator& asker, model::CacheDescription cache)
      : asker_(&asker), cache_(std::move(cache)), settings_(silent(asker.settings())), limited_(limited(settings_)),
        random_(stream(asker.settings(), "policy of an outer level")),
        sets_(drawn_sets(asker, *cache_.index, *cache_.ways, *cache_.line_bytes, random_)),
        is_asked_(sets_of(sets_, asker, *cache_.index)), level_(asker, *cache_.index, *cache_.line_bytes, is_asked_),
        inner_(interrogator_of(level_, asker, settings_)) {}

  Claim<model::Replacement> claim() {
    const std::size_t drawn = sets_.size();
    leave_out_shared_sets();
    asker_->learned(std::to_string(sets_.size()) + " of " + std::to_string(drawn) + " sets keep them all");
    if (4 * sets_.size() < 3 * drawn || sets_.size() < 2) {
      return {.reason = "many sets lose lines for which they have room"};
    }
    asker_->inquire("experiments on single sets, with loads of other sets after each access",
                    "what drives a line out of the nearer level lets the next access to it get to this one");
    // Some sets take no part in finding the policy. What the probe itself loads at times may lie in some.
    const auto half = sets_.begin() + static_cast<std::ptrdiff_t>(sets_.size() / 2);
    ReplacementFit fit = fit_of({sets_.begin(), half});
    std::vector<ConflictClass> fresh(half, sets_.end());
    if (fit.candidates.empty()) {
      fit = fit_of(fresh);
      fresh.assign(sets_.begin(), half);
    }
    asker_->learned(fit.candidates.size() == 1 ? "left: " + model::to_text(fit.candidates.front()) : fit.reason);
    Claim<model::Replacement> claim{.reason = fit.reason, .details = std::move(fit.details)};
    if (fit.candidates.size() != 1) {
      claim.alternatives = std::move(fit.candidates);
      return claim;
    }
    if (!model::is_deterministic(fit.candidates.front())) {
      claim.reason = "it is by chance, which fresh loads of single sets do not prove";
      claim.alternatives = std::move(fit.candidates);
      return claim;
    }
    claim.value = std::move(fit.candidates.front());
    hold_to_fresh_loads(std::move(fresh), claim);
    return claim;
  }

 private:
  // Whether laps over as many lines as it has ways miss, `before` them lines of other sets. From the state that they
  // were in, some policies first drive out lines for which there is room.
  static bool loses_lines(Interrogator& level, std::span<const std::uint64_t> lines, std::size_t laps,
                          const AccessSequence& before = {}) {
    const AccessSequence lap(lines.begin(), lines.end());
    AccessSequence warm = model::repeated(lap, std::max(laps_to_settle, laps));
    warm.insert(warm.end(), before.begin(), before.end());
    const std::vector<Reading> readings = level.ask(warm, model::repeated(lap, laps));
    return std::ranges::find(readings, Reading::miss) != readings.end();
  }

  void leave_out_shared_sets() {
    constexpr std::size_t laps = 18;
    std::erase_if(sets_, [&](const ConflictClass& set) {
      return loses_lines(inner_, std::span(set.lines).first(set.ways), laps);
    });
  }

  // What the probe loads by the way, such as code, may come but once in a sequence, when lines of some place were
  // loaded for the last time. So lines from everywhere come before, as before a sequence that is judged, and the laps
  // are over lines of that one.
  bool is_shared(const ConflictClass& set, const AccessSequence& judged) {
    constexpr int most_times = 3;
    AccessSequence lines;
    for (const std::uint64_t line : judged) {
      if (lines.size() < set.ways && std::ranges::find(lines, line) == lines.end()) {
        lines.push_back(line);
      }
    }
    for (int time = 0; time < most_times; ++time) {
      if (loses_lines(inner_, lines, 2 * loads_of_a_sequence / set.ways, lines_that_nobody_asks_about())) {
        return true;
      }
    }
    return false;
  }

  AccessSequence lines_that_nobody_asks_about() {
    constexpr int most_lines = 128;
    const std::uint64_t start = aligned_start(*asker_);
    const std::uint64_t lines_of_buffer = (asker_->buffer().bytes - start) / *cache_.line_bytes;
    AccessSequence lines;
    for (int i = 0; i < most_lines; ++i) {
      const std::uint64_t line = start + random_.below(lines_of_buffer) * *cache_.line_bytes;
      if (!is_asked_[model::set_of(*cache_.index, asker_->address_of(line))]) {
        lines.push_back(line);
      }
    }
    return lines;
  }

  ReplacementFit fit_of(const std::vector<ConflictClass>& sets) {
    ReplacementFit fit;
    Interrogator finding = interrogator_of(level_, *asker_, limited_);
    try {
      fit = fit_replacement(finding, sets);
    } catch (const AskingEnded& ended) {
      asker_->check_limits(0);
      fit.reason = ended.what();
    }
    return fit;
  }

  // Each load is judged by itself, as votes would hide that a fill departs.
  void hold_to_fresh_loads(std::vector<ConflictClass> sets, Claim<model::Replacement>& claim) {
    asker_->inquire("random loads of single sets, and laps over one line more than they have ways",
                    "only what predicts answers that took no part in the fit is resolved");
    cache_.replacement = claim.value;
    DepartureTally tally(inner_, cache_);
    const double wanted = 1 / static_cast<double>(inner_.settings().fills_to_test);
    const auto most_loads = static_cast<std::size_t>(8 * fills_that_exclude(wanted));
    std::optional<Contradiction> contradiction;
    std::size_t loads = 0;
    const std::size_t all_sets = sets.size();
    const std::size_t fewest_sets = all_sets / 2;
    for (bool in_laps = false;
         !contradiction && loads < most_loads && tally.departures_below() > wanted && tally.events() < enough_events;
         in_laps = !in_laps) {
      const std::size_t place = random_.below(sets.size());
      const FreshQuestion fresh = fresh_loads_of(sets[place], in_laps);
      const auto predicted = predicted_misses(inner_, cache_, fresh, histories_of_a_set);
      const Answers answers = ask_times(inner_, {&fresh, 1}, 1);
      const DepartureTally before = tally;
      tally.add(fresh, predicted, answers.front(), random_);
      contradiction = contradiction_that_repeats(inner_, cache_, fresh, predicted, answers);
      if ((contradiction || tally.events() > before.events()) && sets.size() > fewest_sets &&
          is_shared(sets[place], fresh.question.record)) {
        contradiction.reset();
        tally = before;
        sets.erase(sets.begin() + static_cast<std::ptrdiff_t>(place));
        continue;
      }
      loads += predicted.size();
    }
    if (!contradiction && !departs(inner_, tally)) {
      claim.reason = contradiction_of_late_returns();
    }
    if (!claim.reason.empty()) {
      claim.value.reset();
      asker_->learned(claim.reason);
      return;
    }
    claim.details.fresh_set_loads = loads;
    claim.details.fresh_set_loads_wrong = tally.mispredicted();
    claim.details.fresh_set_misses = tally.fills();
    claim.trials = loads;
    judge(tally, contradiction, claim);
    const std::string left_out =
        sets.size() == all_sets ? ""
                                : "; " + std::to_string(all_sets - sets.size()) + " of " + std::to_string(all_sets) +
                                      " sets lose lines for which they have room, and are left out";
    asker_->learned((claim.value ? std::to_string(loads - tally.mispredicted()) + " of " + std::to_string(loads) +
                                       " loads are as predicted"
                                 : claim.reason) +
                    left_out);
  }

  // Sets of which at least two loads are read otherwise than predicted each time that the sequence is asked.
  std::map<std::uint32_t, AccessSequence> odd_sets(const LateReturns& returns) {
    constexpr std::size_t times = 3;
    PastNearerLevel level(*asker_, *cache_.index, *cache_.line_bytes, std::vector<bool>(cache_.ways->size(), true));
    Interrogator all_sets = interrogator_of(level, *asker_, settings_);
    const FreshQuestion fresh{.primer = {}, .question = all_sets.question_unflooded(returns.warm, returns.record)};
    const auto predicted = predicted_misses(all_sets, cache_, fresh, histories_of_a_set);
    std::vector<std::size_t> wrong(predicted.size());
    for (const std::vector<float>& cycles : ask_times(all_sets, {&fresh, 1}, times)) {
      const std::vector<Reading> readings = all_sets.classifier().readings(cycles);
      for (std::size_t i = 0; i < readings.size(); ++i) {
        wrong[i] += is_wrong(predicted[i], readings[i]) ? 1U : 0U;
      }
    }
    std::map<std::uint32_t, AccessSequence> odd;
    for (std::size_t i = 0; i < wrong.size(); ++i) {
      if (wrong[i] == times) {
        odd[set_of(returns.record[i])].push_back(returns.record[i]);
      }
    }
    std::erase_if(odd, [](const auto& entry) { return entry.second.size() == 1; });
    return odd;
  }

  [[nodiscard]] std::uint32_t set_of(std::uint64_t offset) const {
    return model::set_of(*cache_.index, asker_->address_of(offset));
  }

  // All sets at once, without others in between: what lies beside the level, such as lines that had to go and still
  // hit, shows in many sets; a set of another policy shows by itself, and is asked by itself then. Empty: neither does.
  std::string contradiction_of_late_returns() {
    constexpr std::size_t most_odd_sets = 8;
    model::Random random = stream(settings_, "late returns to an outer level");
    try {
      const auto returns = drawn_late_returns(*asker_, cache_, random);
      if (!returns) {
        return {};
      }
      const auto odd = odd_sets(*returns);
      std::vector<bool> is_loaded(cache_.ways->size());
      for (const std::uint64_t offset : returns->record) {
        is_loaded[set_of(offset)] = true;
      }
      const auto loaded = static_cast<std::size_t>(std::ranges::count(is_loaded, true));
      if (one_of_sets_may_be_odd * odd.size() > loaded) {
        return model::to_text(cache_.replacement.value()) + ": " + std::to_string(odd.size()) + " of " +
               std::to_string(loaded) + " sets do otherwise when no other loads are in between";
      }
      std::size_t asked = 0;
      for (const auto& [set, unused] : odd) {
        if (asked++ < most_odd_sets && is_otherwise_by_itself(set, random)) {
          return model::to_text(cache_.replacement.value()) + ": a set does otherwise than the rest";
        }
      }
    } catch (const QuestionRefused&) {
      return {};  // by a recording
    }
    return {};
  }

  bool is_otherwise_by_itself(std::uint32_t set, model::Random& random) {
    std::vector<bool> is_asked(cache_.ways->size());
    is_asked[set] = true;
    PastNearerLevel level(*asker_, *cache_.index, *cache_.line_bytes, is_asked);
    Interrogator by_itself = interrogator_of(level, *asker_, settings_);
    std::vector<std::uint32_t> lines(cache_.ways->size());
    lines[set] = (*cache_.ways)[set] + 1;
    Pool pool = pool_of_lines(by_itself, cache_, lines, everywhere, random);
    const Offsets all = pool.all();
    const FreshQuestion fresh =
        question_over(by_itself, std::move(pool), model::random_walk(all, loads_of_a_sequence, random));
    const auto predicted = predicted_misses(by_itself, cache_, fresh, histories_of_a_set);
    const Answers answers = ask_times(by_itself, {&fresh, 1}, 1);
    // A line that something else brings now and then costs a few loads each time, another policy a share of all.
    const std::size_t wrong_by_strangers = 2 * (*cache_.ways)[set];
    return wrong_loads(by_itself, predicted, answers.front()) > wrong_by_strangers &&
           contradiction_that_repeats(by_itself, cache_, fresh, predicted, answers).has_value() &&
           !loses_lines(by_itself, std::span(all).first(all.size() - 1), laps_to_settle + 18);
  }

  static std::size_t wrong_loads(const Interrogator& device, const std::vector<std::optional<bool>>& predicted,
                                 const std::vector<float>& cycles) {
    const std::vector<Reading> readings = device.classifier().readings(cycles);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < readings.size(); ++i) {
      wrong += is_wrong(predicted[i], readings[i]) ? 1U : 0U;
    }
    return wrong;
  }

  static bool is_wrong(std::optional<bool> predicted, Reading reading) {
    return predicted && reading != Reading::unclear && (reading == Reading::miss) != *predicted;
  }

  // In sets of few ways a fill that departs shows in one load, which is a misread as well as not where there are such.
  [[nodiscard]] bool shows_too_little(const DepartureTally& tally) const {
    constexpr std::size_t loads_of_an_event = 4;
    const LevelClassifier& classifier = inner_.classifier();
    return classifier.hit_misread_share() == 0 && classifier.miss_misread_share() == 0 &&
           tally.mispredicted() > loads_of_an_event * (tally.events() + 1);
  }

  void judge(const DepartureTally& tally, const std::optional<Contradiction>& contradiction,
             Claim<model::Replacement>& claim) const {
    const double below = tally.departures_below();
    if (contradiction) {
      claim.reason = model::to_text(*claim.value) + ": " + contradiction->sentence;
      claim.value.reset();
    } else if (shows_too_little(tally)) {
      claim.reason = "it does as " + model::to_text(*claim.value) +
                     " but for some fills, most of which show too little to tell how many";
      claim.value.reset();
    } else if (departs(inner_, tally)) {
      describe_departing(tally, claim);
    } else if (below > 1 / static_cast<double>(inner_.settings().fills_to_test)) {
      claim.reason = "fresh loads exclude no departures from " + model::to_text(*claim.value) + " below one in " +
                     model::whole_text(1 / below) + " fills";
      claim.value.reset();
    } else {
      claim.reason.clear();
      claim.stands_alone = true;
      claim.bound = bound_of(below);
    }
  }

  FreshQuestion fresh_loads_of(const ConflictClass& set, bool in_laps) {
    std::vector<std::uint32_t> asked(cache_.ways->size());
    asked[model::set_of(*cache_.index, asker_->address_of(set.lines.front()))] =
        set.ways + 1 + (in_laps ? 0 : static_cast<std::uint32_t>(random_.below(1 + set.ways / 2)));
    Pool pool = pool_of_lines(inner_, cache_, asked, everywhere, random_);
    const Offsets lines = pool.all();
    AccessSequence record;
    for (std::size_t i = 0; i < loads_of_a_sequence; ++i) {
      record.push_back(lines[in_laps ? i % lines.size() : random_.below(lines.size())]);
    }
    return question_over(inner_, std::move(pool), std::move(record));
  }

  Interrogator* asker_;
  model::CacheDescription cache_;
  Settings settings_;
  Settings limited_;
  model::Random random_;
  std::vector<ConflictClass> sets_;
  std::vector<bool> is_asked_;
  PastNearerLevel level_;
  Interrogator inner_;
};

}  // namespace

Claim<model::Replacement> claim_outer_policy(Interrogator& asker, const model::CacheDescription& cache) {
  asker.inquire("laps over lines for which a set has room", "sets that lose some of them hold something else as well");
  return OuterPolicy(asker, cache).claim();
}

}  // namespace gpuinfer::infer
