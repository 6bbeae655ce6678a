// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

// The files that come with the program: device descriptions in configs, recordings in data. They are looked for
// below $GPUINFER_DATA, beside the installed program, and in the source tree, in this order.
namespace gpuinfer::cli {

// No value when none of the places has it.
[[nodiscard]] std::optional<std::filesystem::path> find_data_file(const std::filesystem::path& relative);

// Names without extension of the files in the first place that has this folder, sorted.
[[nodiscard]] std::vector<std::string> data_file_names(const std::filesystem::path& folder,
                                                       const std::string& extension);

// Where the descriptions lie that users name without a folder: of published GPUs, of those of which a part is known,
// and of devices built to mislead.
inline constexpr std::array described_gpus{"configs/devices", "configs/partial"};
inline constexpr std::array described_devices{described_gpus[0], described_gpus[1], "configs/adversarial"};

// The names in these, folder by folder.
[[nodiscard]] std::vector<std::string> described_device_names(std::span<const char* const> folders = described_devices);

// The profiles beside the bundled recordings, which users name by their place. Sorted.
[[nodiscard]] std::vector<std::filesystem::path> bundled_profiles();

// The description that a user names by the name of one of these devices or by a file. Throws InputError.
[[nodiscard]] std::filesystem::path description_file(const std::string& name_or_file);

}  // namespace gpuinfer::cli
