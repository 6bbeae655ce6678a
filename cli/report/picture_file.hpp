// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/report/drawing.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::cli::report {

// Each of these targets that is a cache or a texture, as pages draw it. Above them the machine, where they are all that
// there are (`is_whole`) or none of them is drawn.
[[nodiscard]] Drawing picture_of_profile(const model::DeviceDescription& profile,
                                         const std::vector<std::string>& targets, bool is_whole);

enum class PictureFormat : std::uint8_t { svg, pdf, png };

// By the ending of a file's name. Throws InputError for another one.
[[nodiscard]] PictureFormat picture_format_of(const std::string& file);

// PDF and PNG (two pixels to one of CSS) are made by rsvg-convert of librsvg. Throws Error where it is not installed or
// fails.
[[nodiscard]] std::string picture_file(const Drawing& drawing, const std::string& title, PictureFormat format);

}  // namespace gpuinfer::cli::report
