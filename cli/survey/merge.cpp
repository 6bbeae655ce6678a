// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/survey/merge.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "model/errors.hpp"

namespace gpuinfer::cli::survey {

namespace {

using infer::LeafDifference;
using infer::Verdict;

using Counts = std::map<double, std::size_t>;

std::size_t size_of(const Counts& counts) {
  std::size_t size = 0;
  for (const auto& [value, count] : counts) {
    size += count;
  }
  return size;
}

// The least number that at least this share of all does not exceed.
double quantile_of(const Counts& counts, double share) {
  const double wanted = share * static_cast<double>(size_of(counts));
  std::size_t passed = 0;
  for (const auto& [value, count] : counts) {
    passed += count;
    if (static_cast<double>(passed) >= wanted) {
      return value;
    }
  }
  return 0;
}

// Standard deviation, if most numbers are normally distributed and rounded to multiples of `resolution`. Each share of
// them that is close to the median bounds it from above; few that are far away touch the larger shares only.
double deviation_of(const Counts& counts, double median, double resolution) {
  struct Share {
    double share;
    double deviations;  // within which that share lies
  };
  constexpr std::array<Share, 4> shares{{{0.5, 0.6745}, {0.75, 1.1503}, {0.9, 1.6449}, {0.95, 1.96}}};
  Counts distances;
  for (const auto& [value, count] : counts) {
    distances[std::abs(value - median)] += count;
  }
  double least = std::numeric_limits<double>::infinity();
  for (const Share& each : shares) {
    least = std::min(least, (quantile_of(distances, each.share) + resolution / 2) / each.deviations);
  }
  return least;
}

// Six standard deviations of the fleet. Few devices do not show how far that is: then 8 %, since misses differ by 7 %
// from run to run with where the buffer lies; and of latencies never less than a median of whole cycles
// is good for.
Spread spread_of(const Counts& counts, bool is_in_cycles) {
  constexpr double deviations = 6;
  constexpr std::size_t enough_devices = 8;
  constexpr double least_share = 0.01;
  constexpr double share_of_few = 0.08;
  constexpr double least_cycles = 2;
  constexpr double least_latency_cycles = 20;
  // The lower one of two in the middle: a number that was measured.
  const double median = quantile_of(counts, 0.5);
  const bool is_whole = is_in_cycles && median >= least_latency_cycles;
  const bool is_enough = size_of(counts) >= enough_devices;
  double tolerance = (is_enough ? least_share : share_of_few) * std::abs(median);
  if (is_enough) {
    tolerance = std::max(tolerance, deviations * deviation_of(counts, median, is_whole ? 1 : 0));
  }
  if (is_whole) {
    tolerance = std::max(tolerance, least_cycles);
  }
  return {
      .median = median, .tolerance = tolerance, .least = counts.begin()->first, .most = std::prev(counts.end())->first};
}

// Of the device itself, as leaves.
void add_device_facts(const model::DeviceDescription& common, const model::DeviceDescription& profile,
                      std::vector<LeafDifference>& differences) {
  const auto compare = [&](const char* leaf, const std::string& first, const std::string& second) {
    if (first != second) {
      differences.push_back({.section = "device",
                             .leaf = leaf,
                             .verdict = first == "null" || second == "null" ? Verdict::less_certain : Verdict::differs,
                             .first = first,
                             .second = second,
                             .note = ""});
    }
  };
  const auto quoted = [](const std::optional<std::string>& text) { return text ? "\"" + *text + "\"" : "null"; };
  const auto counted = [](const std::optional<unsigned>& count) { return count ? std::to_string(*count) : "null"; };
  compare("compute_capability", quoted(common.device.compute_capability), quoted(profile.device.compute_capability));
  compare("sm_count", counted(common.device.sm_count), counted(profile.device.sm_count));
}

std::vector<LeafDifference> all_differences(const model::DeviceDescription& common,
                                            const model::DeviceDescription& profile) {
  std::vector<LeafDifference> all;
  add_device_facts(common, profile, all);
  for (LeafDifference& difference : infer::differences(common, profile)) {
    if (difference.verdict == Verdict::differs || difference.verdict == Verdict::less_certain) {
      all.push_back(std::move(difference));
    }
  }
  return all;
}

std::string place_of(const LeafDifference& difference) { return difference.section + "." + difference.leaf; }

}  // namespace

// A device that knows less says something of its own, lest two that differ be taken for the same as a third that does
// not know.
std::size_t Merge::group_of(const model::DeviceDescription& profile) const {
  const auto says_the_same = [&](const Group& group) {
    return all_differences(group.first, with_measured_of(profile, group.first)).empty();
  };
  return static_cast<std::size_t>(std::ranges::find_if(groups_, says_the_same) - groups_.begin());
}

void Merge::add(const Summary& summary, const std::function<model::DeviceDescription()>& profile) {
  auto known = group_by_structure_.find(summary.structure);
  if (known == group_by_structure_.end()) {
    model::DeviceDescription description = profile();
    const std::size_t number = group_of(description);
    if (number == groups_.size()) {
      groups_.push_back({.first = std::move(description), .count = 0, .resolved = summary.resolved, .measured = {}});
    }
    known = group_by_structure_.emplace(summary.structure, number).first;
  }
  Group& group = groups_[known->second];
  ++group.count;
  for (const auto& [place, value] : summary.measured) {
    ++group.measured[place][value];
  }
}

void Merge::settle() {
  const auto most = std::ranges::max_element(groups_, std::ranges::less{},
                                             [](const Group& group) { return std::pair(group.count, group.resolved); });
  if (most == groups_.end()) {
    return;
  }
  common_ = static_cast<std::size_t>(most - groups_.begin());
  spreads_.clear();
  const std::set<std::string> in_cycles = places_in_cycles(most->first);
  for (const auto& [place, counts] : most->measured) {
    spreads_[place] = spread_of(counts, in_cycles.contains(place));
  }
}

bool Merge::is_out(const std::string& place, double value) const {
  const auto spread = spreads_.find(place);
  return spread != spreads_.end() && std::abs(value - spread->second.median) > spread->second.tolerance;
}

bool Merge::is_common(const Summary& summary) const {
  const auto group = group_by_structure_.find(summary.structure);
  return group != group_by_structure_.end() && group->second == common_ &&
         std::ranges::none_of(summary.measured,
                              [this](const auto& number) { return is_out(number.first, number.second); });
}

std::size_t Merge::common_count() const { return common_ ? groups_[*common_].count : 0; }

const model::DeviceDescription& Merge::common_profile() const {
  if (!common_) {
    throw Error("a survey without results has no common profile; look at what failed");
  }
  return groups_[*common_].first;
}

Deviation Merge::deviation_of(const model::DeviceDescription& common, const model::DeviceDescription& profile,
                              const Summary& summary) const {
  std::set<std::string> counted;
  for (const LeafDifference& difference : all_differences(common, with_measured_of(profile, common))) {
    if (difference.verdict == Verdict::differs) {
      counted.insert(place_of(difference));
    }
  }
  const auto is_out_in = [&](const std::string& leaf) {
    return std::ranges::any_of(summary.measured, [&](const auto& number) {
      const bool is_of_leaf =
          number.first == leaf || number.first.starts_with(leaf + ".") || number.first.starts_with(leaf + "[");
      return is_of_leaf && is_out(number.first, number.second);
    });
  };
  Deviation deviation;
  for (LeafDifference& difference : all_differences(common, profile)) {
    if (difference.verdict == Verdict::less_certain) {
      deviation.less_certain.push_back(std::move(difference));
    } else if (const std::string leaf = place_of(difference); counted.contains(leaf) || is_out_in(leaf)) {
      deviation.differs.push_back(std::move(difference));
    }
  }
  return deviation;
}

}  // namespace gpuinfer::cli::survey
