// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/prediction.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "infer/granularity.hpp"
#include "infer/statistics.hpp"
#include "model/cache_simulator.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::array<double, 5> footprints{1.2, 1.5, 2.0, 2.5, 3.0};  // in capacities
constexpr std::size_t simulations = 24;
constexpr std::uint64_t load_bytes = 4;

// More latencies than these belong to no level: then the levels are not what they were taken for.
constexpr double most_outliers = 0.02;

// Contiguous lines from aligned_start() that the index can place.
std::uint64_t reachable_lines(const Interrogator& device, const model::CacheDescription& cache) {
  const std::uint64_t start = aligned_start(device);
  std::uint64_t reachable = (device.facts().buffer_bytes - start) / *cache.line_bytes;
  if (const auto* table = std::get_if<model::TableIndex>(&*cache.index); table != nullptr && table->range_bytes) {
    reachable =
        std::min(reachable, (table->origin + *table->range_bytes - device.address_of(start)) / *cache.line_bytes);
  }
  return reachable;
}

std::uint64_t capacity_in_lines(const model::CacheDescription& cache) {
  return std::accumulate(cache.ways->begin(), cache.ways->end(), std::uint64_t{0});
}

// Half of the lines lie together at the start, where all sets are met; half anywhere that the index reaches.
model::Question fresh_question(const Interrogator& device, const model::CacheDescription& cache, double footprint,
                               model::Random& random) {
  const std::uint64_t line_bytes = *cache.line_bytes;
  const std::uint64_t start = aligned_start(device);
  const std::uint64_t reachable = reachable_lines(device, cache);
  const std::uint64_t capacity_lines = capacity_in_lines(cache);
  const auto lines =
      std::max<std::uint64_t>(2, static_cast<std::uint64_t>(footprint * static_cast<double>(capacity_lines)));
  AccessSequence pool;  // of lines; each access then picks a word, so that sectors are met one by one
  for (std::uint64_t i = 0; i < lines; ++i) {
    const std::uint64_t line = i % 2 == 0 ? (i / 2) % reachable : random.below(reachable);
    pool.push_back(start + line * line_bytes);
  }
  // Long enough, in all questions together, for a policy that changes its mind every few ten thousand accesses to do
  // so.
  const std::size_t accesses = std::clamp<std::size_t>(4 * lines, 2000, 4000);
  AccessSequence record = model::random_walk(pool, accesses, random);
  for (std::uint64_t& offset : record) {
    offset += random.below(line_bytes / load_bytes) * load_bytes;
  }
  return device.question({}, std::move(record));
}

using Answers = std::vector<std::vector<float>>;

// All questions, then all of them again, as often as a vote needs.
Answers ask_for_votes(Interrogator& device, const std::vector<model::Question>& questions) {
  std::vector<model::Question> batch;
  for (unsigned vote = 0; vote < device.votes_needed(); ++vote) {
    batch.insert(batch.end(), questions.begin(), questions.end());
  }
  return device.latencies(batch);
}

Verification verify_deterministic(const Interrogator& device, const model::CacheDescription& cache,
                                  const std::vector<model::Question>& questions, const Answers& answers) {
  const auto votes = static_cast<unsigned>(answers.size() / questions.size());
  const LevelClassifier& classifier = device.classifier();
  const auto simulator = model::CacheSimulator::make(cache, 0);

  Verification result;
  std::size_t raw_judged = 0;
  std::size_t raw_wrong = 0;
  std::size_t voted_judged = 0;
  std::size_t voted_wrong = 0;
  std::size_t predicted_misses = 0;
  for (std::size_t q = 0; q < questions.size(); ++q) {
    const auto predicted = outcomes_of(*simulator, questions[q], device.facts().address_of_buffer);
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      const bool miss = model::is_miss(predicted[i]);
      predicted_misses += miss ? 1 : 0;
      int balance = 0;
      for (unsigned vote = 0; vote < votes; ++vote) {
        const Reading reading = classifier.read(answers[vote * questions.size() + q][i]);
        if (reading == Reading::unclear) {
          ++result.evidence.outliers;
          continue;
        }
        ++raw_judged;
        raw_wrong += (reading == Reading::miss) != miss ? 1 : 0;
        balance += reading == Reading::miss ? 1 : -1;
      }
      if (balance != 0) {
        ++voted_judged;
        voted_wrong += (balance > 0) != miss ? 1 : 0;
      }
    }
  }
  const double miss_share =
      static_cast<double>(predicted_misses * votes) / static_cast<double>(std::max<std::size_t>(1, raw_judged));
  const double expected_rate =
      miss_share * classifier.miss_misread_bound() + (1 - miss_share) * classifier.hit_misread_bound();
  const double wrong_rate = static_cast<double>(raw_wrong) / static_cast<double>(raw_judged);
  result.evidence.accesses = raw_judged;
  result.evidence.sequences = questions.size();
  result.evidence.agreement = 1 - wrong_rate;
  result.evidence.voted_agreement = 1 - static_cast<double>(voted_wrong) / static_cast<double>(voted_judged);
  result.evidence.p_value = binomial_upper_tail(raw_wrong, raw_judged, expected_rate);
  // A vote goes wrong only where several readings of the same access did.
  const double worst_rate = std::max(classifier.hit_misread_bound(), classifier.miss_misread_bound());
  const double vote_rate = binomial_upper_tail((votes + 1) / 2, votes, worst_rate);
  result.holds = wrong_rate <= 0.02 && *result.evidence.p_value > 0.01 && *result.evidence.voted_agreement >= 0.999 &&
                 binomial_upper_tail(voted_wrong, voted_judged, vote_rate) > 0.01;
  if (!result.holds) {
    result.reason =
        "fresh random sequences are not predicted well enough: agreement " + std::to_string(*result.evidence.agreement);
  }
  return result;
}

Verification verify_stochastic(Interrogator& device, const model::CacheDescription& cache,
                               const std::vector<model::Question>& questions) {
  const LevelClassifier& classifier = device.classifier();
  const auto answers = device.latencies(questions);
  Verification result;
  double squares = 0;
  for (std::size_t q = 0; q < questions.size(); ++q) {
    std::size_t judged = 0;
    std::size_t misses = 0;
    for (const float latency : answers[q]) {
      const Reading reading = classifier.read(latency);
      judged += reading != Reading::unclear ? 1 : 0;
      misses += reading == Reading::miss ? 1 : 0;
    }
    result.evidence.outliers += answers[q].size() - judged;
    result.evidence.accesses += judged;
    double sum = 0;
    double sum_of_squares = 0;
    for (std::size_t run = 0; run < simulations; ++run) {
      const auto simulator = model::CacheSimulator::make(cache, device.settings().seed + 1000 * q + run);
      const auto outcomes = outcomes_of(*simulator, questions[q], device.facts().address_of_buffer);
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
  result.evidence.sequences = questions.size();
  result.evidence.p_value = chi_square_upper_tail(squares, questions.size());
  result.holds = *result.evidence.p_value > 0.01;
  if (!result.holds) {
    result.reason = "miss counts on fresh random sequences do not fit: p = " + std::to_string(*result.evidence.p_value);
  }
  return result;
}

std::vector<model::Question> fresh_questions(const Interrogator& device, const model::CacheDescription& cache,
                                             std::uint64_t attempt) {
  model::Random random(device.settings().seed ^ (0xf7e5ULL * attempt));
  std::vector<model::Question> questions;
  for (const double footprint : footprints) {
    questions.push_back(fresh_question(device, cache, footprint, random));
  }
  return questions;
}

void doubt_levels(Verification& result) {
  const auto outliers = static_cast<double>(result.evidence.outliers);
  if (outliers > most_outliers * (outliers + static_cast<double>(result.evidence.accesses))) {
    result.holds = false;
    result.many_outliers = true;
    result.reason = std::to_string(result.evidence.outliers) + " latencies on fresh sequences belong to neither level";
  }
}

}  // namespace

BestPrediction predict_best(Interrogator& device, const model::CacheDescription& cache,
                            std::span<const model::Replacement> policies) {
  const std::vector<model::Question> questions = fresh_questions(device, cache, 1);
  const Answers answers = ask_for_votes(device, questions);
  std::optional<BestPrediction> best;
  for (const model::Replacement& policy : policies) {
    model::CacheDescription assumed = cache;
    assumed.replacement = policy;
    Verification tried = verify_deterministic(device, assumed, questions, answers);
    doubt_levels(tried);
    if (!best || *best->verification.evidence.agreement < *tried.evidence.agreement) {
      best = {.policy = policy, .verification = std::move(tried)};
    }
  }
  return *best;
}

Verification verify(Interrogator& device, const model::CacheDescription& cache) {
  Verification result;
  // One true description in a hundred fails at p = 0.01, so a failure has to happen twice, on other sequences.
  for (const std::uint64_t attempt : {1ULL, 2ULL}) {
    const std::vector<model::Question> questions = fresh_questions(device, cache, attempt);
    result = model::is_deterministic(*cache.replacement)
                 ? verify_deterministic(device, cache, questions, ask_for_votes(device, questions))
                 : verify_stochastic(device, cache, questions);
    doubt_levels(result);
    if (result.holds) {
      break;
    }
  }
  return result;
}

namespace {

// Lines in an order in which to fill the cache: near ones and far ones mixed at random, or every 2^n-th. Near, because
// there a table was found line by line; far, because there a function is used; with strides, because anything beside
// sets and ways (tags apart from the data, a coarser hash) shows under some stride first.
std::vector<std::uint64_t> packing_order(std::size_t packing, std::uint64_t reachable, std::uint64_t capacity,
                                         model::Random& random) {
  std::vector<std::uint64_t> order;
  const std::uint64_t wanted = std::max<std::uint64_t>(512, 8 * capacity);
  if (packing % 2 == 0) {
    const std::uint64_t near = std::min(reachable, std::max<std::uint64_t>(512, 4 * capacity));
    for (std::uint64_t i = 0; i < wanted; ++i) {
      order.push_back(i % 2 == 0 ? random.below(near) : random.below(reachable));
    }
    return order;
  }
  const std::uint64_t stride = std::uint64_t{1} << (packing / 2);
  const std::uint64_t places = reachable / stride;
  const std::uint64_t first = places > wanted ? random.below(places - wanted) : 0;
  for (std::uint64_t i = 0; i < std::min(places, wanted); ++i) {
    order.push_back((first + i) * stride);
  }
  return order;
}

}  // namespace

FullCacheCheck check_packings(Interrogator& device, Conflicts& conflicts, const model::CacheDescription& cache) {
  constexpr std::size_t most_packings = 20;
  const std::uint64_t start = aligned_start(device);
  const std::uint64_t capacity = capacity_in_lines(cache);
  model::Random random(device.settings().seed ^ 0xfa11ULL);
  FullCacheCheck check;
  for (std::size_t packing = 0; packing < most_packings; ++packing) {
    Offsets full;
    Offsets surplus;
    std::set<std::uint64_t> taken;
    std::vector<std::uint32_t> filled(cache.ways->size());
    for (const std::uint64_t line : packing_order(packing, reachable_lines(device, cache), capacity, random)) {
      if (!taken.insert(line).second) {
        continue;
      }
      const std::uint64_t offset = start + line * *cache.line_bytes;
      const std::uint32_t set = model::set_of(*cache.index, device.address_of(offset));
      if (filled[set] < (*cache.ways)[set]) {
        ++filled[set];
        full.push_back(offset);
      } else {
        surplus.push_back(offset);
      }
    }
    if (surplus.empty()) {
      continue;  // the buffer has too few lines for this one
    }
    ++check.packings;
    check.full_that_missed += conflicts.overflow(full) ? 1U : 0U;
    full.push_back(surplus[random.below(surplus.size())]);
    check.surplus_that_fitted += conflicts.overflow(full) ? 0U : 1U;
  }
  return check;
}

}  // namespace gpuinfer::infer
