// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "cli/interrupt.hpp"
#include "cli/program.hpp"

int main(int argc, char** argv) {
  const gpuinfer::cli::InterruptWatch watch;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return static_cast<int>(gpuinfer::cli::run_program(arguments));
}
