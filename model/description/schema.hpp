// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Pieces of a JSON Schema (draft 2020-12).
namespace gpuinfer::model::schema {

// The entries of an object, with their values as YAML on one line.
using Object = std::vector<std::pair<std::string, std::string>>;

[[nodiscard]] std::string text(const Object& object);

[[nodiscard]] Object number(std::string_view type, const std::string& least, const std::string& most);
[[nodiscard]] Object list(const Object& item, std::size_t least = 0, std::size_t most = std::string::npos);
// One of these; `true` and `false` may stand as truth values, too.
[[nodiscard]] Object words(std::span<const std::string_view> words);
// A text; numbers and truth values are taken as such.
[[nodiscard]] Object any_text();
// A map with these properties and no others.
[[nodiscard]] Object map(const Object& properties, const std::vector<std::string_view>& needed = {});
[[nodiscard]] Object one_of(const std::vector<Object>& choices);
[[nodiscard]] Object constant(std::string_view word);
// A definition under `$defs`.
[[nodiscard]] Object reference(std::string_view definition);

// The same, or null.
[[nodiscard]] Object or_null(Object object);

[[nodiscard]] std::string word_list(std::span<const std::string_view> words);

}  // namespace gpuinfer::model::schema
