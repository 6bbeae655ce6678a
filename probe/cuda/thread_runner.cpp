// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/thread_runner.hpp"

#include <algorithm>
#include <iterator>
#include <variant>

namespace gpuinfer::probe::cuda {
namespace {

constexpr std::uint32_t word_bits = 32;

}  // namespace

ThreadRunner::ThreadRunner(Gpu& gpu, const Reach& memory)
    : gpu_(&gpu), memory_(memory), largest_shared_bytes_(gpu.largest_shared_bytes()), exchanges_(gpu, memory) {
  const auto* const begin = reinterpret_cast<const void*>(memory.address);  // NOLINT(performance-no-int-to-ptr)
  for (const std::uint32_t words : {1U, 2U, 4U}) {
    gpu_->check(textures_[words * word_bits].make(begin, memory.bytes, words), "make a texture of its memory");
  }
  gpu_->allocate(times_, gpu_->sm_count() * sizeof(SmTime), alignof(uint4));
}

std::optional<cudaTextureObject_t> ThreadRunner::texture_of(std::uint32_t element_bits, std::uint64_t bytes) const {
  return textures_.at(element_bits).over(bytes);
}

std::optional<std::string> ThreadRunner::why_refused(const model::Workload& workload) const {
  if (auto reason = model::why_malformed(workload)) {
    return reason;
  }
  return std::visit([this](const auto& each) { return this->why_refused_alone(each); }, workload);
}

std::optional<std::string> ThreadRunner::why_refused_alone(const model::Stream& stream) const {
  if (2 * stream.dataset_bytes > memory_.bytes) {
    return "dataset_bytes is more than half of the " + std::to_string(memory_.bytes) +
           " bytes of memory that there are; ask for less";
  }
  if (stream.path == model::StreamPath::texture && !texture_of(stream.element_bits, stream.dataset_bytes)) {
    return "dataset_bytes is more than a linear texture of such elements has; ask for less";
  }
  if (shared_bytes_of(stream) > largest_shared_bytes_) {
    return "a block would need " + std::to_string(shared_bytes_of(stream)) + " bytes of shared memory and may have " +
           std::to_string(largest_shared_bytes_) + "; ask for fewer threads or elements in flight";
  }
  return std::nullopt;
}

std::optional<std::string> ThreadRunner::why_refused_alone(const model::KernelRun& kernel) const {
  if (2 * loaded_room_bytes(kernel) > memory_.bytes) {
    return "its matrices are more than half of the " + std::to_string(memory_.bytes) +
           " bytes of memory that there are; ask for smaller ones";
  }
  if (const std::uint32_t bits = texel_bits_of(kernel); bits != 0 && !texture_of(bits, 2 * matrix_bytes(kernel))) {
    return "two matrices are more than a linear texture of such elements has; ask for smaller ones";
  }
  return std::nullopt;
}

std::vector<model::Timing> ThreadRunner::run(std::span<const model::Workload> workloads) {
  std::vector<model::Timing> timings;
  while (timings.size() < workloads.size()) {
    const auto left = workloads.subspan(timings.size());
    if (auto refusal = why_refused(left.front())) {
      timings.push_back({.cycles = {}, .seconds = {}, .refusal = std::move(refusal)});
      continue;
    }
    std::size_t together = 0;
    while (together < std::min(left.size(), gpu_->sm_count()) &&
           std::holds_alternative<model::SharedLoads>(left[together]) && !why_refused(left[together])) {
      ++together;
    }
    if (together > 0) {
      std::ranges::move(run_shared(left.first(together)), std::back_inserter(timings));
    } else {
      timings.push_back(std::visit([this](const auto& each) { return run_alone(each); }, left.front()));
    }
  }
  if (counters_) {
    counters_->rest();
  }
  return timings;
}

std::vector<model::Timing> ThreadRunner::run_shared(std::span<const model::Workload> batch) {
  std::uint32_t runs = 0;
  for (const model::Workload& workload : batch) {
    runs += std::get<model::SharedLoads>(workload).runs;
  }
  gpu_->check(host_.reserve(batch.size() * sizeof(SharedLoadsSeat) + runs * sizeof(std::uint32_t)),
              "reach memory for the list of times", "ask for fewer runs");
  auto* const seats = static_cast<SharedLoadsSeat*>(host_.get());
  auto* const cycles = reinterpret_cast<std::uint32_t*>(seats + batch.size());
  std::uint32_t first_run = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto& loads = std::get<model::SharedLoads>(batch[i]);
    seats[i].element_bytes = loads.element_bytes;
    seats[i].runs = loads.runs;
    seats[i].first_run = first_run;
    std::ranges::copy(loads.lane_offsets, seats[i].lane_offsets);
    first_run += loads.runs;
  }
  gpu_->check(load_shared(static_cast<std::uint32_t>(batch.size()), {.seats = seats, .cycles = cycles}),
              "start loads from shared memory");
  gpu_->check(cudaDeviceSynchronize(), "finish loads from shared memory");
  std::vector<model::Timing> timings(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::uint32_t* const begin = cycles + seats[i].first_run;
    std::transform(begin, begin + seats[i].runs, std::back_inserter(timings[i].cycles),
                   [](std::uint32_t all) { return static_cast<double>(all) / model::SharedLoads::loads_of_run; });
  }
  return timings;
}

model::Timing ThreadRunner::run_alone(const model::SharedLoads& loads) {
  const model::Workload workload = loads;
  return run_shared({&workload, 1}).front();
}

model::Timing ThreadRunner::run_alone(const model::ConcurrentLoads& loads) {
  // Lines that no other loads come near: beyond those that are timed.
  constexpr std::uint64_t lines_bytes =
      std::uint64_t{model::most_block_threads} * model::ConcurrentLoads::most_loads * 128;
  const auto* const lines = reinterpret_cast<const char*>(memory_.address);  // NOLINT(performance-no-int-to-ptr)
  gpu_->check(host_.reserve(loads.runs * sizeof(std::uint32_t)), "reach memory for the list of times",
              "ask for fewer runs");
  auto* const cycles = static_cast<std::uint32_t*>(host_.get());
  ConcurrentLoadsLaunch launch{.lines = lines,
                               .warm_lines = loads.from_l2 ? lines : lines + lines_bytes,
                               .threads_per_line = loads.threads_per_line,
                               .runs = loads.from_l2 ? loads.runs : 1,
                               .cycles = cycles};
  for (std::uint32_t run = 0; run < loads.runs; run += launch.runs) {
    if (!loads.from_l2) {
      gpu_->stream_through_l2();
      launch.cycles = cycles + run;
    }
    gpu_->check(load_concurrently(loads.threads, loads.loads_per_thread, launch), "start loads side by side");
  }
  gpu_->check(cudaDeviceSynchronize(), "finish loads side by side");
  return {.cycles = {cycles, cycles + loads.runs}, .seconds = {}};
}

void ThreadRunner::time_all(model::Timing& timing, const std::string& what, const Start& start) {
  constexpr double nanoseconds_of_second = 1e9;
  std::vector<SmTime> times(gpu_->sm_count());
  auto* const times_on_gpu = reinterpret_cast<SmTime*>(times_.address());  // NOLINT(performance-no-int-to-ptr)
  gpu_->check(cudaMemcpy(times_on_gpu, times.data(), times_.bytes(), cudaMemcpyHostToDevice), "clear times");
  gpu_->check(start(times_on_gpu), "start " + what);
  gpu_->check(cudaMemcpy(times.data(), times_on_gpu, times_.bytes(), cudaMemcpyDeviceToHost), "finish " + what);
  unsigned long long cycles = 0;
  SmTime all;
  for (const SmTime& time : times) {
    if (time.last_cycle != 0) {
      cycles = std::max(cycles, time.last_cycle - time.first_cycle);
      all.first_nanosecond = std::min(all.first_nanosecond, time.first_nanosecond);
      all.last_nanosecond = std::max(all.last_nanosecond, time.last_nanosecond);
    }
  }
  timing.cycles.push_back(static_cast<double>(cycles));
  timing.seconds.push_back(static_cast<double>(all.last_nanosecond - all.first_nanosecond) / nanoseconds_of_second);
}

model::Timing ThreadRunner::run_alone(const model::Stream& stream) {
  auto* const from = reinterpret_cast<char*>(memory_.address);  // NOLINT(performance-no-int-to-ptr)
  StreamLaunch launch{.from = from,
                      .to = from + memory_.bytes / 2,
                      .texture = texture_of(stream.element_bits, stream.dataset_bytes).value_or(0),
                      .round_bytes = stream.part_bytes == 0 ? stream.dataset_bytes : stream.part_bytes,
                      .block_bytes = stream.dataset_bytes / stream.blocks,
                      .has_parts = stream.part_bytes != 0,
                      .rounds = stream.elements_per_thread / stream.elements_in_flight,
                      .times = nullptr};
  const auto prepare = [&] {
    if (stream.drops_l2) {
      gpu_->stream_through_l2();
    }
  };
  const auto start = [&](SmTime* times) {
    launch.times = times;
    return cuda::stream(stream, launch);
  };
  return time_runs("a stream", stream.runs, stream.is_counted, prepare, start);
}

model::Timing ThreadRunner::run_alone(const model::KernelRun& kernel) {
  auto* const loaded = reinterpret_cast<char*>(memory_.address);  // NOLINT(performance-no-int-to-ptr)
  const std::uint32_t bits = texel_bits_of(kernel);
  KernelLaunch launch{.loaded = loaded,
                      .updated = loaded + memory_.bytes / 2,
                      .texture = bits == 0 ? 0 : texture_of(bits, 2 * matrix_bytes(kernel)).value_or(0),
                      .times = nullptr};
  const auto start = [&](SmTime* times) {
    launch.times = times;
    return run_kernel(kernel, launch);
  };
  const auto prepare = [&] {
    gpu_->stream_through_l2();
    run_before(kernel);
  };
  return time_runs("a kernel", kernel.runs, kernel.is_counted, prepare, start);
}

// Their own matrices lie behind what the kernel loads.
void ThreadRunner::run_before(const model::KernelRun& kernel) {
  auto* const loaded = reinterpret_cast<char*>(memory_.address);  // NOLINT(performance-no-int-to-ptr)
  const std::uint64_t bytes = matrix_bytes(kernel);
  model::KernelRun before = kernel;
  before.variant = model::KernelVariant::plain;
  const auto start = [&](model::KernelName name, std::uint64_t from, char* to) {
    before.kernel = name;
    const KernelLaunch launch{
        .loaded = loaded + from,
        .updated = to,
        .texture = 0,
        .times = reinterpret_cast<SmTime*>(times_.address())};  // NOLINT(performance-no-int-to-ptr)
    gpu_->check(run_kernel(before, launch), "start a kernel");
  };
  if (kernel.kernel == model::KernelName::mm3_kernel2) {
    start(model::KernelName::mm3_kernel1, 2 * bytes, loaded + memory_.bytes / 2 + bytes);
  } else if (kernel.kernel == model::KernelName::mm3_kernel3) {
    start(model::KernelName::mm3_kernel1, 2 * bytes, loaded);
    start(model::KernelName::mm3_kernel2, 4 * bytes, loaded + bytes);
  }
}

model::Timing ThreadRunner::time_runs(const std::string& what, std::uint32_t runs, bool is_counted,
                                      const std::function<void()>& prepare, const Start& start) {
  model::Timing timing;
  for (std::uint32_t run = 0; run < runs; ++run) {
    prepare();
    time_all(timing, what, start);
  }
  if (is_counted) {
    count(timing, what, prepare, start);
  }
  return timing;
}

void ThreadRunner::count(model::Timing& timing, const std::string& what, const std::function<void()>& prepare,
                         const Start& start) {
  if (!counters_) {
    counters_.emplace();
  }
  auto* const times = reinterpret_cast<SmTime*>(times_.address());  // NOLINT(performance-no-int-to-ptr)
  const auto finish = [&] { gpu_->check(cudaDeviceSynchronize(), "finish " + what); };
  timing.counted = counters_->traffic_of(
      [&] {
        prepare();
        finish();
      },
      [&] {
        gpu_->check(start(times), "start " + what);
        finish();
      });
  timing.why_not_counted = counters_->why_not();
}

}  // namespace gpuinfer::probe::cuda
