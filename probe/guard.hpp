// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpuinfer::probe {

struct GuardFiles {
  int lifeline;  // ends when the command has to
  int input;     // of the command, as the others
  int output;
  int errors;
};

// Runs a command of the shell in a copy of this process that has just been made by fork(), and ends as the command did.
// When the command or the lifeline ends, all that the command started is ended, too, also what left its process group
// or session: first by SIGTERM, and what is there a moment later by SIGKILL. Only what another service starts for it
// (systemd-run, at, a container) is out of reach.
//
// Nothing here allocates or locks: other threads may have held any lock at the fork.
[[noreturn]] void guard(const char* command, GuardFiles files);

}  // namespace gpuinfer::probe
