// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace gpuinfer::infer {

// The cases of a test: all where the environment has GPUINFER_TEST_DEEP, as `scripts/test --deep` does; else the first.
template <class Case>
[[nodiscard]] std::vector<Case> cases(std::size_t quick, std::vector<Case> all) {
  if (std::getenv("GPUINFER_TEST_DEEP") == nullptr) {
    all.resize(quick);
  }
  return all;
}

// All where the environment has GPUINFER_TEST_DEEP; else the one that the seed draws.
template <class Case>
[[nodiscard]] std::vector<Case> one_case(std::uint64_t seed, std::vector<Case> all) {
  if (std::getenv("GPUINFER_TEST_DEEP") == nullptr) {
    all = {all[seed % all.size()]};
  }
  return all;
}

}  // namespace gpuinfer::infer
