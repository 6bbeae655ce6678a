// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/random_steps.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "tests/oracle/naive_index.hpp"

namespace gpuinfer::oracle {
namespace {

using model::CacheDescription;
using LineNumbers = std::vector<std::uint64_t>;

LineNumbers contiguous(std::uint64_t first, std::size_t count, std::uint64_t stride) {
  LineNumbers lines;
  for (std::size_t i = 0; i < count; ++i) {
    lines.push_back(first + i * stride);
  }
  return lines;
}

// Anywhere below 2^20, 2^44 or 2^64 bytes, but for what strides and prefetches need above it.
std::uint64_t random_first_line(std::uint64_t line_bytes, Dice& dice) {
  const auto reach = dice.one_of<std::uint64_t>({std::uint64_t{1} << 20U, std::uint64_t{1} << 44U, ~std::uint64_t{0}});
  const std::uint64_t lines = reach / line_bytes;
  return dice.below(lines - lines / 16);
}

// The lines that take part.
LineNumbers random_lines(const CacheDescription& cache, Dice& dice) {
  const auto held = std::accumulate(cache.ways->begin(), cache.ways->end(), std::uint64_t{0});
  const std::size_t count = 2 + static_cast<std::size_t>(static_cast<double>(held) * (0.5 + 2.5 * dice.unit()));
  const auto* table = std::get_if<model::TableIndex>(&*cache.index);
  if (table != nullptr && table->range_bytes) {
    const std::uint64_t first = (table->origin + *cache.line_bytes - 1) / *cache.line_bytes;
    const std::uint64_t end = (table->origin + *table->range_bytes) / *cache.line_bytes - cache.fill.lines_ahead();
    return contiguous(first, std::min<std::size_t>(count, end - first), 1);
  }
  if (dice.one_in(2)) {
    return contiguous(random_first_line(*cache.line_bytes, dice), count, dice.one_in(2) ? 1 : dice.between(2, 5));
  }
  LineNumbers lines;
  const std::size_t piece = dice.one_in(2) ? 1 : dice.between(2, 32);
  while (lines.size() < count) {
    const LineNumbers more = contiguous(random_first_line(*cache.line_bytes, dice), piece, 1);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

enum class Locality { uniform, cyclic, skewed, runs, few_lines, one_set };
constexpr std::uint64_t localities = 6;

class Accesses {
 public:
  Accesses(const CacheDescription& cache, Dice& dice) : cache_(cache), dice_(dice), lines_(random_lines(cache, dice)) {
    if (dice.one_in(2)) {
      always_ = static_cast<Locality>(dice.below(localities));
    }
  }

  // A stretch of one kind.
  void append_to(std::vector<std::uint64_t>& addresses) {
    const auto locality = always_.value_or(static_cast<Locality>(dice_.below(localities)));
    const LineNumbers lines = lines_of(locality);
    const bool whole_lines = dice_.one_in(3);
    const std::uint64_t length = dice_.between(20, 400);
    std::uint64_t place = dice_.below(lines.size());
    for (std::uint64_t i = 0; i < length; ++i) {
      place = next_place(locality, place, lines.size());
      addresses.push_back(lines[place] * *cache_.line_bytes + (whole_lines ? 0 : dice_.below(*cache_.line_bytes)));
    }
  }

 private:
  LineNumbers lines_of(Locality locality) {
    LineNumbers some;
    if (locality == Locality::few_lines) {
      for (std::uint64_t count = dice_.between(2, 24); count > 0; --count) {
        some.push_back(dice_.one_of(lines_));
      }
      return some;
    }
    if (locality == Locality::one_set) {
      const std::uint32_t set = set_of_line(dice_.one_of(lines_));
      std::copy_if(lines_.begin(), lines_.end(), std::back_inserter(some),
                   [&](std::uint64_t line) { return set_of_line(line) == set; });
      return some;
    }
    return lines_;
  }

  [[nodiscard]] std::uint32_t set_of_line(std::uint64_t line) const {
    return naive_set_of(*cache_.index, line * *cache_.line_bytes);
  }

  std::uint64_t next_place(Locality locality, std::uint64_t place, std::size_t count) {
    switch (locality) {
      case Locality::cyclic:
        return (place + 1) % count;
      case Locality::skewed: {
        const double unit = dice_.unit();
        return static_cast<std::uint64_t>(static_cast<double>(count) * unit * unit * unit);
      }
      case Locality::runs:
        return dice_.one_in(4) ? dice_.below(count) : place;
      case Locality::uniform:
      case Locality::few_lines:
      case Locality::one_set:
        break;
    }
    return dice_.below(count);
  }

  const CacheDescription& cache_;
  Dice& dice_;
  LineNumbers lines_;
  std::optional<Locality> always_;  // none: another kind for each stretch
};

}  // namespace

std::vector<Step> random_steps(const CacheDescription& cache, std::size_t accesses, Dice& dice) {
  using model::StartState;
  Accesses more(cache, dice);
  std::vector<Step> steps;
  for (std::size_t played = 0; played < accesses; played += steps.back().addresses.size()) {
    Step step;
    step.state = dice.one_of<StartState>(
        {StartState::clean, StartState::invalidated, StartState::invalidated, StartState::keep, StartState::keep});
    step.answers = dice.one_of<Answers>({Answers::none, Answers::outcomes, Answers::outcomes, Answers::events});
    const std::size_t length = dice.between(1, dice.one_in(4) ? 60 : accesses / 2);
    while (step.addresses.size() < length) {
      more.append_to(step.addresses);
    }
    step.addresses.resize(std::min(length, accesses - played));
    if (cache.store && !dice.one_in(3)) {
      step.answers = Answers::events;
      const std::uint64_t one_in = dice.one_of<std::uint64_t>({2, 3, 10});
      for (std::size_t access = 0; access < step.addresses.size(); ++access) {
        step.kinds.push_back(dice.one_in(one_in) ? model::AccessKind::store : model::AccessKind::load);
      }
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace gpuinfer::oracle
