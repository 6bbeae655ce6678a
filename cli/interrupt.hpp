// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace gpuinfer::cli {

// What Ctrl-C, SIGTERM and, unless it is ignored (nohup), SIGHUP do. From construction on, the first one ends the
// program with a sentence and the exit status `unresolved`. After will_conclude() it only asks to stop: what was
// measured is always told, on a busy machine late. The second one always ends the program at once.
class InterruptWatch {
 public:
  InterruptWatch();

  [[nodiscard]] static bool stop_requested();

  // What is known when the program is to stop will be told.
  static void will_conclude();
  // The same, but a second after the first signal the program is ended: of who may lose what is going on.
  static void will_conclude_in_a_second();

  // Whoever will not have called will_conclude() by then is ended. Nothing without a watch.
  static void end_after(std::chrono::duration<double> time);
};

}  // namespace gpuinfer::cli
