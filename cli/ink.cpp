// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/ink.hpp"

#include <fmt/color.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace gpuinfer::cli {

namespace {

std::string in(fmt::terminal_color colour, const std::string& text) { return fmt::format(fmt::fg(colour), "{}", text); }

}  // namespace

std::size_t columns_of(int file) {
  winsize window{};
  constexpr unsigned usual = 80;
  constexpr unsigned least = 72;
  constexpr unsigned most = 120;
  const bool is_known = isatty(file) != 0 && ioctl(file, TIOCGWINSZ, &window) == 0;
  return is_known && window.ws_col > 0 ? std::clamp<unsigned>(window.ws_col, least, most) : usual;
}

// As {fmt} writes them: ESC [ 3 COLOUR m, and ESC [ 0 m.
std::size_t Ink::length_of_colour(std::string_view text) {
  constexpr std::string_view end = "\x1b[0m";
  constexpr std::string_view begin = "\x1b[3";
  if (text.starts_with(end)) {
    return end.size();
  }
  const std::string_view rest = text.starts_with(begin) ? text.substr(begin.size()) : "";
  const bool is_colour = rest.size() > 1 && rest[0] >= '0' && rest[0] <= '7' && rest[1] == 'm';
  return is_colour ? begin.size() + 2 : 0;
}

Ink Ink::of_stdout() {
  const char* no_color = std::getenv("NO_COLOR");
  return Ink(isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || *no_color == '\0'));
}

std::string Ink::status(model::EvidenceStatus status, const std::string& text) const {
  if (!colours_) {
    return text;
  }
  switch (status) {
    case model::EvidenceStatus::resolved:
      return in(fmt::terminal_color::green, text);
    case model::EvidenceStatus::ambiguous:
      return in(fmt::terminal_color::yellow, text);
    case model::EvidenceStatus::unknown:
      return in(fmt::terminal_color::red, text);
  }
  return text;
}

std::string Ink::hit(const std::string& text) const { return colours_ ? in(fmt::terminal_color::green, text) : text; }

std::string Ink::miss(const std::string& text) const {
  return colours_ ? in(fmt::terminal_color::magenta, text) : text;
}

}  // namespace gpuinfer::cli
