// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/hypotheses.hpp"

#include <tbb/concurrent_unordered_map.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "model/errors.hpp"
#include "model/policies/table.hpp"

namespace gpuinfer::model {

namespace {

// 128 bits that stand for a set of numbers, in whatever order they are added: two sets never share them by accident.
struct Fingerprint {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  bool operator==(const Fingerprint&) const = default;
  bool operator<(const Fingerprint& other) const { return std::tie(low, high) < std::tie(other.low, other.high); }

  void add(std::uint64_t number) {
    Random random(number);
    low += random();
    high += random();
  }
  void add(const Fingerprint& other) {
    Random random(other.low ^ Random(other.high)());
    low += random();
    high += random();
  }
};

constexpr std::uint32_t none = ~std::uint32_t{0};

}  // namespace

// One call of HypothesisTester::wrong().
class HypothesisSearch {
 public:
  HypothesisSearch(const HypothesisTester& tester, std::span<const Hypothesis> hypotheses)
      : tester_(&tester), hypotheses_(hypotheses), wrong_(hypotheses.size(), tester.always_wrong_) {
    std::vector<bool> is_met(tester.table_.ids());
    for (const auto& sequence : tester.sequences_) {
      for (const Step& step : sequence) {
        is_met[step.line] = true;
      }
    }
    for (std::uint32_t id = 0; id < is_met.size(); ++id) {
      if (is_met[id]) {
        lines_met_.push_back(id);
      }
    }
  }

  std::vector<std::size_t> run(std::optional<std::size_t> jobs) {
    group_by_partition();
    // Callers that have threads of their own call often, and with few hypotheses.
    if (jobs == 1U) {
      std::for_each(groups_.begin(), groups_.end(), [this](const Group& group) { test(group); });
      return std::move(wrong_);
    }
    const auto work = [this] {
      tbb::parallel_for(std::size_t{0}, groups_.size(), [this](std::size_t i) { test(groups_[i]); });
    };
    if (jobs) {
      const auto cores = static_cast<std::size_t>(tbb::info::default_concurrency());
      tbb::task_arena(static_cast<int>(std::min(*jobs, cores))).execute(work);
    } else {
      work();
    }
    return std::move(wrong_);
  }

 private:
  using Step = HypothesisTester::Step;

  // Hypotheses that split the lines alike, whatever they call their sets.
  struct Group {
    IndexFunction index;  // of the first one
    std::vector<std::size_t> hypotheses;
  };

  // What falls into one set. The lines in it are counted from 0 on.
  struct SetSteps {
    Fingerprint lines;
    std::uint32_t any_line = 0;  // id
    std::uint32_t lines_met = 0;
    std::vector<std::vector<Step>> sequences;
  };

  // All that decides how a set behaves.
  struct Behaviour {
    Fingerprint lines;
    std::uint32_t ways = 0;
    std::uint32_t policy = 0;

    bool operator==(const Behaviour&) const = default;
  };
  struct BehaviourHash {
    std::size_t operator()(const Behaviour& behaviour) const {
      return behaviour.lines.low ^ (std::uint64_t{behaviour.ways} << 40U) ^ (behaviour.policy * 0x9e3779b97f4a7c15ULL);
    }
  };

  [[nodiscard]] Address address_of(std::uint32_t line) const {
    return Address{tester_->table_.number_of(line) * tester_->decoder_.line_bytes()};
  }

  [[nodiscard]] std::uint32_t set_number(const IndexFunction& index, std::uint32_t line) const {
    return covered_set_of(index, address_of(line));
  }

  [[nodiscard]] Fingerprint partition_by(const IndexFunction& index) const {
    std::map<std::uint32_t, Fingerprint> lines_of_set;
    for (const std::uint32_t line : lines_met_) {
      lines_of_set[set_number(index, line)].add(line);
    }
    Fingerprint partition;
    for (const auto& [set, lines] : lines_of_set) {
      partition.add(lines);
    }
    return partition;
  }

  void group_by_partition() {
    std::map<Fingerprint, std::size_t> group_of;
    std::map<std::string, std::uint32_t> policy_of_text;
    std::size_t group = 0;
    for (std::size_t h = 0; h < hypotheses_.size(); ++h) {
      const Hypothesis& hypothesis = hypotheses_[h];
      check(hypothesis.replacement, hypothesis.ways);
      if (!is_deterministic(hypothesis.replacement)) {
        throw InputError("policy: " + hypothesis.replacement.policy +
                         " leaves its victims to chance, and a hypothesis must predict; try deterministic ones");
      }
      // Those of one index function mostly come in a row.
      if (h == 0 || hypothesis.index != hypotheses_[h - 1].index) {
        const auto [found, is_new] = group_of.emplace(partition_by(hypothesis.index), groups_.size());
        group = found->second;
        if (is_new) {
          groups_.push_back({.index = hypothesis.index, .hypotheses = {}});
        }
      }
      groups_[group].hypotheses.push_back(h);
      policy_.push_back(
          policy_of_text.emplace(to_text(hypothesis.replacement), static_cast<std::uint32_t>(policy_of_text.size()))
              .first->second);
    }
  }

  [[nodiscard]] std::vector<SetSteps> split(const IndexFunction& index) const {
    std::vector<SetSteps> sets;
    std::map<std::uint32_t, std::uint32_t> place_of_set;
    std::vector<std::uint32_t> set_of_line(tester_->table_.ids());
    std::vector<std::uint32_t> number_in_set(tester_->table_.ids());
    for (const std::uint32_t line : lines_met_) {
      const auto place = static_cast<std::uint32_t>(sets.size());
      const auto [found, is_new] = place_of_set.emplace(set_number(index, line), place);
      if (is_new) {
        sets.push_back({.lines = {}, .any_line = line, .lines_met = 0, .sequences = {}});
        sets.back().sequences.resize(tester_->sequences_.size());
      }
      SetSteps& set = sets[found->second];
      set.lines.add(line);
      set_of_line[line] = found->second;
      number_in_set[line] = set.lines_met++;
    }
    for (std::size_t q = 0; q < tester_->sequences_.size(); ++q) {
      std::vector<std::size_t> steps_of_set(sets.size());
      for (const Step& step : tester_->sequences_[q]) {
        ++steps_of_set[set_of_line[step.line]];
      }
      std::vector<Step*> next;
      for (std::size_t set = 0; set < sets.size(); ++set) {
        sets[set].sequences[q].resize(steps_of_set[set]);
        next.push_back(sets[set].sequences[q].data());
      }
      for (const Step& step : tester_->sequences_[q]) {
        Step*& place = next[set_of_line[step.line]];
        *place = step;
        place++->line = number_in_set[step.line];
      }
    }
    return sets;
  }

  void test(const Group& group) {
    const std::vector<SetSteps> sets = split(group.index);
    for (const std::size_t h : group.hypotheses) {
      const Hypothesis& hypothesis = hypotheses_[h];
      for (const SetSteps& set : sets) {
        const std::uint32_t number = set_of(hypothesis.index, address_of(set.any_line));
        if (number >= hypothesis.ways.size()) {
          throw InputError("ways: has " + std::to_string(hypothesis.ways.size()) +
                           " entries, but the index names set " + std::to_string(number) + "; correct one of them");
        }
        const Behaviour behaviour{.lines = set.lines, .ways = hypothesis.ways[number], .policy = policy_[h]};
        auto known = wrong_in_set_.find(behaviour);
        if (known == wrong_in_set_.end()) {
          known = wrong_in_set_.emplace(behaviour, wrong_in(set, behaviour.ways, hypothesis.replacement)).first;
        }
        wrong_[h] += known->second;
      }
    }
  }

  [[nodiscard]] std::size_t wrong_in(const SetSteps& set, std::uint32_t ways, const Replacement& replacement) const {
    std::size_t wrong = 0;
    for_each_policy([&]<class Policy>() {
      if constexpr (Policy::deterministic) {
        if (Policy::name == replacement.policy) {
          const SetLayout layout({ways});
          Random no_chance(0);
          Policy policy(layout, replacement, no_chance);
          wrong = tester_->decoder_.is_sectored() ? play<Policy, true>(policy, set, ways)
                                                  : play<Policy, false>(policy, set, ways);
        }
      }
    });
    return wrong;
  }

  template <class Policy, bool is_sectored>
  [[gnu::flatten]] static std::size_t play(Policy& policy, const SetSteps& set, std::uint32_t ways) {
    std::vector<std::uint32_t> way_of(set.lines_met);
    std::vector<std::uint32_t> occupant(ways);
    std::vector<std::uint64_t> sectors(is_sectored ? ways : 0);
    std::size_t wrong = 0;
    for (const std::vector<Step>& steps : set.sequences) {
      policy.reset();
      occupant.assign(ways, none);
      std::uint32_t used = 0;
      for (const Step& step : steps) {
        const std::uint64_t sector = std::uint64_t{1} << step.sector;
        std::uint32_t way = way_of[step.line];
        if (occupant[way] == step.line) {
          policy.hit(0, way);
          const bool is_hit = !is_sectored || (sectors[way] & sector) != 0;
          wrong += is_hit ? step.wrong_if_hit() : step.wrong_if_miss();
          if (is_sectored) {
            sectors[way] |= sector;
          }
        } else {
          way = used < ways ? used++ : policy.victim(0);
          policy.fill(0, way);
          occupant[way] = step.line;
          way_of[step.line] = way;
          wrong += step.wrong_if_miss();
          if (is_sectored) {
            sectors[way] = sector;
          }
        }
        if constexpr (!Policy::repeats_are_idle) {
          for (unsigned i = 0; i < step.repeats; ++i) {
            policy.hit(0, way);
          }
        }
      }
    }
    return wrong;
  }

  const HypothesisTester* tester_;
  std::span<const Hypothesis> hypotheses_;
  std::vector<std::uint32_t> lines_met_;  // ids
  std::vector<Group> groups_;
  std::vector<std::uint32_t> policy_;  // by hypothesis: the same number for the same replacement
  std::vector<std::size_t> wrong_;     // by hypothesis
  tbb::concurrent_unordered_map<Behaviour, std::size_t, BehaviourHash> wrong_in_set_;
};

void HypothesisTester::add(std::span<const std::uint64_t> addresses, std::span<const Measured> measured) {
  std::vector<Step>& steps = sequences_.emplace_back();
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const std::uint32_t line = table_.id_of(decoder_.line_number(addresses[i]));
    const bool is_repeat = !decoder_.is_sectored() && !steps.empty() && steps.back().line == line &&
                           steps.back().repeats < std::numeric_limits<std::uint16_t>::max();
    if (is_repeat) {
      ++steps.back().repeats;
      always_wrong_ += measured[i] == Measured::miss ? 1U : 0U;
      continue;
    }
    steps.push_back({.line = line,
                     .repeats = 0,
                     .sector = static_cast<std::uint8_t>(decoder_.sector_of(addresses[i])),
                     .measured = measured[i]});
  }
}

std::vector<std::size_t> HypothesisTester::wrong(std::span<const Hypothesis> hypotheses,
                                                 std::optional<std::size_t> jobs) const {
  return HypothesisSearch(*this, hypotheses).run(jobs);
}

}  // namespace gpuinfer::model
