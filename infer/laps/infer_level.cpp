// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/laps/infer_level.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "infer/asking/asker.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/asking/statistics.hpp"
#include "infer/cache/latency_levels.hpp"
#include "infer/laps/lap_meter.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;

constexpr std::uint64_t smallest_bytes = 8192;
constexpr std::uint64_t smallest_lines = smallest_bytes / line_bytes;
constexpr double sizes_per_octave = 4;

constexpr std::size_t fewest_points = 4;
constexpr std::size_t passes_to_repeat = 3;
constexpr double same_level = 0.06;
constexpr double next_level = 1.5;

double quickest(const LapPoint& point) { return *std::min_element(point.cycles.begin(), point.cycles.end()); }

std::string kilobytes(std::uint64_t bytes) { return std::to_string(bytes / 1024) + " KB"; }

class LevelInference {
 public:
  LevelInference(model::Answerer& device, const std::string& target, std::size_t level, const Settings& settings)
      : device_(device, target, settings), meter_(device_), leaves_(device_, finding_, cache_leaf_names),
        level_(level) {}

  CacheFinding run() {
    static_cast<void>(leaves_.go_through([this] { ask_until_repeated(); }));
    // Whatever ended the asking, whole passes say what they say.
    if (drop_last_pass() >= passes_to_repeat) {
      find_levels();
      conclude();
    }
    leaves_.close();
    return std::move(finding_);
  }

 private:
  void ask_until_repeated() {
    constexpr std::size_t fewest_passes = 5;
    constexpr std::size_t passes_without_it = 3;
    constexpr std::size_t most_accesses = 80'000'000;
    // Beyond this multiple of what overflows the level, an array says no more.
    constexpr std::uint64_t longest = 4;
    device_.inquire("laps over arrays of growing size, in random order, pass after pass",
                    "what a load takes on average rises where an array no longer fits a level");
    constexpr std::uint64_t usual_bytes = 32U << 20U;
    choose_sizes(std::min(usual_bytes, device_.buffer().bytes));
    for (std::size_t pass = 0; pass < fewest_passes || !is_repeated(); ++pass) {
      if (device_.accesses_asked() > most_accesses) {
        break;
      }
      device_.report("arrays of up to " + kilobytes(curve_.back().array_bytes),
                     static_cast<double>(device_.accesses_asked()) / static_cast<double>(most_accesses + 1));
      ask_all();
      find_levels();
      if (const auto overflows_bytes = first_overflowing()) {
        std::erase_if(curve_, [&](const LapPoint& point) { return point.array_bytes > longest * *overflows_bytes; });
        find_levels();
      } else if (pass + 1 == passes_without_it && device_.buffer().bytes > usual_bytes) {
        choose_sizes(device_.buffer().bytes);
      }
    }
    device_.report("done", 1.0);
  }

  // If it did not go through all sizes; how many are left.
  std::size_t drop_last_pass() {
    std::size_t passes = curve_.empty() ? 0 : curve_.front().cycles.size();
    for (const LapPoint& point : curve_) {
      passes = std::min(passes, point.cycles.size());
    }
    for (LapPoint& point : curve_) {
      point.cycles.resize(passes);
    }
    return passes;
  }

  void choose_sizes(std::uint64_t largest_bytes) {
    curve_.clear();
    found_.clear();
    std::uint64_t bytes = smallest_bytes;
    for (int step = 1; bytes <= largest_bytes; ++step) {
      curve_.push_back({.array_bytes = bytes, .cycles = {}});
      bytes =
          line_bytes * static_cast<std::uint64_t>(std::llround(smallest_lines * std::exp2(step / sizes_per_octave)));
    }
  }

  // So few pages one after another that a first TLB holds them.
  AccessSequence lap_over(std::uint64_t array_bytes) {
    constexpr std::uint64_t group_bytes = 32 * page_bytes;
    AccessSequence lap;
    lap.reserve(array_bytes / line_bytes);
    for (std::uint64_t begin = 0; begin < array_bytes; begin += group_bytes) {
      AccessSequence group = model::cold_pass(begin, std::min(group_bytes, array_bytes - begin), line_bytes);
      meter_.random().shuffle(group);
      lap.insert(lap.end(), group.begin(), group.end());
    }
    return lap;
  }

  // In random order, so that nothing that changes with time looks like a step.
  void ask_all() {
    std::vector<std::size_t> order(curve_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    meter_.random().shuffle(order);
    for (const std::size_t point : order) {
      curve_[point].cycles.push_back(meter_.cycles(lap_over(curve_[point].array_bytes)));
    }
  }

  // The level itself, and the one behind it.
  [[nodiscard]] bool is_repeated() const {
    return level_ < found_.size() && is_repeated(found_[level_]) && next_cycles();
  }

  // What the next level takes, where that repeats.
  [[nodiscard]] std::optional<double> next_cycles() const {
    return level_ + 1 < found_.size() && is_repeated(found_[level_ + 1])
               ? std::optional(rounded(found_[level_ + 1].cycles))
               : std::nullopt;
  }

  // Where a plateau begins late, there may be a level in between that was never quiet.
  void find_levels() {
    constexpr std::uint64_t farthest = 4;
    found_ = plateaus(curve_);
    const auto late = std::adjacent_find(found_.begin(), found_.end(), [&](const Plateau& a, const Plateau& b) {
      return curve_[b.first].array_bytes > farthest * curve_[a.last].array_bytes;
    });
    if (late != found_.end()) {
      found_.erase(late + 1, found_.end());
    }
  }

  // In how many passes half of the points of a plateau took as long as the quickest ones.
  [[nodiscard]] bool is_repeated(const Plateau& plateau) const {
    std::size_t passes = 0;
    for (std::size_t pass = 0; pass < curve_.front().cycles.size(); ++pass) {
      std::vector<double> cycles;
      for (std::size_t point = plateau.first; point <= plateau.last; ++point) {
        cycles.push_back(curve_[point].cycles[pass]);
      }
      passes += median(std::move(cycles)) <= (1 + same_level) * plateau.cycles ? 1U : 0U;
    }
    return passes >= passes_to_repeat;
  }

  void conclude() {
    if (level_ >= found_.size()) {
      const std::string reason = "only " + std::to_string(found_.size()) + " levels come apart in arrays of up to " +
                                 kilobytes(curve_.back().array_bytes);
      device_.learned(reason);
      leaves_.give_up_rest(reason);
      return;
    }
    const Plateau& level = found_[level_];
    const std::uint64_t fits_bytes = curve_[level.last].array_bytes;
    const auto overflows_bytes = first_overflowing();
    if (!overflows_bytes) {
      const std::string reason = "no array of up to " + kilobytes(curve_.back().array_bytes) +
                                 " clearly overflows it, so it may be the memory that answers";
      device_.learned(reason);
      leaves_.give_up_rest(reason);
      return;
    }
    device_.learned("in " + kilobytes(fits_bytes) + " nearly every load hits, in " + kilobytes(*overflows_bytes) +
                    " nearly none");
    settle_latency(level);
    for (const char* leaf : {"capacity_bytes", "onset_bytes"}) {
      leaves_.leave_open(leaf, EvidenceStatus::ambiguous,
                         "from " + std::to_string(fits_bytes) + " to " + std::to_string(*overflows_bytes) +
                             " bytes: in so few nearly every load hits, in so many nearly none; averages leave open "
                             "what lies between, and what others hold of a cache does not count");
      leaves_[leaf].details.interval_bytes = {fits_bytes, *overflows_bytes};
    }
    leaves_.give_up_rest("averages over laps do not tell which lines are there");
  }

  void settle_latency(const Plateau& level) {
    if (!is_repeated(level)) {
      leaves_.leave_open("latency_cycles", EvidenceStatus::ambiguous,
                         "the quickest passes did not come up again: the CPU is too busy");
      return;
    }
    const LatencyLevels levels{
        .cycles = model::LatencyCycles{.hit = rounded(level.cycles), .miss = next_cycles()},
        .reason = "what does not fit does not take the same time in longer arrays, or not every time"};
    finding_.cache.latency_cycles = *levels.cycles;
    infer::settle_latency(leaves_, levels);
  }

  // Nine tenths of the way to the next plateau, or where there is none, to the quickest array that is four times as
  // long as what fits.
  [[nodiscard]] std::optional<std::uint64_t> first_overflowing() const {
    constexpr double nearly_all = 0.9;
    if (level_ >= found_.size()) {
      return std::nullopt;
    }
    const Plateau& level = found_[level_];
    std::optional<double> beyond;
    if (level_ + 1 < found_.size()) {
      beyond = found_[level_ + 1].cycles;
    } else {
      for (const LapPoint& point : curve_) {
        if (point.array_bytes >= 4 * curve_[level.last].array_bytes) {
          beyond = std::min(beyond.value_or(quickest(point)), quickest(point));
        }
      }
    }
    if (!beyond || *beyond < next_level * level.cycles) {
      return std::nullopt;
    }
    const auto after = curve_.begin() + static_cast<std::ptrdiff_t>(level.last) + 1;
    const auto found = std::find_if(after, curve_.end(), [&](const LapPoint& point) {
      return quickest(point) >= level.cycles + nearly_all * (*beyond - level.cycles);
    });
    return found == curve_.end() ? std::nullopt : std::optional(found->array_bytes);
  }

  Asker device_;
  LapMeter meter_;
  CacheFinding finding_;
  Leaves leaves_;
  std::size_t level_;
  std::vector<LapPoint> curve_;
  std::vector<Plateau> found_;
};

}  // namespace

std::vector<Plateau> plateaus(std::span<const LapPoint> curve) {
  std::vector<Plateau> found;
  for (std::size_t first = 0; first < curve.size();) {
    double low = quickest(curve[first]);
    double high = low;
    std::vector<double> run{low};
    while (first + run.size() < curve.size()) {
      const double next = quickest(curve[first + run.size()]);
      low = std::min(low, next);
      high = std::max(high, next);
      if (high > (1 + same_level) * low) {
        break;
      }
      run.push_back(next);
    }
    if (run.size() < fewest_points) {
      ++first;
      continue;
    }
    const std::size_t last = first + run.size() - 1;
    const double cycles = median(std::move(run));
    if (found.empty() || cycles > next_level * found.back().cycles) {
      found.push_back({.first = first, .last = last, .cycles = cycles});
    } else {
      found.back().last = last;
    }
    first = last + 1;
  }
  return found;
}

CacheFinding infer_level(model::Answerer& device, const std::string& target, std::size_t level,
                         const Settings& settings) {
  return LevelInference(device, target, level, settings).run();
}

}  // namespace gpuinfer::infer
