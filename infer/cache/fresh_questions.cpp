// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/fresh_questions.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <numeric>
#include <utility>

#include "infer/asking/stream.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/cache/find_sets.hpp"
#include "infer/cache/set_map.hpp"
#include "infer/policy/policy_questions.hpp"
#include "model/access_sequence.hpp"
#include "model/cache_simulator.hpp"

namespace gpuinfer::infer {

Offsets Pool::all() const {
  Offsets lines;
  for (const Offsets& of_set : asked) {
    lines.insert(lines.end(), of_set.begin(), of_set.end());
  }
  return lines;
}

Pool pool_of_lines(const Interrogator& device, const model::CacheDescription& cache,
                   std::span<const std::uint32_t> asked, StrideExponent lying, model::Random& random) {
  const SetStart start = start_of(device);
  std::vector<std::uint32_t> wanted(asked.begin(), asked.end());
  for (std::size_t set = 0; set < wanted.size(); ++set) {
    if (wanted[set] > 0 && start != SetStart::empty) {
      wanted[set] = std::max(wanted[set], 4 * (*cache.ways)[set]);
    }
  }
  const LinesOfSets lines_of_sets(device, *cache.index, *cache.line_bytes);
  Pool pool{.asked = lying ? lines_of_sets.draw_strided(wanted, *lying, random) : lines_of_sets.draw(wanted, random),
            .conditioning = {}};
  if (lying && pool.all().empty()) {
    pool.asked = lines_of_sets.draw(wanted, random);
  }
  for (std::size_t set = 0; set < wanted.size(); ++set) {
    Offsets& lines = pool.asked[set];
    const std::vector<SetLines> walks =
        frame_of((*cache.ways)[set], lines.size(), start, model::RandomStreams(device.settings().seed)).conditioning;
    pool.conditioning.resize(std::max(pool.conditioning.size(), walks.size()));
    for (std::size_t walk = 0; walk < walks.size(); ++walk) {
      std::transform(walks[walk].begin(), walks[walk].end(), std::back_inserter(pool.conditioning[walk]),
                     [&](std::uint32_t line) { return lines[line]; });
    }
    lines.resize(std::min<std::size_t>(lines.size(), asked[set]));
    pool.sets += lines.empty() ? 0U : 1U;
  }
  return pool;
}

Pool pool_of_sets(const Interrogator& device, const model::CacheDescription& cache, double footprint,
                  std::span<const std::uint32_t> order, StrideExponent lying, model::Random& random) {
  constexpr std::uint64_t most_capacity_lines = 512;
  std::vector<std::uint32_t> asked(cache.ways->size());
  std::uint64_t capacity_lines = 0;
  std::size_t sets = 0;
  for (const std::uint32_t set : order) {
    const std::uint32_t ways = (*cache.ways)[set];
    if (capacity_lines > 0 && capacity_lines + ways > most_capacity_lines) {
      break;
    }
    asked[set] = std::max(2U, static_cast<std::uint32_t>(std::lround(footprint * ways)));
    capacity_lines += ways;
    ++sets;
  }
  Pool pool = pool_of_lines(device, cache, asked, lying, random);
  pool.sets = sets;
  return pool;
}

Pool pool_of_store(const Interrogator& device, const model::CacheDescription& cache, double footprint,
                   model::Random& random) {
  std::vector<std::uint32_t> wanted(cache.ways->size());
  const auto lines = static_cast<std::uint64_t>(footprint * static_cast<double>(*cache.store_lines));
  constexpr double few = 1.6;
  for (std::uint64_t line = 0; line < lines; ++line) {
    ++wanted[footprint < few ? line % wanted.size() : random.below(wanted.size())];
  }
  Pool pool{.asked = LinesOfSets(device, *cache.index, *cache.line_bytes).draw(wanted, random), .conditioning = {}};
  if (footprint < few) {
    pool.warm = pool.all();
    random.shuffle(pool.warm);
  }
  return pool;
}

FreshQuestion question_over(const Interrogator& device, Pool pool, AccessSequence record) {
  if (device.starts_flooded()) {
    return {.primer = {},
            .question = device.question_unflooded(std::move(pool.conditioning.front()), std::move(record))};
  }
  return {.primer = std::move(pool.conditioning), .question = device.question(std::move(pool.warm), std::move(record))};
}

FreshQuestion fresh_question(const Interrogator& device, const model::CacheDescription& cache, Pool pool,
                             model::Random& random) {
  Offsets lines = pool.all();
  random.shuffle(lines);
  AccessSequence record;
  for (const std::uint32_t line : model::returning_walk(static_cast<std::uint32_t>(lines.size()),
                                                        std::max<std::size_t>(2000, 2 * lines.size()), random)) {
    record.push_back(lines[line] + random.below(*cache.line_bytes / model::load_bytes) * model::load_bytes);
  }
  return question_over(device, std::move(pool), std::move(record));
}

namespace {

double share_of_strays(const LevelClassifier& classifier, const Answers& answers) {
  std::size_t strays = 0;
  std::size_t accesses = 0;
  for (const std::vector<float>& answer : answers) {
    strays += static_cast<std::size_t>(
        std::ranges::count_if(answer, [&](float latency) { return classifier.read(latency) == Reading::unclear; }));
    accesses += answer.size();
  }
  return static_cast<double>(strays) / static_cast<double>(std::max<std::size_t>(1, accesses));
}

template <class Ask>
Answers ask_again_until_near(const Interrogator& device, Ask&& ask) {
  constexpr int most_repeats = 2;
  Answers answers = ask();
  for (int repeat = 0; repeat < most_repeats && share_of_strays(device.classifier(), answers) > most_outliers;
       ++repeat) {
    answers = ask();
  }
  return answers;
}

}  // namespace

Answers ask_times(Interrogator& device, std::span<const FreshQuestion> questions, unsigned times) {
  if (start_of(device) != SetStart::invalidated) {
    std::vector<model::Question> batch;
    for (unsigned time = 0; time < times; ++time) {
      std::transform(questions.begin(), questions.end(), std::back_inserter(batch),
                     [](const FreshQuestion& each) { return each.question; });
    }
    return device.latencies(batch);
  }
  Answers answers;
  for (unsigned time = 0; time < times; ++time) {
    for (const FreshQuestion& each : questions) {
      const Priming priming(device, each.primer);
      answers.push_back(device.latencies({&each.question, 1}).front());
    }
  }
  return answers;
}

Answers ask_for_votes(Interrogator& device, std::span<const FreshQuestion> questions) {
  const unsigned votes = device.votes_needed(1e-3) == 1 ? 1 : device.votes_needed();
  return ask_again_until_near(device, [&] { return ask_times(device, questions, votes); });
}

Answers ask_until_near(Interrogator& device, std::span<const model::Question> questions) {
  return ask_again_until_near(device, [&] { return device.latencies(questions); });
}

namespace {

constexpr std::size_t longest_history = 4000;

bool starts_alike(const Interrogator& device, const model::CacheDescription& cache) {
  return start_of(device) == SetStart::empty || begins_conditioned(*cache.replacement);
}

// A flood of the device is one history more.
model::StartState left_by_history(const Interrogator& device, const FreshQuestion& fresh) {
  return device.starts_flooded() ? model::StartState::keep : fresh.question.state;
}

// The question as it is put to a simulator that has played a history, if it needs one.
model::Question put_to_simulator(const Interrogator& device, const model::CacheDescription& cache,
                                 const FreshQuestion& fresh) {
  model::Question question = fresh.question;
  question.state = starts_alike(device, cache) ? model::StartState::clean : left_by_history(device, fresh);
  return question;
}

// Random loads of the whole buffer, as other questions have asked for, some of them twice in a row, as many policies
// keep only what was hit.
AccessSequence loads_of_others(const Interrogator& device, const model::CacheDescription& cache,
                               model::Random& random) {
  const std::uint64_t ways = std::accumulate(cache.ways->begin(), cache.ways->end(), std::uint64_t{0});
  AccessSequence loads;
  for (std::uint64_t lines = random.below(4 * ways); lines > 0; --lines) {
    // One after the other: compilers draw arguments of a call in an order of their own.
    const std::uint64_t place = random.below(device.buffer().bytes / model::load_bytes) * model::load_bytes;
    const std::uint64_t times = 1 + random.below(2);
    loads.insert(loads.end(), times, place);
  }
  return loads;
}

// One of the histories after which the question may be asked, and what primes it. Lines that nothing empties a set of
// may be others than those that are asked about.
void play_history(const Interrogator& device, const model::CacheDescription& cache, const FreshQuestion& fresh,
                  std::uint64_t history, model::CacheSimulator& simulator) {
  const model::Address address_of_buffer = device.buffer().address;
  model::Random random = stream(device.settings(), "histories", history);
  model::Question before = fresh.question;
  before.circumstances.stores.clear();
  before.state = model::StartState::keep;
  before.warm = model::random_walk(fresh.question.record, random.below(longest_history), random);
  before.record.clear();
  static_cast<void>(outcomes_of(simulator, before, address_of_buffer));
  if (device.starts_flooded() && covers_buffer(*cache.index, device.buffer())) {
    before.warm = loads_of_others(device, cache, random);
    static_cast<void>(outcomes_of(simulator, before, address_of_buffer));
  }
  before.state = left_by_history(device, fresh);
  for (const AccessSequence& loads : fresh.primer) {
    before.warm = loads;
    static_cast<void>(outcomes_of(simulator, before, address_of_buffer));
  }
}

// With a stream of chance of its own.
std::unique_ptr<model::CacheSimulator> after_history(const Interrogator& device, const model::CacheDescription& cache,
                                                     const FreshQuestion& fresh, std::uint64_t history) {
  auto simulator = model::CacheSimulator::make(cache, history);
  if (!starts_alike(device, cache)) {
    play_history(device, cache, fresh, history, *simulator);
  }
  return simulator;
}

}  // namespace

std::vector<std::optional<bool>> predicted_misses(const Interrogator& device, const model::CacheDescription& cache,
                                                  const FreshQuestion& fresh, std::uint64_t histories) {
  const bool from_empty = starts_alike(device, cache);
  const model::Question question = put_to_simulator(device, cache, fresh);
  std::vector<std::optional<bool>> predicted;
  for (std::uint64_t history = 0; history < (from_empty ? 1 : histories); ++history) {
    const auto simulator = model::CacheSimulator::make(cache, 0);
    if (!from_empty) {
      play_history(device, cache, fresh, history, *simulator);
    }
    const auto outcomes = outcomes_of(*simulator, question, device.buffer().address);
    predicted.resize(outcomes.size(), std::nullopt);
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const bool miss = model::is_miss(outcomes[i]);
      predicted[i] = history == 0 || predicted[i] == miss ? std::optional(miss) : std::nullopt;
    }
  }
  return predicted;
}

std::vector<model::Outcome> outcomes_after(const Interrogator& device, const model::CacheDescription& cache,
                                           const FreshQuestion& fresh, std::uint64_t history) {
  const auto simulator = after_history(device, cache, fresh, history);
  return outcomes_of(*simulator, put_to_simulator(device, cache, fresh), device.buffer().address);
}

std::vector<std::vector<model::AccessEvent>> possible_events(const Interrogator& device,
                                                             const model::CacheDescription& cache,
                                                             const FreshQuestion& fresh, std::uint64_t histories) {
  const model::Question question = put_to_simulator(device, cache, fresh);
  const bool is_one = starts_alike(device, cache) && model::is_deterministic(*cache.replacement);
  std::vector<std::vector<model::AccessEvent>> possible;
  for (std::uint64_t history = 0; history < (is_one ? 1 : histories); ++history) {
    possible.push_back(events_of(*after_history(device, cache, fresh, history), question, device.buffer().address));
  }
  return possible;
}

}  // namespace gpuinfer::infer
