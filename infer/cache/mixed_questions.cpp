// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/mixed_questions.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "infer/asking/statistics.hpp"
#include "infer/asking/thresholds.hpp"
#include "model/access_sequence.hpp"
#include "model/cache_simulator.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::uint64_t word_bytes = model::load_bytes;

class MixedWalk {
 public:
  MixedWalk(const model::CacheDescription& cache, model::Random& random)
      : words_of_line_(*cache.line_bytes / word_bytes), words_of_sector_(*cache.sector_bytes / word_bytes),
        random_(&random) {}

  void access(std::uint64_t line) {
    const std::uint64_t word = random_->below(words_of_line_);
    switch (random_->below(8)) {
      case 0:
      case 1:
      case 2:
        return load(line, word);
      case 3:
      case 4:
        return store(line, word);
      default:
        return probe(line, word);
    }
  }

  AccessSequence record;
  std::vector<std::uint32_t> stores;

 private:
  void load(std::uint64_t line, std::uint64_t word) { record.push_back(line + word * word_bytes); }
  void store(std::uint64_t line, std::uint64_t word) {
    stores.push_back(static_cast<std::uint32_t>(record.size()));
    load(line, word);
  }

  // Whether stores to a whole granule, or to all of it but one word, leave what loads find, and how far around it.
  void probe(std::uint64_t line, std::uint64_t word) {
    constexpr std::uint64_t most_words = 32;
    const auto sizes = static_cast<unsigned>(std::bit_width(std::min(words_of_sector_, most_words)));
    const std::uint64_t granule = std::uint64_t{1} << random_->below(sizes);
    const std::uint64_t first = word - word % granule;
    const std::uint64_t end = std::min(first + granule, words_of_line_);
    const std::uint64_t left_out = random_->below(4) == 0 ? first + random_->below(granule) : end;
    for (std::uint64_t each = first; each < end; ++each) {
      if (each != left_out || granule == 1) {
        store(line, each);
      }
    }
    const std::uint64_t distance = std::uint64_t{1}
                                   << random_->below(static_cast<std::uint64_t>(std::bit_width(words_of_line_)));
    const bool is_beside = random_->below(2) == 0 && (word ^ distance) < words_of_line_;
    load(line, is_beside ? word ^ distance : word);
  }

  std::uint64_t words_of_line_;
  std::uint64_t words_of_sector_;
  model::Random* random_;
};

}  // namespace

FreshQuestion mixed_question(const Interrogator& device, const model::CacheDescription& cache, Pool pool,
                             std::size_t accesses, model::Random& random) {
  Offsets lines = pool.all();
  random.shuffle(lines);
  MixedWalk walk(cache, random);
  for (const std::uint32_t line : model::returning_walk(static_cast<std::uint32_t>(lines.size()), accesses, random)) {
    walk.access(lines[line]);
    if (walk.record.size() >= accesses) {
      break;
    }
  }
  return question_with_stores(device, std::move(pool), std::move(walk.record), walk.stores);
}

FreshQuestion scattered_question(const Interrogator& device, const model::CacheDescription& cache, Pool pool,
                                 std::size_t accesses, model::Random& random) {
  const std::uint64_t words_of_sector = *cache.sector_bytes / word_bytes;
  const std::uint64_t sectors = *cache.line_bytes / *cache.sector_bytes;
  const Offsets lines = pool.all();
  constexpr std::array<std::uint64_t, 6> ratios{2, 3, 4, 8, 16, 32};
  const std::uint64_t one_store_in = ratios[random.below(ratios.size())];
  AccessSequence record;
  std::vector<std::uint32_t> stores;
  for (std::size_t i = 0; i < accesses; ++i) {
    if (random.below(one_store_in) == 0) {
      stores.push_back(static_cast<std::uint32_t>(i));
    }
    const std::uint64_t sector = random.below(2) == 0 ? 0 : random.below(sectors);
    const std::uint64_t word = random.below(2) == 0 ? 0 : random.below(words_of_sector);
    record.push_back(lines[random.below(lines.size())] + sector * *cache.sector_bytes + word * word_bytes);
  }
  return question_with_stores(device, std::move(pool), std::move(record), stores);
}

FreshQuestion question_over_sets(const Interrogator& device, const model::CacheDescription& cache,
                                 QuestionOfPool question, std::size_t sets, double footprint, std::size_t accesses,
                                 StrideExponent lying, model::Random& random) {
  std::vector<std::uint32_t> order(cache.ways->size());
  std::iota(order.begin(), order.end(), 0U);
  random.shuffle(order);
  order.resize(std::min(order.size(), sets));
  Pool pool = pool_of_sets(device, cache, footprint, order, lying, random);
  const std::size_t lines = pool.all().size();
  return question(device, cache, std::move(pool), std::max(accesses, 10 * lines), random);
}

FreshQuestion question_with_stores(const Interrogator& device, Pool pool, AccessSequence record,
                                   const std::vector<std::uint32_t>& stores) {
  FreshQuestion fresh = question_over(device, std::move(pool), std::move(record));
  const auto warm = static_cast<std::uint32_t>(fresh.question.warm.size());
  for (const std::uint32_t place : stores) {
    fresh.question.circumstances.stores.push_back(warm + place);
  }
  return fresh;
}

std::vector<PredictedLoad> predicted_loads(const Interrogator& device, const model::CacheDescription& cache,
                                           const FreshQuestion& fresh, std::uint64_t histories) {
  const std::vector<model::AccessKind> kinds = model::kinds_of(fresh.question);
  const std::size_t warm = fresh.question.warm.size();
  const auto possible = possible_events(device, cache, fresh, histories);
  std::vector<PredictedLoad> predicted(fresh.question.record.size());
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    if (kinds[warm + i] == model::AccessKind::store) {
      continue;
    }
    const auto agree_on = [&](auto what) {
      return std::ranges::all_of(possible, [&](const auto& events) { return what(events[i]) == what(possible[0][i]); });
    };
    const model::AccessEvent& event = possible[0][i];
    if (agree_on([](const auto& each) { return model::is_miss(each.outcome); })) {
      predicted[i].misses = model::is_miss(event.outcome);
    }
    if (event.victim_address && agree_on([](const auto& each) { return each.victim_address.has_value(); }) &&
        agree_on([](const auto& each) { return each.victim_is_dirty; })) {
      predicted[i].victim_is_dirty = event.victim_is_dirty;
    }
  }
  return predicted;
}

bool differ(const std::vector<PredictedLoad>& a, const std::vector<PredictedLoad>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].misses && b[i].misses && *a[i].misses != *b[i].misses) {
      return true;
    }
  }
  return false;
}

std::vector<Reading> ask_mixed(Interrogator& device, const FreshQuestion& question) {
  // Of ten beyond all levels nine are misses at least, where one hit in a hundred strays that far.
  constexpr double of_stray = 2.3;
  const LevelClassifier& classifier = device.classifier();
  const std::vector<model::AccessKind> kinds = model::kinds_of(question.question);
  const std::size_t warm = question.question.warm.size();
  std::vector<double> for_miss(question.question.record.size());
  for (const std::vector<float>& answer : ask_times(device, {&question, 1}, std::max(3U, device.votes_needed()))) {
    for (std::size_t i = 0; i < answer.size(); ++i) {
      const bool is_beyond =
          classifier.read(answer[i]) == Reading::unclear && answer[i] > classifier.miss_median_cycles();
      for_miss[i] += is_beyond ? of_stray : classifier.log_ratio(answer[i]);
    }
  }
  std::vector<Reading> readings(for_miss.size(), Reading::unclear);
  for (std::size_t i = 0; i < readings.size(); ++i) {
    if (kinds[warm + i] == model::AccessKind::load && std::abs(for_miss[i]) >= conclusive_log_ratio) {
      readings[i] = for_miss[i] > 0 ? Reading::miss : Reading::hit;
    }
  }
  return readings;
}

std::vector<Reading> ask_mixed_once(Interrogator& device, const FreshQuestion& question) {
  const std::vector<float> cycles = ask_times(device, {&question, 1}, 1).front();
  std::vector<Reading> readings(cycles.size());
  std::ranges::transform(cycles, readings.begin(), [&](float each) { return device.classifier().read(each); });
  return readings;
}

JudgedLoads& JudgedLoads::operator+=(const JudgedLoads& more) {
  loads += more.loads;
  misses += more.misses;
  wrong += more.wrong;
  return *this;
}

JudgedLoads judged(const std::vector<PredictedLoad>& predicted, const std::vector<Reading>& readings) {
  JudgedLoads sum;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    if (predicted[i].misses && readings[i] != Reading::unclear) {
      ++sum.loads;
      sum.misses += *predicted[i].misses ? 1U : 0U;
      sum.wrong += *predicted[i].misses != (readings[i] == Reading::miss) ? 1U : 0U;
    }
  }
  return sum;
}

bool misreads_explain(const LevelClassifier& classifier, const JudgedLoads& judged) {
  const double share_of_misses =
      static_cast<double>(judged.misses) / static_cast<double>(std::max<std::size_t>(1, judged.loads));
  const double misread =
      share_of_misses * classifier.miss_misread_bound() + (1 - share_of_misses) * classifier.hit_misread_bound();
  return judged.wrong == 0 || binomial_upper_tail(judged.wrong, judged.loads, misread) > least_p_value;
}

}  // namespace gpuinfer::infer
