// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/laps/average_method.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "infer/asking/asker.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::uint64_t chase_word_bytes = 4;
constexpr double nearly_all = 0.97;  // of what a miss costs more than a hit

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

  // Steps of one word, as long as a lap by words is short. Of larger arrays the mean would hide what a single line
  // costs, and a lap through the reach of a TLB would be many millions of loads: there it is a part of a line.
  std::uint64_t stride_for(std::uint64_t array_bytes) {
    constexpr std::uint64_t most_loads = 1U << 17U;
    if (array_bytes <= most_loads * chase_word_bytes) {
      return chase_word_bytes;
    }
    if (!slowest_stride_) {
      slowest_stride_ = slowest_stride();
    }
    const std::uint64_t quarter = std::max(chase_word_bytes, *slowest_stride_ / 4);
    return array_bytes / quarter <= most_loads ? quarter : 2 * quarter;
  }

  [[nodiscard]] std::uint64_t buffer_bytes() const { return device_.buffer().bytes; }
  void report(std::string finding, double done) { device_.report(std::move(finding), done); }

 private:
  // The shortest step through arrays that no cache holds at which every load misses.
  std::uint64_t slowest_stride() {
    constexpr std::uint64_t most_loads = 1U << 18U;
    std::vector<std::pair<std::uint64_t, double>> latencies;
    for (std::uint64_t stride = chase_word_bytes; stride <= buffer_bytes() / 4; stride *= 2) {
      latencies.emplace_back(stride, (*this)(std::min(buffer_bytes() / 2, stride * most_loads), stride));
    }
    const auto by_latency = [](const auto& each) { return each.second; };
    const double fastest = std::ranges::min(latencies, {}, by_latency).second;
    const double slowest = std::ranges::max(latencies, {}, by_latency).second;
    return std::ranges::find_if(
               latencies, [&](const auto& each) { return each.second >= fastest + nearly_all * (slowest - fastest); })
        ->first;
  }

  Asker device_;
  std::optional<std::uint64_t> slowest_stride_;
};

AveragePoint measure(AverageChase& chase, AverageFinding& finding, std::uint64_t array_bytes,
                     std::uint64_t stride_bytes) {
  finding.curve.push_back(
      {.array_bytes = array_bytes, .stride_bytes = stride_bytes, .latency_cycles = chase(array_bytes, stride_bytes)});
  return finding.curve.back();
}

// The largest array, in whole steps, at which a chase in short steps is as quick as over a tiny array.
std::optional<std::uint64_t> capacity_by_average(AverageChase& chase, AverageFinding& finding) {
  const double fastest = measure(chase, finding, 256, chase_word_bytes).latency_cycles;
  const auto slower = [&](std::uint64_t array_bytes) {
    return measure(chase, finding, array_bytes, chase.stride_for(array_bytes)).latency_cycles > fastest * 1.005 + 0.25;
  };
  std::uint64_t fits = 256;
  while (fits * 2 <= chase.buffer_bytes() / 2 && !slower(fits * 2)) {
    fits *= 2;
  }
  std::uint64_t too_large = fits * 2;
  if (too_large > chase.buffer_bytes() / 2) {
    return std::nullopt;
  }
  const std::uint64_t step_bytes = chase.stride_for(fits);
  while (too_large - fits > step_bytes) {
    const std::uint64_t middle = (fits + too_large) / 2 / step_bytes * step_bytes;
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
  for (std::uint64_t stride = chase.stride_for(array_bytes); stride <= array_bytes / 2; stride *= 2) {
    points.push_back(measure(chase, finding, array_bytes, stride));
    slowest = std::max(slowest, points.back().latency_cycles);
  }
  std::optional<std::uint64_t> ways;
  for (const AveragePoint& point : points) {
    if (!finding.line_bytes && point.latency_cycles > fastest + nearly_all * (slowest - fastest)) {
      finding.line_bytes = point.stride_bytes;
    }
    if (finding.line_bytes && !ways && point.latency_cycles < fastest + (1 - nearly_all) * (slowest - fastest)) {
      ways = array_bytes / point.stride_bytes;
    }
  }
  if (ways && *finding.capacity_bytes >= *ways * *finding.line_bytes) {
    finding.sets = static_cast<std::uint32_t>(*finding.capacity_bytes / (*ways * *finding.line_bytes));
  }
  return finding;
}

// By how much an array has to exceed the capacity for all of it to miss, in doublings; where it never does, an eighth.
std::uint64_t overflow_of_all_sets(AverageChase& chase, AverageFinding& finding, std::uint64_t capacity_bytes,
                                   std::uint64_t stride_bytes) {
  constexpr std::uint64_t fewest_bytes = 2048;
  const double fastest = finding.curve.front().latency_cycles;
  const double slowest = measure(chase, finding, 2 * capacity_bytes, stride_bytes).latency_cycles;
  std::uint64_t excess = std::max(fewest_bytes, 4 * stride_bytes);
  while (2 * excess <= capacity_bytes / 8 &&
         measure(chase, finding, capacity_bytes + excess, stride_bytes).latency_cycles <
             fastest + nearly_all * (slowest - fastest)) {
    excess *= 2;
  }
  return excess;
}

// Wong et al. 2010, section IV-E (footprint): with a short stride, the array grows step by step beyond the capacity.
// Each line that is too many makes another set miss, which shows as a stair: as high as a set, as wide as a line. Where
// stairs are not all of the rise, or one step follows another, none are told: the mean of a lap through a large cache
// does not show a single set.
AverageFinding wong(AverageChase& chase) {
  AverageFinding finding;
  finding.method = "wong";
  finding.capacity_bytes = capacity_by_average(chase, finding);
  if (!finding.capacity_bytes) {
    return finding;
  }
  const double fastest = finding.curve.front().latency_cycles;
  constexpr std::uint64_t most_loads = 1U << 15U;
  constexpr std::uint64_t most_steps = 256;
  const std::uint64_t stride_bytes =
      std::max(chase.stride_for(*finding.capacity_bytes), std::bit_floor(*finding.capacity_bytes / most_loads));
  const std::uint64_t excess = overflow_of_all_sets(chase, finding, *finding.capacity_bytes, stride_bytes);
  const std::uint64_t step_bytes = std::max({4 * chase_word_bytes, stride_bytes, std::bit_floor(excess / most_steps)});
  const std::uint64_t longest = *finding.capacity_bytes + excess;
  std::vector<std::uint64_t> begin_of_stair;
  std::vector<double> rise;
  double slow_time_before = 0;
  for (std::uint64_t array = *finding.capacity_bytes + stride_bytes; array <= longest; array += step_bytes) {
    const AveragePoint point = measure(chase, finding, array, stride_bytes);
    const double slow_time =
        (point.latency_cycles - fastest) * static_cast<double>(array) / static_cast<double>(stride_bytes);
    rise.push_back(slow_time - slow_time_before);
    begin_of_stair.push_back(array);
    slow_time_before = slow_time;
  }
  // Sets need not be equal: that of a TLB which overflows first may have twice the ways of the others.
  constexpr double part_of_highest = 0.35;
  const double highest = *std::max_element(rise.begin(), rise.end());
  constexpr double part_of_rise = 0.8;
  std::vector<std::uint64_t> stairs;
  double height = 0;
  double risen = 0;
  double risen_to_last_stair = 0;
  for (std::size_t i = 0; i < rise.size(); ++i) {
    risen += rise[i];
    if (rise[i] > part_of_highest * highest) {
      stairs.push_back(begin_of_stair[i]);
      height += rise[i];
      risen_to_last_stair = risen;
    }
  }
  if (stairs.empty()) {
    return finding;
  }
  const bool stairs_are_all =
      height >= part_of_rise * risen_to_last_stair && height * part_of_rise <= risen_to_last_stair;
  const bool is_level_then = risen_to_last_stair / static_cast<double>(stairs.back()) >=
                             part_of_rise * risen / static_cast<double>(begin_of_stair.back());
  const auto is_next = [step_bytes](std::uint64_t a, std::uint64_t b) { return b - a == step_bytes; };
  if (!stairs_are_all || !is_level_then || std::ranges::adjacent_find(stairs, is_next) != stairs.end()) {
    return finding;
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
