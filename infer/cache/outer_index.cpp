// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/outer_index.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "infer/asking/stream.hpp"

namespace gpuinfer::infer {

namespace {

// Two sets are told apart by so many halves at least, so that one wrong answer makes a line none of any set.
constexpr std::size_t least_distance = 3;

using Half = std::vector<bool>;  // by set: whether it overflows

class OuterIndexSearch {
 public:
  // `run_lines`: of a run, in which lines are asked about.
  OuterIndexSearch(Interrogator& device, std::uint64_t granule_bytes, const std::vector<Overfull>& sets,
                   std::uint64_t run_lines)
      : granule_bytes_(granule_bytes), sets_(sets), run_lines_(run_lines), laps_(device, granule_bytes),
        random_(stream(device.settings(), "index of an outer level")) {
    for (std::uint32_t set = 0; set < sets.size(); ++set) {
      for (const std::uint64_t line : sets[set]) {
        set_of_.emplace(line, set);
      }
    }
  }

  OuterIndexFit run() {
    std::size_t lines = 0;
    for (const Overfull& set : sets_) {
      lines += set.size();
    }
    if (sets_.size() < 2 || !laps_.go_far_beyond_nearer_level(lines)) {
      return {.fit = {}, .reason = "half of the sets are too few lines to get past the nearer level"};
    }
    if (run_lines_ > laps_.lines_of_buffer()) {
      return {.fit = {}, .reason = "the buffer is too small to get past the nearer level"};
    }
    choose_halves();
    // Of a set that does not overflow, half as many lines as find room.
    batch_lines_ = std::max(run_lines_, std::max<std::size_t>(8, (lines - sets_.size()) / 4) / run_lines_ * run_lines_);
    constexpr std::size_t to_fit = 48;
    if (!assign_from_everywhere(to_fit)) {
      return {.fit = {}, .reason = "some lines behave as those of no set", .meets_other_sets = true};
    }
    std::uint64_t window = window_lines();
    std::optional<IndexFit> fit = fit_to(window);
    while (!(fit && fit->extrapolates) && window < std::min(laps_.lines_of_buffer(), widest_window_lines)) {
      if (!widen(std::min({2 * window, laps_.lines_of_buffer(), widest_window_lines}))) {
        return {.fit = {}, .reason = "some lines of a window behave as those of no set", .meets_other_sets = true};
      }
      window = window_lines();
      fit = fit_to(window);
    }
    if (!fit) {
      return {.fit = {}, .reason = "no function reproduces to which sets lines go"};
    }
    constexpr std::size_t to_predict = 64;
    if (!assign_from_everywhere(to_predict)) {
      return {.fit = {}, .reason = "some lines behave as those of no set", .meets_other_sets = true};
    }
    if (fit->extrapolates && !is_predicted(*fit)) {
      return {.fit = {}, .reason = "the function that some lines suggest does not hold for others"};
    }
    return {.fit = std::move(fit), .lines = set_of_.size(), .reason = {}};
  }

 private:
  void choose_halves() {
    std::vector<std::size_t> order(sets_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto tell_all_apart = [&] {
      for (std::size_t a = 0; a < sets_.size(); ++a) {
        for (std::size_t b = 0; b < a; ++b) {
          if (std::ranges::count_if(halves_, [&](const Half& half) { return half[a] != half[b]; }) <
              static_cast<std::ptrdiff_t>(least_distance)) {
            return false;
          }
        }
      }
      return true;
    };
    while (!tell_all_apart()) {
      random_.shuffle(order);
      Half half(sets_.size());
      std::for_each_n(order.begin(), sets_.size() / 2, [&](std::size_t set) { half[set] = true; });
      Half other = half;
      other.flip();
      halves_.push_back(std::move(half));
      halves_.push_back(std::move(other));
    }
  }

  // Finds the sets of lines, each of a set or of none.
  void assign(std::span<const std::uint64_t> lines) {
    std::vector<std::vector<bool>> missed_in(lines.size());
    for (const Half& half : halves_) {
      Lines asked(lines.begin(), lines.end());
      for (std::size_t set = 0; set < sets_.size(); ++set) {
        if (half[set]) {
          asked.insert(asked.end(), sets_[set].begin(), sets_[set].end());
        }
      }
      const Missing missed = laps_.missing_in_order(asked);
      for (std::size_t place = 0; place < lines.size(); ++place) {
        missed_in[place].push_back(missed[place]);
      }
    }
    for (std::size_t place = 0; place < lines.size(); ++place) {
      for (std::uint32_t set = 0; set < sets_.size(); ++set) {
        if (std::ranges::equal(halves_, missed_in[place],
                               [&](const Half& half, bool missed) { return half[set] == missed; })) {
          set_of_.emplace(lines[place], set);
        }
      }
    }
  }

  // False where lines behave as those of no set.
  bool assign_from_everywhere(std::size_t count) {
    Lines lines;
    for (std::size_t tried = 0; tried < 4 * count && lines.size() < count; ++tried) {
      const std::uint64_t first = run_of(random_.below(laps_.all_lines()));
      for (std::uint64_t line = first; line < first + run_lines_; ++line) {
        if (!set_of_.contains(line) && std::ranges::find(lines, line) == lines.end()) {
          lines.push_back(line);
        }
      }
    }
    assign_in_batches(lines);
    return std::ranges::all_of(lines, [&](std::uint64_t line) { return assign_at_last(line); });
  }

  // The first line of a run in which the line is, of neighbours; where too few lie before aligned_start(), of others.
  [[nodiscard]] std::uint64_t run_of(std::uint64_t line) const {
    const bool is_before_start = line >= laps_.lines_of_buffer();
    if (is_before_start && laps_.all_lines() - laps_.lines_of_buffer() >= run_lines_) {
      return std::min(line, laps_.all_lines() - run_lines_);
    }
    return std::min(is_before_start ? 0 : line, laps_.lines_of_buffer() - run_lines_);
  }

  // Asks again where there is no set yet: by chance more lines of a batch went to its set than that has ways.
  bool assign_at_last(std::uint64_t line) {
    constexpr int most_times = 2;
    for (int time = 0; time < most_times && !set_of_.contains(line); ++time) {
      Lines run;
      const std::uint64_t first = run_of(line);
      for (std::uint64_t each = first; each < first + run_lines_; ++each) {
        run.push_back(each);
      }
      assign(run);
    }
    return set_of_.contains(line);
  }

  void assign_in_batches(const Lines& lines) {
    for (std::span left(lines); !left.empty();) {
      const std::span batch = left.first(std::min(left.size(), batch_lines_));
      assign(batch);
      left = left.subspan(batch.size());
    }
  }

  // By chance more lines of a batch go to one set than it has ways.
  bool widen(std::uint64_t lines) {
    constexpr int most_times = 4;
    for (int time = 0; time < most_times && window_lines() < lines; ++time) {
      std::vector<std::uint64_t> runs((lines + run_lines_ - 1) / run_lines_);
      std::iota(runs.begin(), runs.end(), std::uint64_t{0});
      random_.shuffle(runs);
      Lines open;
      for (const std::uint64_t run : runs) {
        for (std::uint64_t line = run * run_lines_; line < std::min(lines, (run + 1) * run_lines_); ++line) {
          if (!set_of_.contains(line)) {
            open.push_back(line);
          }
        }
      }
      assign_in_batches(open);
    }
    return window_lines() >= lines;
  }

  [[nodiscard]] std::uint64_t window_lines() const {
    std::uint64_t lines = 0;
    while (set_of_.contains(lines)) {
      ++lines;
    }
    return lines;
  }

  [[nodiscard]] std::optional<IndexFit> fit_to(std::uint64_t window) const {
    std::vector<AssignedLine> lines;
    for (const auto& [line, set] : set_of_) {
      lines.push_back({.address = laps_.address_of(line), .set = set});
    }
    return fit_index(lines, window, granule_bytes_, static_cast<std::uint32_t>(sets_.size()));
  }

  [[nodiscard]] bool is_predicted(const IndexFit& fit) const {
    return std::ranges::all_of(set_of_, [&](const auto& assigned) {
      return fit.name_of_set[model::set_of(fit.index, laps_.address_of(assigned.first))] == assigned.second;
    });
  }

  std::uint64_t granule_bytes_;
  const std::vector<Overfull>& sets_;
  std::uint64_t run_lines_;
  OuterLaps laps_;
  model::Random random_;
  std::map<std::uint64_t, std::uint32_t> set_of_;  // by line
  std::vector<Half> halves_;
  std::size_t batch_lines_ = 0;
};

}  // namespace

OuterIndexFit find_outer_index(Interrogator& device, std::uint64_t granule_bytes, const std::vector<Overfull>& sets) {
  OuterIndexFit fit = OuterIndexSearch(device, granule_bytes, sets, 1).run();
  if (fit.fit) {
    return fit;
  }
  // Parts of the nearer level may be of use to lines of a place only, and keep a few from anywhere.
  return OuterIndexSearch(device, granule_bytes, sets, OuterLaps(device, granule_bytes).lines_past_nearer_level())
      .run();
}

}  // namespace gpuinfer::infer
