// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/sequence_option.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "cli/recordings.hpp"
#include "cli/syntax.hpp"
#include "model/errors.hpp"
#include "model/random_streams.hpp"
#include "probe/line_reader.hpp"

namespace gpuinfer::cli {

namespace {

constexpr std::array forms{
    SequenceForm{"cyclic:BYTES,STRIDE[,LAPS]", "an array of BYTES chased round and round in steps of STRIDE (LAPS: 1)"},
    SequenceForm{"cold:BYTES,STRIDE[,FIRST]", "every STRIDE-th offset from FIRST (0) on, once"},
    SequenceForm{"random:BYTES,STRIDE,ACCESSES", "multiples of STRIDE below BYTES, drawn with --seed"},
    SequenceForm{"csv:FILE", "the first column of a CSV file: offsets in bytes; `store` in the second: no load"},
    SequenceForm{"archive:FILE", "the questions of a recording, warm-up and start state included"},
};

constexpr std::array forms_of_texels{
    SequenceForm{"texels:rows", "every texel once, row by row"},
    SequenceForm{"texels:columns", "every texel once, column by column"},
    SequenceForm{"texels:tiles:W,H", "every texel once, by tiles of W x H texels, each row by row"},
    SequenceForm{"csv:FILE", "the first two columns of a CSV file: x and y"},
};

constexpr std::string_view archive_prefix = "archive:";

[[noreturn]] void refuse(const std::string& text, std::span<const SequenceForm> known = forms) {
  std::string list;
  for (const SequenceForm& form : known) {
    list += (list.empty() ? "" : ", ") + std::string(form.form);
  }
  throw InputError("--sequence: `" + text + "` is not understood; write one of " + list);
}

void check_length(const std::string& text, std::uint64_t accesses, std::uint64_t most = most_accesses) {
  if (accesses > most) {
    throw InputError("--sequence " + text + ": has more than " + std::to_string(most) + " accesses; make it shorter");
  }
}

// Hands each line of a CSV file that is no comment to `row`, as its cells and "FILE:LINE: ". A first line that begins
// with the cell `header` is left out.
template <class Row>
void read_rows(const std::string& file, const std::string& holds, std::string_view header, std::uint64_t most,
               const Row& row) {
  std::ifstream in(file);
  if (!in || std::filesystem::is_directory(file)) {
    throw InputError(file + ": cannot be read; name a CSV file with " + holds);
  }
  std::size_t number = 0;
  std::size_t rows = 0;
  std::string line;
  for (probe::LineRead read{}; (read = probe::read_line(in, line)) != probe::LineRead::none;) {
    ++number;
    const std::string place = file + ":" + std::to_string(number) + ": ";
    if (read == probe::LineRead::too_long) {
      throw InputError(place + "is longer than " + std::to_string(probe::most_line_bytes) +
                       " bytes; name a CSV file with " + holds);
    }
    std::vector<std::string> cells(1);
    for (const char c : line) {
      // Of further cells nothing is wanted.
      if (c == ',' && cells.size() < 3) {
        cells.emplace_back();
      } else if (c != '\r') {
        cells.back() += c;
      }
    }
    const bool is_header = rows == 0 && cells.front() == header;
    if (!cells.front().empty() && cells.front().front() != '#' && !is_header) {
      row(cells, place);
      check_length("csv:" + file, ++rows, most);
    }
  }
  if (rows == 0) {
    throw InputError(file + ": holds no row; write " + holds);
  }
}

Accesses read_accesses(const std::string& file, std::uint64_t most) {
  Accesses accesses;
  read_rows(file, "byte offsets in its first column", "offset", most,
            [&](const std::vector<std::string>& cells, const std::string& place) {
              const bool is_store = cells.size() > 1 && cells[1] == "store";
              accesses.offsets.push_back(parse_count(cells.front(), place + "offset"));
              accesses.kinds.push_back(is_store ? model::AccessKind::store : model::AccessKind::load);
            });
  return accesses;
}

Accesses loads(model::AccessSequence offsets) {
  std::vector<model::AccessKind> kinds(offsets.size(), model::AccessKind::load);
  return {.offsets = std::move(offsets), .kinds = std::move(kinds)};
}

std::vector<model::Texel> read_texels(const std::string& file) {
  std::vector<model::Texel> texels;
  read_rows(file, "x and y in its first two columns", "x", most_accesses,
            [&](const std::vector<std::string>& cells, const std::string& place) {
              if (cells.size() < 2) {
                throw InputError(place + "y is missing; write x and y with a comma between them");
              }
              texels.push_back({.x = parse_count(cells[0], place + "x"), .y = parse_count(cells[1], place + "y")});
            });
  return texels;
}

// Every texel once, by tiles of that size, tiles and the texels in each row by row.
std::vector<model::Texel> by_tiles(model::Texel end, std::uint64_t tile_width, std::uint64_t tile_height) {
  std::vector<model::Texel> texels;
  texels.reserve(end.x * end.y);
  for (std::uint64_t top = 0; top < end.y; top += tile_height) {
    for (std::uint64_t left = 0; left < end.x; left += tile_width) {
      for (std::uint64_t y = top; y < std::min(top + tile_height, end.y); ++y) {
        for (std::uint64_t x = left; x < std::min(left + tile_width, end.x); ++x) {
          texels.push_back({.x = x, .y = y});
        }
      }
    }
  }
  return texels;
}

}  // namespace

std::span<const SequenceForm> sequence_forms() { return forms; }

Accesses parse_accesses(const std::string& text, std::uint64_t seed, std::uint64_t most) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || names_archive(text)) {
    refuse(text);
  }
  const std::string kind = text.substr(0, colon);
  const std::string rest = text.substr(colon + 1);
  if (kind == "csv") {
    return read_accesses(rest, most);
  }
  const bool has_optional_number = kind == "cyclic" || kind == "cold";
  if (!has_optional_number && kind != "random") {
    refuse(text);
  }
  const std::vector<std::uint64_t> numbers = parse_byte_list(rest, "--sequence " + text);
  if (numbers.size() > 3 || numbers.size() < (has_optional_number ? 2U : 3U)) {
    refuse(text);
  }
  const std::uint64_t bytes = numbers[0];
  const std::uint64_t stride_bytes = numbers[1];
  if (bytes == 0 || stride_bytes == 0) {
    throw InputError("--sequence " + text + ": BYTES and STRIDE must be above 0");
  }
  const std::uint64_t lap = (bytes - 1) / stride_bytes + 1;
  check_length(text, lap, most);
  if (kind == "cyclic") {
    const std::uint64_t laps = numbers.size() > 2 ? numbers[2] : 1;
    check_length(text, std::min(laps, most + 1) * lap, most);
    return loads(model::cyclic(bytes, stride_bytes, lap * laps));
  }
  if (kind == "cold") {
    return loads(model::cold_pass(numbers.size() > 2 ? numbers[2] : 0, bytes, stride_bytes));
  }
  check_length(text, numbers[2], most);
  model::Random random = model::RandomStreams(seed).random("sequence");
  return loads(model::random_walk(model::cold_pass(0, bytes, stride_bytes), numbers[2], random));
}

model::AccessSequence parse_sequence(const std::string& text, std::uint64_t seed) {
  Accesses accesses = parse_accesses(text, seed);
  if (std::count(accesses.kinds.begin(), accesses.kinds.end(), model::AccessKind::store) != 0) {
    throw InputError("--sequence " + text + ": holds stores, which only `simulate --explain` plays; leave them out");
  }
  return std::move(accesses.offsets);
}

std::span<const SequenceForm> texel_forms() { return forms_of_texels; }

std::vector<model::Texel> parse_texels(const std::string& text, std::uint64_t width, std::uint64_t height) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (kind == "csv") {
    return read_texels(rest);
  }
  if (kind != "texels") {
    refuse(text, forms_of_texels);
  }
  check_length(text, width * height);
  if (rest == "rows") {
    return by_tiles({.x = width, .y = height}, width, 1);
  }
  if (rest == "columns") {
    return by_tiles({.x = width, .y = height}, 1, height);
  }
  constexpr std::string_view tiles = "tiles:";
  if (!rest.starts_with(tiles)) {
    refuse(text, forms_of_texels);
  }
  const std::vector<std::uint64_t> sides = parse_byte_list(rest.substr(tiles.size()), "--sequence " + text);
  if (sides.size() != 2 || sides[0] == 0 || sides[1] == 0) {
    throw InputError("--sequence " + text + ": a tile is W,H texels, both above 0; write texels:tiles:8,4");
  }
  return by_tiles({.x = width, .y = height}, std::min(sides[0], width), std::min(sides[1], height));
}

bool names_archive(const std::string& text) { return text.starts_with(archive_prefix); }

std::vector<model::Question> questions_of_archive(const std::string& text) {
  std::vector<model::Question> questions;
  for_each_trace(read_recording(text.substr(archive_prefix.size())), {},
                 [&](const model::Trace& trace) { questions.push_back(trace.question); });
  return questions;
}

}  // namespace gpuinfer::cli
