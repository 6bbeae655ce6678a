// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpuinfer::cli {

// From construction on, the first Ctrl-C or SIGTERM asks to stop and the second one ends the program.
class InterruptWatch {
 public:
  InterruptWatch();

  [[nodiscard]] static bool stop_requested();
};

}  // namespace gpuinfer::cli
