// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/code/infer_code.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "model/description_yaml.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

using model::CodeLevel;
using model::EvidenceStatus;

constexpr std::array code_leaves{"levels"};

constexpr std::size_t warm_laps_of_code = 4;
constexpr std::size_t recorded_laps_of_code = 8;
constexpr std::uint64_t most_pieces = 1U << 14U;
constexpr std::size_t most_lengths = 512;
constexpr std::size_t fewest_lengths = 8;

// What half of the pieces take at one level differs by less, and at two levels by twice as much.
constexpr double same_code_level = 0.05;

// Laps over the first `pieces` pieces.
struct Length {
  std::uint64_t pieces = 0;
  std::vector<double> cycles;  // of every piece of the recorded laps

  [[nodiscard]] double share_slower_than(double limit) const {
    const auto slower = std::count_if(cycles.begin(), cycles.end(), [limit](double each) { return each > limit; });
    return static_cast<double>(slower) / static_cast<double>(cycles.size());
  }
};

struct Levels {
  std::optional<std::vector<CodeLevel>> levels;
  std::string reason;  // why there are none
};

bool is_near(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance * b; }

// What half of the pieces take over each range of lengths that is long enough to be a level. Ascending by length.
std::vector<double> costs_of(const std::vector<Length>& lengths) {
  std::vector<double> medians(lengths.size());
  std::transform(lengths.begin(), lengths.end(), medians.begin(),
                 [](const Length& length) { return median(length.cycles); });
  const std::size_t shortest = std::max<std::size_t>(4, lengths.size() / 32);
  std::vector<std::vector<double>> levels;
  for (std::size_t begin = 0; begin < medians.size();) {
    std::vector<double> range{medians[begin]};
    while (begin + range.size() < medians.size() &&
           is_near(medians[begin + range.size()], median(range), same_code_level)) {
      range.push_back(medians[begin + range.size()]);
    }
    if (range.size() < shortest) {
      ++begin;
      continue;
    }
    begin += range.size();
    if (!levels.empty() && is_near(median(range), median(levels.back()), 2 * same_code_level)) {
      levels.back().insert(levels.back().end(), range.begin(), range.end());
    } else {
      levels.push_back(std::move(range));
    }
  }
  std::vector<double> costs(levels.size());
  std::transform(levels.begin(), levels.end(), costs.begin(), [](const auto& level) { return median(level); });
  return costs;
}

Levels levels_of(const std::vector<Length>& lengths, std::uint64_t piece_bytes) {
  constexpr double most_slower = 0.25;
  const std::vector<double> costs = costs_of(lengths);
  if (costs.empty()) {
    return {.levels = {}, .reason = "code of no range of lengths takes the same time a piece"};
  }
  std::vector<CodeLevel> levels;
  for (std::size_t i = 0; i + 1 < costs.size(); ++i) {
    if (costs[i + 1] <= costs[i]) {
      return {.levels = {}, .reason = "longer code runs faster than shorter code"};
    }
    const double halfway = (costs[i] + costs[i + 1]) / 2;
    const auto last_fitting = std::find_if(lengths.rbegin(), lengths.rend(), [halfway](const Length& length) {
      return length.share_slower_than(halfway) <= most_slower;
    });
    if (last_fitting == lengths.rend()) {
      return {.levels = {}, .reason = "more than a quarter of the pieces is slow at every length"};
    }
    levels.push_back({.fits_bytes = last_fitting->pieces * piece_bytes, .cycles = std::round(costs[i])});
  }
  levels.push_back({.fits_bytes = {}, .cycles = std::round(costs.back())});
  return {.levels = std::move(levels), .reason = {}};
}

bool agree(const std::vector<CodeLevel>& a, const std::vector<CodeLevel>& b, std::uint64_t step_bytes) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [step_bytes](const CodeLevel& x, const CodeLevel& y) {
    const std::uint64_t x_bytes = x.fits_bytes.value_or(0);
    const std::uint64_t y_bytes = y.fits_bytes.value_or(0);
    return std::max(x_bytes, y_bytes) - std::min(x_bytes, y_bytes) <= step_bytes &&
           is_near(x.cycles, y.cycles, same_code_level);
  });
}

class CodeInference {
 public:
  CodeInference(model::Answerer& device, const std::string& target, const Settings& settings)
      : device_(device, target, settings), leaves_(device_, finding_, code_leaves), random_(stream(settings, "code")) {
    finding_.code.piece_bytes = *device_.buffer().piece_bytes;
  }

  CodeFinding run() {
    static_cast<void>(leaves_.go_through([this] { find_levels(); }));
    leaves_.close();
    return std::move(finding_);
  }

 private:
  void find_levels() {
    const std::uint64_t piece_bytes = finding_.code.piece_bytes;
    const std::uint64_t pieces = std::min(most_pieces, device_.buffer().bytes / piece_bytes);
    const std::uint64_t step = (pieces + most_lengths - 1) / most_lengths;
    if (pieces / step < fewest_lengths) {
      leaves_.give_up_rest("there is too little code to compare lengths");
      return;
    }
    device_.inquire("laps over straight-line code of every length, in random order",
                    "code that no longer fits a cache takes longer");
    device_.report("first round", 0.0);
    const Levels first = levels_of(ask_all(pieces, step), piece_bytes);
    device_.report("second round", 0.5);
    const Levels second = levels_of(ask_all(pieces, step), piece_bytes);
    if (!first.levels || !second.levels) {
      const std::string& reason = first.levels ? second.reason : first.reason;
      device_.learned(reason);
      leaves_.leave_open("levels", EvidenceStatus::unknown, reason);
    } else if (!agree(*first.levels, *second.levels, step * piece_bytes)) {
      device_.learned("two rounds differ");
      leaves_.leave_open("levels", EvidenceStatus::ambiguous,
                         "two rounds of the same questions found different levels");
      leaves_["levels"].alternatives = {model::to_flow_yaml(*first.levels), model::to_flow_yaml(*second.levels)};
    } else {
      device_.learned(std::to_string(first.levels->size()) + " level(s), the same in both rounds");
      finding_.code.levels = first.levels;
      leaves_.resolve("levels", leaves_.questions());
    }
    device_.report("done", 1.0);
  }

  // Ascending; asked in random order, so that nothing that changes with time looks like a step.
  std::vector<Length> ask_all(std::uint64_t pieces, std::uint64_t step) {
    std::vector<Length> lengths;
    for (std::uint64_t length = step; length <= pieces; length += step) {
      lengths.push_back({.pieces = length, .cycles = {}});
    }
    std::vector<std::size_t> order(lengths.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    for (const std::size_t number : order) {
      Length& length = lengths[number];
      const std::uint64_t piece_bytes = finding_.code.piece_bytes;
      const AccessSequence lap = model::cold_pass(0, length.pieces * piece_bytes, piece_bytes);
      const model::Question question{.target = device_.target(),
                                     .state = model::StartState::keep,
                                     .warm = model::repeated(lap, warm_laps_of_code),
                                     .record = model::repeated(lap, recorded_laps_of_code)};
      const std::vector<float> cycles = device_.latencies({&question, 1}).front();
      length.cycles.assign(cycles.begin(), cycles.end());
    }
    return lengths;
  }

  Asker device_;
  CodeFinding finding_;
  Leaves leaves_;
  model::Random random_;
};

}  // namespace

CodeFinding infer_code(model::Answerer& device, const std::string& target, const Settings& settings) {
  return CodeInference(device, target, settings).run();
}

}  // namespace gpuinfer::infer
