// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/pseudo_random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "infer/asking/statistics.hpp"

namespace gpuinfer::infer {

namespace {

constexpr double rarer_than = 1e-12;
constexpr std::size_t longest_lag = 4000;
constexpr std::size_t most_bits = 512;
constexpr std::size_t rounds_of_any_policy = 4;

// Victims by place, where only some places have one: places are victims in succession, or accesses.
using Placed = std::vector<std::optional<std::uint32_t>>;

// The smallest lag at which nearly all victims are the same again, far more than their frequencies make likely.
std::optional<std::size_t> period_of(const Placed& victims, std::uint32_t ways) {
  std::vector<double> shares(ways);
  double all = 0;
  for (const auto& victim : victims) {
    if (victim) {
      ++shares[*victim];
      ++all;
    }
  }
  double same_by_chance = 0;
  for (const double share : shares) {
    same_by_chance += share * share / std::max(1.0, all * all);
  }
  for (std::size_t lag = 1; lag <= std::min(longest_lag, victims.size() / 2); ++lag) {
    std::size_t compared = 0;
    std::size_t same = 0;
    for (std::size_t i = lag; i < victims.size() && 10.0 * static_cast<double>(compared - same) <= all; ++i) {
      if (victims[i] && victims[i - lag]) {
        ++compared;
        same += *victims[i] == *victims[i - lag] ? 1U : 0U;
      }
    }
    if (10 * same >= 9 * compared && binomial_upper_tail(same, compared, same_by_chance) < rarer_than) {
      return lag;
    }
  }
  return std::nullopt;
}

// How well a bit can be guessed from the two before it and from whether its place is even: as well as any recurrence
// of up to two bits, and any rule for every second victim, does.
double guessed_share(const std::vector<bool>& bits) {
  std::array<std::array<std::size_t, 2>, 8> seen{};
  for (std::size_t i = 2; i < bits.size(); ++i) {
    const std::size_t before = (i % 2 == 0 ? 4U : 0U) + (bits[i - 2] ? 2U : 0U) + (bits[i - 1] ? 1U : 0U);
    ++seen[before][bits[i] ? 1 : 0];
  }
  std::size_t right = 0;
  for (const auto& of_context : seen) {
    right += std::max(of_context[0], of_context[1]);
  }
  return bits.size() > 2 ? static_cast<double>(right) / static_cast<double>(bits.size() - 2) : 1.0;
}

// A recurrence of length L predicts all bits after the first 2 L; chance would have to guess them. None: it might.
std::optional<std::size_t> short_recurrence(const std::vector<bool>& bits) {
  constexpr double bits_of_surprise = 50;
  const std::size_t length = linear_complexity(bits);
  const double predicted = static_cast<double>(bits.size()) - 2.0 * static_cast<double>(length);
  return predicted * -std::log2(guessed_share(bits)) > bits_of_surprise ? std::optional(length) : std::nullopt;
}

}  // namespace

std::size_t linear_complexity(const std::vector<bool>& bits) {
  std::vector<bool> recurrence(bits.size() + 1);
  std::vector<bool> previous(bits.size() + 1);
  recurrence[0] = previous[0] = true;
  std::size_t length = 0;
  std::size_t shift = 1;
  for (std::size_t n = 0; n < bits.size(); ++n) {
    bool wrong = bits[n];
    for (std::size_t i = 1; i <= length; ++i) {
      wrong = wrong != (recurrence[i] && bits[n - i]);
    }
    if (!wrong) {
      ++shift;
      continue;
    }
    const std::vector<bool> before = recurrence;
    for (std::size_t i = 0; i + shift < recurrence.size(); ++i) {
      recurrence[i + shift] = recurrence[i + shift] != previous[i];
    }
    if (2 * length <= n) {
      length = n + 1 - length;
      previous = before;
      shift = 1;
    } else {
      ++shift;
    }
  }
  return length;
}

std::optional<Generator> find_generator(std::span<const VictimSequence> sequences, std::uint32_t ways) {
  const auto longest =
      std::max_element(sequences.begin(), sequences.end(),
                       [](const VictimSequence& a, const VictimSequence& b) { return a.way.size() < b.way.size(); });
  if (longest == sequences.end() || longest->way.empty()) {
    return std::nullopt;
  }
  Placed by_access(std::size_t{longest->access.back()} + 1);
  for (std::size_t i = 0; i < longest->way.size(); ++i) {
    by_access[longest->access[i]] = longest->way[i];
  }
  const auto in_victims = period_of({longest->way.begin(), longest->way.end()}, ways);
  const auto in_accesses = in_victims ? std::nullopt : period_of(by_access, ways);
  // Any policy that goes on driving out the same lines for a while repeats after a few rounds of the ways.
  if (in_victims.value_or(in_accesses.value_or(longest_lag)) <= rounds_of_any_policy * ways) {
    return std::nullopt;
  }
  if (in_victims) {
    return Generator{.period_victims = in_victims, .period_accesses = {}, .linear_complexity = {}};
  }
  if (in_accesses) {
    return Generator{.period_victims = {}, .period_accesses = in_accesses, .linear_complexity = {}};
  }
  // One generator has the same length in every sequence that is long enough to show it.
  std::map<std::size_t, unsigned> seen;
  for (const VictimSequence& sequence : sequences) {
    for (std::uint32_t bit = 1; bit < ways && !sequence.way.empty(); bit *= 2) {
      std::vector<bool> bits;
      for (std::size_t i = 0; i < std::min(sequence.way.size(), most_bits); ++i) {
        bits.push_back((sequence.way[i] & bit) != 0);
      }
      if (const auto length = short_recurrence(bits); length && ++seen[*length] == 2) {
        return Generator{.period_victims = {}, .period_accesses = {}, .linear_complexity = length};
      }
    }
  }
  return std::nullopt;
}

std::string to_text(const Generator& generator) {
  if (generator.period_victims) {
    return "repeat after " + std::to_string(*generator.period_victims) + " victims";
  }
  if (generator.period_accesses) {
    return "repeat after " + std::to_string(*generator.period_accesses) + " accesses";
  }
  return "follow a linear recurrence of length " + std::to_string(generator.linear_complexity.value_or(0));
}

}  // namespace gpuinfer::infer
