// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/latency/page_windows.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "infer/asking/statistics.hpp"
#include "infer/asking/thresholds.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::AccessPattern;

constexpr std::size_t run_pages = 4;

enum class Order : std::uint8_t { in_turn, one_after_the_other };

// A walk whose order tells something: not the first one of its run, which follows another run in either order.
struct OrderedWalk {
  std::size_t position = 0;  // in the sequence
  std::size_t window = 0;    // number of the size
  Order order = Order::in_turn;
};

struct WalkSequence {
  model::AccessSequence offsets;
  std::vector<OrderedWalk> walks;
};

enum class WindowVerdict : std::uint8_t { switches, costs_little, costs_nothing, open };

WindowVerdict verdict_on(const WindowEffect& effect, double least_cycles) {
  const double error = std::max(effect.error_cycles, 1e-9);
  const auto is_above = [&](double cycles) {
    return student_upper_tail((effect.more_cycles - cycles) / error, effect.freedom) < wrong_verdict;
  };
  if (is_above(least_cycles)) {
    return WindowVerdict::switches;
  }
  if (student_upper_tail((least_cycles - effect.more_cycles) / error, effect.freedom) >= wrong_verdict) {
    return WindowVerdict::open;
  }
  return is_above(rounding_cycles) ? WindowVerdict::costs_little : WindowVerdict::costs_nothing;
}

// Of a walk: less is not worth the name of a switch.
double least_switch_cycles(double walk_cycles) {
  constexpr double least_share = 0.02;
  return std::max(2 * rounding_cycles, least_share * walk_cycles);
}

class WindowSearch {
 public:
  WindowSearch(Asker& device, ChaseDesigner& designer, model::Random random)
      : device_(&device), designer_(&designer), random_(random), address_(device.buffer().address) {
    const std::vector<std::uint64_t>& pages = designer.pages();
    const auto smallest = static_cast<unsigned>(std::bit_width(designer.page_bytes()));
    const auto largest = static_cast<unsigned>(std::bit_width(address_of(pages.front()) ^ address_of(pages.back())));
    for (unsigned bits = smallest; bits < largest; ++bits) {
      differences_.push_back({.bits = bits, .by_question = {}});
    }
  }

  PageWindows run() {
    constexpr std::size_t most_questions = 192;
    std::size_t next_look = 12;
    PageWindows found{.is_decided = false, .window_bytes = {}, .reason = "too few pages can be loaded", .walks = 0};
    if (differences_.empty()) {
      return found;
    }
    for (std::size_t asked = 1; asked <= most_questions && !found.is_decided; ++asked) {
      ask(asked > 1);
      if (asked == next_look) {
        next_look += next_look / 2;
        found = conclude_windows(effects(), cycles_.empty() ? 0 : median(cycles_));
        found.walks = cycles_.size();
      }
    }
    return found;
  }

 private:
  struct Difference {
    unsigned bits = 0;                // of an address in a window
    std::vector<double> by_question;  // of the means in either order, cycles
  };

  [[nodiscard]] std::uint64_t address_of(std::uint64_t offset) const { return number_of(address_ + offset); }

  // Numbers of the pages of a stretch: from the first one to behind the last one.
  [[nodiscard]] std::pair<std::size_t, std::size_t> stretch(std::uint64_t first, std::uint64_t bytes) const {
    const std::vector<std::uint64_t>& pages = designer_->pages();
    const auto from = [&](std::uint64_t address) {
      const auto page =
          std::ranges::lower_bound(pages, address, {}, [this](std::uint64_t offset) { return address_of(offset); });
      return static_cast<std::size_t>(page - pages.begin());
    };
    return {from(first), from(first + bytes)};
  }

  // The pages around this one that were not loaded yet in this sequence.
  [[nodiscard]] std::vector<std::size_t> run_around(std::size_t page, std::uint64_t run_bytes) const {
    const std::uint64_t address = address_of(designer_->pages()[page]);
    const auto [first, end] = stretch(address / run_bytes * run_bytes, run_bytes);
    std::vector<std::size_t> run;
    for (std::size_t number = first; number < end; ++number) {
      if (!is_used_[number]) {
        run.push_back(number);
      }
    }
    return run;
  }

  // Two runs in windows of so many address bits that lie side by side; empty where chance found none.
  [[nodiscard]] std::array<std::vector<std::size_t>, 2> draw_runs(unsigned bits) {
    constexpr int tries = 8;
    const std::vector<std::uint64_t>& pages = designer_->pages();
    const std::uint64_t window_bytes = std::uint64_t{1} << bits;
    const std::uint64_t run_bytes = std::min(window_bytes, std::bit_ceil(run_pages * step_bytes()));
    for (int i = 0; i < tries; ++i) {
      const std::size_t page = random_.below(pages.size());
      const std::uint64_t other_window = ((address_of(pages[page]) >> bits) ^ 1U) << bits;
      const auto [first, end] = stretch(other_window, window_bytes);
      if (first == end) {
        continue;
      }
      std::array<std::vector<std::size_t>, 2> runs{run_around(page, run_bytes),
                                                   run_around(first + random_.below(end - first), run_bytes)};
      const std::size_t size = std::min({run_pages, runs[0].size(), runs[1].size()});
      if (size < 2) {
        continue;
      }
      for (std::vector<std::size_t>& run : runs) {
        random_.shuffle(run);
        run.resize(size);
      }
      return runs;
    }
    return {};
  }

  [[nodiscard]] std::uint64_t step_bytes() const {
    const std::vector<std::uint64_t>& pages = designer_->pages();
    return pages.size() < 2 ? designer_->page_bytes() : pages[1] - pages[0];
  }

  void append(const std::array<std::vector<std::size_t>, 2>& runs, Order order, std::size_t window,
              WalkSequence& sequence) {
    const std::size_t size = runs[0].size();
    const std::size_t first = sequence.offsets.size();
    sequence.offsets.resize(first + 2 * size);
    for (std::size_t run = 0; run < 2; ++run) {
      for (std::size_t i = 0; i < size; ++i) {
        const std::size_t place = first + (order == Order::in_turn ? 2 * i + run : run * size + i);
        is_used_[runs.at(run)[i]] = true;
        sequence.offsets[place] = designer_->new_line(designer_->pages()[runs.at(run)[i]]);
        if (i > 0) {
          sequence.walks.push_back({.position = place, .window = window, .order = order});
        }
      }
    }
  }

  // Every page once at most, all sizes of windows and both orders by turns that chance deals.
  [[nodiscard]] WalkSequence draw_sequence() {
    constexpr std::size_t most_accesses = 4096;
    constexpr std::size_t most_misses = 8;  // rounds in which chance found no runs
    is_used_.assign(designer_->pages().size(), false);
    WalkSequence sequence;
    std::vector<std::pair<std::size_t, Order>> round;
    for (std::size_t window = 0; window < differences_.size(); ++window) {
      round.emplace_back(window, Order::in_turn);
      round.emplace_back(window, Order::one_after_the_other);
    }
    for (std::size_t misses = 0; misses < most_misses && sequence.offsets.size() < most_accesses;) {
      const std::size_t before = sequence.offsets.size();
      random_.shuffle(round);
      for (const auto& [window, order] : round) {
        append(draw_runs(differences_[window].bits), order, window, sequence);
      }
      misses += sequence.offsets.size() == before ? 1 : 0;
    }
    return sequence;
  }

  // `counts`: what came before this question is known.
  void ask(bool counts) {
    constexpr std::size_t fewest_walks = 3;
    const model::StartState start = device_->question_unflooded({}, {}).state;
    const WalkSequence sequence = draw_sequence();
    const std::vector<std::optional<AccessPattern>> patterns = designer_->patterns_of(sequence.offsets, start);
    const model::Question question = device_->question_unflooded({}, sequence.offsets);
    const std::vector<float> cycles = device_->latencies({&question, 1}).front();
    if (!counts && model::may_hold_others(start)) {
      return;
    }
    std::vector<std::array<std::vector<double>, 2>> samples(differences_.size());
    for (const OrderedWalk& walk : sequence.walks) {
      if (patterns[walk.position] == AccessPattern::P5 && patterns[walk.position - 1] == AccessPattern::P5) {
        samples[walk.window].at(static_cast<std::size_t>(walk.order)).push_back(cycles[walk.position]);
        cycles_.push_back(cycles[walk.position]);
      }
    }
    for (std::size_t window = 0; window < samples.size(); ++window) {
      const auto& [in_turn, one_after_the_other] = samples[window];
      if (std::min(in_turn.size(), one_after_the_other.size()) >= fewest_walks) {
        differences_[window].by_question.push_back(middle_mean(in_turn) - middle_mean(one_after_the_other));
      }
    }
  }

  [[nodiscard]] std::vector<WindowEffect> effects() const {
    constexpr std::size_t fewest_differences = 8;
    std::vector<WindowEffect> effects;
    for (const Difference& difference : differences_) {
      if (const std::size_t count = difference.by_question.size(); count >= fewest_differences) {
        const Spread spread = spread_of(difference.by_question);
        effects.push_back({.window_bytes = std::uint64_t{1} << difference.bits,
                           .more_cycles = spread.mean,
                           .error_cycles = spread.deviation / std::sqrt(static_cast<double>(count)),
                           .freedom = count - 1});
      }
    }
    return effects;
  }

  Asker* device_;
  ChaseDesigner* designer_;
  model::Random random_;
  model::Address address_;
  std::vector<Difference> differences_;  // by ascending window
  std::vector<bool> is_used_;            // of each page, in this sequence
  std::vector<double> cycles_;           // of all walks that count
};

std::string windows_text(std::span<const WindowEffect> effects) {
  return model::to_text(effects.front().window_bytes) + " to " + model::to_text(effects.back().window_bytes) + " bytes";
}

std::string tenths_text(double cycles) { return model::to_text(std::round(10 * cycles) / 10); }

}  // namespace

PageWindows conclude_windows(std::span<const WindowEffect> effects, double walk_cycles) {
  PageWindows found;
  if (effects.empty()) {
    found.reason = "too few walks to memory were met to tell whether page tables are switched";
    return found;
  }
  const double least_cycles = least_switch_cycles(walk_cycles);
  std::vector<WindowVerdict> verdicts(effects.size());
  std::ranges::transform(effects, verdicts.begin(),
                         [least_cycles](const WindowEffect& effect) { return verdict_on(effect, least_cycles); });
  const auto first = std::ranges::find(verdicts, WindowVerdict::switches);
  const bool nothing_before =
      std::all_of(verdicts.begin(), first, [](WindowVerdict each) { return each == WindowVerdict::costs_nothing; });
  const bool all_behind =
      std::all_of(first, verdicts.end(), [](WindowVerdict each) { return each == WindowVerdict::switches; });
  found.is_decided = nothing_before && all_behind;
  if (found.is_decided && first != verdicts.end()) {
    found.window_bytes = effects[static_cast<std::size_t>(first - verdicts.begin())].window_bytes;
  } else if (found.is_decided) {
    found.reason = "walks of page tables that go to and fro between two windows of " + windows_text(effects) +
                   " take less than " + model::to_text(std::ceil(least_cycles)) +
                   " cycles more than walks in one after the other, so nothing is switched";
  } else {
    found.reason =
        "whether walks take longer that go to and fro between two windows is not clear; by bytes, cycles and "
        "standard error:";
    for (const WindowEffect& effect : effects) {
      found.reason += " " + model::to_text(effect.window_bytes) + ": " + tenths_text(effect.more_cycles) + " (" +
                      tenths_text(effect.error_cycles) + ")";
    }
  }
  return found;
}

PageWindows find_page_windows(Asker& device, ChaseDesigner& designer, model::Random random) {
  device.inquire("walks of page tables to and fro between two windows of addresses, and in one after the other",
                 "where one window's tables are active at a time, going to and fro takes longer");
  PageWindows found = WindowSearch(device, designer, random).run();
  device.learned(found.window_bytes ? "windows of " + model::to_text(*found.window_bytes) + " bytes are switched"
                                    : found.reason);
  return found;
}

}  // namespace gpuinfer::infer
