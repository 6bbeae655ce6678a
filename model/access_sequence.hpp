// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/address.hpp"
#include "model/random.hpp"

namespace gpuinfer::model {

// What one load of a sequence reads, and one store writes.
inline constexpr std::uint64_t load_bytes = 4;

// Loads may say when their line is to be evicted: before others, after them, or no sooner and no later than without
// this load.
enum class AccessKind : std::uint8_t { load, store, evict_first, evict_last, evict_unchanged };
inline constexpr std::array hint_kinds{AccessKind::evict_first, AccessKind::evict_last, AccessKind::evict_unchanged};
[[nodiscard]] std::string_view to_string(AccessKind kind);

// Byte offsets into a buffer in the order in which they are accessed, load_bytes each; loads, unless something beside
// the sequence says which accesses are stores.
using AccessSequence = std::vector<std::uint64_t>;

// The cyclic chase of Mei & Chu 2014 (listing 3): each offset is the one before plus stride_bytes, modulo array_bytes.
// `accesses` in all, the first at 0; array_bytes and stride_bytes > 0.
[[nodiscard]] AccessSequence cyclic(std::uint64_t array_bytes, std::uint64_t stride_bytes, std::size_t accesses);

// Every stride_bytes-th offset in [first, first + span_bytes) once, in ascending order.
[[nodiscard]] AccessSequence cold_pass(std::uint64_t first, std::uint64_t span_bytes, std::uint64_t stride_bytes);

// `accesses` offsets drawn uniformly and independently from `offsets` (not empty).
[[nodiscard]] AccessSequence random_walk(std::span<const std::uint64_t> offsets, std::size_t accesses, Random& random);

// So many numbers below `lines`, each drawn either evenly or by how long ago it came last, all orders of magnitude of
// that being as likely. Where lines only come back evenly, what several hits of one do, or a hit soon after the fill,
// hardly shows.
[[nodiscard]] std::vector<std::uint32_t> returning_walk(std::uint32_t lines, std::size_t accesses, Random& random);

// The non-uniform stride initialisation of Mei & Chu 2014 (section 3.2): segments one after another, each `count`
// loads `stride_bytes` apart from `first`.
struct StrideSegment {
  std::uint64_t first = 0;
  std::uint64_t stride_bytes = 0;
  std::size_t count = 0;
};
[[nodiscard]] AccessSequence non_uniform_stride(std::span<const StrideSegment> segments);

// First accesses of every sequence, then second ones, ...; a sequence that has ended is passed over.
[[nodiscard]] AccessSequence interleaved(std::span<const AccessSequence> sequences);

// `sequence` `times` times over.
[[nodiscard]] AccessSequence repeated(std::span<const std::uint64_t> sequence, std::size_t times);

// The numbers of the addresses that offsets into a buffer have.
[[nodiscard]] std::vector<std::uint64_t> address_numbers(AccessSequence offsets, Address address_of_buffer);

}  // namespace gpuinfer::model
