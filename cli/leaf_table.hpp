// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/ink.hpp"
#include "model/device_description.hpp"

// Leaves of a description in words, for people.
namespace gpuinfer::cli {

// 12288 -> "12,288"
[[nodiscard]] std::string grouped(std::uint64_t number);
// {17, 8, 8, 8} -> "17, 3 x 8"
[[nodiscard]] std::string ways_text(const std::vector<std::uint32_t>& ways);
[[nodiscard]] std::string index_text(const model::IndexFunction& index);

// `text` in lines of at most `columns`, each after `indent`; a word that is too long is cut.
[[nodiscard]] std::string wrapped(std::string_view text, const std::string& indent, std::size_t columns = 100);

// Values in words, in the order in which people think of them; no value where it is not known.
using LeafValues = std::vector<std::pair<std::string, std::optional<std::string>>>;
// `section`: a target or a key of the schema. Throws std::out_of_range when it is not there.
[[nodiscard]] LeafValues leaf_values(const model::DeviceDescription& profile, const std::string& section);

// Leaf, status, confidence, value; below it what else is known, and what is missing. `section`: of which `profile` has
// evidence, a target or a key of the schema. Leaves without evidence are left out.
[[nodiscard]] std::string leaf_table(const model::DeviceDescription& profile, const std::string& section,
                                     const Ink& ink = {});

// What stands in those tables for leaves that are known, by name. Empty for a section that has no such table.
[[nodiscard]] std::map<std::string, std::string> known_values(const model::DeviceDescription& profile,
                                                              const std::string& section);

// Leaf and value only, of a description that nobody found out.
[[nodiscard]] std::string value_table(const model::DeviceDescription& profile, const std::string& section);

}  // namespace gpuinfer::cli
