// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/coin_walk.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace gpuinfer::infer {

namespace {

using Line = model::CoinSet::Line;

// So many hits on end leave nothing of the prediction that a line came with.
constexpr std::uint64_t hits_to_forget = 7;

// Two lines take turns, each of which evicts the other unless the coin falls on the rare side.
void take_turns(Line first, Line second, std::uint64_t turns, std::vector<Line>& record) {
  for (; turns > 0 && second != first; --turns) {
    record.push_back(first);
    record.push_back(second);
  }
}

// Three new lines come once each, some of the older ones are hit, those that were hit longest ago first, and others
// take turns. Whether a line that the coin let stay is still there says into which place it came.
void meet_again(std::uint32_t ways, std::uint64_t turns, model::Random& random, std::vector<Line>& record) {
  const auto newcomer = [ways](std::uint32_t number) { return static_cast<Line>(ways + number); };
  std::vector<Line> older(ways - 1);
  std::iota(older.begin(), older.end(), Line{0});
  random.shuffle(older);
  for (const Line line : older) {
    record.insert(record.end(), 2, line);  // the second one is a hit
  }
  const std::array<Line, 3> once{newcomer(0), newcomer(1), newcomer(2)};
  record.insert(record.end(), once.begin(), once.end());
  record.insert(record.end(), older.begin(), older.begin() + static_cast<std::ptrdiff_t>(random.below(ways)));
  take_turns(newcomer(3), newcomer(4), turns, record);
  record.insert(record.end(), once.begin(), once.end());
}

constexpr std::uint32_t newcomers_to_meet = 5;

void hit_until_forgotten(std::uint32_t first, std::uint32_t count, std::vector<Line>& accesses) {
  for (std::uint32_t line = first; line < first + count; ++line) {
    accesses.insert(accesses.end(), 1 + hits_to_forget, static_cast<Line>(line));
  }
}

}  // namespace

std::vector<Line> hits_that_forget(std::uint32_t ways) {
  std::vector<Line> accesses;
  hit_until_forgotten(0, ways, accesses);
  return accesses;
}

std::vector<Line> hits_that_number_ways(std::uint32_t ways) {
  std::vector<Line> accesses;
  hit_until_forgotten(ways, ways, accesses);
  hit_until_forgotten(ways, ways, accesses);
  hit_until_forgotten(0, ways, accesses);
  return accesses;
}

bool numbers_ways(const ConflictClass& set) { return set.lines.size() >= std::size_t{2} * set.ways; }

std::size_t least_length(std::uint32_t ways, std::size_t turns) {
  return std::max({std::size_t{160}, std::size_t{3} * ways, 12 * turns});
}

CoinWalk draw_walk(std::uint32_t ways, std::size_t lines, std::size_t turns, std::vector<Line> warm,
                   model::Random& random) {
  CoinWalk walk{.warm = std::move(warm), .record = {}};
  const std::size_t known = std::min<std::size_t>(lines, 60000);
  const auto one_of = [&](std::size_t first, std::size_t count) {
    return static_cast<Line>(first + random.below(count));
  };
  std::vector<Line> base(std::min<std::size_t>(known, ways + 1U));
  std::iota(base.begin(), base.end(), Line{0});
  // Lines that were all hit often differ again once one is evicted and the others are hit, each another number of
  // times, which is seen in the order in which they go.
  if (random.below(2) == 0) {
    walk.record.push_back(one_of(ways, 1));
    for (std::uint32_t line = 0; line < ways; ++line) {
      walk.record.insert(walk.record.end(), random.below(hits_to_forget + 2), static_cast<Line>(line));
    }
  }
  const std::size_t length = walk.record.size() + least_length(ways, turns);
  constexpr std::array<double, 5> shares{0.0, 0.3, 0.7, 0.9, 1.0};
  constexpr std::array<std::size_t, 4> most_hits{1, 1, 2, 4};
  while (walk.record.size() < length) {
    if (ways > 1 && known >= ways + newcomers_to_meet && random.below(2) == 0) {
      meet_again(ways, 1 + random.below(turns), random, walk.record);
      continue;
    }
    const double share = shares[random.below(shares.size())];
    const std::size_t most = most_hits[random.below(most_hits.size())];
    random.shuffle(base);
    for (const Line line : base) {
      if (random.unit() < share) {
        walk.record.insert(walk.record.end(), 1 + random.below(most), line);
      }
    }
    const std::size_t extra = std::min<std::size_t>(known - ways, 6);
    Line first = one_of(ways, extra);
    for (std::size_t pairs = 1 + random.below(3); pairs > 0; --pairs) {
      const Line second = extra > 1 && random.unit() < 0.7 ? one_of(ways, extra) : one_of(0, ways);
      take_turns(first, second, 1 + random.below(turns), walk.record);
      first = second;
    }
  }
  return walk;
}

model::AccessSequence offsets_of(const ConflictClass& set, const std::vector<Line>& lines) {
  model::AccessSequence offsets;
  for (const Line line : lines) {
    offsets.push_back(set.lines[line]);
  }
  return offsets;
}

std::vector<model::Outcome> outcomes_in_one_set(const CoinWalk& walk, std::uint32_t ways,
                                                const model::Replacement& policy, std::uint64_t seed) {
  model::Question question;
  question.warm.assign(walk.warm.begin(), walk.warm.end());
  question.record.assign(walk.record.begin(), walk.record.end());
  return outcomes_of(*model::CacheSimulator::make(model::one_set(policy, ways), seed), question, {});
}

}  // namespace gpuinfer::infer
