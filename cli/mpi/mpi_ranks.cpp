// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/mpi/mpi_ranks.hpp"

#include <mpi.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "cli/exit_status.hpp"

namespace gpuinfer::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int sign_tag = 1;

// An error of MPI itself ends all processes: that is what MPI does unless it is told otherwise. Two threads talk to
// MPI, never both at a time.
class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;
  ~MpiRanks() override {
    MPI_Request all_are_here = MPI_REQUEST_NULL;
    {
      const std::lock_guard lock(mpi_);
      MPI_Ibarrier(MPI_COMM_WORLD, &all_are_here);
    }
    wait_for(all_are_here);
    watching_.request_stop();
    if (watching_.joinable()) {
      watching_.join();
    }
    MPI_Finalize();
  }

  [[nodiscard]] std::size_t rank() const override { return static_cast<std::size_t>(rank_); }
  [[nodiscard]] std::size_t size() const override { return static_cast<std::size_t>(size_); }

  [[nodiscard]] std::vector<std::string> gather(const std::string& own) override {
    const int own_bytes = static_cast<int>(own.size());
    std::vector<int> bytes(size());
    MPI_Request request = MPI_REQUEST_NULL;
    {
      const std::lock_guard lock(mpi_);
      MPI_Iallgather(&own_bytes, 1, MPI_INT, bytes.data(), 1, MPI_INT, MPI_COMM_WORLD, &request);
    }
    wait_for(request);
    std::vector<int> begins(size());
    std::exclusive_scan(bytes.begin(), bytes.end(), begins.begin(), 0);
    std::string all(static_cast<std::size_t>(begins.back() + bytes.back()), '\0');
    {
      const std::lock_guard lock(mpi_);
      MPI_Iallgatherv(own.data(), own_bytes, MPI_CHAR, all.data(), bytes.data(), begins.data(), MPI_CHAR,
                      MPI_COMM_WORLD, &request);
    }
    wait_for(request);
    std::vector<std::string> of_ranks;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      of_ranks.push_back(all.substr(static_cast<std::size_t>(begins[rank]), static_cast<std::size_t>(bytes[rank])));
    }
    return of_ranks;
  }

  void watch(std::chrono::duration<double> patience, std::function<void(std::size_t)> on_loss) override {
    int threads = MPI_THREAD_SINGLE;
    MPI_Query_thread(&threads);
    if (threads < MPI_THREAD_SERIALIZED || watching_.joinable()) {
      return;
    }
    watching_ = std::jthread([this, patience, on_loss = std::move(on_loss)](const std::stop_token& stop) {
      std::vector<int> others;
      for (int other = 0; other < size_; ++other) {
        if (other != rank_ && (rank_ == 0 || other == 0)) {
          others.push_back(other);
        }
      }
      std::vector<Clock::time_point> heard(size(), Clock::now());
      std::mutex asleep;
      std::unique_lock lock(asleep);
      std::condition_variable_any woken;
      constexpr std::chrono::milliseconds between_signs{500};
      while (!woken.wait_for(lock, stop, between_signs, [&] { return stop.stop_requested(); })) {
        exchange_signs(others, heard);
        for (const int other : others) {
          if (Clock::now() - heard[static_cast<std::size_t>(other)] > patience) {
            on_loss(static_cast<std::size_t>(other));
            const std::lock_guard no_other_call(mpi_);
            MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitStatus::failure));
          }
        }
      }
    });
  }

 private:
  // MPI itself would wait without rest, and keep the other thread from saying that this rank is alive.
  void wait_for(MPI_Request& request) {
    constexpr std::chrono::microseconds longest_pause{500};
    std::chrono::microseconds pause{1};
    while (true) {
      int is_done = 0;
      {
        const std::lock_guard lock(mpi_);
        MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
      }
      if (is_done != 0) {
        return;
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, longest_pause);
    }
  }

  void exchange_signs(const std::vector<int>& others, std::vector<Clock::time_point>& heard) {
    const std::lock_guard lock(mpi_);
    for (const int other : others) {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Isend(nullptr, 0, MPI_CHAR, other, sign_tag, MPI_COMM_WORLD, &request);
      MPI_Request_free(&request);
    }
    while (true) {
      int is_there = 0;
      MPI_Status status{};
      MPI_Iprobe(MPI_ANY_SOURCE, sign_tag, MPI_COMM_WORLD, &is_there, &status);
      if (is_there == 0) {
        return;
      }
      MPI_Recv(nullptr, 0, MPI_CHAR, status.MPI_SOURCE, sign_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      heard[static_cast<std::size_t>(status.MPI_SOURCE)] = Clock::now();
    }
  }

  int rank_ = 0;
  int size_ = 1;
  std::mutex mpi_;
  std::jthread watching_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) Ranks* gpuinfer_join_ranks() {
  int threads = MPI_THREAD_SINGLE;
  return MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads) == MPI_SUCCESS ? new MpiRanks : nullptr;
}

}  // namespace gpuinfer::cli
