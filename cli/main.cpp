// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <string>
#include <vector>

#include "cli/interrupt.hpp"
#include "cli/program.hpp"

int main(int argc, char** argv) {
  const gpuinfer::cli::InterruptWatch watch;
  // Of a limit on the size of files nothing but the error that a write then gives is wanted.
  std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return static_cast<int>(gpuinfer::cli::run_program(arguments));
}
