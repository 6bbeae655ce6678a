// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/trace.hpp"

namespace gpuinfer::probe::gpu {

// The number of the 4-byte word of each access, those of the warm-up first, as kernels and shaders take them.
inline void write_words(const model::Question& question, std::uint32_t* words) {
  const auto word_of = [](std::uint64_t offset) { return static_cast<std::uint32_t>(offset / sizeof(std::uint32_t)); };
  std::ranges::transform(question.record, std::ranges::transform(question.warm, words, word_of).out, word_of);
}

}  // namespace gpuinfer::probe::gpu
