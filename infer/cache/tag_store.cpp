// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/tag_store.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "infer/cache/set_map.hpp"
#include "infer/policy/replacement_fit.hpp"
#include "model/cache_simulator.hpp"
#include "model/description_yaml.hpp"
#include "model/policy_classes.hpp"

namespace gpuinfer::infer {

namespace {

// Of lines of one set: so many stay, counted up from one.
std::uint32_t count_ways_of_set(Interrogator& device, const Offsets& lines) {
  std::vector<model::Question> questions;
  for (std::size_t count = 1; count <= lines.size(); ++count) {
    const AccessSequence first(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(count));
    questions.push_back(device.question(first, first));
  }
  const auto readings = device.ask_voted(questions, device.votes_needed());
  const auto overflowing = std::ranges::find_if(readings, [](const std::vector<Reading>& of_count) {
    return std::ranges::any_of(of_count, [](Reading reading) { return reading != Reading::hit; });
  });
  if (overflowing == readings.end()) {
    throw NoSweptStore("a set holds more than " + std::to_string(lines.size() - 1) + " lines");
  }
  return static_cast<std::uint32_t>(overflowing - readings.begin());
}

std::uint32_t ways_of_some_sets(Interrogator& device, RandomLines& lines, const HashedSets& sets) {
  constexpr std::uint32_t sets_asked = 8;
  // Of n lines of a set n questions are asked, of 1 to n loads.
  constexpr std::uint32_t most_ways = 32;
  device.inquire("growing numbers of lines of single sets", "one line more than ways drives one out");
  std::vector<std::uint32_t> wanted(sets.names.sets());
  for (std::uint32_t i = 0; i < sets_asked; ++i) {
    wanted[lines.random().below(wanted.size())] = most_ways + 1;
  }
  const model::IndexFunction by_name = sets.names;
  std::set<std::uint32_t> found;
  for (const Offsets& of_set : LinesOfSets(device, by_name, lines.line_bytes()).draw(wanted, lines.random())) {
    if (!of_set.empty()) {
      found.insert(count_ways_of_set(device, of_set));
    }
  }
  if (found.size() != 1 || *found.begin() == 0) {
    throw NoSweptStore("the sets do not have equally many ways");
  }
  device.learned(std::to_string(*found.begin()) + " ways");
  return *found.begin();
}

}  // namespace

std::vector<model::Replacement> sweepable(const model::Replacement& found, const model::CacheDescription& known,
                                          const HashedSets& sets, std::uint32_t ways) {
  model::CacheDescription swept = known;
  swept.index = sets.names;
  swept.ways.emplace(sets.names.sets(), ways);
  swept.store_lines = swept.ways->size();
  swept.sweep = model::Sweep{};
  std::vector<model::Replacement> policies{found};
  std::ranges::copy_if(
      model::guessed_policies(*swept.ways), std::back_inserter(policies),
      [&](const model::Replacement& guess) { return std::ranges::count(found.equivalent, model::to_text(guess)) > 0; });
  std::string unable;
  std::erase_if(policies, [&](model::Replacement& policy) {
    policy.equivalent.clear();
    swept.replacement = policy;
    try {
      return model::CacheSimulator::make(swept, 0) == nullptr;
    } catch (const InputError& reason) {
      unable = reason.what();
      return true;
    }
  });
  if (policies.empty()) {
    throw NoSweptStore(unable);
  }
  return policies;
}

TagStore find_tag_store(Interrogator& device, RandomLines& lines, const StoreSize& largest, const HashedSets& sets,
                        const model::CacheDescription& known) {
  constexpr std::size_t most_single_sets = 16;
  const Under large(device, largest.circumstances());
  TagStore tags{.sets = sets, .ways = ways_of_some_sets(device, lines, sets), .policies = {}, .policy_details = {}};
  ReplacementFit policy = fit_replacement(
      device, single_sets(device, sets.names, tags.ways_of_sets(), lines.line_bytes(), most_single_sets));
  if (policy.candidates.size() != 1) {
    throw NoSweptStore("in single sets, " + policy.reason);
  }
  tags.policies = sweepable(policy.candidates.front(), known, sets, tags.ways);
  tags.policy_details = std::move(policy.details);
  return tags;
}

}  // namespace gpuinfer::infer
