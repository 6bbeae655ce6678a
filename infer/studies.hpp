// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

// A row of the table of what can be found out. A new target is an inference and a row.
using Needed = std::vector<std::string>;  // targets

struct Study {
  std::string_view target;  // as --target has it; empty: every load path of this kind
  // What a recording of it holds that only the replay of a whole run explains; empty: single loads.
  std::string_view recorded_as;
  bool (*is_kind_of)(const model::BufferFacts&);  // null: of the target by name alone
  // Fresh questions prove what it resolves, so that it stands although something may have touched the answers.
  bool proves_itself;

  // Finds out `target` and puts it into `profile`, which holds what was found out before.
  Finding (*run)(model::Answerer& device, const std::string& target, const Settings& settings,
                 model::DeviceDescription& profile);
  // Puts it there with nothing known of it but what it was asked, as in `measured`.
  void (*leave_open)(model::DeviceDescription& profile, const std::string& target,
                     const model::DeviceDescription& measured);
  // What has to be found out before, of a device with such a path of the target Latency; null: nothing.
  Needed (*needs)(const std::optional<model::PathDescription>& latency_path) = nullptr;
};

// How `target` of a device is found out: any load path is a cache, unless another row knows better.
[[nodiscard]] const Study& study_of(const std::string& target, const model::DeviceFacts& facts);

// What `target` needs before it, by its row.
[[nodiscard]] Needed needed_before(std::string_view target,
                                   const std::optional<model::PathDescription>& latency_path = {});

}  // namespace gpuinfer::infer
