// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gpuinfer::cli {

// A GPU of which recordings come with the program: a folder below `data` that has some named after targets, such as
// L1tex.h5, or one of all targets with its own name, such as h200/h200.h5.
struct BundledGpu {
  std::string name;  // as its recordings say
  std::filesystem::path folder;
  std::vector<std::string> recordings;  // files, that of all targets first
};

// Sorted by folder. Throws InputError where a recording cannot be read.
[[nodiscard]] std::vector<BundledGpu> bundled_gpus();

}  // namespace gpuinfer::cli
