// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/survey/result.hpp"
#include "infer/comparing/description_difference.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::cli::survey {

// A number that was measured on the devices with the common profile.
struct Spread {
  double median = 0;
  double tolerance = 0;  // further away from the median deviates
  double least = 0;
  double most = 0;
};

// What a profile says differently from the common one.
struct Deviation {
  std::vector<infer::LeafDifference> differs;
  std::vector<infer::LeafDifference> less_certain;  // only one of the two knows
};

// Which profiles of a fleet say the same. What is counted (sizes, sets, policies) has to mean the same, as
// infer::differences() judges it; what is measured must not be further from the median of the fleet than such numbers
// spread. Holds one profile for each thing that is said, not for each device, and how often each number was measured.
class Merge {
 public:
  // `profile` is called only where nothing of that structure is known yet.
  void add(const Summary& summary, const std::function<model::DeviceDescription()>& profile);

  // After the last one: finds out which profile is common, the one that most devices have, and how numbers spread.
  void settle();

  // Of those that were added, after settle().
  [[nodiscard]] bool is_common(const Summary& summary) const;
  [[nodiscard]] std::size_t common_count() const;  // devices with the common structure
  [[nodiscard]] std::size_t distinct_count() const { return groups_.size(); }
  [[nodiscard]] const std::map<std::string, Spread>& spreads() const { return spreads_; }
  // Both stay empty for a device that is as the others are. `common`: a profile for which is_common() holds, or, if
  // there is none, common_profile().
  [[nodiscard]] Deviation deviation_of(const model::DeviceDescription& common, const model::DeviceDescription& profile,
                                       const Summary& summary) const;
  [[nodiscard]] const model::DeviceDescription& common_profile() const;

 private:
  struct Group {
    model::DeviceDescription first;
    std::size_t count = 0;
    std::size_t resolved = 0;                                       // leaves of the first
    std::map<std::string, std::map<double, std::size_t>> measured;  // how often each number was, by where it stands
  };

  [[nodiscard]] std::size_t group_of(const model::DeviceDescription& profile) const;
  [[nodiscard]] bool is_out(const std::string& place, double value) const;

  std::vector<Group> groups_;
  std::map<std::string, std::size_t> group_by_structure_;
  std::optional<std::size_t> common_;
  std::map<std::string, Spread> spreads_;
};

}  // namespace gpuinfer::cli::survey
