// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/after_others_runner.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "probe/cuda/after_others.hpp"
#include "probe/cuda/play.hpp"
#include "probe/gpu/question_words.hpp"

namespace gpuinfer::probe::cuda {
namespace {

constexpr std::uint32_t gathering_words = sizeof(Gathering) / word_bytes;

}  // namespace

AfterOthersRunner::AfterOthersRunner(const Gpu& gpu) : gpu_(&gpu) {
  gpu_->allocate(words_, (gathering_words + 2 * gpu_->sm_count()) * word_bytes, alignof(uint4));
}

std::optional<std::string> AfterOthersRunner::why_refused(const model::Question& question) {
  const auto is_beyond = [](std::uint64_t offset) { return offset >= constant_bytes; };
  if (question.state != model::StartState::invalidated || std::ranges::any_of(question.warm, is_beyond) ||
      std::ranges::any_of(question.record, is_beyond) ||
      question.warm.size() + question.record.size() > most_accesses_after_others) {
    return "other SMs warm up from the start `invalidated`, the first " + std::to_string(constant_bytes) +
           " bytes of constants, and with " + std::to_string(most_accesses_after_others) + " accesses at most; ask so";
  }
  return std::nullopt;
}

std::optional<Played> AfterOthersRunner::play_on(std::uint32_t sm, const model::Question& question) {
  constexpr int tries = 4;
  constexpr std::uint32_t blocks_for_each_sm = 4;
  const std::size_t sm_count = gpu_->sm_count();
  const std::size_t count = question.warm.size() + question.record.size();
  gpu_->check(host_.reserve((count + question.record.size()) * word_bytes), "reach memory for the list of accesses",
              "ask shorter questions");
  auto* const accesses = static_cast<std::uint32_t*>(host_.get());
  std::uint32_t* const latency_cycles = accesses + count;
  gpu::write_words(question, accesses);
  std::vector<std::uint32_t> words(gathering_words + 2 * sm_count);
  const auto warms = words.begin() + static_cast<std::ptrdiff_t>(gathering_words + sm_count);
  for (const model::ComputeUnit unit : question.circumstances.warm_units) {
    warms[static_cast<std::ptrdiff_t>(number_of(unit))] = 1;
  }
  const auto warm_sms = static_cast<std::uint32_t>(question.circumstances.warm_units.size());
  const bool also_records = warms[static_cast<std::ptrdiff_t>(sm)] != 0;
  auto* const memory = reinterpret_cast<std::uint32_t*>(words_.address());  // NOLINT(performance-no-int-to-ptr)
  const AfterOthersLaunch launch{.gathering = reinterpret_cast<Gathering*>(memory),
                                 .seats = memory + gathering_words,
                                 .warms = memory + gathering_words + sm_count,
                                 .accesses = accesses,
                                 .latency_cycles = latency_cycles,
                                 .warm_accesses = static_cast<std::uint32_t>(question.warm.size()),
                                 .recorded_accesses = static_cast<std::uint32_t>(question.record.size()),
                                 .sms = warm_sms + (also_records ? 0 : 1),
                                 .warm_sms = warm_sms,
                                 .sm = sm};
  for (int i = 0; i < tries; ++i) {
    gpu_->check(cudaMemcpy(memory, words.data(), words.size() * word_bytes, cudaMemcpyHostToDevice),
                "say which SMs warm up");
    gpu_->check(play_after_others(blocks_for_each_sm * static_cast<std::uint32_t>(sm_count), launch),
                "start the probe");
    Gathering gathering{};
    gpu_->check(cudaMemcpy(&gathering, memory, sizeof(Gathering), cudaMemcpyDeviceToHost), "finish the probe");
    if (gathering.failed == 0 && gathering.warm == warm_sms) {
      return Played{.sm = sm, .latency_cycles = {latency_cycles, latency_cycles + question.record.size()}};
    }
  }
  return std::nullopt;
}

}  // namespace gpuinfer::probe::cuda
