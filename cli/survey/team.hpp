// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace gpuinfer::cli::survey {

struct Letter {
  int from = 0;
  std::string text;
};

// The processes (ranks) that survey a fleet together, numbered from 0. Nothing here waits for another rank, so one that
// is gone holds up nobody; what is sent to it is lost without a word. Letters from one rank arrive in order. For one
// thread only.
class Team {
 public:
  Team() = default;
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  virtual ~Team() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  virtual void send(int to, std::string text) = 0;
  // None: nothing has arrived.
  [[nodiscard]] virtual std::optional<Letter> receive() = 0;
  // At the end, one of the two. Where no rank was lost, they take leave of one another, and each waits for all others.
  virtual void leave() = 0;
  // Else one of them ends all ranks, those that hang too; it need not return.
  virtual void end_all(int exit_status) = 0;
};

[[nodiscard]] std::string name_of_host();

// This process alone.
[[nodiscard]] std::unique_ptr<Team> alone();

// Whether mpirun or a scheduler started this process as one of several.
[[nodiscard]] bool is_started_by_mpi();

// All processes of the MPI job. The part of the program that knows MPI is a file of its own, which is looked for beside
// the program and in ../lib/gpuinfer, so that the program runs where there is no MPI. Throws InputError when that file
// is not there or cannot be loaded.
[[nodiscard]] std::unique_ptr<Team> team_of_mpi();

}  // namespace gpuinfer::cli::survey
