// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Text that others wrote, without what would steer a terminal or another reader.
namespace gpuinfer {

enum class Lines { joined, kept };

// With `instead` for each character that is not to be seen: controls (C0, DEL, C1), marks that change the direction of
// writing, ends of lines and paragraphs, characters that XML has not, and bytes that are no UTF-8. A sentence is one
// line; where lines are kept, `\n` and `\t` stay.
[[nodiscard]] std::string printable(std::string_view text, Lines lines = Lines::joined, std::string_view instead = "?");

// JSON, with an escape for each of these characters; `\n` stays, as it stands between tokens alone.
[[nodiscard]] std::string with_escapes(std::string_view json);

// How many bytes at the end of `text` could begin a character that goes on after it.
[[nodiscard]] std::size_t bytes_of_unfinished_character(std::string_view text);

}  // namespace gpuinfer
