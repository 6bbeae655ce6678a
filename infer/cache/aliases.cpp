// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/aliases.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::size_t places = 16;
constexpr std::size_t most_strays = 1;  // of them, by noise

bool are_aliases(Asker& asker, std::uint64_t distance, model::Random& random) {
  std::vector<model::Question> questions;
  const std::uint64_t words = std::min(distance, asker.buffer().bytes - distance) / model::load_bytes;
  for (std::size_t place = 0; place < places; ++place) {
    const std::uint64_t here = random.below(words) * model::load_bytes;
    const std::uint64_t there = here + distance;
    questions.push_back(asker.question({}, {there}));
    questions.push_back(asker.question({here}, {there}));
    questions.push_back(asker.question({here}, {here}));
  }
  const std::vector<std::vector<float>> answers = asker.latencies(questions);
  std::vector<double> alone;
  std::vector<double> after_other;
  std::vector<double> repeated;
  for (std::size_t place = 0; place < places; ++place) {
    alone.push_back(answers[3 * place].front());
    after_other.push_back(answers[3 * place + 1].front());
    repeated.push_back(answers[3 * place + 2].front());
  }
  const double between = (median(alone) + median(repeated)) / 2;
  const auto above = [&](const std::vector<double>& cycles) {
    return static_cast<std::size_t>(std::ranges::count_if(cycles, [&](double each) { return each > between; }));
  };
  return above(alone) + most_strays >= places && above(repeated) <= most_strays && above(after_other) <= most_strays;
}

}  // namespace

std::optional<std::uint64_t> find_alias_distance(Asker& asker) {
  // Nearer together, one fill may hold both.
  constexpr std::uint64_t smallest_distance = 4096;
  model::Random random = stream(asker.settings(), "aliases");
  std::optional<std::uint64_t> found;
  for (std::uint64_t distance = std::bit_floor(asker.buffer().bytes) / 2;
       distance >= smallest_distance && are_aliases(asker, distance, random); distance /= 2) {
    found = distance;
  }
  return found == smallest_distance ? std::nullopt : found;
}

}  // namespace gpuinfer::infer
