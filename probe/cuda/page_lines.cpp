// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/page_lines.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "model/random.hpp"

namespace gpuinfer::probe::cuda {
namespace {

// Lines of a page that are tried, and loads of each: the first ones bring it and its translation near.
constexpr std::size_t candidates = 40;
constexpr std::size_t loads = 20;
constexpr std::size_t loads_until_near = 4;

// Pages that one launch looks into.
constexpr std::size_t most_pages = 128;

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

std::optional<model::Question> PageLines::in_lines(const model::Question& question) {
  std::set<std::uint64_t> unknown;
  for (const auto* sequence : {&question.warm, &question.record}) {
    for (const std::uint64_t offset : *sequence) {
      if (!line_of_page_.contains(offset / page_bytes)) {
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
      offset = line_of_page_.at(offset / page_bytes);
    }
  }
  return played;
}

bool PageLines::choose_lines(const std::vector<std::uint64_t>& pages) {
  constexpr std::uint64_t unit = unit_bytes(LoadPath::lines_cg);
  model::Question question;
  for (const std::uint64_t page : pages) {
    model::Random random(page);
    for (std::size_t i = 0; i < candidates; ++i) {
      const std::uint64_t offset = page * page_bytes + unit * random.below(page_bytes / unit);
      question.record.insert(question.record.end(), loads, offset);
    }
  }
  const auto played = gpu_->play_on(sm_, LoadPath::lines_cg, reach_, question);
  if (!played) {
    return false;
  }
  std::vector<Candidate> tried;
  std::vector<float> all_cycles;
  for (std::size_t first = 0; first < question.record.size(); first += loads) {
    const auto begin = played->latency_cycles.begin() + static_cast<std::ptrdiff_t>(first);
    tried.push_back({question.record[first], middle_of({begin + loads_until_near, begin + loads})});
    all_cycles.push_back(tried.back().cycles);
  }
  const float common_cycles = common_cycles_.value_or(middle_of(all_cycles));
  common_cycles_ = common_cycles;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const auto of_page = std::span(tried).subspan(i * candidates, candidates);
    const auto closest = std::ranges::min_element(
        of_page, {}, [=](const Candidate& candidate) { return std::abs(candidate.cycles - common_cycles); });
    line_of_page_.emplace(pages[i], closest->offset);
  }
  return true;
}

}  // namespace gpuinfer::probe::cuda
