// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/policy_search.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "infer/asking/statistics.hpp"
#include "model/policy_classes.hpp"
#include "model/policy_traits.hpp"

namespace gpuinfer::infer {

namespace {

using model::Replacement;

// What misreads do less often than this rules a policy out.
constexpr double contradiction_rarer_than = 1e-9;
constexpr unsigned most_readings = 9;
constexpr unsigned most_draws = 3;
constexpr std::size_t most_questions = 24;
constexpr std::size_t context_accesses = 750;
constexpr std::size_t most_pairs_compared = std::size_t{1} << 16U;

std::string count_of(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string names_of(const std::vector<Replacement>& policies) {
  constexpr std::size_t most_named = 6;
  std::string names;
  for (std::size_t i = 0; i < std::min(most_named, policies.size()); ++i) {
    names += (i == 0 ? "" : "; ") + model::to_text(policies[i]);
  }
  return policies.size() > most_named ? names + "; ..." : names;
}

AccessSequence offsets_in(const ConflictClass& set, const SetLines& lines) {
  AccessSequence offsets;
  std::ranges::transform(lines, std::back_inserter(offsets), [&](std::uint32_t line) { return set.lines[line]; });
  return offsets;
}

std::string text_of_bits(double bits) {
  std::string text = std::to_string(std::round(bits * 10) / 10);
  return text.substr(0, text.find('.') + 2);
}

}  // namespace

PolicySearch::PolicySearch(Interrogator& device, std::vector<const ConflictClass*> sets,
                           std::vector<const ConflictClass*> others, std::vector<Replacement> hypotheses)
    : device_(&device), sets_(std::move(sets)), others_(std::move(others)), start_(start_of(device)) {
  for (const ConflictClass* set : sets_) {
    const SetFrame frame = frame_of(set->ways, set->lines.size(), start_, model::RandomStreams(device.settings().seed));
    const auto [known, is_new] = frames_.emplace(set->ways, frame);
    if (!is_new && frame.lines < known->second.lines) {
      known->second = frame;
    }
  }
  for (Replacement& policy : hypotheses) {
    alive_.push_back({.policy = std::move(policy), .on_set = {}});
  }
}

const PolicyOnSet& PolicySearch::on_set(Hypothesis& hypothesis, std::uint32_t ways) const {
  const auto known = hypothesis.on_set.find(ways);
  return known != hypothesis.on_set.end()
             ? known->second
             : hypothesis.on_set
                   .emplace(ways, PolicyOnSet(hypothesis.policy, frames_.at(ways), start_, hypothesis.histories))
                   .first->second;
}

void PolicySearch::draw_larger_sample(Hypothesis& hypothesis) {
  if (hypothesis.histories < many_histories) {
    hypothesis.histories = many_histories;
    hypothesis.on_set.clear();
  }
}

model::Question PolicySearch::played(const ConflictClass& set, const SetLines& record,
                                     const AccessSequence& context) const {
  AccessSequence recorded = offsets_in(set, record);
  if (start_ == SetStart::flooded) {
    return device_->question_unflooded(conditioning_of(set).front(), std::move(recorded));
  }
  return device_->question(context, std::move(recorded));
}

Primer PolicySearch::conditioning_of(const ConflictClass& set) const {
  Primer primer;
  for (const SetLines& walk : frames_.at(set.ways).conditioning) {
    primer.push_back(offsets_in(set, walk));
  }
  return primer;
}

void PolicySearch::read(SetAnswer& answer) {
  Primer primer = conditioning_of(*answer.set);
  for (const SetLines& part : answer.question.primer) {
    primer.push_back(offsets_in(*answer.set, part));
  }
  const Priming priming(*device_, std::move(primer));
  answer.last = device_->ask_voted({&answer.played, 1}, answer.votes).front();
  for (std::size_t i = 0; i < answer.missed.size(); ++i) {
    answer.missed[i] += answer.last[i] == Reading::miss ? 1U : 0U;
    answer.hit[i] += answer.last[i] == Reading::hit ? 1U : 0U;
  }
}

// Of a vote.
double PolicySearch::misread_rate(unsigned votes) const {
  const LevelClassifier& classifier = device_->classifier();
  const double worst = std::min(0.5, std::max(classifier.hit_misread_rate(), classifier.miss_misread_rate()));
  return std::max(1e-12, binomial_upper_tail((votes + 1) / 2, votes, worst));
}

// How many are expected of one reading.
double PolicySearch::misreads_of(const Outcomes& missed) const {
  const LevelClassifier& classifier = device_->classifier();
  const auto misses = static_cast<double>(std::ranges::count(missed, true));
  return misses * classifier.miss_misread_rate() +
         (static_cast<double>(missed.size()) - misses) * classifier.hit_misread_rate();
}

PolicySearch::Verdict PolicySearch::verdict(const SetAnswer& answer, const Outcomes& missed) const {
  const double misread = misread_rate(answer.votes);
  const double weight_of_reading = std::log((1 - misread) / misread);
  std::size_t readings = 0;
  std::size_t against = 0;
  bool open = false;
  for (std::size_t i = 0; i < missed.size(); ++i) {
    const unsigned contrary = missed[i] ? answer.hit[i] : answer.missed[i];
    const unsigned agreeing = missed[i] ? answer.missed[i] : answer.hit[i];
    readings += contrary + agreeing;
    against += contrary;
    if (contrary > 0 && contrary >= agreeing) {
      open = true;
      if ((contrary - agreeing) * weight_of_reading > -std::log(contradiction_rarer_than)) {
        return Verdict::contradicts;
      }
    }
  }
  if (binomial_upper_tail(against, readings, misread) < contradiction_rarer_than) {
    return Verdict::contradicts;
  }
  return open ? Verdict::open : Verdict::explains;
}

PolicySearch::Verdict PolicySearch::judge(const SetAnswer& answer, Hypothesis& hypothesis) const {
  std::vector<Prediction> predictions =
      on_set(hypothesis, answer.set->ways).predict(answer.question.primer, answer.question.record);
  return predictions.size() == 1 ? verdict(answer, predictions.front().missed)
                                 : judge_last(answer, hypothesis, std::move(predictions));
}

namespace {

struct ExplainedAnswer {
  std::size_t wrong = 0;
  const Prediction* by = nullptr;
};

// The last reading, by the prediction that explains it best.
ExplainedAnswer best_explained(const SetAnswer& answer, const std::vector<Prediction>& predictions) {
  ExplainedAnswer best{.wrong = answer.last.size() + 1};
  for (const Prediction& prediction : predictions) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < answer.last.size(); ++i) {
      wrong += answer.last[i] == (prediction.missed[i] ? Reading::hit : Reading::miss) ? 1U : 0U;
    }
    if (wrong < best.wrong) {
      best = {.wrong = wrong, .by = &prediction};
    }
  }
  return best;
}

}  // namespace

// Where the sample may lack the true state, a larger one is drawn before the policy is ruled out, unless the answer is
// far off altogether, and then only an answer that is far from all in it does so. What one reading leaves open, all of
// them together decide.
PolicySearch::Verdict PolicySearch::judge_last(const SetAnswer& answer, Hypothesis& hypothesis,
                                               std::vector<Prediction> predictions) const {
  constexpr double far = 0.05;
  constexpr double altogether = 0.25;
  const std::size_t accesses = answer.last.size();
  ExplainedAnswer best = best_explained(answer, predictions);
  // Of loads whose misreads differ in frequency, so many are wrong less often than of as many alike (Hoeffding 1956).
  const auto is_rare = [](std::size_t wrong, double misreads, std::size_t readings) {
    return binomial_upper_tail(wrong, readings, std::min(0.5, misreads / static_cast<double>(readings))) <
           contradiction_rarer_than;
  };
  const auto is_contradicted = [&] { return is_rare(best.wrong, misreads_of(best.by->missed), accesses); };
  if (is_contradicted() && !is_saturated(predictions) && hypothesis.histories < many_histories &&
      static_cast<double>(best.wrong) < altogether * static_cast<double>(accesses)) {
    draw_larger_sample(hypothesis);
    predictions = on_set(hypothesis, answer.set->ways).predict(answer.question.primer, answer.question.record);
    best = best_explained(answer, predictions);
  }
  if (is_contradicted() && !is_saturated(predictions) &&
      static_cast<double>(best.wrong) < far * static_cast<double>(accesses)) {
    return Verdict::undecidable;
  }
  hypothesis.wrong += best.wrong;
  hypothesis.misreads += misreads_of(best.by->missed);
  hypothesis.judged += accesses;
  if (is_contradicted() || is_rare(hypothesis.wrong, hypothesis.misreads, hypothesis.judged)) {
    return Verdict::contradicts;
  }
  return best.wrong > 0 ? Verdict::open : Verdict::explains;
}

void PolicySearch::ask(const ConflictClass& set, PolicyQuestion question, const AccessSequence& context,
                       const std::string& why) {
  const std::size_t accesses = question.record.size();
  device_->inquire(
      question.name + " of a set with " + count_of(set.ways, "way") + ", " + std::to_string(accesses) + " accesses",
      why);
  SetAnswer answer{.set = &set,
                   .question = std::move(question),
                   .played = {},
                   .has_context = !context.empty(),
                   .votes = votes_,
                   .last = {},
                   .missed = std::vector<unsigned>(accesses),
                   .hit = std::vector<unsigned>(accesses)};
  answer.played = played(set, answer.question.record, context);

  const std::size_t before = alive_.size();
  for (unsigned reading = 0; reading < most_readings; ++reading) {
    read(answer);
    bool open = false;
    std::deque<Hypothesis> kept;
    for (Hypothesis& hypothesis : alive_) {
      const Verdict found = judge(answer, hypothesis);
      open = open || found == Verdict::open;
      // After so many readings of the same answer, what is as often contradicted as not is no misread.
      const bool stays_open = found == Verdict::open && reading + 1 == most_readings && start_ == SetStart::empty;
      if (found == Verdict::contradicts || stays_open) {
        continue;
      }
      hypothesis.is_proven = hypothesis.is_proven && found != Verdict::undecidable;
      kept.push_back(std::move(hypothesis));
    }
    alive_ = std::move(kept);
    if (!open) {
      break;
    }
  }
  answers_.push_back(std::move(answer));
  const std::size_t gone = before - alive_.size();
  device_->learned(alive_.empty() ? "rules out all that were left"
                                  : "rules out " + std::to_string(gone) + "; left: " + names_of(survivors()),
                   before, alive_.size());
}

void PolicySearch::narrow_on(const ConflictClass& set, QuestionPool pool_of, std::size_t most_answers) {
  const SetFrame& frame = frames_.at(set.ways);
  unsigned draw = 0;
  while (alive_.size() > 1 && draw < most_draws && answers_.size() < most_answers) {
    std::vector<PolicyQuestion> pool = pool_of(frame, draw);
    std::erase_if(pool, [&](const PolicyQuestion& question) {
      return std::any_of(answers_.begin(), answers_.end(), [&](const SetAnswer& answer) {
        return answer.set->ways == set.ways && answer.question.record == question.record;
      });
    });
    std::vector<const PolicyOnSet*> policies;
    for (Hypothesis& hypothesis : alive_) {
      policies.push_back(&on_set(hypothesis, set.ways));
    }
    const auto ranked = most_informative(pool, policies, votes_);
    if (!ranked) {
      ++draw;
      continue;
    }
    ask(set, ranked->question, {},
        "of " + count_of(pool.size(), "sequence") + " the one with most expected information for its accesses: " +
            text_of_bits(ranked->bits) + " bits from " + count_of(ranked->groups, "kind") + " of answer");
  }
}

const ConflictClass& PolicySearch::first_of(std::uint32_t ways) const {
  return **std::ranges::find(sets_, ways, &ConflictClass::ways);
}

void PolicySearch::narrow() {
  const auto on_sets = [&](QuestionPool pool_of, std::size_t most_answers) {
    for (const auto& frame : frames_) {
      narrow_on(first_of(frame.first), pool_of, most_answers);
    }
  };
  on_sets(question_pool, most_questions);
  // Among lines that were all hit, a new one may be the next to go whatever the policy.
  if (start_ == SetStart::flooded) {
    on_sets(pool_in_pairs, answers_.size() + most_questions);
  }
  if (start_ == SetStart::empty) {
    join_alike();
  }
}

// From a start that is not clean, policies can be alike that are not so from power-on. Where two are neither that nor
// told apart, several are left anyway, and the others need not be compared.
void PolicySearch::join_indistinguishable() {
  while (alive_.size() > 1) {
    draw_larger_sample(alive_[0]);
    draw_larger_sample(alive_[1]);
    if (!are_indistinguishable(alive_[0], alive_[1])) {
      if (!tell_apart(alive_[0], alive_[1])) {
        return;
      }
      continue;
    }
    alive_[0].policy.equivalent.push_back(model::to_text(alive_[1].policy));
    alive_.erase(alive_.begin() + 1);
  }
}

// True when that ruled out something.
bool PolicySearch::tell_apart(Hypothesis& a, Hypothesis& b) {
  const std::size_t before = alive_.size();
  const FollowLimits limits = follow_limits();
  for (const auto& [ways, frame] : frames_) {
    const PolicyOnSet& of_a = on_set(a, ways);
    const PolicyOnSet& of_b = on_set(b, ways);
    std::optional<PolicyQuestion> question = of_a.difference(of_b, limits);
    if (!question) {
      question = of_b.difference(of_a, limits);
    }
    if (!question) {
      continue;
    }
    const std::string why = "tells " + model::to_text(a.policy) + " from " + model::to_text(b.policy);
    try {
      ask(first_of(ways), *std::move(question), {}, why);
    } catch (const QuestionRefused&) {
      device_->learned("not recorded");
      return false;
    }
    break;
  }
  return alive_.size() < before;
}

FollowLimits PolicySearch::follow_limits() const {
  return {.most_pairs = most_pairs_compared, .check_limits = [this] { device_->check_limits(0); }};
}

// None: nothing ever tells them apart. Zero: they are not alike.
std::optional<unsigned> PolicySearch::accesses_alike(Hypothesis& a, Hypothesis& b, std::uint32_t ways) const {
  const FollowLimits limits = follow_limits();
  if (start_ == SetStart::flooded) {
    if (model::are_mirrored(a.policy, b.policy)) {
      return std::nullopt;
    }
    const std::optional<unsigned> mirrored = PolicyOnSet::accesses_mirrored(a.policy, b.policy, ways, limits);
    if (mirrored != 0U) {
      return mirrored;
    }
  }
  const std::optional<unsigned> there = on_set(a, ways).accesses_alike(on_set(b, ways), limits);
  const std::optional<unsigned> back = there == 0U ? there : on_set(b, ways).accesses_alike(on_set(a, ways), limits);
  return there && back ? std::min(there, back) : there ? there : back;
}

bool PolicySearch::are_indistinguishable(Hypothesis& a, Hypothesis& b) {
  constexpr unsigned shallow = 3;
  std::optional<unsigned> depth;
  for (const auto& [ways, frame] : frames_) {
    const std::optional<unsigned> alike = accesses_alike(a, b, ways);
    if (alike && *alike <= shallow) {
      return false;
    }
    if (alike) {
      depth = std::min(depth.value_or(*alike), *alike);
    }
  }
  if (depth) {
    alike_for_accesses_ = std::min(alike_for_accesses_.value_or(*depth), *depth);
  }
  return true;
}

void PolicySearch::join_alike() {
  const model::ComparisonLimits limits{.pairs_of_states = std::size_t{1} << 14U};
  std::size_t first = 0;
  while (first + 1 < alive_.size()) {
    Replacement& representative = alive_[first].policy;
    const Replacement other = alive_[first + 1].policy;
    bool told_apart = false;
    for (const auto& [ways, frame] : frames_) {
      const model::Comparison comparison = model::compare(representative, other, ways, limits);
      if (comparison.difference) {
        told_apart = true;
        const std::size_t before = alive_.size();
        ask(first_of(ways), {.name = "shortest sequence found", .record = *comparison.difference}, {},
            "tells " + model::to_text(representative) + " from " + model::to_text(other));
        first += alive_.size() == before ? 1U : 0U;
        break;
      }
      if (comparison.depth_accesses) {
        alike_for_accesses_ =
            std::min(alike_for_accesses_.value_or(*comparison.depth_accesses), *comparison.depth_accesses);
      }
    }
    if (!told_apart) {
      representative.equivalent.push_back(model::to_text(other));
      alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(first) + 1);
    }
  }
}

// Sets that duel (Qureshi et al., ISCA 2007) change what others do when one of two kinds of policy misses more. Chases
// over a line too many are worst for those that keep what came last; working sets that change, for those that do not.
AccessSequence PolicySearch::context_for(const ConflictClass& set, bool thrashes) const {
  constexpr std::size_t rounds = 3;
  AccessSequence context;
  std::vector<const ConflictClass*> all = sets_;
  all.insert(all.end(), others_.begin(), others_.end());
  for (const ConflictClass* other : all) {
    const std::size_t lines = std::min<std::size_t>(other->lines.size(), other->ways + 1U);
    if (other == &set || (!context.empty() && context.size() + rounds * lines > context_accesses)) {
      continue;
    }
    const std::size_t half = std::max<std::size_t>(1, other->ways / 2U);
    for (std::size_t round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < lines; ++i) {
        context.push_back(other->lines[thrashes ? i : (round * half + i % half) % other->lines.size()]);
      }
    }
  }
  return context;
}

void PolicySearch::confirm() {
  // A misread that speaks for a policy has nothing asked again, so there are votes. From a start that is not clean each
  // time may find the set in another state, and a vote would mix their answers.
  if (start_ == SetStart::empty) {
    votes_ = device_->votes_needed();
  }
  for (const auto& [ways, frame] : frames_) {
    if (start_ != SetStart::empty || alive_.empty()) {
      break;
    }
    try {
      ask(first_of(ways), chase_past_ways(frame), {}, "walks soon hit a line, and before that a set may do otherwise");
    } catch (const QuestionRefused&) {
      device_->learned("not recorded");
    }
  }
  // A set that is the only one is walked both ways, too.
  const std::size_t walks = std::max<std::size_t>(2, sets_.size());
  for (std::size_t i = 0; i < walks && !alive_.empty(); ++i) {
    const ConflictClass& set = *sets_[i % sets_.size()];
    const auto before = sets_.begin() + static_cast<std::ptrdiff_t>(std::min(i, sets_.size()));
    const bool first_of_kind =
        std::none_of(sets_.begin(), before, [&](const ConflictClass* other) { return other->ways == set.ways; });
    const SetFrame& frame = frames_.at(set.ways);
    PolicyQuestion walk = i % 2 == 0 ? long_walk(frame, i) : long_returning_walk(frame, i);
    if (!first_of_kind) {
      walk.record.resize(std::max<std::size_t>(std::min<std::size_t>(100, walk.record.size()), walk.record.size() / 2));
    }
    const std::size_t after_this = walks - 1 - i;
    const bool has_context = i > 0 && after_this < 2 && sets_.size() > 1 && start_ != SetStart::flooded;
    ask(set, walk, has_context ? context_for(set, after_this == 0) : AccessSequence{},
        has_context ? "what was asked of other sets before must not matter"
                    : "what is left must predict sequences that took no part in the search, on every set");
  }
  if (!alive_.empty() && start_ == SetStart::empty) {
    const SetAnswer first = answers_.front();
    ask(*first.set, first.question, {}, "the first question once more: a policy that drifts answers otherwise by now");
  }
  if (start_ != SetStart::empty) {
    join_indistinguishable();
  }
}

void PolicySearch::check_others() {
  constexpr std::size_t most_accesses = 3000;
  std::size_t accesses = 0;
  for (const ConflictClass* set : others_) {
    if (alive_.empty() || accesses >= most_accesses || !frames_.contains(set->ways) ||
        set->lines.size() < frames_.at(set->ways).lines) {
      continue;
    }
    PolicyQuestion walk = long_walk(frames_.at(set->ways), answers_.size());
    walk.name.replace(0, std::string("long").size(), "short");
    walk.record.resize(
        std::min<std::size_t>(walk.record.size(), std::max<std::size_t>(40, std::size_t{4} * set->ways)));
    accesses += walk.record.size();
    ask(*set, walk, {}, "some sets of a cache may follow a policy of their own");
  }
}

std::vector<Replacement> PolicySearch::survivors() const {
  std::vector<Replacement> policies;
  for (const Hypothesis& hypothesis : alive_) {
    policies.push_back(hypothesis.policy);
  }
  return policies;
}

bool PolicySearch::are_proven() const {
  return std::all_of(alive_.begin(), alive_.end(), [](const Hypothesis& each) { return each.is_proven; });
}

SetAnswer PolicySearch::ask_anew(const SetAnswer& answer, bool with_context) {
  SetAnswer again = answer;
  again.votes = device_->votes_needed();
  std::fill(again.missed.begin(), again.missed.end(), 0U);
  std::fill(again.hit.begin(), again.hit.end(), 0U);
  if (with_context != answer.has_context) {
    const AccessSequence context = with_context ? context_for(*answer.set, true) : AccessSequence{};
    again.played = played(*answer.set, answer.question.record, context);
    again.has_context = with_context;
  }
  for (unsigned reading = 0; reading < 3; ++reading) {
    read(again);
  }
  return again;
}

bool PolicySearch::differ(const SetAnswer& a, const SetAnswer& b) const {
  std::size_t compared = 0;
  std::size_t different = 0;
  for (std::size_t i = 0; i < a.missed.size(); ++i) {
    if (a.missed[i] != a.hit[i] && b.missed[i] != b.hit[i]) {
      ++compared;
      different += (a.missed[i] > a.hit[i]) != (b.missed[i] > b.hit[i]) ? 1U : 0U;
    }
  }
  return binomial_upper_tail(different, compared, std::min(0.5, misread_rate(a.votes) + misread_rate(b.votes))) <
         contradiction_rarer_than;
}

}  // namespace gpuinfer::infer
