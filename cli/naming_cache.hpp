// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "model/errors.hpp"

namespace gpuinfer::cli {

// work(), with file and cache put before what it says is wrong with a leaf.
template <class Work>
auto naming_cache(const std::string& file, const std::string& target, const Work& work) {
  try {
    return work();
  } catch (const InputError& error) {
    throw InputError(file + ": caches." + target + "." + error.what());
  }
}

}  // namespace gpuinfer::cli
