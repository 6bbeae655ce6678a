// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/printable.hpp"

#include <algorithm>
#include <cstdint>

namespace gpuinfer {

namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
  bool is_valid = false;
};

// What the first byte says of the whole character: its bytes, the bits that it holds, and the least code of that
// length.
struct Form {
  unsigned char mask;
  unsigned char lead;
  std::size_t bytes;
  std::uint32_t least;
};

constexpr Form forms[] = {{0x80, 0x00, 1, 0}, {0xE0, 0xC0, 2, 0x80}, {0xF0, 0xE0, 3, 0x800}, {0xF8, 0xF0, 4, 0x10000}};

const Form* form_of(char first) {
  const auto* const form = std::ranges::find_if(
      forms, [&](const Form& each) { return (static_cast<unsigned char>(first) & each.mask) == each.lead; });
  return form == std::end(forms) ? nullptr : form;
}

bool goes_on(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80; }

// The first of `text`, which is not empty.
Character first_character(std::string_view text) {
  const Form* const form = form_of(text.front());
  if (form == nullptr || form->bytes > text.size() || !std::ranges::all_of(text.substr(1, form->bytes - 1), goes_on)) {
    return {};
  }
  Character character{.code = static_cast<unsigned char>(text.front()) & ~std::uint32_t{form->mask},
                      .bytes = form->bytes};
  for (const char byte : text.substr(1, form->bytes - 1)) {
    character.code = character.code << 6U | (static_cast<unsigned char>(byte) & 0x3FU);
  }
  constexpr std::uint32_t most = 0x10FFFF;
  const bool is_surrogate = character.code >= 0xD800 && character.code <= 0xDFFF;
  character.is_valid = character.code >= form->least && character.code <= most && !is_surrogate;
  return character.is_valid ? character : Character{};
}

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// Unicode 15: categories Cc, Zl, Zp, the characters with the property Bidi_Control, and the noncharacters of XML 1.0.
constexpr Range unseen[] = {{0x00, 0x1F},     {0x7F, 0x9F},     {0x061C, 0x061C}, {0x200E, 0x200F},
                            {0x2028, 0x202E}, {0x2066, 0x2069}, {0xFFFE, 0xFFFF}};

bool is_seen(const Character& character) {
  return character.is_valid && std::ranges::none_of(unseen, [&](const Range& range) {
           return character.code >= range.first && character.code <= range.last;
         });
}

// With what `instead_of` gives for each character that is not to be seen.
template <class InsteadOf>
std::string with(std::string_view text, Lines lines, InsteadOf instead_of) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    const bool stays = is_seen(character) || (lines == Lines::kept && (text.front() == '\n' || text.front() == '\t'));
    if (stays) {
      safe += text.substr(0, character.bytes);
    } else {
      safe += instead_of(character);
    }
    text.remove_prefix(character.bytes);
  }
  return safe;
}

}  // namespace

std::string printable(std::string_view text, Lines lines, std::string_view instead) {
  return with(text, lines, [&](const Character& /*character*/) { return instead; });
}

std::string with_escapes(std::string_view json) {
  return with(json, Lines::kept, [](const Character& character) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string escape = "\\u";
    for (const unsigned shift : {12U, 8U, 4U, 0U}) {  // all of them have four digits
      escape += digits[character.code >> shift & 0xFU];
    }
    return escape;
  });
}

std::size_t bytes_of_unfinished_character(std::string_view text) {
  constexpr std::size_t most_bytes = 4;
  for (std::size_t bytes = 1; bytes < most_bytes && bytes <= text.size(); ++bytes) {
    const char byte = text[text.size() - bytes];
    if (!goes_on(byte)) {
      const Form* const form = form_of(byte);
      return form != nullptr && form->bytes > bytes ? bytes : 0;
    }
  }
  return 0;
}

}  // namespace gpuinfer
