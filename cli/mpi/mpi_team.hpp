// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/survey/team.hpp"

// What gpuinfer_mpi.so offers to the program that loads it.
namespace gpuinfer::cli::survey {

// Starts MPI and returns all of its processes; the caller owns the Team. Once in a process.
using JoinMpi = Team*();
inline constexpr const char* join_mpi_name = "gpuinfer_join_mpi";

}  // namespace gpuinfer::cli::survey
