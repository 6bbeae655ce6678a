// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "infer/comparing/merged_description.hpp"

// Where users may name several profiles of one device.
namespace gpuinfer::cli {

// Whether a word stands for a profile, as read_profile() reads it, and not for a recording: by how its file
// begins.
[[nodiscard]] bool names_profile(const std::string& name_or_file);

// Throws InputError.
[[nodiscard]] infer::Piece read_piece(const std::string& name_or_file);

// One profile as it is, of several what infer::merge_pieces() makes of them. Warns of pieces that do not say which
// device they are of. Throws InputError.
[[nodiscard]] model::DeviceDescription merged(std::span<const infer::Piece> pieces);
[[nodiscard]] model::DeviceDescription read_merged(std::span<const std::string> names_or_files);

// How messages name them.
[[nodiscard]] std::string text_of_files(std::span<const std::string> names_or_files);

}  // namespace gpuinfer::cli
