// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpuinfer::cli {

enum class ExitStatus : int {
  resolved = 0,    // done, and all that was asked is resolved
  failure = 1,     // also: the things that were compared differ
  bad_input = 2,   // the command line or a file that it names
  unresolved = 3,  // finished, but something is ambiguous or unknown
  no_device = 4,
};

}  // namespace gpuinfer::cli
