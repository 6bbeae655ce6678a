// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/infer_set_sequences.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "infer/asking/ending.hpp"
#include "infer/recordings/recorded.hpp"
#include "model/cache_simulator.hpp"
#include "model/description_yaml.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;
using model::Replacement;
using model::SetSequence;

std::size_t distinct_lines(const SetSequence& sequence) {
  std::set<std::uint32_t> lines;
  for (const SetSequence::Access& access : sequence.accesses) {
    lines.insert(access.line);
  }
  return lines.size();
}

bool explains(model::CacheSimulator& set, const SetSequence& sequence) {
  set.put_into(model::StartState::clean);
  std::vector<bool> is_hit;
  for (const SetSequence::Access& access : sequence.accesses) {
    const bool hit = !is_miss(set.step(model::Address{access.line}, model::AccessKind::load).outcome);
    if (access.is_counted) {
      is_hit.push_back(hit);
    }
  }
  return sequence.is_hit.empty()
             ? static_cast<std::size_t>(std::count(is_hit.begin(), is_hit.end(), true)) == sequence.hits
             : is_hit == sequence.is_hit;
}

struct Survivors {
  std::size_t tried = 0;
  std::map<std::uint32_t, std::vector<Replacement>> by_ways;
};

Survivors survivors_of(std::span<const SetSequence> sequences, std::uint32_t most_ways, const Settings& settings) {
  Survivors survivors;
  for (std::uint32_t ways = 1; ways <= most_ways; ++ways) {
    settings.on_progress({.finding = "policies",
                          .detail = "of " + std::to_string(ways) + " ways",
                          .done = static_cast<double>(ways) / static_cast<double>(most_ways),
                          .questions = 0,
                          .accesses = 0});
    for (const Replacement& policy : model::guessed_policies({ways})) {
      check_time(settings);
      const auto set = model::CacheSimulator::make(model::one_set(policy, ways), settings.seed);
      ++survivors.tried;
      if (std::ranges::all_of(sequences, [&](const SetSequence& sequence) { return explains(*set, sequence); })) {
        survivors.by_ways[ways].push_back(policy);
      }
    }
  }
  return survivors;
}

}  // namespace

CacheFinding infer_set_sequences(std::span<const SetSequence> sequences, const Settings& settings) {
  CacheFinding finding;
  finding.questions = sequences.size();
  std::size_t lines = 1;
  for (const SetSequence& sequence : sequences) {
    finding.accesses += sequence.accesses.size();
    lines = std::max(lines, distinct_lines(sequence));
  }
  const RecordedLeaves leaves(finding, sequences.size());
  constexpr const char* does_not_tell = "sequences over one set, whose lines have no addresses, do not tell";
  leaves.open_description_and_fill(EvidenceStatus::unknown, does_not_tell);
  leaves.open("latency_cycles", EvidenceStatus::unknown, does_not_tell);

  // More ways than lines are no longer told from as many.
  Survivors survivors;
  try {
    survivors = survivors_of(sequences, static_cast<std::uint32_t>(lines), settings);
  } catch (const AskingEnded& ended) {
    finding.ended_early = true;
    leaves.open("replacement", EvidenceStatus::unknown, stopped_early(ended.what()), with_more_time);
    return finding;
  }
  leaves["replacement"].details.policies_tried = survivors.tried;
  if (survivors.by_ways.empty()) {
    leaves.open("replacement", EvidenceStatus::unknown,
                "no deterministic policy that is known here explains every sequence with up to " +
                    std::to_string(lines) + " ways");
    return finding;
  }
  std::vector<std::string> ways;
  std::vector<std::string> alternatives;
  for (const auto& [count, policies] : survivors.by_ways) {
    ways.push_back(std::to_string(count) + (count == lines ? " or more" : ""));
    for (const Replacement& policy : policies) {
      const std::string alternative = model::to_flow_yaml(policy);
      if (std::ranges::find(alternatives, alternative) == alternatives.end()) {
        alternatives.push_back(alternative);
      }
    }
  }
  leaves.open("replacement", EvidenceStatus::ambiguous,
              "policies that are not known here may explain the sequences as well, and are not ruled out",
              "an inference on the device itself, which tries whatever else is left", std::move(alternatives));
  leaves["replacement"].details.ways_of_the_set = std::move(ways);
  return finding;
}

}  // namespace gpuinfer::infer
