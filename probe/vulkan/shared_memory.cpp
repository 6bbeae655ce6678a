// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/vulkan/shared_memory.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpuinfer::probe::vulkan {

bool loads_shared(const Gpu& gpu) { return gpu.shared_bytes() >= model::SharedLoads::shared_bytes; }

std::optional<std::string> SharedMemory::why_refused(const model::Workload& workload) const {
  const auto* const loads = std::get_if<model::SharedLoads>(&workload);
  if (loads == nullptr) {
    return source_ + " times no workloads of " + std::string(model::target_of(workload)) +
           "; ask it for Shared, or take a device of CUDA";
  }
  if (loads->runs > gpu_->most_accesses()) {
    return source_ + " takes at most " + std::to_string(gpu_->most_accesses()) + " runs at a time; ask for fewer";
  }
  return std::nullopt;
}

// As many as go out together.
std::vector<model::SharedLoads> SharedMemory::batch_of(std::span<const model::Workload> workloads) const {
  std::vector<model::SharedLoads> batch;
  std::uint64_t runs = 0;
  for (const model::Workload& workload :
       workloads.first(std::min<std::size_t>(workloads.size(), gpu_->units().value_or(1)))) {
    if (why_refused(workload)) {
      break;
    }
    const auto& loads = std::get<model::SharedLoads>(workload);
    runs += loads.runs;
    if (!batch.empty() && (loads.element_bytes != batch.front().element_bytes || runs > gpu_->most_accesses())) {
      break;
    }
    batch.push_back(loads);
  }
  return batch;
}

double SharedMemory::nothing_ticks(std::uint32_t element_bytes) {
  const auto known = nothing_ticks_.find(element_bytes);
  if (known != nothing_ticks_.end()) {
    return known->second;
  }
  constexpr std::uint32_t runs = 63;
  const model::SharedLoads loads = model::strided(element_bytes, element_bytes, runs);
  std::vector<std::uint64_t> ticks = std::move(gpu_->load_shared({&loads, 1}, true).front());
  const auto middle = ticks.begin() + runs / 2;
  std::ranges::nth_element(ticks, middle);
  return nothing_ticks_[element_bytes] = static_cast<double>(*middle);
}

std::vector<model::Timing> SharedMemory::time(std::span<const model::Workload> workloads) {
  std::vector<model::Timing> timings;
  while (timings.size() < workloads.size()) {
    const auto left = workloads.subspan(timings.size());
    if (auto refusal = why_refused(left.front())) {
      timings.push_back({.cycles = {}, .seconds = {}, .refusal = std::move(refusal)});
      continue;
    }
    const std::vector<model::SharedLoads> batch = batch_of(left);
    const double nothing = nothing_ticks(batch.front().element_bytes);
    for (const std::vector<std::uint64_t>& ticks : gpu_->load_shared(batch, false)) {
      model::Timing& timing = timings.emplace_back();
      std::ranges::transform(ticks, std::back_inserter(timing.cycles), [nothing](std::uint64_t all) {
        return std::max(0.0, static_cast<double>(all) - nothing) / model::SharedLoads::loads_of_run;
      });
    }
  }
  return timings;
}

}  // namespace gpuinfer::probe::vulkan
