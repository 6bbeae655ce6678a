// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/mpi/mpi_ranks.hpp"

#include <mpi.h>

#include <numeric>

namespace gpuinfer::cli {

namespace {

// An error of MPI itself ends all processes: that is what MPI does unless it is told otherwise.
class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;
  ~MpiRanks() override { MPI_Finalize(); }

  [[nodiscard]] std::size_t rank() const override { return static_cast<std::size_t>(rank_); }
  [[nodiscard]] std::size_t size() const override { return static_cast<std::size_t>(size_); }

  [[nodiscard]] std::vector<std::string> gather(const std::string& own) override {
    const int own_bytes = static_cast<int>(own.size());
    std::vector<int> bytes(size());
    MPI_Allgather(&own_bytes, 1, MPI_INT, bytes.data(), 1, MPI_INT, MPI_COMM_WORLD);
    std::vector<int> begins(size());
    std::exclusive_scan(bytes.begin(), bytes.end(), begins.begin(), 0);
    std::string all(static_cast<std::size_t>(begins.back() + bytes.back()), '\0');
    MPI_Allgatherv(own.data(), own_bytes, MPI_CHAR, all.data(), bytes.data(), begins.data(), MPI_CHAR, MPI_COMM_WORLD);
    std::vector<std::string> of_ranks;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      of_ranks.push_back(all.substr(static_cast<std::size_t>(begins[rank]), static_cast<std::size_t>(bytes[rank])));
    }
    return of_ranks;
  }

 private:
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) Ranks* gpuinfer_join_ranks() {
  return MPI_Init(nullptr, nullptr) == MPI_SUCCESS ? new MpiRanks : nullptr;
}

}  // namespace gpuinfer::cli
