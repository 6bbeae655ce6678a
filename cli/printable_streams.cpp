// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/printable_streams.hpp"

#include <algorithm>
#include <iostream>

#include "cli/ink.hpp"
#include "model/printable.hpp"

namespace gpuinfer::cli {

namespace {

bool is_plain(unsigned char byte) { return (byte >= ' ' && byte < 0x7F) || byte == '\n' || byte == '\t'; }

bool put(std::streambuf& to, std::string_view text) {
  const auto count = static_cast<std::streamsize>(text.size());
  return to.sputn(text.data(), count) == count;
}

}  // namespace

PrintableBuffer::PrintableBuffer(std::streambuf& to, bool colours) : to_(&to), colours_(colours) {}

void PrintableBuffer::steer(std::string_view sequence) {
  const std::lock_guard lock(mutex_);
  put(*to_, sequence);
}

std::streamsize PrintableBuffer::xsputn(const char* text, std::streamsize count) {
  const std::lock_guard lock(mutex_);
  const std::string_view given(text, static_cast<std::size_t>(count));
  if (unfinished_.empty() && std::ranges::all_of(given, is_plain)) {
    return put(*to_, given) ? count : 0;
  }
  std::string whole = unfinished_.append(given);
  const std::size_t rest = bytes_of_unfinished_character(whole);
  unfinished_ = whole.substr(whole.size() - rest);
  whole.resize(whole.size() - rest);
  return hand_on(whole) ? count : 0;
}

PrintableBuffer::int_type PrintableBuffer::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof())) {
    return traits_type::not_eof(character);
  }
  const char byte = traits_type::to_char_type(character);
  return xsputn(&byte, 1) == 1 ? character : traits_type::eof();
}

int PrintableBuffer::sync() {
  const std::lock_guard lock(mutex_);
  const bool handed_on = hand_on(std::exchange(unfinished_, {}));
  return to_->pubsync() == 0 && handed_on ? 0 : -1;
}

bool PrintableBuffer::hand_on(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const std::size_t colour = colours_ ? Ink::length_of_colour(text) : 0;
    const std::size_t end = colour > 0 ? colour : std::min(text.find('\x1b', 1), text.size());
    safe += colour > 0 ? std::string(text.substr(0, end)) : printable(text.substr(0, end), Lines::kept);
    text.remove_prefix(end);
  }
  return put(*to_, safe);
}

void steer(std::ostream& out, std::string_view sequence) {
  if (auto* const buffer = dynamic_cast<PrintableBuffer*>(out.rdbuf())) {
    buffer->steer(sequence);
  } else {
    out << sequence;
  }
}

PrintableStreams::PrintableStreams()
    : stdout_(std::cout.rdbuf()), stderr_(std::cerr.rdbuf()),
      printable_stdout_(*stdout_, Ink::of_stdout().has_colours()), printable_stderr_(*stderr_, false) {
  std::cout.rdbuf(&printable_stdout_);
  std::cerr.rdbuf(&printable_stderr_);
}

PrintableStreams::~PrintableStreams() {
  std::cout.rdbuf(stdout_);
  std::cerr.rdbuf(stderr_);
}

// Somebody may have silenced it.
bool PrintableStreams::stdout_is_whole() { return std::cout.rdbuf() != &printable_stdout_ || std::cout.flush().good(); }

}  // namespace gpuinfer::cli
