// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "model/access_sequence.hpp"

// The sequences that simulators are measured with.
namespace gpuinfer::bench {

// Whole laps over an array, about `accesses` in all.
inline model::AccessSequence laps(std::uint64_t array_bytes, std::uint64_t stride_bytes, std::size_t accesses) {
  const std::uint64_t lap = array_bytes / stride_bytes;
  return model::cyclic(array_bytes, stride_bytes, std::max<std::uint64_t>(1, accesses / lap) * lap);
}

// Any line of the array as likely as any other.
inline model::AccessSequence uniform_walk(std::uint64_t array_bytes, std::uint64_t step_bytes, std::size_t accesses) {
  model::Random random(1);
  return model::random_walk(model::cold_pass(0, array_bytes, step_bytes), accesses, random);
}

// The k-th most popular line, which lies anywhere, with a probability proportional to k^-exponent.
inline model::AccessSequence zipf_walk(std::uint64_t array_bytes, std::uint64_t step_bytes, double exponent,
                                       std::size_t accesses) {
  model::Random random(1);
  model::AccessSequence lines = model::cold_pass(0, array_bytes, step_bytes);
  random.shuffle(lines);
  std::vector<double> cumulative(lines.size());
  for (std::size_t k = 0; k < lines.size(); ++k) {
    cumulative[k] = (k == 0 ? 0 : cumulative[k - 1]) + std::pow(static_cast<double>(k + 1), -exponent);
  }
  model::AccessSequence walk(accesses);
  for (std::uint64_t& address : walk) {
    const auto drawn = std::lower_bound(cumulative.begin(), cumulative.end() - 1, random.unit() * cumulative.back());
    address = lines[static_cast<std::size_t>(drawn - cumulative.begin())];
  }
  return walk;
}

}  // namespace gpuinfer::bench
