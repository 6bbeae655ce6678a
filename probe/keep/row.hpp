// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

// The rows of an answer log (probe/keep/answer_log.hpp).
namespace gpuinfer::probe {

// Numbers stand in files: they stay as they are.
enum class RowKind : std::uint8_t {
  question = 1,
  workload = 2,
  run = 3,           // `about`: what was asked of whom
  places = 4,        // of offsets, the two sequences
  disturbances = 5,  // `about`: all so far
  question_cut = 6,  // questions of the target from `place` on that stand before this row do not count
  workload_cut = 7,  // likewise
};

struct Row {
  std::uint64_t id = 0;  // from 1 on, in the order in which rows were written
  RowKind kind = RowKind::question;
  std::string target = {};
  std::uint64_t place = 0;  // of an answer: so many of its kind were asked of the target before
  std::string about = {};   // JSON
  std::string warm = {};    // sequences, as bytes
  std::string record = {};
  std::string latencies = {};  // IEEE 754, 4 bytes each, little-endian
};

inline constexpr std::array row_columns{"id", "kind", "target", "place", "about", "warm", "record", "latencies"};

// CRC-32 of all of it, the id included. It stands in the row: SQLite checks structure, not content.
[[nodiscard]] std::uint32_t checksum_of(const Row& row);

inline constexpr std::uint32_t log_page_bytes = 4096;

// Hands over every row whose checksum is right, whatever else of the file is damaged: the leaves of its trees are read
// page by page, as https://www.sqlite.org/fileformat2.html has them. Rows of more than one table come more than once.
void salvage_rows(const std::filesystem::path& database, const std::function<void(const Row&)>& take);

}  // namespace gpuinfer::probe
