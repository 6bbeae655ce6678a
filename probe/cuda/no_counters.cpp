// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/counters.hpp"

namespace gpuinfer::probe::cuda {

Counters::Counters() : why_not_("this program was built without CUPTI") {}

Counters::~Counters() = default;

void Counters::rest() {}

std::optional<model::CacheTraffic> Counters::traffic_of(const std::function<void()>& /*prepare*/,
                                                        const std::function<void()>& /*run*/) {
  return std::nullopt;
}

}  // namespace gpuinfer::probe::cuda
