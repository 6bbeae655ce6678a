// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/page_lines.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

namespace gpuinfer::probe::cuda {
namespace {

// Lines of a page that are tried, and loads of each; of those that take about the time that is wanted, many more loads:
// what was the nearest of many after few loads was so by chance. They take turns in an order that changes, since a load
// that follows one of the same line is not timed as it is among others. The first loads bring the line and its
// translation near.
struct Trial {
  std::size_t lines = 0;  // of each page
  std::size_t loads = 0;  // of each line
};
constexpr Trial first_trial{.lines = 128, .loads = 14};
constexpr Trial second_trial{.lines = 16, .loads = 66};
constexpr Trial short_trial{.lines = 32, .loads = 10};
constexpr std::size_t loads_until_near = 2;

// Lines of a page that are chosen.
constexpr std::size_t chosen = 4;

// Pages that one launch looks into.
constexpr std::size_t most_pages = 64;

// The mean of the middle half, which single slow loads do not move.
float middle_of(std::vector<float> values) {
  std::ranges::sort(values);
  const std::span middle = std::span(values).subspan(values.size() / 4, std::max<std::size_t>(1, values.size() / 2));
  return std::accumulate(middle.begin(), middle.end(), 0.0F) / static_cast<float>(middle.size());
}

// The nearest to `cycles` come first.
void sort_by_distance(std::vector<TimedLine>& lines, float cycles) {
  std::ranges::sort(lines, {}, [cycles](const TimedLine& line) { return std::abs(line.cycles - cycles); });
}

}  // namespace

std::optional<model::Question> PageLines::in_lines(const model::Question& question) {
  std::set<std::uint64_t> unknown;
  for (const auto* sequence : {&question.warm, &question.record}) {
    for (const std::uint64_t offset : *sequence) {
      if (!lines_of_page_.contains(offset / page_bytes)) {
        unknown.insert(offset / page_bytes);
      }
    }
  }
  const std::vector<std::uint64_t> pages(unknown.begin(), unknown.end());
  for (std::size_t first = 0; first < pages.size(); first += most_pages) {
    const auto begin = pages.begin() + static_cast<std::ptrdiff_t>(first);
    if (!choose_lines({begin, begin + static_cast<std::ptrdiff_t>(std::min(most_pages, pages.size() - first))})) {
      return std::nullopt;
    }
  }
  model::Question played = question;
  for (auto* sequence : {&played.warm, &played.record}) {
    for (std::uint64_t& offset : *sequence) {
      const model::AccessSequence& lines = lines_of_page_.at(offset / page_bytes);
      offset = lines[difference_ == Difference::few_cycles ? random_.below(lines.size()) : 0];
    }
  }
  return played;
}

std::optional<std::vector<std::vector<TimedLine>>> PageLines::timed(std::vector<model::AccessSequence> lines_of_pages,
                                                                    std::size_t loads) {
  model::Question question;
  for (model::AccessSequence& lines : lines_of_pages) {
    for (std::size_t round = 0; round < loads; ++round) {
      random_.shuffle(lines);
      question.record.insert(question.record.end(), lines.begin(), lines.end());
    }
  }
  const auto played = gpu_->play_on(
      sm_, {.paths = {.path = LoadPath::lines_cg, .warm = LoadPath::lines_cg}, .reach = reach_}, question);
  if (!played) {
    return std::nullopt;
  }
  std::vector<std::vector<TimedLine>> timed;
  std::size_t begin = 0;
  for (const model::AccessSequence& lines : lines_of_pages) {
    const std::size_t end = begin + lines.size() * loads;
    std::map<std::uint64_t, std::vector<float>> cycles_of;
    for (std::size_t access = begin + lines.size() * loads_until_near; access < end; ++access) {
      cycles_of[question.record[access]].push_back(played->latency_cycles[access]);
    }
    std::vector<TimedLine>& of_page = timed.emplace_back();
    for (auto& [offset, cycles] : cycles_of) {
      of_page.push_back({.offset = offset, .cycles = middle_of(std::move(cycles))});
    }
    begin = end;
  }
  return timed;
}

bool PageLines::choose_lines(const std::vector<std::uint64_t>& pages) {
  constexpr std::uint64_t unit = unit_bytes(LoadPath::lines_cg);
  const Trial& trial = difference_ == Difference::few_cycles ? first_trial : short_trial;
  std::vector<model::AccessSequence> lines_of_pages;
  for (const std::uint64_t page : pages) {
    model::Random random = streams_.random("candidates", page);
    model::AccessSequence& lines = lines_of_pages.emplace_back(trial.lines);
    std::ranges::generate(lines, [&] { return page * page_bytes + unit * random.below(page_bytes / unit); });
  }
  auto tried = timed(std::move(lines_of_pages), trial.loads);
  if (!tried) {
    return false;
  }
  if (!common_cycles_) {
    std::vector<float> all_cycles;
    std::ranges::transform(tried->front(), std::back_inserter(all_cycles), &TimedLine::cycles);
    common_cycles_ = middle_of(std::move(all_cycles));
  }
  if (difference_ == Difference::few_cycles) {
    std::vector<model::AccessSequence> near;
    for (std::vector<TimedLine>& lines : *tried) {
      sort_by_distance(lines, *common_cycles_);
      lines.resize(std::min(lines.size(), second_trial.lines));
      std::ranges::transform(lines, std::back_inserter(near.emplace_back()), &TimedLine::offset);
    }
    tried = timed(std::move(near), second_trial.loads);
    if (!tried) {
      return false;
    }
  }
  for (std::size_t i = 0; i < pages.size(); ++i) {
    std::vector<TimedLine>& lines = (*tried)[i];
    sort_by_distance(lines, *common_cycles_);
    lines.resize(std::min(lines.size(), chosen));
    std::ranges::transform(lines, std::back_inserter(lines_of_page_[pages[i]]), &TimedLine::offset);
  }
  return true;
}

}  // namespace gpuinfer::probe::cuda
