// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/survey/team.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <deque>
#include <utility>

#include "cli/mpi/mpi_team.hpp"
#include "cli/mpi_library.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli::survey {

namespace {

class Alone final : public Team {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  void send(int /*to*/, std::string text) override { letters_.push_back({.from = 0, .text = std::move(text)}); }
  [[nodiscard]] std::optional<Letter> receive() override {
    if (letters_.empty()) {
      return std::nullopt;
    }
    Letter letter = std::move(letters_.front());
    letters_.pop_front();
    return letter;
  }
  void leave() override {}
  void end_all(int /*exit_status*/) override {}

 private:
  std::deque<Letter> letters_;
};

}  // namespace

std::string name_of_host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

std::unique_ptr<Team> alone() { return std::make_unique<Alone>(); }

bool is_started_by_mpi() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMIX_RANK") != nullptr;
}

std::unique_ptr<Team> team_of_mpi() {
  void* const join = function_of_mpi(join_mpi_name);
  if (join == nullptr) {
    throw InputError(
        "survey: was started by MPI, and this program was built without it (gpuinfer_mpi.so is not there); install "
        "libopenmpi-dev and build it again, or leave out mpirun");
  }
  return std::unique_ptr<Team>(reinterpret_cast<JoinMpi*>(join)());
}

}  // namespace gpuinfer::cli::survey
