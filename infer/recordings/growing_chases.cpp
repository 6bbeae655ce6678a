// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/growing_chases.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "infer/cache/index_fit.hpp"

namespace gpuinfer::infer {

namespace {

using Lines = std::set<std::uint64_t>;  // addresses of their first bytes

struct Chase {
  Lines lines;
  Lines missing;

  [[nodiscard]] std::uint64_t first() const { return *lines.begin(); }
  [[nodiscard]] std::uint64_t last() const { return *lines.rbegin(); }
  // None: there are gaps.
  [[nodiscard]] std::optional<std::uint64_t> line_bytes() const {
    const std::uint64_t step = lines.size() < 2 ? 0 : *std::next(lines.begin()) - first();
    return step > 0 && last() - first() == step * (lines.size() - 1) ? std::optional(step) : std::nullopt;
  }
};

Chase chase_of(const ReadTrace& read, const ReadTraces& all) {
  Chase chase;
  const model::AccessSequence& record = read.trace->question.record;
  for (std::size_t i = 0; i < record.size(); ++i) {
    const std::uint64_t address = all.address_of_buffer + record[i];
    const std::uint64_t line = all.fill.is_known ? address / all.fill.bytes * all.fill.bytes : address;
    chase.lines.insert(line);
    if (read.readings[i] == Reading::miss) {
      chase.missing.insert(line);
    }
  }
  return chase;
}

// The smallest array first, each of the others one line longer than the one before; as many as there are from the
// largest array on down in which nothing misses.
std::vector<Chase> growing_chases(const ReadTraces& all) {
  std::map<std::size_t, Chase> by_size;
  for (const ReadTrace& read : all.traces) {
    if (read.is_warm && read.is_cyclic) {
      Chase chase = chase_of(read, all);
      if (chase.line_bytes()) {
        by_size.emplace(chase.lines.size(), std::move(chase));
      }
    }
  }
  std::vector<Chase> growing;
  for (auto& [size, chase] : by_size) {
    const bool goes_on = !growing.empty() && growing.back().lines.size() + 1 == size &&
                         growing.back().first() == chase.first() && growing.back().line_bytes() == chase.line_bytes();
    if (!goes_on || chase.missing.empty()) {
      growing.clear();
    }
    if (goes_on || chase.missing.empty()) {
      growing.push_back(std::move(chase));
    }
  }
  return growing;
}

// Of what misses for the first time, with the next size as a witness against misreads; none: that is no one set.
std::optional<std::vector<Lines>> sets_that_overflow(std::span<const Chase> growing) {
  std::vector<Lines> sets;
  Lines known;
  for (std::size_t i = 0; i + 1 < growing.size(); ++i) {
    Lines begin_to_miss;
    std::ranges::set_intersection(growing[i].missing, growing[i + 1].missing,
                                  std::inserter(begin_to_miss, begin_to_miss.end()));
    std::erase_if(begin_to_miss, [&](std::uint64_t line) { return known.contains(line); });
    if (!begin_to_miss.contains(growing[i].last())) {
      if (begin_to_miss.empty()) {
        continue;  // the line that came last is of a set that overflowed before
      }
      return std::nullopt;
    }
    known.insert(begin_to_miss.begin(), begin_to_miss.end());
    sets.push_back(std::move(begin_to_miss));
  }
  return sets;
}

// The contiguous ones first.
std::vector<AssignedLine> assigned_lines(const std::vector<Lines>& sets) {
  std::vector<AssignedLine> lines;
  for (std::uint32_t set = 0; set < sets.size(); ++set) {
    for (const std::uint64_t address : sets[set]) {
      lines.push_back({.address = address, .set = set});
    }
  }
  std::ranges::sort(lines, {}, &AssignedLine::address);
  return lines;
}

}  // namespace

std::optional<ChasedSets> sets_of_growing_chases(const ReadTraces& all) {
  const std::vector<Chase> growing = growing_chases(all);
  if (growing.size() < 2) {
    return std::nullopt;
  }
  const auto sets = sets_that_overflow(growing);
  if (!sets || sets->empty()) {
    return std::nullopt;
  }
  const std::uint64_t line_bytes = *growing.front().line_bytes();
  const std::vector<AssignedLine> lines = assigned_lines(*sets);
  std::size_t window = 1;
  while (window < lines.size() && lines[window].address == lines[window - 1].address + line_bytes) {
    ++window;
  }
  const bool all_fitting_lines_are_known =
      lines.front().address == growing.front().first() && window >= growing.front().lines.size();
  const bool are_side_by_side = std::ranges::any_of(*sets, [&](const Lines& set) {
    return std::ranges::any_of(set, [&](std::uint64_t line) { return set.contains(line + line_bytes); });
  });
  if (!all_fitting_lines_are_known || are_side_by_side) {
    return std::nullopt;
  }
  const auto fit = fit_index(lines, window, line_bytes, static_cast<std::uint32_t>(sets->size()));
  if (!fit || !fit->extrapolates) {
    return std::nullopt;
  }
  ChasedSets found{.line_bytes = line_bytes, .ways = {}, .index = fit->index};
  for (const std::uint32_t name : fit->name_of_set) {
    found.ways.push_back(static_cast<std::uint32_t>((*sets)[name].size()) - 1);
  }
  return found;
}

}  // namespace gpuinfer::infer
