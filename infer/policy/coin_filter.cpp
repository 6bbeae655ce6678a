// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/coin_filter.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

namespace gpuinfer::infer {

namespace {

constexpr std::size_t most_paths = 200;

}  // namespace

ExplainedByCoins CoinFilter::explain(const CoinWalk& walk, const std::vector<Reading>& readings,
                                     std::optional<std::size_t> accesses) {
  Path first{.set = begin_, .weight = 1, .rare = 0, .coins = 0};
  for (const model::CoinSet::Line line : walk.warm) {
    if (const auto place = first.set.find(line)) {
      first.set.hit(*place);
    } else {
      first.set.miss(line, false);
    }
  }
  paths_.assign(1, first);
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

void CoinFilter::access(model::CoinSet::Line line, Reading reading) {
  const double if_hit = reading == Reading::unclear ? 1
                        : reading == Reading::miss  ? rates_.of_hits
                                                    : 1 - rates_.of_hits;
  const double if_miss = reading == Reading::unclear ? 1
                         : reading == Reading::hit   ? rates_.of_misses
                                                     : 1 - rates_.of_misses;
  for (std::size_t i = 0, before = paths_.size(); i < before; ++i) {
    if (const auto place = paths_[i].set.find(line)) {
      paths_[i].set.hit(*place);
      paths_[i].weight *= if_hit;
      continue;
    }
    paths_[i].weight *= if_miss;
    ++paths_[i].coins;
    for (const auto& [place, share] : {Elsewhere{.place = 0, .share = 1 - elsewhere_.share}, elsewhere_}) {
      if (share > 0) {
        Path& rare = paths_.emplace_back(paths_[i]);
        rare.set.miss(line, true, place);
        rare.weight *= chance_ * share;
        ++rare.rare;
      }
    }
    paths_[i].set.miss(line, false);
    paths_[i].weight *= 1 - chance_;
  }
}

// Paths that have come together go on as one; those that are far too unlikely end. In place, as most of the older ones
// stay where they are.
void CoinFilter::merge() {
  constexpr double negligible = 1e-8;
  std::size_t kept = 0;
  slots_.assign(std::bit_ceil(2 * paths_.size()), {});
  for (Path& path : paths_) {
    if (path.weight < negligible) {
      continue;
    }
    const std::uint64_t hash = path.set.hash();
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at].place && slots_[at].hash != hash) {
      at = (at + 1) & (slots_.size() - 1);
    }
    if (!slots_[at].place) {
      slots_[at] = {.hash = hash, .place = kept};
      if (&path != &paths_[kept]) {
        paths_[kept] = std::move(path);
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
  constexpr auto most_kept = std::ptrdiff_t{2 * most_paths};
  paths_.erase(paths_.begin() + static_cast<std::ptrdiff_t>(kept), paths_.end());
  if (std::ssize(paths_) > most_kept) {
    std::nth_element(paths_.begin(), paths_.begin() + most_kept, paths_.end(),
                     [](const Path& a, const Path& b) { return a.weight > b.weight; });
    paths_.erase(paths_.begin() + most_kept, paths_.end());
  }
}

}  // namespace gpuinfer::infer
