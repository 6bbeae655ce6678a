// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/laps/average_method.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "infer/asking/asker.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::uint64_t word_bytes = 4;

class AverageChase {
 public:
  AverageChase(model::Answerer& device, const std::string& target, const Settings& settings)
      : device_(device, target, settings) {
    device_.report("a start without any line present", 0.01);
    device_.choose_start();
  }

  // Mean latency of two laps or more after two laps of warm-up. Of few loads, one that takes hundreds of cycles for a
  // reason of its own would make the mean.
  double operator()(std::uint64_t array_bytes, std::uint64_t stride_bytes) {
    constexpr std::size_t fewest_loads = 8192;
    const auto lap = static_cast<std::size_t>((array_bytes + stride_bytes - 1) / stride_bytes);
    const std::size_t laps = std::max<std::size_t>(2, (fewest_loads + lap - 1) / lap);
    const model::Question question = device_.question(model::cyclic(array_bytes, stride_bytes, 2 * lap),
                                                      model::cyclic(array_bytes, stride_bytes, laps * lap));
    const std::vector<std::vector<float>> answer = device_.latencies({&question, 1});
    return std::accumulate(answer[0].begin(), answer[0].end(), 0.0) / static_cast<double>(answer[0].size());
  }

  [[nodiscard]] std::uint64_t buffer_bytes() const { return device_.buffer().bytes; }
  void report(std::string finding, double done) { device_.report(std::move(finding), done); }

 private:
  Asker device_;
};

AveragePoint measure(AverageChase& chase, AverageFinding& finding, std::uint64_t array_bytes,
                     std::uint64_t stride_bytes) {
  finding.curve.push_back(
      {.array_bytes = array_bytes, .stride_bytes = stride_bytes, .latency_cycles = chase(array_bytes, stride_bytes)});
  return finding.curve.back();
}

// The largest array, in whole steps, at which a chase in steps of one word is as quick as over a tiny array.
std::optional<std::uint64_t> capacity_by_average(AverageChase& chase, AverageFinding& finding) {
  const double fastest = measure(chase, finding, 256, word_bytes).latency_cycles;
  const auto slower = [&](std::uint64_t array_bytes) {
    return measure(chase, finding, array_bytes, word_bytes).latency_cycles > fastest * 1.005 + 0.25;
  };
  std::uint64_t fits = 256;
  while (fits * 2 <= chase.buffer_bytes() / 2 && !slower(fits * 2)) {
    fits *= 2;
  }
  std::uint64_t too_large = fits * 2;
  if (too_large > chase.buffer_bytes() / 2) {
    return std::nullopt;
  }
  while (too_large - fits > word_bytes) {
    const std::uint64_t middle = (fits + too_large) / 2 / word_bytes * word_bytes;
    (slower(middle) ? too_large : fits) = middle;
  }
  return fits;
}

// Saavedra & Smith 1995, section 3: over an array of twice the capacity, strides double. From the line size on every
// load misses; once the loads are few enough for the ways of the sets they fall into, they hit again.
AverageFinding saavedra(AverageChase& chase) {
  AverageFinding finding;
  finding.method = "saavedra";
  finding.capacity_bytes = capacity_by_average(chase, finding);
  if (!finding.capacity_bytes) {
    return finding;
  }
  const double fastest = finding.curve.front().latency_cycles;
  const std::uint64_t array_bytes = 2 * *finding.capacity_bytes;
  std::vector<AveragePoint> points;
  double slowest = 0;
  for (std::uint64_t stride = word_bytes; stride <= array_bytes / 2; stride *= 2) {
    points.push_back(measure(chase, finding, array_bytes, stride));
    slowest = std::max(slowest, points.back().latency_cycles);
  }
  std::optional<std::uint64_t> ways;
  for (const AveragePoint& point : points) {
    if (!finding.line_bytes && point.latency_cycles > fastest + 0.97 * (slowest - fastest)) {
      finding.line_bytes = point.stride_bytes;
    }
    if (finding.line_bytes && !ways && point.latency_cycles < fastest + 0.03 * (slowest - fastest)) {
      ways = array_bytes / point.stride_bytes;
    }
  }
  if (ways && *finding.capacity_bytes >= *ways * *finding.line_bytes) {
    finding.sets = static_cast<std::uint32_t>(*finding.capacity_bytes / (*ways * *finding.line_bytes));
  }
  return finding;
}

// Wong et al. 2010, section IV-E (footprint): with a short stride, the array grows word by word beyond the capacity.
// Each line that is too many makes another set miss, which shows as a stair: as high as a set, as wide as a line.
AverageFinding wong(AverageChase& chase) {
  AverageFinding finding;
  finding.method = "wong";
  finding.capacity_bytes = capacity_by_average(chase, finding);
  if (!finding.capacity_bytes) {
    return finding;
  }
  const double fastest = finding.curve.front().latency_cycles;
  constexpr std::uint64_t step_bytes = 4 * word_bytes;
  const std::uint64_t longest = *finding.capacity_bytes + std::max<std::uint64_t>(2048, *finding.capacity_bytes / 8);
  std::vector<std::uint64_t> begin_of_stair;
  std::vector<double> rise;
  double slow_time_before = 0;
  for (std::uint64_t array = *finding.capacity_bytes + word_bytes; array <= longest; array += step_bytes) {
    const AveragePoint point = measure(chase, finding, array, word_bytes);
    const double slow_time = (point.latency_cycles - fastest) * static_cast<double>(array) / word_bytes;
    rise.push_back(slow_time - slow_time_before);
    begin_of_stair.push_back(array);
    slow_time_before = slow_time;
  }
  const double highest = *std::max_element(rise.begin(), rise.end());
  std::vector<std::uint64_t> stairs;
  for (std::size_t i = 0; i < rise.size(); ++i) {
    if (rise[i] > 0.5 * highest) {
      stairs.push_back(begin_of_stair[i]);
    }
  }
  finding.sets = static_cast<std::uint32_t>(stairs.size());
  if (stairs.size() > 1) {
    finding.line_bytes = stairs[1] - stairs[0];
  }
  return finding;
}

}  // namespace

std::vector<AverageFinding> infer_by_average(model::Answerer& device, const std::string& target,
                                             const Settings& settings) {
  AverageChase chase(device, target, settings);
  std::vector<AverageFinding> findings;
  chase.report("Saavedra: array and stride varied", 0.1);
  findings.push_back(saavedra(chase));
  chase.report("Wong: footprint", 0.5);
  findings.push_back(wong(chase));
  return findings;
}

}  // namespace gpuinfer::infer
