// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/slice_distances.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "infer/asking/pages.hpp"
#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using SliceCycles = std::vector<double>;  // by slice, in cycles
using Lines = std::vector<std::uint64_t>;

// Of a slice in one round; even, as pairs take them home.
constexpr std::size_t lines_at_once = 8;
constexpr std::size_t rounds_found = 3;
constexpr std::size_t rounds_checked = 2;

// Distances of two SMs are alike that differ by no more than a step of the clock, as the root of the mean square over
// the slices, and unlike from twice that on.
constexpr double alike_cycles = 2;
// A distance that was found is right if it comes again to so many cycles, two steps of the clock; at most one in so
// many is not.
constexpr double right_cycles = 4;
constexpr std::size_t one_wrong_in = 100;

// Of lines close together, so that the translation of their addresses takes as long for all.
std::vector<Lines> close_together(const std::vector<Lines>& lines) {
  constexpr std::uint64_t room_bytes = 4 * mapped_page_bytes;
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  for (const Lines& of_slice : lines) {
    for (const std::uint64_t line : of_slice) {
      first = std::min(first, line);
    }
  }
  std::vector<Lines> close(lines.size());
  for (std::size_t slice = 0; slice < lines.size(); ++slice) {
    std::ranges::copy_if(lines[slice], std::back_inserter(close[slice]),
                         [&](std::uint64_t line) { return line - first < room_bytes; });
  }
  return close;
}

// Times lines of which none was timed before.
class DistanceTimer {
 public:
  // Of each slice enough for all rounds.
  DistanceTimer(Asker& device, std::vector<Lines> lines)
      : device_(&device), random_(stream(device.settings(), "distances of slices")), lines_(std::move(lines)),
        sms_(model::all_units(*device.facts().sm_count)) {
    for (Lines& of_slice : lines_) {
      random_.shuffle(of_slice);
    }
  }

  // By SM.
  std::vector<SliceCycles> time(std::size_t rounds) {
    std::vector<std::vector<std::vector<double>>> timed(sms_.size(), std::vector<std::vector<double>>(lines_.size()));
    for (std::size_t round = 0; round < rounds; ++round) {
      add_round(timed);
    }
    std::vector<SliceCycles> rows;
    for (auto& of_sm : timed) {
      SliceCycles& row = rows.emplace_back();
      for (std::vector<double>& cycles : of_sm) {
        row.push_back(middle_mean(std::move(cycles)));
      }
    }
    return rows;
  }

 private:
  void add_round(std::vector<std::vector<std::vector<double>>>& timed) {
    std::vector<std::pair<std::uint64_t, std::size_t>> order;  // line, slice
    for (std::size_t slice = 0; slice < lines_.size(); ++slice) {
      for (std::size_t i = 0; i < lines_at_once; ++i) {
        order.emplace_back(lines_[slice][used_ + i], slice);
      }
    }
    used_ += lines_at_once;
    random_.shuffle(order);
    model::Question load{.target = device_->target(), .state = model::StartState::keep, .warm = {}, .record = {}};
    for (const auto& [line, slice] : order) {
      load.record.push_back(line);
    }
    model::Question home = load;
    home.circumstances.contended_pairs = true;
    random_.shuffle(sms_);
    const auto by = [&load](model::ComputeUnit sm) {
      model::Question question = load;
      question.circumstances.unit = sm;
      return question;
    };
    // Brings the lines; a contended pair need not.
    std::vector<model::Question> questions{by(sms_.back())};
    for (const model::ComputeUnit sm : sms_) {
      questions.push_back(home);
      questions.push_back(by(sm));
    }
    const std::vector<std::vector<float>> answers = device_->latencies(questions);
    for (std::size_t i = 0; i < sms_.size(); ++i) {
      for (std::size_t load_number = 0; load_number < order.size(); ++load_number) {
        timed[number_of(sms_[i])][order[load_number].second].push_back(answers[2 * i + 2][load_number]);
      }
    }
  }

  Asker* device_;
  model::Random random_;
  std::vector<Lines> lines_;
  std::size_t used_ = 0;  // of each slice
  model::ComputeUnits sms_;
};

// SMs whose rows are alike, and how their mean differs from slice to slice.
struct SliceGroup {
  model::ComputeUnits sms;
  SliceCycles from_mean;
};

double difference(const SliceGroup& a, const SliceGroup& b) {
  double squares = 0;
  for (std::size_t slice = 0; slice < a.from_mean.size(); ++slice) {
    squares += std::pow(a.from_mean[slice] - b.from_mean[slice], 2);
  }
  return std::sqrt(squares / static_cast<double>(a.from_mean.size()));
}

SliceGroup together(SliceGroup a, const SliceGroup& b) {
  const auto of_a = static_cast<double>(a.sms.size());
  const auto of_b = static_cast<double>(b.sms.size());
  for (std::size_t slice = 0; slice < a.from_mean.size(); ++slice) {
    a.from_mean[slice] = (of_a * a.from_mean[slice] + of_b * b.from_mean[slice]) / (of_a + of_b);
  }
  a.sms.insert(a.sms.end(), b.sms.begin(), b.sms.end());
  return a;
}

// The two of several groups that are most alike.
struct NearestPair {
  std::size_t first = 0;
  std::size_t second = 0;
  double cycles = std::numeric_limits<double>::infinity();  // by which they differ; of a single group without end
};

NearestPair nearest_pair(const std::vector<SliceGroup>& groups) {
  NearestPair nearest;
  for (std::size_t a = 0; a < groups.size(); ++a) {
    for (std::size_t b = a + 1; b < groups.size(); ++b) {
      if (const double cycles = difference(groups[a], groups[b]); cycles < nearest.cycles) {
        nearest = {.first = a, .second = b, .cycles = cycles};
      }
    }
  }
  return nearest;
}

std::vector<SliceGroup> groups_of(const std::vector<SliceCycles>& rows) {
  std::vector<SliceGroup> groups;
  for (std::uint32_t sm = 0; sm < rows.size(); ++sm) {
    SliceCycles from_mean = rows[sm];
    const double mean = spread_of(from_mean).mean;
    std::ranges::for_each(from_mean, [mean](double& cycles) { cycles -= mean; });
    groups.push_back({.sms = {model::ComputeUnit{sm}}, .from_mean = std::move(from_mean)});
  }
  for (NearestPair pair = nearest_pair(groups); pair.cycles <= alike_cycles; pair = nearest_pair(groups)) {
    groups[pair.first] = together(std::move(groups[pair.first]), groups[pair.second]);
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(pair.second));
  }
  return groups;
}

model::SliceDistances described(std::vector<SliceGroup> groups, const std::vector<SliceCycles>& rows) {
  model::SliceDistances distances;
  for (SliceGroup& group : groups) {
    double mean = 0;
    for (const model::ComputeUnit sm : group.sms) {
      mean += spread_of(rows[number_of(sm)]).mean / static_cast<double>(group.sms.size());
    }
    SliceCycles& cycles = distances.cycles.emplace_back(std::move(group.from_mean));
    std::ranges::for_each(cycles, [mean](double& of_slice) { of_slice = std::round(of_slice + mean); });
    std::ranges::sort(group.sms);
    distances.sms.push_back(std::move(group.sms));
  }
  for (const SliceCycles& row : rows) {
    distances.mean_cycles.push_back(std::round(spread_of(row).mean));
  }
  return distances;
}

std::size_t count_wrong(const model::SliceDistances& distances, const std::vector<SliceCycles>& rows) {
  std::size_t wrong = 0;
  for (std::uint32_t sm = 0; sm < rows.size(); ++sm) {
    const SliceCycles expected = model::cycles_to_slices(distances, model::ComputeUnit{sm});
    for (std::size_t slice = 0; slice < expected.size(); ++slice) {
      wrong += std::abs(rows[sm][slice] - expected[slice]) > right_cycles ? 1U : 0U;
    }
  }
  return wrong;
}

}  // namespace

FoundDistances find_slice_distances(Asker& device, const std::vector<Lines>& lines) {
  std::vector<Lines> close = close_together(lines);
  const auto has_few = [](const Lines& of_slice) {
    return of_slice.size() < (rounds_found + rounds_checked) * lines_at_once;
  };
  if (std::ranges::any_of(close, has_few)) {
    return {.reason = "of some slice only few lines are known that lie close together"};
  }
  DistanceTimer timer(device, std::move(close));
  const std::vector<SliceCycles> rows = timer.time(rounds_found);
  std::vector<SliceGroup> groups = groups_of(rows);
  if (const double cycles = nearest_pair(groups).cycles; cycles < 2 * alike_cycles) {
    return {.reason = "distances of SMs differ by " + model::to_text(std::round(cycles * 10) / 10) +
                      " cycles, which are neither none nor clearly some"};
  }
  model::SliceDistances distances = described(std::move(groups), rows);
  FoundDistances found{.fresh = rows.size() * lines.size(),
                       .wrong = count_wrong(distances, timer.time(rounds_checked))};
  if (found.wrong * one_wrong_in > found.fresh) {
    found.reason = "of " + std::to_string(found.fresh) + " pairs of an SM and a slice " + std::to_string(found.wrong) +
                   " took more than " + model::to_text(right_cycles) +
                   " cycles more or less when they were timed again";
    return found;
  }
  found.distances = std::move(distances);
  return found;
}

}  // namespace gpuinfer::infer
