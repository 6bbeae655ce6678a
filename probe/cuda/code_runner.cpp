// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/code_runner.hpp"

#include <algorithm>
#include <string>

// run_code.cu and run_immediates.cu for all architectures, as the driver loads them.
extern "C" const unsigned long long gpuinfer_run_code_image[];
extern "C" const unsigned long long gpuinfer_run_immediates_image[];

namespace gpuinfer::probe::cuda {
namespace {

// The pieces of one lap.
std::uint32_t pieces_of(const model::Question& question, std::uint32_t piece_bytes) {
  const std::uint64_t last = *std::ranges::max_element(question.record);
  return static_cast<std::uint32_t>(last / piece_bytes + 1);
}

bool is_laps(const model::AccessSequence& sequence, std::uint32_t pieces, std::uint32_t piece_bytes) {
  std::uint64_t next = 0;
  const bool in_order = std::ranges::all_of(sequence, [&](std::uint64_t offset) {
    const bool is_next = offset == next;
    next = (next + piece_bytes) % (std::uint64_t{pieces} * piece_bytes);
    return is_next;
  });
  return in_order && next == 0;
}

}  // namespace

CodeRunner::CodeRunner(const Gpu& gpu, Pieces pieces) : gpu_(&gpu), pieces_(pieces) {
  gpu_->check(pieces == Pieces::code ? kernel_.load(gpuinfer_run_code_image, "run_code")
                                     : kernel_.load(gpuinfer_run_immediates_image, "run_immediates"),
              "load straight-line code", "build it for this GPU's architecture");
  gpu_->allocate(blocks_, sizeof(std::uint32_t), alignof(std::uint32_t));
}

std::optional<std::string> CodeRunner::why_refused(Pieces pieces, const model::Question& question) {
  const auto is_in_laps = [&](const model::AccessSequence& sequence) {
    return is_laps(sequence, pieces_of(question, piece_bytes(pieces)), piece_bytes(pieces));
  };
  if (question.record.empty() || !is_in_laps(question.record) || !is_in_laps(question.warm)) {
    return "code runs in laps from its begin on, piece after piece; ask for whole laps of one length";
  }
  return std::nullopt;
}

std::optional<Played> CodeRunner::run_on(std::uint32_t sm, const model::Question& question) {
  constexpr int tries = 8;
  const std::uint32_t pieces = pieces_of(question, piece_bytes(pieces_));
  const std::size_t recorded = question.record.size();
  gpu_->check(host_.reserve(recorded * sizeof(std::uint32_t)), "reach memory for the list of times",
              "ask shorter questions");
  auto* const cycles = static_cast<std::uint32_t*>(host_.get());
  auto* const blocks_on_gpu = reinterpret_cast<std::uint32_t*>(blocks_.address());  // NOLINT(performance-no-int-to-ptr)
  CodeLaunch launch{.blocks = blocks_on_gpu,
                    .cycles = cycles,
                    .pieces = pieces,
                    .warm_laps = static_cast<std::uint32_t>(question.warm.size() / pieces),
                    .laps = static_cast<std::uint32_t>(recorded / pieces),
                    .sm = sm};
  void* arguments = &launch;
  for (int i = 0; i < tries; ++i) {
    std::uint32_t blocks = 0;
    gpu_->check(cudaMemset(blocks_on_gpu, 0, sizeof(blocks)), "clear the count of blocks");
    gpu_->check(
        cudaLaunchKernel(kernel_.get(), dim3(static_cast<unsigned>(gpu_->sm_count())), dim3(1), &arguments, 0, nullptr),
        "start the code");
    gpu_->check(cudaMemcpy(&blocks, blocks_on_gpu, sizeof(blocks), cudaMemcpyDeviceToHost), "finish the code");
    if (blocks == 1) {
      return Played{.sm = sm, .latency_cycles = {cycles, cycles + recorded}};
    }
  }
  return std::nullopt;
}

}  // namespace gpuinfer::probe::cuda
