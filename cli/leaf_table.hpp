// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/ink.hpp"
#include "model/description/sections.hpp"

// Leaves of a description in words, for people.
namespace gpuinfer::cli {

using model::words::grouped;

// `text` in lines of at most `columns`, each after `indent`; a word that is too long is cut.
[[nodiscard]] std::string wrapped(std::string_view text, const std::string& indent, std::size_t columns = 100);

// Values in words, in the order of the rows.
using LeafValues = std::vector<model::LeafValue>;
// `section`: a target or a key of the schema; nothing where the profile has no such part.
[[nodiscard]] LeafValues leaf_values(const model::DeviceDescription& profile, const std::string& section,
                                     const model::Sections<model::DeviceDescription>& all = model::sections());

// How sure a leaf is. Digits beyond the fourth say less than what was predicted.
[[nodiscard]] std::string confidence_text(double confidence);
// Such as "373,918 of 373,918 held-out loads predicted in 113 random sequences, voted 1".
[[nodiscard]] std::string prediction_text(const model::PredictionEvidence& prediction);

// Leaf, status, confidence, value; below it what else is known, and what is missing. `section`: of which `profile` has
// evidence. Leaves without evidence are left out.
// In lines of at most `columns`.
[[nodiscard]] std::string leaf_table(const model::DeviceDescription& profile, const std::string& section,
                                     std::size_t columns, const Ink& ink = {},
                                     const model::Sections<model::DeviceDescription>& all = model::sections());

// What stands in those tables for leaves that are known, by name.
[[nodiscard]] std::map<std::string, std::string> known_values(
    const model::DeviceDescription& profile, const std::string& section,
    const model::Sections<model::DeviceDescription>& all = model::sections());

// Leaf and value only, of a description that nobody found out.
[[nodiscard]] std::string value_table(const model::DeviceDescription& profile, const std::string& section,
                                      std::size_t columns,
                                      const model::Sections<model::DeviceDescription>& all = model::sections());

}  // namespace gpuinfer::cli
