// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// How much of a description is read at all. Its tree takes a hundred bytes for each value, and readers go down into it
// by calling themselves. docs/limits.md has these numbers, too.
namespace gpuinfer::model {

constexpr std::size_t most_description_bytes = std::size_t{1} << 24U;  // a table of the sets of an L2 takes a sixth
constexpr std::size_t most_description_values = std::size_t{1} << 22U;
constexpr std::size_t most_description_depth = 64;  // the schema needs ten
constexpr std::size_t most_key_bytes = 128;         // of more than 1,024 characters, escaped, YAML has no keys

}  // namespace gpuinfer::model
