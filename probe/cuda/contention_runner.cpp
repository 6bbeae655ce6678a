// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/contention_runner.hpp"

#include <algorithm>

namespace gpuinfer::probe::cuda {
namespace {

template <class Element>
Element* elements_of(const Buffer& buffer) {
  return reinterpret_cast<Element*>(buffer.address());  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

ContentionRunner::ContentionRunner(const Gpu& gpu) : gpu_(&gpu) {
  gpu_->allocate(pairs_, most_contended_pairs * sizeof(uint2), alignof(uint4));
  gpu_->allocate(counts_, (most_contended_pairs + 1) * sizeof(std::uint32_t), alignof(uint4));
}

bool ContentionRunner::is_offered() {
  int device = 0;
  int offered = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&offered, cudaDevAttrCooperativeLaunch, device) == cudaSuccess && offered != 0;
}

std::vector<float> ContentionRunner::time(const Reach& reach, std::span<const std::uint64_t> offsets) {
  const auto blocks = static_cast<std::uint32_t>(gpu_->sm_count());
  auto* const memory = reinterpret_cast<std::uint32_t*>(reach.address);  // NOLINT(performance-no-int-to-ptr)
  auto* const pairs = elements_of<uint2>(pairs_);
  auto* const cycles = elements_of<std::uint32_t>(counts_);
  std::vector<float> times;
  times.reserve(offsets.size());
  while (times.size() < offsets.size()) {
    const auto part = offsets.subspan(
        times.size(), std::min<std::size_t>(2 * std::size_t{most_contended_pairs}, offsets.size() - times.size()));
    std::vector<std::uint32_t> words(part.size());
    std::ranges::transform(part, words.begin(), [](std::uint64_t offset) {
      return static_cast<std::uint32_t>(offset / sizeof(std::uint32_t));
    });
    gpu_->check(cudaMemcpy(pairs, words.data(), words.size() * sizeof(std::uint32_t), cudaMemcpyHostToDevice),
                "list contended pairs");
    gpu_->check(cudaMemset(cycles, 0, counts_.bytes()), "clear times");
    gpu_->check(contend(blocks, {.memory = memory,
                                 .pairs = pairs,
                                 .count = static_cast<std::uint32_t>(part.size() / 2),
                                 .cycles = cycles,
                                 .ready = cycles + most_contended_pairs}),
                "start contended pairs");
    std::vector<std::uint32_t> all(part.size() / 2);
    gpu_->check(cudaMemcpy(all.data(), cycles, all.size() * sizeof(std::uint32_t), cudaMemcpyDeviceToHost),
                "finish contended pairs");
    for (const std::uint32_t sum : all) {
      times.insert(times.end(), 2, static_cast<float>(sum / blocks));
    }
  }
  return times;
}

}  // namespace gpuinfer::probe::cuda
