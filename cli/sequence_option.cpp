// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/sequence_option.hpp"

#include <algorithm>
#include <array>
#include <fstream>

#include "cli/recordings.hpp"
#include "cli/syntax.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

namespace {

constexpr std::array forms{
    SequenceForm{"cyclic:BYTES,STRIDE[,LAPS]", "an array of BYTES chased round and round in steps of STRIDE (LAPS: 1)"},
    SequenceForm{"cold:BYTES,STRIDE[,FIRST]", "every STRIDE-th offset from FIRST (0) on, once"},
    SequenceForm{"random:BYTES,STRIDE,ACCESSES", "multiples of STRIDE below BYTES, drawn with --seed"},
    SequenceForm{"csv:FILE", "the first column of a CSV file: offsets in bytes"},
    SequenceForm{"archive:FILE", "the questions of a recording, warm-up and start state included"},
};

constexpr std::string_view archive_prefix = "archive:";

// Enough for any cache, and 8 GB of offsets.
constexpr std::uint64_t most_accesses = 1'000'000'000;

std::string form_list() {
  std::string list;
  for (const SequenceForm& form : forms) {
    list += (list.empty() ? "" : ", ") + std::string(form.form);
  }
  return list;
}

[[noreturn]] void refuse(const std::string& text) {
  throw InputError("--sequence: `" + text + "` is not understood; write one of " + form_list());
}

void check_length(const std::string& text, std::uint64_t accesses) {
  if (accesses > most_accesses) {
    throw InputError("--sequence " + text + ": has more than 10^9 accesses; make it shorter");
  }
}

model::AccessSequence read_offsets(const std::string& file) {
  std::ifstream in(file);
  if (!in) {
    throw InputError(file + ": cannot be read; name a CSV file with byte offsets in its first column");
  }
  model::AccessSequence offsets;
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string cell = line.substr(0, line.find_first_of(",\r"));
    const bool is_header = offsets.empty() && cell == "offset";
    if (!cell.empty() && cell.front() != '#' && !is_header) {
      offsets.push_back(parse_count(cell, file + ":" + std::to_string(number) + ": offset"));
    }
  }
  if (offsets.empty()) {
    throw InputError(file + ": holds no offset; write one in each line");
  }
  return offsets;
}

}  // namespace

std::span<const SequenceForm> sequence_forms() { return forms; }

model::AccessSequence parse_sequence(const std::string& text, std::uint64_t seed) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || names_archive(text)) {
    refuse(text);
  }
  const std::string kind = text.substr(0, colon);
  const std::string rest = text.substr(colon + 1);
  if (kind == "csv") {
    return read_offsets(rest);
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
  check_length(text, lap);
  if (kind == "cyclic") {
    const std::uint64_t laps = numbers.size() > 2 ? numbers[2] : 1;
    check_length(text, std::min(laps, most_accesses) * lap);
    return model::cyclic(bytes, stride_bytes, lap * laps);
  }
  if (kind == "cold") {
    return model::cold_pass(numbers.size() > 2 ? numbers[2] : 0, bytes, stride_bytes);
  }
  check_length(text, numbers[2]);
  model::Random random(seed);
  return model::random_walk(model::cold_pass(0, bytes, stride_bytes), numbers[2], random);
}

bool names_archive(const std::string& text) { return text.starts_with(archive_prefix); }

std::vector<model::Question> questions_of_archive(const std::string& text) {
  std::vector<model::Question> questions;
  for (model::Trace& trace : read_recording(text.substr(archive_prefix.size())).traces) {
    questions.push_back(std::move(trace.question));
  }
  return questions;
}

}  // namespace gpuinfer::cli
