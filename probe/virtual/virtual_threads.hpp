// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "model/answerer.hpp"
#include "model/device_description.hpp"
#include "model/errors.hpp"
#include "model/kernels.hpp"
#include "model/random_streams.hpp"
#include "model/stream_simulator.hpp"
#include "model/workload.hpp"
#include "probe/virtual/noise.hpp"

namespace gpuinfer::probe {

// What many threads do at once, each kind of workload with random streams of its own.
class VirtualThreads {
 public:
  VirtualThreads(model::DeviceDescription description, const model::NoiseDescription& noise,
                 const model::RandomStreams& streams)
      : description_(std::move(description)) {
    for (const model::Workload& kind : kinds()) {
      const std::string target(target_of(kind));
      noise_.try_emplace(target, noise, streams.random("threads of " + target)());
    }
  }

  // One small workload of each kind.
  [[nodiscard]] static std::vector<model::Workload> kinds() {
    return {model::SharedLoads{},
            model::ConcurrentLoads{},
            model::Stream{.path = model::StreamPath::global_cg, .dataset_bytes = 1024},
            model::KernelRun{},
            model::ClusterExchange{},
            model::BlockFetch{}};
  }

  [[nodiscard]] bool describes(const model::Workload& kind) const {
    struct Described {
      const VirtualThreads& threads;
      bool operator()(const model::SharedLoads&) const { return threads.description_.shared_memory.has_value(); }
      bool operator()(const model::ConcurrentLoads&) const { return threads.description_.outstanding.has_value(); }
      bool operator()(const model::Stream&) const { return !threads.description_.bandwidth.empty(); }
      bool operator()(const model::KernelRun&) const { return threads.describes_kernels(); }
      bool operator()(const model::ClusterExchange&) const { return threads.description_.cluster.has_value(); }
      bool operator()(const model::BlockFetch& fetch) const {
        return threads.description_.fetches.contains(std::string(to_string(fetch.engine)));
      }
    };
    return std::visit(Described{*this}, kind);
  }

  // Throws InputError that names what is not described.
  model::Timing time(const model::Workload& workload) {
    const model::StreamTime once = std::visit([this](const auto& each) { return time_once(each); }, workload);
    const auto runs = std::visit([](const auto& each) { return std::size_t{each.runs}; }, workload);
    Noise& noise = noise_.at(std::string(target_of(workload)));
    model::Timing timing;
    for (std::size_t i = 0; i < runs; ++i) {
      const double cycles = std::max(1.0, noise.disturbed(once.cycles));
      timing.cycles.push_back(cycles);
      if (once.seconds > 0) {
        timing.seconds.push_back(once.seconds * cycles / once.cycles);
      }
    }
    if (const auto* kernel = std::get_if<model::KernelRun>(&workload); kernel != nullptr && kernel->is_counted) {
      timing.counted = model::traffic_of(description_, *kernel);
    }
    if (const auto* stream = std::get_if<model::Stream>(&workload); stream != nullptr && stream->is_counted) {
      timing.counted = model::traffic_of(description_, *stream);
    }
    return timing;
  }

 private:
  [[nodiscard]] model::StreamTime time_once(const model::SharedLoads& loads) const {
    return {.cycles = model::cycles_of(*description_.shared_memory, loads)};
  }
  [[nodiscard]] model::StreamTime time_once(const model::ConcurrentLoads& loads) const {
    return {.cycles = model::cycles_of(*description_.outstanding, loads)};
  }
  [[nodiscard]] model::StreamTime time_once(const model::Stream& stream) const {
    return model::time_of(description_, stream);
  }
  [[nodiscard]] model::StreamTime time_once(const model::KernelRun& run) {
    const auto key = std::tuple(run.kernel, run.variant, run.size);
    const auto found = kernel_times_.find(key);
    return found != kernel_times_.end() ? found->second
                                        : kernel_times_.emplace(key, model::time_of(description_, run)).first->second;
  }

  [[nodiscard]] model::StreamTime time_once(const model::ClusterExchange& exchange) const {
    return {.cycles = model::cycles_of(*description_.cluster, exchange)};
  }
  [[nodiscard]] model::StreamTime time_once(const model::BlockFetch& fetch) const {
    return {.cycles = model::cycles_of(description_.fetches, fetch)};
  }

  [[nodiscard]] bool describes_kernels() const {
    const auto& bandwidth = description_.bandwidth;
    return (bandwidth.contains("L1") || bandwidth.contains("texture")) && bandwidth.contains("L2_load") &&
           bandwidth.contains("DRAM_load");
  }

  model::DeviceDescription description_;
  std::map<std::string, Noise> noise_;  // by target
  std::map<std::tuple<model::KernelName, model::KernelVariant, std::uint32_t>, model::StreamTime> kernel_times_;
};

}  // namespace gpuinfer::probe
