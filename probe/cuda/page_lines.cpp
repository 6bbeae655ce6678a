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

// Lines of a page that are tried, and loads of each. They take turns in an order that changes, since a load that
// follows one of the same line is not timed as it is among others. The first loads bring the line and its translation
// near.
constexpr std::size_t candidates = 128;
constexpr std::size_t loads = 14;
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

struct Candidate {
  std::uint64_t offset = 0;
  float cycles = 0;
};

}  // namespace

std::optional<model::Question> PageLines::in_lines(const model::Question& question, Choice choice) {
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
      offset = lines[choice == Choice::any ? random_.below(lines.size()) : 0];
    }
  }
  return played;
}

bool PageLines::choose_lines(const std::vector<std::uint64_t>& pages) {
  constexpr std::uint64_t unit = unit_bytes(LoadPath::lines_cg);
  model::Question question;
  for (const std::uint64_t page : pages) {
    model::Random random = streams_.random("candidates", page);
    model::AccessSequence lines(candidates);
    std::ranges::generate(lines, [&] { return page * page_bytes + unit * random.below(page_bytes / unit); });
    for (std::size_t round = 0; round < loads; ++round) {
      random.shuffle(lines);
      question.record.insert(question.record.end(), lines.begin(), lines.end());
    }
  }
  const auto played = gpu_->play_on(
      sm_, {.paths = {.path = LoadPath::lines_cg, .warm = LoadPath::lines_cg}, .reach = reach_}, question);
  if (!played) {
    return false;
  }
  for (std::size_t i = 0; i < pages.size(); ++i) {
    std::map<std::uint64_t, std::vector<float>> near_cycles;
    constexpr std::size_t of_page = candidates * loads;
    for (std::size_t access = candidates * loads_until_near; access < of_page; ++access) {
      near_cycles[question.record[i * of_page + access]].push_back(played->latency_cycles[i * of_page + access]);
    }
    std::vector<Candidate> tried;
    for (auto& [offset, cycles] : near_cycles) {
      tried.push_back({offset, middle_of(std::move(cycles))});
    }
    if (!common_cycles_) {
      std::vector<float> all_cycles;
      std::ranges::transform(tried, std::back_inserter(all_cycles), &Candidate::cycles);
      common_cycles_ = middle_of(std::move(all_cycles));
    }
    std::ranges::sort(tried, {},
                      [&](const Candidate& candidate) { return std::abs(candidate.cycles - *common_cycles_); });
    tried.resize(std::min(tried.size(), chosen));
    std::ranges::transform(tried, std::back_inserter(lines_of_page_[pages[i]]), &Candidate::offset);
  }
  return true;
}

}  // namespace gpuinfer::probe::cuda
