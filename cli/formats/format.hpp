// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/device_description.hpp"

// Profiles in the forms of other programs. A format is one file, NAME.cpp with `_` for `-`, and its line in table.cpp.
namespace gpuinfer::cli {

// Misses of the described cache and of the exported one on the same loads, counted by the reference simulator.
struct Replay {
  std::string loads;  // in words
  std::size_t accesses = 0;
  std::size_t described_misses = 0;
  std::size_t exported_misses = 0;
};

// Something that the profile says and the format cannot, or that the format needs and the profile does not say.
struct ExportLoss {
  std::string where;  // a key of the profile, `caches.L1tex.index`, or the option that needs it
  std::string what;   // what stands in its place, one clause without a full stop
  std::vector<Replay> replays = {};
};

struct Exported {
  std::string text;
  std::vector<ExportLoss> losses;
};

struct ExportFormat {
  std::string_view name;
  std::string_view what;  // what it is for, in one line
  // Nothing that is not known is made up: it is left out, or what stands in for it is among the losses.
  Exported (*write)(const model::DeviceDescription& profile);
};

// In the order of `list formats`.
[[nodiscard]] std::span<const ExportFormat> export_formats();

// Throws InputError that lists the names.
[[nodiscard]] const ExportFormat& export_format(std::string_view name);

// One line: `caches.L1tex.index: ...; misses of a chase ...: 388 of 388, described 100`.
[[nodiscard]] std::string to_text(const ExportLoss& loss);

// With a blank for every character that is not printable().
[[nodiscard]] std::string on_one_line(std::string_view text);

}  // namespace gpuinfer::cli
