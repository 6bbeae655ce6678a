// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpuinfer::cli {

// A function of gpuinfer_mpi.so, which is all of the program that needs MPI and is loaded when first asked for. Null:
// the file lies neither beside the program nor among its libraries. Throws InputError when it cannot be loaded.
[[nodiscard]] void* function_of_mpi(const char* name);

}  // namespace gpuinfer::cli
