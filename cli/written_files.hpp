// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

namespace gpuinfer::cli {

// A word of the command line that may name a file.
struct FileWord {
  std::string option;  // "--output"; empty: the word stands alone
  std::string text;
};

// Before anything is measured. Throws InputError when a file cannot be written, when one is written twice or read as
// well, when an archive would take the place of another file, or is to be kept in what is no file.
void check_written_files(std::span<const FileWord> written, std::span<const FileWord> read);

}  // namespace gpuinfer::cli
