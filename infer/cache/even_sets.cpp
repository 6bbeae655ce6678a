// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/even_sets.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "infer/cache/granularity.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::size_t warm_laps = 3;
constexpr std::size_t recorded_laps = 4;

// Lines that miss in all laps but one at least, which misreads hardly ever make.
constexpr std::size_t least_misses = recorded_laps - 1;

// What the nearer level may still answer.
std::uint64_t hidden_of(std::uint64_t lines) { return 4 + lines / 32; }

class Search {
 public:
  Search(Interrogator& device, std::uint64_t granule_bytes)
      : device_(device), granule_bytes_(granule_bytes), start_(aligned_start(device)),
        most_lines_((device.buffer().bytes - start_) / granule_bytes) {}

  EvenSetsFit run() {
    const std::optional<std::uint64_t> all_missing = fewest_that_all_miss();
    if (!all_missing) {
      return {.sets = {}, .reason = "at no length of a contiguous array do all lines miss lap after lap"};
    }
    const std::uint64_t fitting = most_that_all_hit(*all_missing);
    std::vector<EvenSets> left = plausible(fitting, *all_missing);
    std::erase_if(left, [this](const EvenSets& sets) { return !explains_all(sets); });
    if (left.size() != 1) {
      return {.sets = {},
              .reason = left.empty()
                            ? "how many lines miss when a contiguous array grows is not what equal sets, filled "
                              "in turn, would show"
                            : "several numbers of sets explain how many lines miss"};
    }
    return {.sets = left.front(), .reason = {}};
  }

 private:
  // Of so many contiguous lines.
  std::uint64_t missing(std::uint64_t lines) {
    if (const auto known = missing_.find(lines); known != missing_.end()) {
      return known->second;
    }
    const AccessSequence lap = model::cold_pass(start_, lines * granule_bytes_, granule_bytes_);
    const model::Question question =
        device_.question(model::repeated(lap, warm_laps), model::repeated(lap, recorded_laps));
    const std::vector<Reading> readings = device_.classifier().readings(device_.latencies({&question, 1}).front());
    std::uint64_t count = 0;
    for (std::size_t line = 0; line < lines; ++line) {
      std::size_t misses = 0;
      for (std::size_t lap_begin = 0; lap_begin < readings.size(); lap_begin += lines) {
        misses += readings[lap_begin + line] == Reading::miss ? 1U : 0U;
      }
      count += misses >= least_misses ? 1U : 0U;
    }
    return missing_[lines] = count;
  }

  bool all_miss(std::uint64_t lines) { return missing(lines) + hidden_of(lines) >= lines; }

  std::optional<std::uint64_t> fewest_that_all_miss() {
    constexpr std::uint64_t first_tried = 64;
    std::uint64_t too_few = 0;
    std::uint64_t enough = std::min(first_tried, most_lines_);
    while (!all_miss(enough)) {
      if (enough == most_lines_) {
        return std::nullopt;
      }
      too_few = enough;
      enough = std::min(2 * enough, most_lines_);
    }
    while (enough - too_few > 1) {
      const std::uint64_t middle = std::midpoint(too_few, enough);
      (all_miss(middle) ? enough : too_few) = middle;
    }
    return enough;
  }

  std::uint64_t most_that_all_hit(std::uint64_t too_many) {
    std::uint64_t fitting = 0;
    while (too_many - fitting > 1) {
      const std::uint64_t middle = std::midpoint(fitting, too_many);
      (missing(middle) == 0 ? fitting : too_many) = middle;
    }
    return fitting;
  }

  // A line too many may find room elsewhere: one set that overflows by one line need not show.
  static std::vector<EvenSets> plausible(std::uint64_t fitting, std::uint64_t all_missing) {
    std::vector<EvenSets> found;
    for (std::uint64_t ways = 1; ways <= fitting; ++ways) {
      for (const std::uint64_t lines : {fitting, fitting - 1}) {
        const std::uint64_t sets = lines / ways;
        const std::uint64_t overflowing = sets * (ways + 1);
        if (lines > 0 && lines % ways == 0 && overflowing >= all_missing &&
            overflowing - all_missing <= hidden_of(all_missing)) {
          found.push_back({.sets = sets, .ways = ways});
        }
      }
    }
    return found;
  }

  // At odd numbers of lines more than fit: with lines of two granules one more set would overflow, by half a line. A
  // line that the nearer level keeps for ever saves its whole set, where few sets overflow.
  bool explains_all(const EvenSets& of) {
    constexpr std::uint64_t steps = 8;
    std::size_t exact = 0;
    std::size_t points = 0;
    for (std::uint64_t step = 1; step < steps; ++step) {
      const std::uint64_t more = (of.sets * step / steps) | 1U;
      if (more >= of.sets || of.sets * of.ways + more > most_lines_) {
        continue;
      }
      const std::uint64_t expected = more * (of.ways + 1);
      const std::uint64_t tolerated = std::max(of.ways / 4, expected / 200);
      const std::uint64_t found = missing(of.sets * of.ways + more);
      if (found > expected + tolerated) {
        return false;
      }
      exact += found + tolerated >= expected ? 1U : 0U;
      ++points;
    }
    constexpr std::size_t fewest_points = 3;
    return points >= fewest_points && 4 * exact >= 3 * points;
  }

  Interrogator& device_;
  std::uint64_t granule_bytes_;
  std::uint64_t start_;
  std::uint64_t most_lines_;
  std::map<std::uint64_t, std::uint64_t> missing_;  // by lines
};

}  // namespace

EvenSetsFit find_even_sets(Interrogator& device, std::uint64_t granule_bytes) {
  return Search(device, granule_bytes).run();
}

}  // namespace gpuinfer::infer
