// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/coin_filter.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

namespace gpuinfer::infer {

namespace {

constexpr std::size_t most_paths = 200;
constexpr std::size_t most_kept = 2 * most_paths;
constexpr std::size_t most_of_one = 3;  // paths go on as, where a line misses

}  // namespace

ExplainedByCoins CoinFilter::explain(const CoinWalk& walk, const std::vector<Reading>& readings,
                                     std::optional<std::size_t> accesses) {
  start(walk.warm);
  ExplainedByCoins all;
  for (std::size_t i = 0; i < accesses.value_or(walk.record.size()); ++i) {
    if (!accesses && paths_.size() > most_paths) {
      break;
    }
    ++all.accesses;
    const std::size_t before = paths_.size();
    access(walk.record[i], readings[i]);
    const double sum = std::accumulate(paths_.begin(), paths_.end(), 0.0,
                                       [](double sum_so_far, const Path& path) { return sum_so_far + path.weight; });
    all.log_likelihood += std::log(sum);
    all.surprises += sum < 1.5 * std::max(rates_.of_hits, rates_.of_misses) ? 1U : 0U;
    for (Path& path : paths_) {
      path.weight /= sum;
    }
    // Without new ones they hardly come together, and may wait.
    if (paths_.size() > before || paths_.size() > most_paths / 2) {
      merge();
    }
  }
  for (const Path& path : paths_) {
    all.rare += path.weight * path.rare;
    all.coins += path.weight * path.coins;
  }
  return all;
}

// One path, in whose set no coin has fallen on the rare side.
void CoinFilter::start(const std::vector<model::CoinSet::Line>& warm) {
  paths_.reserve(most_of_one * most_kept);
  paths_.assign(1, {});
  // The others are written before they are read.
  sets_.resize(most_of_one * most_kept * numbers_);
  std::fill_n(set_of(0), numbers_, 0);
  lines_ = 0;
  for (const model::CoinSet::Line line : warm) {
    if (const auto place = rule_.find(set_of(0), lines_, line)) {
      rule_.hit(set_of(0), *place);
    } else {
      lines_ += rule_.miss(set_of(0), lines_, line, false) ? 0U : 1U;
    }
  }
}

void CoinFilter::access(model::CoinSet::Line line, Reading reading) {
  const double if_hit = reading == Reading::unclear ? 1
                        : reading == Reading::miss  ? rates_.of_hits
                                                    : 1 - rates_.of_hits;
  const double if_miss = reading == Reading::unclear ? 1
                         : reading == Reading::hit   ? rates_.of_misses
                                                     : 1 - rates_.of_misses;
  const std::array<Elsewhere, most_of_one - 1> rare_places{Elsewhere{.place = 0, .share = 1 - elsewhere_.share},
                                                           elsewhere_};
  bool grow = false;
  for (std::size_t i = 0, before = paths_.size(); i < before; ++i) {
    Path& path = paths_[i];
    model::CoinSet::Line* const set = set_of(i);
    if (const auto place = rule_.find(set, lines_, line)) {
      rule_.hit(set, *place);
      path.weight *= if_hit;
      continue;
    }
    path.weight *= if_miss;
    ++path.coins;
    for (const auto& [place, share] : rare_places) {
      if (share > 0) {
        model::CoinSet::Line* const rare_set = set_of(paths_.size());
        Path& rare = paths_.emplace_back(path);
        std::copy_n(set, numbers_, rare_set);
        rule_.miss(rare_set, lines_, line, true, place);
        rare.weight *= chance_ * share;
        ++rare.rare;
      }
    }
    grow = !rule_.miss(set, lines_, line, false);
    path.weight *= 1 - chance_;
  }
  lines_ += grow ? 1U : 0U;
}

// Paths that have come together go on as one; those that are far too unlikely end. In place, as most of the older ones
// stay where they are.
void CoinFilter::merge() {
  constexpr double negligible = 1e-8;
  std::size_t kept = 0;
  slots_.assign(std::bit_ceil(2 * paths_.size()), {});
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    const Path& path = paths_[i];
    if (path.weight < negligible) {
      continue;
    }
    const std::uint64_t hash = rule_.hash(set_of(i));
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at].place && slots_[at].hash != hash) {
      at = (at + 1) & (slots_.size() - 1);
    }
    if (!slots_[at].place) {
      slots_[at] = {.hash = hash, .place = static_cast<std::uint32_t>(kept)};
      if (i != kept) {
        paths_[kept] = path;
        std::copy_n(set_of(i), numbers_, set_of(kept));
      }
      ++kept;
      continue;
    }
    Path& same = paths_[*slots_[at].place];
    const double sum = same.weight + path.weight;
    same.rare = (same.rare * same.weight + path.rare * path.weight) / sum;
    same.coins = (same.coins * same.weight + path.coins * path.weight) / sum;
    same.weight = sum;
  }
  paths_.resize(kept);
  if (kept > most_kept) {
    keep_heaviest(most_kept);
  }
}

void CoinFilter::keep_heaviest(std::size_t count) {
  std::vector<std::uint32_t> order(paths_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return paths_[a].weight > paths_[b].weight; });
  const std::vector<Path> paths = paths_;
  const std::vector<model::CoinSet::Line> sets = sets_;
  paths_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    paths_[i] = paths[order[i]];
    std::copy_n(sets.data() + order[i] * numbers_, numbers_, set_of(i));
  }
}

}  // namespace gpuinfer::infer
