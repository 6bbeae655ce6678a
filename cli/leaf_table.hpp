// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/device_description.hpp"

// Leaves of a cache, a texture or code in words, for people.
namespace gpuinfer::cli {

// 12288 -> "12,288"
[[nodiscard]] std::string grouped(std::uint64_t number);
// {17, 8, 8, 8} -> "17, 3 x 8"
[[nodiscard]] std::string ways_text(const std::vector<std::uint32_t>& ways);
[[nodiscard]] std::string index_text(const model::IndexFunction& index);

// `text` in lines of at most `columns`, each after `indent`; a word that is too long is cut.
[[nodiscard]] std::string wrapped(std::string_view text, const std::string& indent, std::size_t columns = 100);

// Leaf, status, confidence, value; below it what else is known, and what is missing. Leaves without evidence are left
// out.
[[nodiscard]] std::string leaf_table(const model::CacheDescription& cache, const model::CacheEvidence& evidence);
[[nodiscard]] std::string leaf_table(const model::TextureDescription& texture, const model::CacheEvidence& evidence);
[[nodiscard]] std::string leaf_table(const model::CodeDescription& code, const model::CacheEvidence& evidence);

// That of a target of which `profile` has evidence.
[[nodiscard]] std::string leaf_table(const model::DeviceDescription& profile, const std::string& target);

}  // namespace gpuinfer::cli
