// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/constant_banks.hpp"

#include "probe/gpu/question_words.hpp"

// play_bank.cu for all architectures, as the driver loads it.
extern "C" const unsigned long long gpuinfer_play_bank_image[];

namespace gpuinfer::probe::cuda {
namespace {

// Blocks go where the fewest are, and those of other banks may all be on one SM.
constexpr std::uint32_t blocks_of_sm = banks + 2;

}  // namespace

ConstantBanks::ConstantBanks(const Gpu& gpu) : gpu_(&gpu) {
  const auto load = [](Bank& bank) {
    cudaFuncAttributes attributes{};
    cudaError_t error = bank.kernel.load(gpuinfer_play_bank_image, "play_bank");
    if (error == cudaSuccess) {
      // A kernel that is brought to the GPU at its first launch would wait for those that wait for it.
      error = cudaFuncGetAttributes(&attributes, bank.kernel.get());
    }
    if (error == cudaSuccess) {
      error = cudaStreamCreateWithFlags(&bank.stream, cudaStreamNonBlocking);
    }
    return error;
  };
  for (Bank& bank : banks_) {
    gpu_->check(load(bank), "load the probe of a bank of constants", "build it for this GPU's architecture");
  }
  void* turns = nullptr;
  gpu_->check(cudaMalloc(&turns, sizeof(Turns)), "find memory for turns", "free memory on it");
  turns_ = static_cast<Turns*>(turns);
}

ConstantBanks::~ConstantBanks() {
  cudaFree(turns_);
  for (const Bank& bank : banks_) {
    if (bank.stream != nullptr) {
      cudaStreamDestroy(bank.stream);
    }
  }
}

std::optional<Played> ConstantBanks::play_on(std::uint32_t sm, const model::Question& question) {
  constexpr int tries = 4;
  const std::size_t count = question.warm.size() + question.record.size();
  gpu_->check(host_.reserve(2 * padded(count) * word_bytes), "reach memory for the list of accesses",
              "ask shorter questions");
  auto* const accesses = static_cast<std::uint32_t*>(host_.get());
  std::uint32_t* const latency_cycles = accesses + padded(count);
  gpu::write_words(question, accesses);
  for (int i = 0; i < tries; ++i) {
    if (launch({.turns = turns_,
                .accesses = accesses,
                .latency_cycles = latency_cycles,
                .count = static_cast<std::uint32_t>(count),
                .sm = sm})) {
      return Played{.sm = sm, .latency_cycles = {latency_cycles + question.warm.size(), latency_cycles + count}};
    }
  }
  return std::nullopt;
}

bool ConstantBanks::launch(BankLaunch how) {
  gpu_->check(cudaMemset(turns_, 0, sizeof(Turns)), "clear the turns");
  gpu_->check(cudaDeviceSynchronize(), "clear the turns");
  void* arguments = &how;
  for (how.bank = 0; how.bank < banks; ++how.bank) {
    gpu_->check(
        cudaLaunchKernel(banks_[how.bank].kernel.get(), dim3(blocks_of_sm * static_cast<unsigned>(gpu_->sm_count())),
                         dim3(1), &arguments, 0, banks_[how.bank].stream),
        "start the probe");
  }
  gpu_->check(cudaDeviceSynchronize(), "finish the probe");
  Turns turns{};
  gpu_->check(cudaMemcpy(&turns, turns_, sizeof(Turns), cudaMemcpyDeviceToHost), "say whose turn it was");
  return turns.failed == 0;
}

}  // namespace gpuinfer::probe::cuda
