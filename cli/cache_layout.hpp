// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/device_description.hpp"

// What there is to draw of a cache, whatever it is drawn with.
namespace gpuinfer::cli {

// S chooses the set, t tag, s sector in the line, o byte in the sector. `index_bits`: all masks together; line_bytes
// and sector_bytes must be known.
[[nodiscard]] char bit_role(unsigned bit, const model::CacheDescription& cache, std::uint64_t index_bits);

// By set and way: the line of a contiguous array from address 0 (or where the index begins) that fills it first. The
// ways must be known; without index or line nothing is placed.
[[nodiscard]] std::vector<std::vector<std::uint64_t>> placed_lines(const model::CacheDescription& cache);

// Which of `count` things to draw where only `room` can be drawn; no value stands for those that are left out.
[[nodiscard]] std::vector<std::optional<std::size_t>> drawn(std::size_t count, std::size_t room);

// The sets to draw by their ways. Of a long run of neighbours with equally many ways only its ends are.
[[nodiscard]] std::vector<std::optional<std::size_t>> drawn_sets(const std::vector<std::uint32_t>& ways);

// 12 KiB, largest conflict-free footprint 11 KiB; of an L1 with carve-outs what it has by each, of translations how
// many entries of which pages.
[[nodiscard]] std::string size_text(const std::string& target, const model::CacheDescription& cache);

// {4, 4} -> "2 sets x 4 ways"
[[nodiscard]] std::string sets_text(const std::vector<std::uint32_t>& ways);

// The policy with its parameters and with what behaves alike, or "not known".
[[nodiscard]] std::string policy_text(const model::CacheDescription& cache);

[[nodiscard]] std::string prefetch_text(const model::Fill& fill);  // 2 lines after a miss

}  // namespace gpuinfer::cli
