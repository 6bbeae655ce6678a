// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <istream>
#include <string>

#include "probe/input_limits.hpp"

namespace gpuinfer::probe {

enum class LineRead {
  whole,
  too_long,  // there is more of it than the most bytes, which is not taken from the stream
  none,      // the stream had ended
};

// As std::getline(), but for lines without end. Throws std::ios_base::failure where the file cannot be read.
[[nodiscard]] inline LineRead read_line(std::istream& in, std::string& line, std::size_t most_bytes = most_line_bytes) {
  line.clear();
  std::streambuf& buffer = *in.rdbuf();
  constexpr int end = std::streambuf::traits_type::eof();
  for (int c = buffer.sbumpc(); c != end; c = buffer.sbumpc()) {
    if (c == '\n') {
      return LineRead::whole;
    }
    if (line.size() == most_bytes) {
      return LineRead::too_long;
    }
    line += static_cast<char>(c);
  }
  in.setstate(std::ios::eofbit);
  return line.empty() ? LineRead::none : LineRead::whole;
}

}  // namespace gpuinfer::probe
