// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/workload.hpp"
#include "probe/cuda/counters.hpp"
#include "probe/cuda/exchange_runner.hpp"
#include "probe/cuda/gpu.hpp"
#include "probe/cuda/kernels.hpp"
#include "probe/cuda/threads.hpp"

namespace gpuinfer::probe::cuda {

// Carries out workloads, one launch each, but the loads from shared memory, of which each SM carries out one.
class ThreadRunner {
 public:
  // `gpu` stays with the caller. Streams and kernels load from the first half of `memory`, which is all zeros, and
  // store zeros, the timed ones to the second half; other loads go to its begin. Throws DeviceError.
  ThreadRunner(Gpu& gpu, const Reach& memory);

  // One timing for each. Throws DeviceError.
  [[nodiscard]] std::vector<model::Timing> run(std::span<const model::Workload> workloads);

 private:
  [[nodiscard]] std::optional<std::string> why_refused(const model::Workload& workload) const;
  // None: no texture of such texels reaches so far.
  [[nodiscard]] std::optional<cudaTextureObject_t> texture_of(std::uint32_t element_bits, std::uint64_t bytes) const;
  [[nodiscard]] std::vector<model::Timing> run_shared(std::span<const model::Workload> batch);
  [[nodiscard]] model::Timing run_alone(const model::SharedLoads& loads);
  [[nodiscard]] model::Timing run_alone(const model::ConcurrentLoads& loads);
  [[nodiscard]] model::Timing run_alone(const model::Stream& stream);
  [[nodiscard]] model::Timing run_alone(const model::KernelRun& kernel);
  [[nodiscard]] model::Timing run_alone(const model::ClusterExchange& work) { return exchanges_.time(work); }
  [[nodiscard]] model::Timing run_alone(const model::BlockFetch& work) { return exchanges_.time(work); }
  [[nodiscard]] static std::optional<std::string> why_refused_alone(const model::SharedLoads& /*loads*/) { return {}; }
  [[nodiscard]] static std::optional<std::string> why_refused_alone(const model::ConcurrentLoads& /*loads*/) {
    return {};
  }
  [[nodiscard]] std::optional<std::string> why_refused_alone(const model::ClusterExchange& work) const {
    return exchanges_.why_refused(work);
  }
  [[nodiscard]] std::optional<std::string> why_refused_alone(const model::BlockFetch& work) const {
    return exchanges_.why_refused(work);
  }
  [[nodiscard]] std::optional<std::string> why_refused_alone(const model::Stream& stream) const;
  [[nodiscard]] std::optional<std::string> why_refused_alone(const model::KernelRun& kernel) const;
  // The kernels of 3MM that come before this one.
  void run_before(const model::KernelRun& kernel);
  // Starts a launch that tells its time to the SMs' times that it is given.
  using Start = std::function<cudaError_t(SmTime*)>;
  // Each run comes after `prepare`. `what`: for errors.
  [[nodiscard]] model::Timing time_runs(const std::string& what, std::uint32_t runs, bool is_counted,
                                        const std::function<void()>& prepare, const Start& start);
  void time_all(model::Timing& timing, const std::string& what, const Start& start);
  void count(model::Timing& timing, const std::string& what, const std::function<void()>& prepare, const Start& start);

  Gpu* gpu_;
  Reach memory_;
  std::map<std::uint32_t, LinearTexture> textures_;  // over the begin of the memory, by bits of a texel
  std::uint64_t largest_shared_bytes_ = 0;
  HostMemory host_;
  ExchangeRunner exchanges_;
  std::optional<Counters> counters_;
  Buffer times_;  // on the GPU: telling memory of the host would take as long as a short kernel
};

}  // namespace gpuinfer::probe::cuda
