// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// How much is taken in from a recording or another process, so that a small file cannot ask for all memory. Each number
// is far above what a GPU has been asked so far. docs/limits.md has them, too.
namespace gpuinfer::probe {

constexpr std::size_t most_line_bytes = std::size_t{1} << 26U;            // of a text, or of JSON lines
constexpr std::size_t most_json_depth = 32;                               // the protocol needs four
constexpr std::uint64_t most_accesses = std::uint64_t{1} << 28U;          // of a recording, warm-up included
constexpr std::uint64_t most_told_accesses = std::uint64_t{1} << 26U;     // of these, that sizes of arrays tell
constexpr std::uint64_t most_archive_accesses = std::uint64_t{1} << 29U;  // that an archive stores, and of its traces
constexpr std::uint64_t most_asked_accesses = std::uint64_t{1} << 32U;    // of an archive, as often as they were asked
constexpr std::size_t most_traces = std::size_t{1} << 22U;                // of a recording; also texts in a dataset
constexpr std::uint64_t most_dataset_bytes = std::uint64_t{1} << 31U;     // of an archive
constexpr std::uint64_t most_chunk_bytes = std::uint64_t{1} << 28U;       // of these, unpacked at a time
constexpr std::size_t most_places = std::size_t{1} << 24U;                // of an archive, in each of its groups

}  // namespace gpuinfer::probe
