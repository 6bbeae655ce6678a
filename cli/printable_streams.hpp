// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace gpuinfer::cli {

// The one place through which all text reaches a terminal or a pipe: hands on what is printable(), and `?` for the
// rest. May be written to by several threads at a time.
class PrintableBuffer final : public std::streambuf {
 public:
  // With `colours`, what sets the colour of text stays: whoever else writes such can do no more with it.
  explicit PrintableBuffer(std::streambuf& to, bool colours);

  // Hands on what this program itself has a terminal do.
  void steer(std::string_view sequence);

 protected:
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int_type overflow(int_type character) override;
  int sync() override;

 private:
  bool hand_on(std::string_view text);

  std::streambuf* to_;
  bool colours_;
  std::mutex mutex_;
  std::string unfinished_;  // the first bytes of a character
};

// Empties the line of a terminal in which the cursor is.
constexpr std::string_view back_to_empty_line = "\r\x1b[K";

// Has the terminal at the end of a stream do something, and shows the stream's text before that.
void steer(std::ostream& out, std::string_view sequence);

// Of stdout and stderr while it lives.
class PrintableStreams {
 public:
  PrintableStreams();
  ~PrintableStreams();
  PrintableStreams(const PrintableStreams&) = delete;
  PrintableStreams& operator=(const PrintableStreams&) = delete;

  // Whether all that was written to stdout has arrived.
  [[nodiscard]] bool stdout_is_whole();

 private:
  std::streambuf* stdout_;
  std::streambuf* stderr_;
  PrintableBuffer printable_stdout_;
  PrintableBuffer printable_stderr_;
};

}  // namespace gpuinfer::cli
