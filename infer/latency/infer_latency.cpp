// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/latency/infer_latency.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/asking/stream.hpp"
#include "infer/latency/chase_design.hpp"
#include "infer/latency/conclude_patterns.hpp"
#include "infer/latency/page_windows.hpp"
#include "model/errors.hpp"

namespace gpuinfer::infer {

namespace {

using model::AccessPattern;

constexpr std::array latency_leaves{"P1", "P2", "P3", "P4", "P5", "P6"};
constexpr std::size_t rounds = std::tuple_size_v<decltype(PatternsSeen::rounds)>;

class LatencyInference {
 public:
  LatencyInference(model::Answerer& device, const std::string& target, const model::DeviceDescription& known,
                   std::string path, const Settings& settings)
      : device_(device, target, settings), leaves_(device_, finding_, latency_leaves), known_(known),
        path_(std::move(path)) {
    seen_.path = path_;
  }

  LatencyFinding run() {
    const auto stopped = leaves_.go_through([this] {
      design();
      if (chases_) {
        device_.choose_start();
        find_windows();
      }
      if (chases_) {
        for (std::size_t round = 0; round < rounds; ++round) {
          ask(round);
        }
        settle();
        device_.report("done", 1.0);
      }
    });
    static_cast<void>(stopped);
    leaves_.close();
    return std::move(finding_);
  }

 private:
  void design() {
    model::BufferFacts buffer = device_.buffer();
    const auto path = known_.paths.find(path_);
    if (path != known_.paths.end() && !path->second.tlbs.empty()) {
      buffer.nearer_bytes = device_.facts().buffer_of(path->second.tlbs.back()).nearer_bytes;
    }
    try {
      chases_.emplace(known_, path_, buffer, stream(device_.settings(), "chases"), [this] { device_.check_limits(0); });
    } catch (const InputError& error) {
      leaves_.give_up_rest(std::string("nothing to design sequences from: ") + error.what());
    }
  }

  void find_windows() {
    const auto path = known_.paths.find(path_);
    if (!path->second.page_window_is_unknown || path->second.tlbs.empty()) {
      return;
    }
    device_.report("windows of page tables", 0.05);
    seen_.windows = find_page_windows(device_, *chases_, stream(device_.settings(), "page windows"));
    if (seen_.windows.window_bytes) {
      path->second.page_window_bytes = seen_.windows.window_bytes;
      design();
    }
  }

  // Sequences until every pattern was met often enough for its cycle, or as often as is worth while.
  void ask(std::size_t round) {
    constexpr std::size_t fewest_sequences = 2;
    constexpr std::size_t most_sequences = 24;
    constexpr std::size_t times_in_sequence = 96;
    device_.report("sequences of all patterns", 0.1 + 0.4 * static_cast<double>(round));
    device_.inquire("sequences designed to meet every pattern",
                    round == 0 ? "what is known of the caches says which is which" : "others must say the same");
    const model::StartState start = device_.question_unflooded({}, {}).state;
    std::size_t accesses = 0;
    bool discards = start == model::StartState::keep && round == 0;
    for (std::size_t sequence = 0; sequence < most_sequences; ++sequence) {
      const Chase chase = chases_->next(start, times_in_sequence);
      const model::Question question = device_.question_unflooded({}, chase.offsets);
      const std::vector<float> cycles = device_.latencies({&question, 1}).front();
      // The first one after a start that nothing is known of only makes it known.
      if (std::exchange(discards, false)) {
        continue;
      }
      for (std::size_t i = 0; i < cycles.size(); ++i) {
        if (const auto pattern = chase.patterns[i]) {
          seen_.rounds.at(round)
              .at(static_cast<std::size_t>(*pattern))
              .push_back({.cycles = cycles[i], .recency = chase.recencies[i], .visit = visits_ + chase.visits[i]});
          ++accesses;
        }
        if (chase.controls[i] != 0) {
          controls_.push_back(cycles[i]);
        }
      }
      visits_ += chase.offsets.size();
      if (sequence + 1 >= fewest_sequences && is_precise(seen_.rounds.at(round))) {
        break;
      }
    }
    device_.learned(std::to_string(accesses) + " accesses of patterns");
  }

  [[nodiscard]] bool is_precise(const ByPattern<PatternAccesses>& groups) const {
    for (std::size_t pattern = 0; pattern < patterns_count; ++pattern) {
      if (chases_->meets(static_cast<AccessPattern>(pattern)) && !are_precise(groups.at(pattern))) {
        return false;
      }
    }
    return true;
  }

  void settle() {
    for (std::size_t i = 0; i < patterns_count; ++i) {
      seen_.why_absent.at(i) = chases_->why_absent(static_cast<AccessPattern>(i));
    }
    if (chases_->needs_controls()) {
      seen_.control_cycles = std::move(controls_);
    }
    const ByPattern<PatternVerdict> verdicts = conclude_patterns(seen_);
    for (std::size_t i = 0; i < patterns_count; ++i) {
      settle(static_cast<AccessPattern>(i), verdicts.at(i));
    }
  }

  void settle(AccessPattern pattern, const PatternVerdict& verdict) {
    const auto number = static_cast<std::size_t>(pattern);
    leaves_.settle(latency_leaves.at(number), verdict.leaf, verdict.trials);
    model::LeafEvidence& leaf = leaves_[latency_leaves.at(number)];
    leaf.reason = verdict.leaf.reason;  // a pattern that is certain to be absent has one, too
    // All sequences meet several patterns.
    if (verdict.trials) {
      leaf.experiments = device_.questions_asked();
    }
    if (verdict.spread) {
      leaf.details.accesses = verdict.spread->accesses;
      leaf.details.access_class = chases_->said_of(pattern);
      leaf.details.deviation = verdict.spread->deviation;
      leaf.details.interval_95_percent = verdict.spread->interval_95_percent;
    }
    finding_.memory_latency_cycles.at(number) = verdict.cycles;
  }

  Asker device_;
  LatencyFinding finding_;
  Leaves leaves_;
  model::DeviceDescription known_;
  std::string path_;
  std::optional<ChaseDesigner> chases_;
  PatternsSeen seen_;
  std::vector<double> controls_;  // cycles of Chase::controls
  std::uint64_t visits_ = 0;      // of the sequences so far, at most
};

}  // namespace

LatencyFinding infer_latency(model::Answerer& device, const std::string& target, const model::DeviceDescription& known,
                             const std::string& path, const Settings& settings) {
  return LatencyInference(device, target, known, path, settings).run();
}

}  // namespace gpuinfer::infer
