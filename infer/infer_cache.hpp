// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "infer/settings.hpp"
#include "model/answerer.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

// What was found out about one cache. Every leaf of `cache` that is not null is resolved in `evidence`; what is
// ambiguous or unknown is null there, with the reason beside it.
struct CacheFinding {
  model::CacheDescription cache;
  model::CacheEvidence evidence;
  std::vector<std::string> warnings;  // one sentence each: observed value, threshold, what to do
  std::size_t questions = 0;
  std::size_t accesses = 0;
  bool ended_early = false;  // by budget, deadline, Ctrl-C or a device that failed; the finding holds what is known

  [[nodiscard]] bool all_resolved() const;
};

// Asks `device` about the cache behind the load path `target` until its description is proven or cannot be.
// Throws DeviceError only when the device failed before anything was learned.
[[nodiscard]] CacheFinding infer_cache(model::Answerer& device, const std::string& target, const Settings& settings);

}  // namespace gpuinfer::infer
