// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <string>
#include <vector>

#include "cli/interrupt.hpp"
#include "cli/printable_streams.hpp"
#include "cli/program.hpp"
#include "cli/warnings.hpp"
#include "probe/output_file.hpp"

int main(int argc, char** argv) {
  using gpuinfer::cli::ExitStatus;
  const gpuinfer::cli::InterruptWatch watch;
  // Of a limit on the size of files nothing but the error that a write then gives is wanted.
  std::signal(SIGXFSZ, SIG_IGN);
  gpuinfer::cli::PrintableStreams streams;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const ExitStatus status = gpuinfer::cli::run_program(arguments);
  if (!streams.stdout_is_whole() && status != ExitStatus::failure) {
    gpuinfer::cli::note(gpuinfer::probe::not_whole("stdout").what());
    return static_cast<int>(ExitStatus::failure);
  }
  return static_cast<int>(status);
}
