// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/ranks.hpp"

#include "cli/mpi/mpi_ranks.hpp"
#include "cli/mpi_library.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

std::unique_ptr<Ranks> join_ranks() {
  void* const join = function_of_mpi(join_ranks_name);
  if (join == nullptr) {
    throw InputError(
        "--mpi: this program was built without MPI (gpuinfer_mpi.so is not there); install libopenmpi-dev and build it "
        "again, or leave --mpi out");
  }
  std::unique_ptr<Ranks> ranks(reinterpret_cast<JoinRanks*>(join)());
  if (!ranks) {
    throw InputError("--mpi: MPI does not start; start the program with mpirun, or leave --mpi out");
  }
  return ranks;
}

}  // namespace gpuinfer::cli
