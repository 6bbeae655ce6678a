// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/mpi_library.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <optional>

#include "model/errors.hpp"

namespace fs = std::filesystem;

namespace gpuinfer::cli {

namespace {

std::optional<fs::path> file_of_mpi() {
  constexpr const char* name = "gpuinfer_mpi.so";
  std::error_code not_there;
  const fs::path folder = fs::read_symlink("/proc/self/exe", not_there).parent_path();
  for (const fs::path& place : {folder / name, folder.parent_path() / "lib" / "gpuinfer" / name}) {
    if (fs::exists(place, not_there)) {
      return place;
    }
  }
  return std::nullopt;
}

}  // namespace

void* function_of_mpi(const char* name) {
  const auto file = file_of_mpi();
  if (!file) {
    return nullptr;
  }
  // The parts of Open MPI look for one another among the symbols of the whole process.
  void* const library = dlopen(file->c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* const function = library == nullptr ? nullptr : dlsym(library, name);
  if (function == nullptr) {
    throw InputError(file->string() + ": cannot be loaded (" + dlerror() +
                     "); install the Open MPI that it was built with (openmpi-bin)");
  }
  return function;
}

}  // namespace gpuinfer::cli
