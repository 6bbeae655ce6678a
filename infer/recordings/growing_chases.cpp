// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/growing_chases.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace gpuinfer::infer {

namespace {

// By the address of its first byte, whether a line missed in a chase.
using Fates = std::map<std::uint64_t, bool>;

// Of chases of one number of lines; a line missed if it did in each of them.
std::map<std::size_t, Fates> fates_by_lines(const ReadTraces& all, std::uint64_t line_bytes) {
  std::map<std::size_t, Fates> chases;
  for (const ReadTrace& read : all.traces) {
    if (!read.is_warm || !read.is_cyclic) {
      continue;
    }
    const model::AccessSequence& record = read.trace->question.record;
    Fates fates;
    for (std::size_t i = 0; i < record.size(); ++i) {
      all.loop.step();
      bool& missed = fates[number_of(aligned_down(all.address_of_buffer + record[i], line_bytes))];
      missed = missed || read.readings[i] == Reading::miss;
    }
    const auto [same, is_new] = chases.try_emplace(fates.size(), fates);
    for (auto& [line, missed] : same->second) {
      const auto again = fates.find(line);
      missed = missed && again != fates.end() && again->second;
    }
  }
  return chases;
}

// The chases of which each has the lines of the one before and one more: the longest run of them.
std::vector<Fates> growing(const std::map<std::size_t, Fates>& chases) {
  std::vector<Fates> longest;
  std::vector<Fates> run;
  for (const auto& [lines, fates] : chases) {
    const bool goes_on =
        !run.empty() && run.back().size() + 1 == lines &&
        std::ranges::all_of(run.back(), [&fates = fates](const auto& fate) { return fates.contains(fate.first); });
    if (!goes_on) {
      run.clear();
    }
    run.push_back(fates);
    if (run.size() > longest.size()) {
      longest = run;
    }
  }
  return longest;
}

// The chases in which the fate of a line becomes another one that lasts, as a misread does not.
std::vector<std::size_t> lasting_changes(std::uint64_t line, const std::vector<Fates>& chases) {
  std::vector<std::size_t> changes;
  bool fate = false;
  for (std::size_t chase = 0; chase < chases.size(); ++chase) {
    const auto missed = chases[chase].find(line);
    if (missed == chases[chase].end() || missed->second == fate) {
      continue;
    }
    if (chase + 1 == chases.size() || chases[chase + 1].at(line) != fate) {
      fate = missed->second;
      changes.push_back(chase);
    }
  }
  return changes;
}

std::set<std::uint64_t> lines_loaded(std::uint64_t line_bytes, const ReadTraces& all) {
  std::set<std::uint64_t> lines;
  for (const ReadTrace& read : all.traces) {
    const auto& [target, state, warm, record, circumstances] = read.trace->question;
    for (const model::AccessSequence* sequence : {&warm, &record}) {
      for (const std::uint64_t offset : *sequence) {
        all.loop.step();
        lines.insert(number_of(aligned_down(all.address_of_buffer + offset, line_bytes)));
      }
    }
  }
  return lines;
}

std::uint64_t new_line(const Fates& before, const Fates& after) {
  return std::ranges::find_if(after, [&](const auto& fate) { return !before.contains(fate.first); })->first;
}

}  // namespace

std::optional<Growth> growth_of(const ReadTraces& all, std::uint64_t line_bytes) {
  const std::vector<Fates> chases = growing(fates_by_lines(all, line_bytes));
  if (chases.size() < 2) {
    return std::nullopt;
  }
  std::map<std::size_t, std::vector<std::uint64_t>> changed;  // by chase
  for (const auto& [line, missed] : chases.back()) {
    for (const std::size_t chase : lasting_changes(line, chases)) {
      changed[chase].push_back(line);
    }
  }
  Growth growth;
  std::map<std::uint64_t, std::uint32_t> set_of;
  // What overflows in the first chase may be lines of many sets.
  for (std::size_t chase = 1; chase < chases.size(); ++chase) {
    const std::vector<std::uint64_t>& lines = changed[chase];
    std::set<std::uint32_t> known;
    for (const std::uint64_t line : lines) {
      if (const auto set = set_of.find(line); set != set_of.end()) {
        known.insert(set->second);
      }
    }
    if (known.size() > 1 || (known.empty() && lines.size() < 2)) {
      continue;
    }
    if (known.empty()) {
      known.insert(static_cast<std::uint32_t>(growth.ways.size()));
      growth.ways.emplace_back(static_cast<std::uint32_t>(lines.size() - 1));
    }
    set_of.emplace(new_line(chases[chase - 1], chases[chase]), *known.begin());
    for (const std::uint64_t line : lines) {
      set_of.emplace(line, *known.begin());
    }
  }
  if (growth.ways.empty()) {
    return std::nullopt;
  }
  for (const std::uint64_t line : lines_loaded(line_bytes, all)) {
    const auto set = set_of.find(line);
    if (set == set_of.end()) {
      growth.ways.emplace_back();
    }
    growth.split.lines.push_back(line);
    growth.split.set_of.push_back(set == set_of.end() ? static_cast<std::uint32_t>(growth.ways.size() - 1)
                                                      : set->second);
  }
  return growth;
}

}  // namespace gpuinfer::infer
