// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/mpi/mpi_team.hpp"

#include <mpi.h>

#include <chrono>
#include <list>
#include <thread>
#include <utility>

namespace gpuinfer::cli::survey {

namespace {

constexpr int letter_tag = 1;

class MpiTeam final : public Team {
 public:
  MpiTeam() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  // NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): forget_what_arrived() asks how it ended
  void send(int to, std::string text) override {
    Sending& sending = sendings_.emplace_back(Sending{.text = std::move(text), .request = MPI_REQUEST_NULL});
    if (MPI_Isend(sending.text.data(), static_cast<int>(sending.text.size()), MPI_CHAR, to, letter_tag, MPI_COMM_WORLD,
                  &sending.request) != MPI_SUCCESS) {
      sendings_.pop_back();
    }
  }
  // NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)

  [[nodiscard]] std::optional<Letter> receive() override {
    forget_what_arrived();
    int is_there = 0;
    MPI_Status status{};
    if (MPI_Iprobe(MPI_ANY_SOURCE, letter_tag, MPI_COMM_WORLD, &is_there, &status) != MPI_SUCCESS || is_there == 0) {
      return std::nullopt;
    }
    int bytes = 0;
    MPI_Get_count(&status, MPI_CHAR, &bytes);
    Letter letter{.from = status.MPI_SOURCE, .text = std::string(static_cast<std::size_t>(bytes), '\0')};
    if (MPI_Recv(letter.text.data(), bytes, MPI_CHAR, letter.from, letter_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE) !=
        MPI_SUCCESS) {
      return std::nullopt;
    }
    return letter;
  }

  void leave() override {
    wait_for_letters();
    MPI_Finalize();
  }

  // MPI_Finalize() would wait for those that are lost, and mpirun for those that hang.
  void end_all(int exit_status) override {
    wait_for_letters();
    MPI_Abort(MPI_COMM_WORLD, exit_status);
  }

 private:
  // At a place of its own until it has arrived.
  struct Sending {
    std::string text;
    MPI_Request request;
  };

  // Not long: some are to ranks that are lost.
  void wait_for_letters() {
    constexpr std::chrono::milliseconds step{5};
    constexpr std::chrono::seconds patience{1};
    const auto until = std::chrono::steady_clock::now() + patience;
    for (forget_what_arrived(); !sendings_.empty() && std::chrono::steady_clock::now() < until; forget_what_arrived()) {
      std::this_thread::sleep_for(step);
    }
  }

  void forget_what_arrived() {
    std::erase_if(sendings_, [](Sending& sending) {
      int has_arrived = 0;
      return MPI_Test(&sending.request, &has_arrived, MPI_STATUS_IGNORE) != MPI_SUCCESS || has_arrived != 0;
    });
  }

  int rank_ = 0;
  int size_ = 1;
  std::list<Sending> sendings_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) Team* gpuinfer_join_mpi() { return new MpiTeam; }

}  // namespace gpuinfer::cli::survey
