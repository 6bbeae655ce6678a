// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/laps/infer_level.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "infer/asking/asker.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/cache/latency_levels.hpp"
#include "infer/laps/conclude_level.hpp"
#include "infer/laps/lap_meter.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::uint64_t smallest_bytes = 8192;
constexpr std::uint64_t smallest_lines = smallest_bytes / line_bytes;
constexpr double sizes_per_octave = 4;

class LevelInference {
 public:
  LevelInference(model::Answerer& device, const std::string& target, std::size_t level, const Settings& settings)
      : device_(device, target, settings), meter_(device_), leaves_(device_, finding_, cache_leaf_names),
        level_(level) {}

  CacheFinding run() {
    static_cast<void>(leaves_.go_through([this] { ask_until_repeated(); }));
    // Whatever ended the asking, whole passes say what they say.
    if (drop_last_pass() >= passes_to_repeat) {
      settle(LapLevel(curve_, level_).conclude());
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
    bool is_repeated = false;
    for (std::size_t pass = 0; pass < fewest_passes || !is_repeated; ++pass) {
      if (device_.accesses_asked() > most_accesses) {
        break;
      }
      device_.report("arrays of up to " + kilobytes(curve_.back().array_bytes),
                     static_cast<double>(device_.accesses_asked()) / static_cast<double>(most_accesses + 1));
      ask_all();
      if (const auto overflows_bytes = LapLevel(curve_, level_).first_overflowing()) {
        std::erase_if(curve_, [&](const LapPoint& point) { return point.array_bytes > longest * *overflows_bytes; });
      } else if (pass + 1 == passes_without_it && device_.buffer().bytes > usual_bytes) {
        choose_sizes(device_.buffer().bytes);
        continue;
      }
      is_repeated = LapLevel(curve_, level_).is_repeated();
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

  void settle(const LevelVerdict& verdict) {
    if (!verdict.interval_bytes) {
      device_.learned(verdict.reason);
      leaves_.give_up_rest(verdict.reason);
      return;
    }
    const auto [fits, overflows] = *verdict.interval_bytes;
    device_.learned("in " + kilobytes(fits) + " nearly every load hits, in " + kilobytes(overflows) + " nearly none");
    if (verdict.latency.cycles) {
      finding_.cache.latency_cycles = *verdict.latency.cycles;
      settle_latency(leaves_, verdict.latency);
    } else {
      leaves_.leave_open("latency_cycles", model::EvidenceStatus::ambiguous, verdict.latency.reason);
    }
    for (const char* leaf : {"capacity_bytes", "onset_bytes"}) {
      leaves_.settle(leaf, verdict.size);
      leaves_[leaf].details.interval_bytes = {fits, overflows};
    }
    leaves_.give_up_rest(verdict.reason);
  }

  Asker device_;
  LapMeter meter_;
  CacheFinding finding_;
  Leaves leaves_;
  std::size_t level_;
  std::vector<LapPoint> curve_;
};

}  // namespace

CacheFinding infer_level(model::Answerer& device, const std::string& target, std::size_t level,
                         const Settings& settings) {
  return LevelInference(device, target, level, settings).run();
}

}  // namespace gpuinfer::infer
