// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/lines_present.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/conflict_class.hpp"
#include "infer/asking/stream.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/cache/granularity.hpp"
#include "infer/cache/known_outcomes.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::uint64_t laps_before = 4;

// What a miss brings along is of the pool, too, but at the ends of so many neighbours.
constexpr std::uint64_t neighbours = 16;

// Lines from all over the buffer, in stretches of neighbours.
Offsets pool_of(const Interrogator& device, std::uint64_t line_bytes, std::uint64_t lines, model::Random& random) {
  const std::uint64_t start = aligned_start(device);
  const std::uint64_t stretches = (device.buffer().bytes - start) / line_bytes / neighbours;
  std::set<std::uint64_t> chosen;
  while (chosen.size() < std::min(stretches, (lines + neighbours - 1) / neighbours)) {
    chosen.insert(random.below(stretches));
  }
  Offsets pool;
  for (const std::uint64_t stretch : chosen) {
    for (std::uint64_t line = 0; line < neighbours; ++line) {
      pool.push_back(start + (stretch * neighbours + line) * line_bytes);
    }
  }
  return pool;
}

struct HitShare {
  std::size_t hits = 0;
  std::size_t loads = 0;
};

HitShare share_of_hits(Interrogator& device, const Offsets& pool, std::size_t loads, model::Random& random) {
  constexpr std::size_t most_recorded = std::size_t{1} << 18U;
  HitShare share;
  for (std::size_t left = loads; left > 0;) {
    const std::size_t recorded = std::min(left, most_recorded);
    left -= recorded;
    // One after the other: compilers draw arguments of a call in an order of their own.
    Offsets loads_at = model::random_walk(pool, recorded, random);
    Offsets laps = model::random_walk(pool, laps_before * pool.size(), random);
    const model::Question question = device.question(std::move(laps), std::move(loads_at));
    for (const Reading reading : device.classifier().readings(device.latencies({&question, 1}).front())) {
      share.hits += reading == Reading::hit ? 1U : 0U;
      share.loads += reading != Reading::unclear ? 1U : 0U;
    }
  }
  return share;
}

// With what it may be off by, at four deviations and with the misreads that have escaped so far.
struct Mean {
  double lines = 0;
  double off_by = 0;
};

Mean mean_of(const Interrogator& device, const HitShare& share, std::size_t pool_lines) {
  constexpr double deviations = 4;
  const LevelClassifier& classifier = device.classifier();
  const auto lines = static_cast<double>(pool_lines);
  const auto loads = static_cast<double>(std::max<std::size_t>(1, share.loads));
  const double hits = static_cast<double>(share.hits) / loads;
  return {.lines = lines * hits,
          .off_by = lines * (deviations * std::sqrt(hits * (1 - hits) / loads) +
                             std::max(classifier.miss_misread_bound(), classifier.hit_misread_bound()))};
}

// So many lines of the pool hit one after the other, those that were loaded last first: they are present at once.
std::uint64_t count_at_once(Interrogator& device, AccessSequence warm) {
  AccessSequence last_first;
  std::set<std::uint64_t> seen;
  for (auto load = warm.rbegin(); load != warm.rend(); ++load) {
    if (seen.insert(*load).second) {
      last_first.push_back(*load);
    }
  }
  const model::Question question = device.question(std::move(warm), std::move(last_first));
  const std::vector<Reading> readings = device.classifier().readings(device.latencies({&question, 1}).front());
  return static_cast<std::uint64_t>(std::ranges::count(readings, Reading::hit));
}

// A random walk in which some lines come back between all others: a nearer cache that is as fast would keep them, while
// this one has forgotten them and holds as many others.
AccessSequence walk_with_hot_lines(const Offsets& pool, std::size_t hot_lines, model::Random& random) {
  const Offsets hot = model::random_walk(pool, hot_lines, random);
  AccessSequence walk;
  for (const std::uint64_t offset : model::random_walk(pool, laps_before * pool.size(), random)) {
    walk.push_back(offset);
    walk.push_back(hot[walk.size() / 2 % hot.size()]);
  }
  return walk;
}

constexpr const char* too_few_lines_of_pool = "the buffer holds too few lines more than fit";
constexpr std::uint64_t fewest_lines_of_pool = 192;

// How many there may be, in a pool that holds many more. None: `reason` says why.
std::optional<double> count_roughly(Interrogator& device, std::uint64_t line_bytes, std::uint64_t likely_lines,
                                    std::uint64_t most_lines, model::Random& random, std::string& reason) {
  constexpr std::size_t glance = std::size_t{1} << 14U;
  constexpr double most_present = 0.25;
  constexpr double least_present = 0.01;
  for (std::uint64_t lines = std::max(fewest_lines_of_pool, 4 * likely_lines); lines <= most_lines; lines *= 2) {
    const Offsets pool = pool_of(device, line_bytes, lines, random);
    const HitShare share = share_of_hits(device, pool, glance, random);
    const double hits = static_cast<double>(share.hits) / static_cast<double>(std::max<std::size_t>(1, share.loads));
    if (hits < least_present) {
      reason = "random loads hit too seldom";
      return std::nullopt;
    }
    if (hits <= most_present) {
      return hits * static_cast<double>(pool.size());
    }
  }
  reason = too_few_lines_of_pool;
  return std::nullopt;
}

// Lines of a pool that holds so many times what fits; none where the buffer is too small for one.
std::optional<std::uint64_t> lines_of_pool(std::uint64_t times_more, double about, std::uint64_t most_lines) {
  constexpr double least_times_present = 5;
  const auto wanted = std::max(times_more / 6 * fewest_lines_of_pool,
                               static_cast<std::uint64_t>(std::ceil(static_cast<double>(times_more) * about)));
  const std::uint64_t lines = std::min(wanted, most_lines);
  return static_cast<double>(lines) < least_times_present * about ? std::nullopt : std::optional(lines);
}

std::size_t loads_to_tell(std::uint64_t lines, double about) {
  constexpr double deviation = 0.12;  // of a line, in what the loads are to tell
  constexpr std::size_t most_loads = std::size_t{1} << 24U;
  return static_cast<std::size_t>(
      std::min(static_cast<double>(most_loads), static_cast<double>(lines) * about / (deviation * deviation)));
}

// What all pools have shown.
struct PoolCounts {
  std::vector<Mean> means;             // one of each pool
  std::vector<std::uint64_t> at_once;  // each time that they were counted
  std::uint64_t most_beside_hot = 0;

  [[nodiscard]] std::uint64_t most_at_once() const { return *std::ranges::max_element(at_once); }
  [[nodiscard]] bool are_known_to(double lines) const {
    return std::ranges::all_of(means, [lines](const Mean& mean) { return mean.off_by <= lines; });
  }
};

void count_in_pool(Interrogator& device, const Offsets& pool, std::size_t loads, model::Random& random,
                   PoolCounts& counts) {
  constexpr std::size_t looks = 40;  // at known hits, for each line of a pool
  constexpr std::size_t times = 24;
  constexpr std::array<std::size_t, 4> hot_lines{1, 2, 4, 8};
  // The rate of misreads must be known to much less than a line in the pool. Lines that were taken to fit do not tell
  // it where nothing explains the cache.
  device.forget_hits();
  look_at_hits(device, looks * pool.size());
  counts.means.push_back(mean_of(device, share_of_hits(device, pool, loads, random), pool.size()));
  for (std::size_t time = 0; time < times; ++time) {
    counts.at_once.push_back(count_at_once(device, model::random_walk(pool, laps_before * pool.size(), random)));
    const std::uint64_t beside_hot =
        count_at_once(device, walk_with_hot_lines(pool, hot_lines[time % hot_lines.size()], random));
    counts.most_beside_hot = std::max(counts.most_beside_hot, beside_hot);
  }
}

// The mean of each pool is the same whole number.
std::optional<std::uint64_t> lines_by_means(const PoolCounts& counts) {
  constexpr double most_off = 0.6;
  const auto whole = static_cast<std::uint64_t>(std::llround(counts.means.front().lines));
  const bool are_that = counts.are_known_to(most_off) && std::ranges::all_of(counts.means, [&](const Mean& mean) {
                          return std::abs(mean.lines - static_cast<double>(whole)) <= std::min(0.3, mean.off_by);
                        });
  return are_that ? std::optional(whole) : std::nullopt;
}

// Where lines are lost at times, fewer are present on average, and as many as there is room for often enough: were
// there room for one more, that would be seen as well.
std::optional<std::uint64_t> lines_by_the_most(const PoolCounts& counts) {
  constexpr double most_off_beside_counts = 1;
  constexpr std::ptrdiff_t fewest_times_of_most = 6;
  const std::uint64_t most = counts.most_at_once();
  const bool are_seen =
      std::ranges::count(counts.at_once, most) >= fewest_times_of_most && counts.are_known_to(most_off_beside_counts) &&
      std::ranges::all_of(counts.means, [&](const Mean& mean) {
        return mean.lines <= static_cast<double>(most) + mean.off_by && mean.lines >= static_cast<double>(most) - 1;
      });
  return are_seen ? std::optional(most) : std::nullopt;
}

// `present`: what there is room for, or why that is not known.
void judge(const PoolCounts& counts, LinesPresent& present) {
  const std::uint64_t most_at_once = counts.most_at_once();
  const std::uint64_t most_seen = std::max(most_at_once, counts.most_beside_hot);
  const std::optional<std::uint64_t> by_means = lines_by_means(counts);
  const std::optional<std::uint64_t> by_the_most = lines_by_the_most(counts);
  if (by_means && most_seen <= *by_means) {
    present.lines = by_means;
    return;
  }
  if (by_the_most && counts.most_beside_hot <= *by_the_most) {
    present.lines = by_the_most;
    return;
  }
  const std::string seen = "on average " + std::to_string(counts.means.front().lines) + " lines of one pool and " +
                           std::to_string(counts.means.back().lines) + " of another are present, and ";
  present.reason = by_means || by_the_most
                       ? seen + std::to_string(most_seen) + " at once where some are loaded more often"
                       : seen + std::to_string(most_at_once) + " at once at most";
}

}  // namespace

LinesPresent count_lines_present(Interrogator& device, std::uint64_t line_bytes, std::uint64_t likely_lines) {
  model::Random random = stream(device.settings(), "lines present");
  const std::uint64_t lines_of_buffer = (device.buffer().bytes - aligned_start(device)) / line_bytes;
  const std::uint64_t most_lines = lines_of_buffer / neighbours * neighbours;
  LinesPresent present;
  const std::optional<double> about =
      count_roughly(device, line_bytes, likely_lines, most_lines, random, present.reason);
  if (!about) {
    return present;
  }
  PoolCounts counts;
  std::optional<std::uint64_t> lines_before;
  for (const std::uint64_t times_more : {6U, 12U}) {
    const std::optional<std::uint64_t> lines = lines_of_pool(times_more, *about, most_lines);
    if (!lines || lines == lines_before) {
      present.reason = too_few_lines_of_pool;
      return present;
    }
    lines_before = lines;
    const std::size_t loads = loads_to_tell(*lines, *about);
    count_in_pool(device, pool_of(device, line_bytes, *lines, random), loads, random, counts);
    present.loads += loads;
  }
  judge(counts, present);
  return present;
}

}  // namespace gpuinfer::infer
