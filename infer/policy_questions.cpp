// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy_questions.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

// More policies than these, or states of one, are not weighed one by one: a part of them ranks questions as well.
constexpr std::size_t most_weighed = 64;
constexpr std::size_t most_states_weighed = 6;

// A question by itself, its clean start and its launch, is as much trouble as so many accesses.
constexpr double accesses_of_asking = 200;

SetLines first_lines(std::uint32_t count) {
  SetLines lines(count);
  std::iota(lines.begin(), lines.end(), 0U);
  return lines;
}

SetLines random_walk(std::uint32_t lines, std::size_t accesses, model::Random& random) {
  SetLines walk;
  while (walk.size() < accesses) {
    walk.push_back(static_cast<std::uint32_t>(random.below(lines)));
  }
  return walk;
}

// Fills the set, touches lines in it, brings new ones, and probes some; several rounds of the last three.
SetLines fill_touch_evict_probe(const SetFrame& frame, unsigned rounds, model::Random& random) {
  SetLines record = first_lines(frame.ways);
  std::uint32_t next = frame.ways;
  for (unsigned round = 0; round < rounds; ++round) {
    for (std::uint64_t touches = random.below(frame.ways + 1); touches > 0; --touches) {
      record.push_back(static_cast<std::uint32_t>(random.below(frame.recorded)));
    }
    for (std::uint64_t fresh = 1 + random.below(frame.ways); fresh > 0; --fresh) {
      record.push_back(next);
      next = next + 1 == frame.recorded ? 0 : next + 1;
    }
    SetLines probed = first_lines(frame.recorded);
    random.shuffle(probed);
    record.insert(record.end(), probed.begin(), probed.begin() + (frame.ways + 1) / 2);
  }
  return record;
}

}  // namespace

SetFrame frame_of(std::uint32_t ways, std::size_t lines, SetStart start) {
  const auto known = static_cast<std::uint32_t>(lines);
  const std::uint32_t most_used = std::min(known, ways + std::max(2U, ways / 2));
  if (start == SetStart::flooded) {
    const std::uint32_t kept = 2 * ways;
    const std::uint32_t recorded = std::clamp(known > kept ? known - kept : 0, std::min(ways + 1, known), most_used);
    SetLines others(known - recorded);
    std::iota(others.begin(), others.end(), recorded);
    return {.ways = ways, .recorded = recorded, .lines = known, .conditioning = std::move(others)};
  }
  return {.ways = ways,
          .recorded = most_used,
          .lines = most_used,
          .conditioning = start == SetStart::invalidated ? first_lines(ways) : SetLines{}};
}

bool PolicyOnSet::State::load(std::uint32_t line) {
  const auto found = std::find(line_in.begin(), line_in.end(), line);
  if (found != line_in.end()) {
    machine.hit(static_cast<std::uint32_t>(found - line_in.begin()));
    return false;
  }
  const std::uint32_t way = machine.miss();
  if (way == line_in.size()) {
    line_in.push_back(line);
  } else {
    line_in[way] = line;
  }
  return true;
}

PolicyOnSet::PolicyOnSet(const model::Replacement& policy, const SetFrame& frame, SetStart start, unsigned histories) {
  const model::SetMachine machine(policy, frame.ways);
  if (start == SetStart::empty) {
    states_.push_back({.machine = machine, .line_in = {}});
  } else {
    sample(machine, frame, start, histories);
  }
}

void PolicyOnSet::sample(const model::SetMachine& begin, const SetFrame& frame, SetStart start, unsigned histories) {
  model::Random random(0x5eed ^ frame.ways);
  std::map<std::vector<std::uint32_t>, std::size_t> places;
  for (unsigned i = 0; i < histories; ++i) {
    State state{.machine = begin, .line_in = {}};
    const auto invalidate = [&] {
      state.machine.invalidate();
      state.line_in.clear();
    };
    for (std::uint64_t phases = random.below(8); phases > 0; --phases) {
      const auto lines = static_cast<std::uint32_t>(1 + random.below(frame.lines));
      const bool in_turn = random.below(2) == 0;
      const std::uint64_t accesses = random.below(std::uint64_t{4} * frame.ways);
      for (std::uint64_t access = 0; access < accesses; ++access) {
        state.load(static_cast<std::uint32_t>(in_turn ? access % lines : random.below(lines)));
      }
      if (start == SetStart::invalidated && random.below(2) == 0) {
        invalidate();
      }
    }
    if (start == SetStart::invalidated) {
      invalidate();
    } else {
      const std::uint64_t strangers = 2 * std::uint64_t{frame.ways} + random.below(std::uint64_t{2} * frame.ways);
      for (std::uint64_t stranger = 0; stranger < strangers; ++stranger) {
        state.load(static_cast<std::uint32_t>(frame.lines + stranger));
      }
    }
    for (const std::uint32_t line : frame.conditioning) {
      state.load(line);
    }
    std::vector<std::uint32_t> key = state.line_in;
    state.machine.append_state(key);
    const auto [known, is_new] = places.emplace(std::move(key), states_.size());
    if (is_new) {
      states_.push_back(std::move(state));
    } else {
      ++states_[known->second].weight;
    }
  }
}

std::vector<Prediction> PolicyOnSet::predict(const SetLines& record, std::size_t most_states) const {
  std::map<Outcomes, std::size_t> states_of;
  for (std::size_t i = 0; i < std::min(most_states, states_.size()); ++i) {
    State state = states_[i];
    Outcomes missed;
    missed.reserve(record.size());
    for (const std::uint32_t line : record) {
      missed.push_back(state.load(line));
    }
    states_of[std::move(missed)] += state.weight;
  }
  std::vector<Prediction> predictions;
  for (const auto& [missed, states] : states_of) {
    predictions.push_back({.missed = missed, .states = states});
  }
  return predictions;
}

bool is_saturated(std::span<const Prediction> predictions) {
  return predictions.size() == 1 ||
         std::all_of(predictions.begin(), predictions.end(), [](const Prediction& each) { return each.states > 1; });
}

std::vector<PolicyQuestion> question_pool(const SetFrame& frame, std::uint64_t draw) {
  model::Random random(0xa5cULL + draw);
  std::vector<PolicyQuestion> pool;
  const auto named = [](const std::string& what, std::size_t lines) {
    return what + " over " + std::to_string(lines) + " lines";
  };
  for (std::uint32_t lines = frame.ways + 1; lines <= frame.recorded; lines += std::max(1U, frame.ways / 4)) {
    SetLines chase;
    for (unsigned round = 0; round < 3; ++round) {
      const SetLines once = first_lines(lines);
      chase.insert(chase.end(), once.begin(), once.end());
    }
    pool.push_back({.name = named("chase", lines), .record = std::move(chase)});
    for (const std::uint32_t lengths : {2U, 4U, 8U, 16U}) {
      const std::size_t accesses = std::size_t{lengths} * std::max(4U, frame.ways);
      if (accesses <= 800) {
        pool.push_back({.name = named("random walk", lines), .record = random_walk(lines, accesses, random)});
      }
    }
  }
  for (const unsigned rounds : {1U, 1U, 2U, 2U, 4U, 4U, 6U, 8U}) {
    SetLines record = fill_touch_evict_probe(frame, rounds, random);
    if (record.size() <= 800) {
      pool.push_back({.name = named("fill, touch, drive out, probe", frame.recorded), .record = std::move(record)});
    }
  }
  return pool;
}

PolicyQuestion long_walk(const SetFrame& frame, std::uint64_t draw) {
  model::Random random(0x10f6ULL + draw);
  const std::uint32_t lines = std::min(frame.recorded, frame.ways + std::max(1U, frame.ways / 3));
  const std::size_t accesses = std::clamp<std::size_t>(std::size_t{8} * lines, 120, 500);
  return {.name = "long random walk over " + std::to_string(lines) + " lines",
          .record = random_walk(lines, accesses, random)};
}

std::optional<RankedQuestion> most_informative(std::span<const PolicyQuestion> pool,
                                               std::span<const PolicyOnSet* const> policies, unsigned readings) {
  const std::size_t step = std::max<std::size_t>(1, (policies.size() + most_weighed - 1) / most_weighed);
  std::optional<RankedQuestion> best;
  double best_worth = 0;
  for (const PolicyQuestion& question : pool) {
    std::map<std::vector<Outcomes>, std::size_t> groups;
    std::size_t weighed = 0;
    for (std::size_t i = 0; i < policies.size(); i += step) {
      std::vector<Outcomes> answers;
      for (Prediction& prediction : policies[i]->predict(question.record, most_states_weighed)) {
        answers.push_back(std::move(prediction.missed));
      }
      ++groups[std::move(answers)];
      ++weighed;
    }
    double bits = 0;
    for (const auto& [answers, count] : groups) {
      const double share = static_cast<double>(count) / static_cast<double>(weighed);
      bits -= share * std::log2(share);
    }
    const double worth = bits / (accesses_of_asking + static_cast<double>(readings * question.record.size()));
    if (groups.size() > 1 && worth > best_worth) {
      best_worth = worth;
      best = {.question = question, .bits = bits, .groups = groups.size()};
    }
  }
  return best;
}

}  // namespace gpuinfer::infer
