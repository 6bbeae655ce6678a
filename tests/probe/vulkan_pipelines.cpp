// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "probe/vulkan/pipelines.hpp"

// Compiles all shaders for vulkan:0, which may be no more than a compiler, and carries out none. For
// vulkan_isa_test.py: a driver prints their machine code.
int main() {
  try {
    const gpuinfer::probe::vulkan::Pipelines pipelines(0);
    std::cout << pipelines.physical().getProperties().deviceName.data() << '\n';
    return 0;
  } catch (const gpuinfer::Error& error) {
    std::cout << error.what() << '\n';
    return 1;
  }
}
