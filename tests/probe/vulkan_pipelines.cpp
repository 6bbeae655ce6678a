// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <iostream>

#include "probe/vulkan/pipelines.hpp"

// usage: vulkan_pipelines [CACHE]
// Compiles all shaders for vulkan:0, which may be no more than a compiler, and carries out none. For
// vulkan_isa_test.py: a driver prints their machine code; for vulkan_sass_test.py: a driver keeps it in its pipeline
// cache, which goes to the file.
int main(int count, char** words) {
  try {
    using gpuinfer::probe::vulkan::LoadPath;
    gpuinfer::probe::vulkan::Pipelines pipelines(0);
    for (const LoadPath path :
         {LoadPath::global, LoadPath::past_l1, LoadPath::constant, LoadPath::texel, LoadPath::texel_2d}) {
      for (const bool nothing : {false, true}) {
        static_cast<void>(
            pipelines.play({.path = path, .warm = path, .nothing = nothing, .shape = pipelines.shapes().back()}));
      }
    }
    if (count > 1) {
      const std::vector<std::uint8_t> compiled = pipelines.compiled();
      std::ofstream(words[1], std::ios::binary)
          .write(reinterpret_cast<const char*>(compiled.data()), static_cast<std::streamsize>(compiled.size()));
    }
    std::cout << pipelines.physical().getProperties().deviceName.data() << '\n';
    return 0;
  } catch (const gpuinfer::Error& error) {
    std::cout << error.what() << '\n';
    return 1;
  }
}
