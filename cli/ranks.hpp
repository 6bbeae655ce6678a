// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gpuinfer::cli {

// The processes (ranks) of an MPI job, numbered from 0, which all do the same and share what takes long. To be called
// by one thread only.
class Ranks {
 public:
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  // Takes leave of the others; waits for them.
  virtual ~Ranks() = default;

  [[nodiscard]] virtual std::size_t rank() const = 0;
  [[nodiscard]] virtual std::size_t size() const = 0;

  // What each rank gives, by rank, the same for all of them. All must call it, and it waits until they do. Less than
  // 2 GiB in all.
  [[nodiscard]] virtual std::vector<std::string> gather(const std::string& own) = 0;

  // From now on a thread of each rank says that it is alive. Where a rank says nothing for so long, another one calls
  // on_loss(rank) in that thread, and all ranks are ended, those that hang too, with status `failure`. All must call
  // it.
  virtual void watch(std::chrono::duration<double> patience, std::function<void(std::size_t)> on_loss) = 0;
};

// All processes of the MPI job that this one belongs to, or this one alone where nothing started several. The part of
// the program that knows MPI is a file of its own, looked for beside the program and in ../lib/gpuinfer, so that the
// program runs where there is no MPI. Throws InputError when that file is not there or cannot be loaded.
[[nodiscard]] std::unique_ptr<Ranks> join_ranks();

}  // namespace gpuinfer::cli
