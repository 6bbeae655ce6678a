// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/repeatability.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/policy/coin_walk.hpp"
#include "infer/policy/policy_questions.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

using Readings = std::vector<Reading>;

std::vector<Readings> ask_all(Interrogator& device, const std::vector<model::Question>& questions) {
  std::vector<Readings> all;
  for (const std::vector<float>& answer : device.latencies(questions)) {
    Readings& readings = all.emplace_back();
    for (const float latency : answer) {
      readings.push_back(device.classifier().read(latency));
    }
  }
  return all;
}

std::vector<Readings> ask_again(Interrogator& device, const model::Question& question, std::size_t times) {
  return ask_all(device, std::vector<model::Question>(times, question));
}

// Share of readings that are wrong, where it is largest.
double misread_rate(const LevelClassifier& classifier) {
  return std::max(classifier.hit_misread_rate(), classifier.miss_misread_rate());
}

bool differ_by_misreads(const LevelClassifier& classifier, const Readings& a, const Readings& b) {
  std::size_t compared = 0;
  std::size_t different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != Reading::unclear && b[i] != Reading::unclear) {
      ++compared;
      different += a[i] != b[i] ? 1U : 0U;
    }
  }
  return binomial_upper_tail(different, compared, std::min(0.5, 2 * misread_rate(classifier))) > wrong_verdict;
}

// Answers to one question, against the majority of the readings of each access. If they are all the same but for
// misreads, so is the majority, and a reading that is in the minority was misread.
bool are_the_same(const LevelClassifier& classifier, const std::vector<Readings>& answers) {
  const double misread = misread_rate(classifier);
  const std::size_t accesses = answers.front().size();
  std::vector<std::size_t> against(answers.size());
  std::vector<std::size_t> accesses_with_minority(answers.size() / 2 + 1);
  for (std::size_t i = 0; i < accesses; ++i) {
    const auto count = [&](Reading reading) {
      return static_cast<std::size_t>(
          std::count_if(answers.begin(), answers.end(), [&](const Readings& answer) { return answer[i] == reading; }));
    };
    const std::size_t hits = count(Reading::hit);
    const std::size_t misses = count(Reading::miss);
    for (std::size_t size = 1; size <= std::min(hits, misses); ++size) {
      ++accesses_with_minority[size];
    }
    const Reading minority = hits == misses ? Reading::unclear : hits < misses ? Reading::hit : Reading::miss;
    for (std::size_t time = 0; minority != Reading::unclear && time < answers.size(); ++time) {
      against[time] += answers[time][i] == minority ? 1U : 0U;
    }
  }
  // What chance decides differently in one answer shows there on end, and what it decides often, at the same accesses.
  bool misreads_explain = std::none_of(against.begin(), against.end(), [&](std::size_t count) {
    return binomial_upper_tail(count, accesses, misread) < wrong_verdict;
  });
  for (std::size_t size = 1; size < accesses_with_minority.size(); ++size) {
    const double by_misreads = binomial_upper_tail(size, answers.size(), misread);
    misreads_explain =
        misreads_explain && binomial_upper_tail(accesses_with_minority[size], accesses, by_misreads) >= wrong_verdict;
  }
  return misreads_explain;
}

std::size_t changes_in(const std::vector<std::size_t>& kinds) {
  std::size_t changes = 0;
  for (std::size_t i = 1; i < kinds.size(); ++i) {
    changes += kinds[i] != kinds[i - 1] ? 1U : 0U;
  }
  return changes;
}

// Of the answers, the share that come again so many answers later, where it is largest.
double share_that_recurs(const std::vector<std::size_t>& kinds) {
  double largest = 0;
  for (std::size_t lag = 1; lag <= kinds.size() / 3; ++lag) {
    const std::size_t compared = kinds.size() - lag;
    const auto same = std::inner_product(kinds.begin() + static_cast<std::ptrdiff_t>(lag), kinds.end(), kinds.begin(),
                                         std::size_t{0}, std::plus<>(), std::equal_to<>());
    largest = std::max(largest, static_cast<double>(same) / static_cast<double>(compared));
  }
  return largest;
}

}  // namespace

model::Question walk_over(const Interrogator& device, const ConflictClass& set, std::uint64_t draw) {
  const SetFrame frame =
      frame_of(set.ways, set.lines.size(), SetStart::empty, model::RandomStreams(device.settings().seed));
  AccessSequence record;
  for (const std::uint32_t line : long_walk(frame, draw).record) {
    record.push_back(set.lines[line]);
  }
  return device.starts_flooded() && numbers_ways(set)
             ? device.question_unflooded(offsets_of(set, hits_that_number_ways(set.ways)), std::move(record))
             : device.question({}, std::move(record));
}

bool repeats(Interrogator& device, const model::Question& question) {
  return are_the_same(device.classifier(), ask_again(device, question, 6));
}

bool repeats_for_long(Interrogator& device, const ConflictClass& set, const AskedOfWalk& asked) {
  constexpr std::uint64_t walks = 5;
  AccessSequence record = walk_over(device, set, 0).record;
  if (!repeats(device, asked(record))) {
    return false;
  }
  for (std::uint64_t draw = 1; draw < walks; ++draw) {
    const AccessSequence more = walk_over(device, set, draw).record;
    record.insert(record.end(), more.begin(), more.end());
  }
  return repeats(device, asked(std::move(record)));
}

// Whether ways are hit while a set fills may decide what is left to see of how it began, so that is done in several
// ways.
bool forgets_what_was_before(Interrogator& device, const ConflictClass& set, const Primer& primer) {
  constexpr std::size_t histories = 100;
  constexpr std::size_t walks = 3;
  const AccessSequence first_lines(set.lines.begin(), set.lines.begin() + set.ways);
  std::vector<model::Question> questions;
  for (std::size_t walk = 0; walk < walks; ++walk) {
    AccessSequence record = walk_over(device, set, walk).record;
    if (walk == 0) {
      record.insert(record.begin(), first_lines.begin(), first_lines.end());
    }
    questions.push_back(device.question({}, std::move(record)));
  }
  model::Random random = stream(device.settings(), "histories of a set");
  std::vector<std::vector<Readings>> answers(walks);
  for (std::size_t history = 0; history < histories; ++history) {
    AccessSequence before;
    for (std::uint64_t accesses = 1 + random.below(8 * std::uint64_t{set.ways}); accesses > 0; --accesses) {
      before.push_back(set.lines[random.below(std::min<std::size_t>(set.lines.size(), set.ways + 1UL))]);
    }
    Primer with_history{std::move(before)};
    with_history.insert(with_history.end(), primer.begin(), primer.end());
    const Priming priming(device, std::move(with_history));
    std::vector<Readings> after = ask_all(device, questions);
    for (std::size_t walk = 0; walk < walks; ++walk) {
      answers[walk].push_back(std::move(after[walk]));
    }
  }
  return std::all_of(answers.begin(), answers.end(),
                     [&](const auto& of_walk) { return are_the_same(device.classifier(), of_walk); });
}

bool answers_come_in_order(Interrogator& device, const model::Question& question) {
  const std::size_t times = std::clamp<std::size_t>(4800 / question.record.size(), 40, 120);
  constexpr std::size_t shuffles = 20000;
  const std::vector<Readings> answers = ask_again(device, question, times);
  std::vector<const Readings*> first_of_kind;
  std::vector<std::size_t> kinds;
  std::map<std::size_t, std::size_t> count_of_kind;
  for (const Readings& answer : answers) {
    const auto known = std::find_if(first_of_kind.begin(), first_of_kind.end(), [&](const Readings* other) {
      return differ_by_misreads(device.classifier(), *other, answer);
    });
    kinds.push_back(static_cast<std::size_t>(known - first_of_kind.begin()));
    if (known == first_of_kind.end()) {
      first_of_kind.push_back(&answer);
    }
    ++count_of_kind[kinds.back()];
  }
  // Answers in the middle of which the policy changed are kinds of their own, and few.
  const auto alone = static_cast<std::size_t>(
      std::count_if(count_of_kind.begin(), count_of_kind.end(), [](const auto& kind) { return kind.second == 1; }));
  if (2 * alone > times || count_of_kind.size() < 2) {
    return false;
  }
  const std::size_t changes = changes_in(kinds);
  const double recurring = share_that_recurs(kinds);
  std::size_t as_few = 0;
  std::size_t as_many = 0;
  std::size_t as_recurring = 0;
  model::Random random = stream(device.settings(), "shuffled answers");
  for (std::size_t i = 0; i < shuffles; ++i) {
    random.shuffle(kinds);
    const std::size_t by_chance = changes_in(kinds);
    as_few += by_chance <= changes ? 1U : 0U;
    as_many += by_chance >= changes ? 1U : 0U;
    as_recurring += share_that_recurs(kinds) >= recurring ? 1U : 0U;
  }
  return std::min({as_few, as_many, as_recurring}) == 0;
}

}  // namespace gpuinfer::infer
