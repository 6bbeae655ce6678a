// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace gpuinfer::cli {

// All bytes of the file. None: it cannot be opened.
[[nodiscard]] std::optional<std::string> file_text(const std::filesystem::path& file);

// The first bytes, enough to tell what kind of file it is; empty when it cannot be opened.
[[nodiscard]] std::string begin_of_file(const std::filesystem::path& file);

}  // namespace gpuinfer::cli
