// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/prediction.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/cache/fresh_questions.hpp"
#include "infer/cache/known_outcomes.hpp"
#include "model/cache_simulator.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::array<double, 5> footprints{1.2, 1.5, 2.0, 2.5, 3.0};  // in capacities
constexpr std::size_t simulations = 24;

// What was judged of each set. A few sets of many that do otherwise hardly show in a sum over all.
class SetTally {
 public:
  SetTally(const Interrogator& device, const model::CacheDescription& cache)
      : address_of_buffer_(device.buffer().address), line_bytes_(*cache.line_bytes), index_(*cache.index),
        counts_(cache.ways->size()) {}

  void judge(std::uint64_t offset, bool is_wrong) {
    Count& count = counts_[model::set_of(index_, aligned_down(address_of_buffer_ + offset, line_bytes_))];
    ++count.judged;
    count.wrong += is_wrong ? 1U : 0U;
  }

  // The sets with more wrong predictions than so frequent misreads often make in one (p < 0.001), a few of the oddest.
  [[nodiscard]] std::vector<std::uint32_t> odd_sets(double misread_rate) const {
    constexpr std::size_t most_sets = 8;
    std::vector<std::pair<double, std::uint32_t>> odd;
    for (std::uint32_t set = 0; set < counts_.size(); ++set) {
      const Count& count = counts_[set];
      const double p_value = count.wrong == 0 ? 1 : binomial_upper_tail(count.wrong, count.judged, misread_rate);
      if (p_value < 0.001) {
        odd.emplace_back(p_value, set);
      }
    }
    std::sort(odd.begin(), odd.end());
    odd.resize(std::min(odd.size(), most_sets));
    std::vector<std::uint32_t> sets(odd.size());
    std::transform(odd.begin(), odd.end(), sets.begin(), [](const auto& each) { return each.second; });
    return sets;
  }

 private:
  struct Count {
    std::size_t judged = 0;
    std::size_t wrong = 0;
  };

  model::Address address_of_buffer_;
  std::uint64_t line_bytes_;
  model::IndexFunction index_;
  std::vector<Count> counts_;
};

using Predictions = std::vector<std::vector<std::optional<bool>>>;  // by question and access

Predictions predictions_of(const Interrogator& device, const model::CacheDescription& cache,
                           const std::vector<FreshQuestion>& questions) {
  constexpr std::uint64_t histories = 48;  // large sets have many states
  Predictions predictions;
  std::ranges::transform(questions, std::back_inserter(predictions), [&](const FreshQuestion& question) {
    return predicted_misses(device, cache, question, histories);
  });
  return predictions;
}

// What the readings of fresh sequences say of predictions.
struct ReadingTally {
  std::size_t accesses = 0;
  std::size_t undetermined = 0;  // of them
  // Of single readings.
  std::size_t judged = 0;
  std::size_t wrong = 0;
  std::size_t misses = 0;  // predicted ones
  std::size_t unclear = 0;
  // Of all readings of one access together.
  std::size_t voted = 0;
  std::size_t voted_wrong = 0;
};

ReadingTally compare(const LevelClassifier& classifier, const std::vector<FreshQuestion>& questions,
                     const Predictions& predictions, const Answers& answers, SetTally& of_sets) {
  ReadingTally tally;
  for (std::size_t q = 0; q < questions.size(); ++q) {
    const std::vector<std::optional<bool>>& predicted = predictions[q];
    tally.accesses += predicted.size();
    tally.undetermined += static_cast<std::size_t>(std::count(predicted.begin(), predicted.end(), std::nullopt));
    std::vector<double> for_miss(predicted.size());
    for (std::size_t vote = q; vote < answers.size(); vote += questions.size()) {
      const std::vector<double> ratios = classifier.log_ratios(answers[vote]);
      const std::vector<Reading> readings = classifier.readings(answers[vote]);
      for (std::size_t i = 0; i < predicted.size(); ++i) {
        if (!predicted[i]) {
          continue;
        }
        const bool miss = *predicted[i];
        tally.misses += miss ? 1U : 0U;
        for_miss[i] += ratios[i];
        if (readings[i] == Reading::unclear) {
          ++tally.unclear;
          continue;
        }
        const bool is_wrong = (readings[i] == Reading::miss) != miss;
        ++tally.judged;
        tally.wrong += is_wrong ? 1U : 0U;
        of_sets.judge(questions[q].question.record[i], is_wrong);
      }
    }
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      // Where the votes leave it open, they say nothing.
      if (std::abs(for_miss[i]) >= conclusive_log_ratio) {
        ++tally.voted;
        tally.voted_wrong += (for_miss[i] > 0) != *predicted[i] ? 1U : 0U;
      }
    }
  }
  return tally;
}

double share(std::size_t part, std::size_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::size_t>(1, whole));
}

Verification verify_deterministic(const Interrogator& device, const model::CacheDescription& cache,
                                  const std::vector<FreshQuestion>& questions, const Predictions& predictions,
                                  const Answers& answers) {
  const LevelClassifier& classifier = device.classifier();
  SetTally of_sets(device, cache);
  const ReadingTally tally = compare(classifier, questions, predictions, answers, of_sets);
  const double miss_share = share(tally.misses, tally.judged);
  const double expected_rate =
      miss_share * classifier.miss_misread_bound() + (1 - miss_share) * classifier.hit_misread_bound();
  Verification result;
  result.evidence.outliers = tally.unclear;
  result.evidence.accesses = result.trials = tally.judged;
  result.evidence.sequences = questions.size();
  result.evidence.agreement = 1 - share(tally.wrong, tally.judged);
  result.evidence.voted_agreement = 1 - share(tally.voted_wrong, tally.voted);
  result.evidence.p_value = binomial_upper_tail(tally.wrong, tally.judged, expected_rate);
  result.holds = *result.evidence.p_value > least_p_value && *result.evidence.voted_agreement >= least_voted_agreement;
  result.contradicted = !result.holds;
  if (!result.holds) {
    result.reason =
        "fresh random sequences are not predicted well enough: agreement " + std::to_string(*result.evidence.agreement);
  }
  result.odd_sets = of_sets.odd_sets(std::max(classifier.miss_misread_bound(), classifier.hit_misread_bound()));
  if (4 * tally.undetermined > tally.accesses) {
    result.holds = false;
    result.reason = "too much of what happens on fresh sequences depends on what was in the cache before";
  }
  return result;
}

Verification verify_stochastic(Interrogator& device, const model::CacheDescription& cache,
                               const std::vector<FreshQuestion>& fresh) {
  const LevelClassifier& classifier = device.classifier();
  std::vector<model::Question> questions;
  for (const FreshQuestion& each : fresh) {
    questions.push_back(each.question);
  }
  const Answers answers = ask_until_near(device, questions);
  Verification result;
  double squares = 0;
  for (std::size_t q = 0; q < questions.size(); ++q) {
    std::size_t judged = 0;
    std::size_t misses = 0;
    for (const float latency : answers[q]) {
      const Reading reading = classifier.read(latency);
      judged += reading != Reading::unclear ? 1U : 0U;
      misses += reading == Reading::miss ? 1U : 0U;
    }
    result.evidence.outliers += answers[q].size() - judged;
    result.evidence.accesses += judged;
    double sum = 0;
    double sum_of_squares = 0;
    for (std::size_t run = 0; run < simulations; ++run) {
      const auto simulator =
          model::CacheSimulator::make(cache, stream(device.settings(), "simulated misses", q, run)());
      const auto outcomes = outcomes_of(*simulator, questions[q], device.buffer().address);
      const auto count = static_cast<double>(std::count_if(outcomes.begin(), outcomes.end(), model::is_miss));
      const auto hits = static_cast<double>(outcomes.size()) - count;
      const double read = (count * (1 - classifier.miss_misread_rate()) + hits * classifier.hit_misread_rate()) *
                          static_cast<double>(judged) / static_cast<double>(outcomes.size());
      sum += read;
      sum_of_squares += read * read;
    }
    const double mean = sum / simulations;
    const double stray_variance =
        static_cast<double>(judged) * (classifier.hit_misread_rate() + classifier.miss_misread_rate());
    const double variance =
        (sum_of_squares / simulations - mean * mean) * (1 + 1.0 / simulations) * simulations / (simulations - 1.0) +
        stray_variance + 1.0 / 12;
    squares += (static_cast<double>(misses) - mean) * (static_cast<double>(misses) - mean) / variance;
  }
  result.evidence.sequences = result.trials = questions.size();
  result.evidence.p_value = chi_square_upper_tail(squares, questions.size());
  result.holds = *result.evidence.p_value > least_p_value;
  if (!result.holds) {
    result.reason = "miss counts on fresh random sequences do not fit: p = " + std::to_string(*result.evidence.p_value);
  }
  return result;
}

// Of a cache that is larger than what five sequences can fill: whether there are more of them, until all sets were in
// one, since a few may follow another policy than the rest (Qureshi et al., ISCA 2007).
enum class Coverage : std::uint8_t { sample, every_set };

std::vector<FreshQuestion> fresh_questions(const Interrogator& device, const model::CacheDescription& cache,
                                           std::uint64_t attempt, Coverage coverage,
                                           StrideExponent lying = everywhere) {
  constexpr std::size_t most_questions = 64;
  model::Random random = stream(device.settings(), "fresh questions", attempt);
  std::vector<FreshQuestion> questions;
  std::vector<std::uint32_t> order(cache.ways->size());
  std::vector<bool> is_asked(order.size());
  for (const double footprint : footprints) {
    std::iota(order.begin(), order.end(), 0U);
    random.shuffle(order);
    Pool pool = pool_of_sets(device, cache, footprint, order, lying, random);
    std::for_each_n(order.begin(), pool.sets, [&](std::uint32_t set) { is_asked[set] = true; });
    questions.push_back(fresh_question(device, cache, std::move(pool), random));
    if (cache.sweep) {
      questions.push_back(fresh_question(device, cache, pool_of_store(device, cache, footprint, random), random));
    }
  }
  if (coverage == Coverage::sample) {
    return questions;
  }
  std::erase_if(order, [&](std::uint32_t set) { return is_asked[set]; });
  std::span<const std::uint32_t> left = order;
  while (!left.empty() && questions.size() < most_questions) {
    Pool pool = pool_of_sets(device, cache, footprints[questions.size() % footprints.size()], left, lying, random);
    left = left.subspan(pool.sets);
    questions.push_back(fresh_question(device, cache, std::move(pool), random));
  }
  return questions;
}

// A flood is taken to leave nothing behind of what was there before. Under a policy that keeps some lines for ever that
// is wrong, and the rest of the cache may look like a smaller one with another policy. Such lines show when everything
// in reach is loaded again and again; forwards and backwards, because a policy that replaces what was hit last hands
// the place on to a neighbour, and back.
struct PassesOverAll {
  std::size_t places = 0;  // each line there, and each back
  model::Question question;

  PassesOverAll(const Interrogator& device, std::uint64_t line_bytes, unsigned times) {
    const std::uint64_t first = bytes_to_next(device.buffer().address, line_bytes);
    const AccessSequence all = model::cold_pass(first, device.buffer().bytes - first, line_bytes);
    AccessSequence there_and_back = all;
    there_and_back.insert(there_and_back.end(), all.rbegin(), all.rend());
    // A line that is loaded again while it is present takes the place even of lines that were hit before (LIP).
    AccessSequence warm;
    for (const std::uint64_t offset : there_and_back) {
      warm.insert(warm.end(), device.floods_by_loads() ? 2 : 1, offset);
    }
    places = there_and_back.size();
    question = device.question_unflooded(std::move(warm), model::repeated(there_and_back, times));
  }
};

bool shows_old_lines(Interrogator& device, const model::CacheDescription& cache) {
  const PassesOverAll passes(device, *cache.line_bytes, device.votes_needed());
  constexpr std::uint64_t histories = 12;  // passes over everything leave little of them
  const auto predicted = predicted_misses(device, cache, {.primer = {}, .question = passes.question}, histories);
  const std::vector<double> ratios = device.classifier().log_ratios(device.latencies({&passes.question, 1}).front());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < passes.places; ++i) {
    double for_miss = 0;
    bool is_predicted = true;
    for (std::size_t place = i; place < predicted.size(); place += passes.places) {
      for_miss += ratios[place];
      is_predicted = is_predicted && predicted[place] && predicted[place] == predicted[i];
    }
    const bool is_clear = std::abs(for_miss) >= conclusive_log_ratio;
    wrong += is_predicted && is_clear && (for_miss > 0) != *predicted[i] ? 1U : 0U;
  }
  return binomial_upper_tail(wrong, passes.places, wrong_verdict) < least_p_value;
}

// Which lines miss in a pass chance decides. So of the places at which some simulations never hit, those count at which
// all passes hit, against as many as other simulations have.
bool shows_more_old_lines_than_chance(Interrogator& device, const model::CacheDescription& cache) {
  constexpr unsigned times = 4;
  constexpr std::size_t most_simulated = std::size_t{1} << 25U;
  constexpr std::size_t first_histories = 12;
  const PassesOverAll passes(device, *cache.line_bytes, times);
  const std::size_t accesses = passes.question.warm.size() + passes.question.record.size();
  const std::size_t histories =
      std::clamp<std::size_t>(most_simulated / accesses, 2 * first_histories, 10 * first_histories);
  std::vector<bool> never_hits(passes.places, true);
  const auto hit_in_all_passes = [&](const auto& is_miss) {
    std::vector<bool> hits = never_hits;
    for (std::size_t i = 0; i < passes.question.record.size(); ++i) {
      hits[i % hits.size()] = hits[i % hits.size()] && !is_miss(i);
    }
    return static_cast<std::size_t>(std::ranges::count(hits, true));
  };
  std::size_t by_chance = 0;
  for (std::size_t history = 0; history < histories; ++history) {
    const auto outcomes = outcomes_after(device, cache, {.primer = {}, .question = passes.question}, history);
    if (history >= first_histories) {
      by_chance += hit_in_all_passes([&](std::size_t i) { return model::is_miss(outcomes[i]); });
      continue;
    }
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      never_hits[i % never_hits.size()] = never_hits[i % never_hits.size()] && model::is_miss(outcomes[i]);
    }
  }
  const std::vector<float> latencies = device.latencies({&passes.question, 1}).front();
  const std::size_t stay =
      hit_in_all_passes([&](std::size_t i) { return device.classifier().read(latencies[i]) == Reading::miss; });
  const double expected = static_cast<double>(by_chance + 1) / static_cast<double>(histories - first_histories + 1);
  return poisson_upper_tail(stay, expected) < least_p_value;
}

// What stays for ever shows again, and misreads hardly do.
bool keeps_old_lines(Interrogator& device, const model::CacheDescription& cache) {
  const auto shows = model::is_deterministic(*cache.replacement) ? shows_old_lines : shows_more_old_lines_than_chance;
  return shows(device, cache) && shows(device, cache);
}

// Of lines that fit some may have missed all the same, and have been counted as misread. Loads of lines that were just
// loaded tell.
bool misreads_are_confirmed(Interrogator& device) {
  constexpr std::size_t looks = std::size_t{1} << 15U;
  const std::vector<model::Question> questions = known_hits(device, looks);
  try {
    static_cast<void>(device.latencies(questions));
  } catch (const QuestionRefused&) {
    return true;
  }
  device.forget_hits();
  look_at_hits(device, looks);
  return device.classifier().misreads_are_too_frequent();
}

void doubt_levels(Interrogator& device, Verification& result) {
  const LevelClassifier& classifier = device.classifier();
  const auto outliers = static_cast<double>(result.evidence.outliers);
  std::string reason;
  bool is_of_levels = true;
  if (outliers > most_outliers * (outliers + static_cast<double>(result.evidence.accesses))) {
    reason = std::to_string(result.evidence.outliers) + " latencies on fresh sequences belong to neither level";
  } else if (classifier.misreads_are_too_frequent()) {
    is_of_levels = misreads_are_confirmed(device);
    reason = is_of_levels ? "more than one access in fifty is misread"
                          : "lines that fit together miss at times, more often than loads are misread";
  } else if (classifier.drifts_away()) {
    reason = "the latencies drift further than they can be followed";
  }
  if (!reason.empty()) {
    result.holds = false;
    result.levels_in_doubt = is_of_levels;
    result.reason = reason;
  }
}

}  // namespace

BestPrediction predict_best(Interrogator& device, const model::CacheDescription& cache,
                            std::span<const model::Replacement> policies) {
  const std::vector<FreshQuestion> questions = fresh_questions(device, cache, 1, Coverage::sample);
  const Answers answers = ask_for_votes(device, questions);
  std::optional<BestPrediction> best;
  for (const model::Replacement& policy : policies) {
    model::CacheDescription assumed = cache;
    assumed.replacement = policy;
    Verification tried =
        verify_deterministic(device, assumed, questions, predictions_of(device, assumed, questions), answers);
    doubt_levels(device, tried);
    if (!best || *best->verification.evidence.agreement < *tried.evidence.agreement) {
      best = {.policy = policy, .verification = std::move(tried)};
    }
  }
  return *best;
}

namespace {

// Over that set alone, and so long that chance can hardly make it look odd once more.
bool does_as_described(Interrogator& device, const model::CacheDescription& cache, std::uint32_t set) {
  for (const int attempt : {1, 2}) {
    model::Random random = stream(device.settings(), "fresh questions to a set", set, attempt);
    std::vector<FreshQuestion> questions;
    for (const double footprint : footprints) {
      questions.push_back(
          fresh_question(device, cache, pool_of_sets(device, cache, footprint, {&set, 1}, everywhere, random), random));
    }
    if (verify_deterministic(device, cache, questions, predictions_of(device, cache, questions),
                             ask_for_votes(device, questions))
            .holds) {
      return true;
    }
  }
  return false;
}

// What a sum over all loads may hide.
void look_closer(Interrogator& device, const model::CacheDescription& cache,
                 const std::vector<FreshQuestion>& questions, const Predictions& predictions, const Answers& answers,
                 DepartureTally& departures, Verification& result) {
  model::Random random = stream(device.settings(), "fills left out");
  for (std::size_t q = 0; q < questions.size(); ++q) {
    departures.add(questions[q], predictions[q], answers[q], random);
    Answers votes;
    for (std::size_t vote = q; vote < answers.size(); vote += questions.size()) {
      votes.push_back(answers[vote]);
    }
    if (auto contradiction = contradiction_that_repeats(device, cache, questions[q], predictions[q], votes)) {
      result.holds = false;
      result.contradicted = true;
      result.reason = std::move(contradiction->sentence);
      result.contradicting_lines = std::move(contradiction->lines);
      return;
    }
  }
}

Verification judged(Interrogator& device, const model::CacheDescription& cache,
                    const std::vector<FreshQuestion>& questions, DepartureTally* departures) {
  if (!model::is_deterministic(*cache.replacement)) {
    Verification result = verify_stochastic(device, cache, questions);
    doubt_levels(device, result);
    return result;
  }
  const Answers answers = ask_for_votes(device, questions);
  const Predictions predictions = predictions_of(device, cache, questions);
  Verification result = verify_deterministic(device, cache, questions, predictions, answers);
  doubt_levels(device, result);
  if (result.holds && departures != nullptr) {
    look_closer(device, cache, questions, predictions, answers, *departures, result);
  }
  return result;
}

}  // namespace

Verification verify(Interrogator& device, const model::CacheDescription& cache, DepartureTally* departures) {
  Verification result;
  std::set<std::uint32_t> odd_sets;  // of a sequence that failed, too
  // A true description fails at times, so a failure has to happen twice, on other sequences.
  for (const std::uint64_t attempt : {1ULL, 2ULL}) {
    result = judged(device, cache, fresh_questions(device, cache, attempt, Coverage::every_set), departures);
    odd_sets.insert(result.odd_sets.begin(), result.odd_sets.end());
    if (result.holds) {
      break;
    }
  }
  if (result.holds && std::any_of(odd_sets.begin(), odd_sets.end(),
                                  [&](std::uint32_t set) { return !does_as_described(device, cache, set); })) {
    result.holds = false;
    result.contradicted = true;
    result.reason = "fresh random sequences over one set are not predicted, which does otherwise than the rest";
  }
  if (result.holds && device.starts_flooded() && keeps_old_lines(device, cache)) {
    result.holds = false;
    result.contradicted = true;
    result.reason = "some lines stay for ever, whatever is loaded: no start can be given that is free of them";
  }
  return result;
}

bool is_as_described_still(Interrogator& device, const model::CacheDescription& cache) {
  const std::vector<FreshQuestion> all = fresh_questions(device, cache, 1, Coverage::sample);
  // Of twice the capacity: in the smallest footprint small sets may never overflow.
  const std::vector<FreshQuestion> one{all[all.size() / 2]};
  return judged(device, cache, one, nullptr).holds || judged(device, cache, one, nullptr).holds;
}

Verification verify_side_by_side(Interrogator& device, const model::CacheDescription& cache) {
  Verification result;
  for (const std::uint64_t attempt : {5ULL, 6ULL}) {
    result = judged(device, cache, fresh_questions(device, cache, attempt, Coverage::sample, side_by_side), nullptr);
    if (result.holds) {
      break;
    }
  }
  return result;
}

}  // namespace gpuinfer::infer
