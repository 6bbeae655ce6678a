// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/ranks.hpp"

// What gpuinfer_mpi.so offers to the program that loads it.
namespace gpuinfer::cli {

// Starts MPI and returns all of its processes; the caller owns them. Once in a process. None: MPI does not start.
using JoinRanks = Ranks*();
inline constexpr const char* join_ranks_name = "gpuinfer_join_ranks";

}  // namespace gpuinfer::cli
