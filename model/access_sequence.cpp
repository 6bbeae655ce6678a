// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/access_sequence.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gpuinfer::model {

std::string_view to_string(AccessKind kind) {
  constexpr std::array<std::string_view, 5> names{"load", "store", "evict_first", "evict_last", "evict_unchanged"};
  return names.at(static_cast<std::size_t>(kind));
}

AccessSequence cyclic(std::uint64_t array_bytes, std::uint64_t stride_bytes, std::size_t accesses) {
  AccessSequence sequence(accesses);
  std::uint64_t offset = 0;
  // Added up they may be more than 64 bits hold.
  const std::uint64_t last_before_end = array_bytes - stride_bytes % array_bytes;
  for (std::uint64_t& entry : sequence) {
    entry = offset;
    offset = offset >= last_before_end ? offset - last_before_end : offset + stride_bytes % array_bytes;
  }
  return sequence;
}

AccessSequence cold_pass(std::uint64_t first, std::uint64_t span_bytes, std::uint64_t stride_bytes) {
  AccessSequence sequence;
  const std::uint64_t accesses = span_bytes / stride_bytes + (span_bytes % stride_bytes == 0 ? 0 : 1);
  sequence.reserve(accesses);
  for (std::uint64_t i = 0; i < accesses; ++i) {
    sequence.push_back(first + i * stride_bytes);
  }
  return sequence;
}

AccessSequence random_walk(std::span<const std::uint64_t> offsets, std::size_t accesses, Random& random) {
  AccessSequence sequence(accesses);
  for (std::uint64_t& entry : sequence) {
    entry = offsets[random.below(offsets.size())];
  }
  return sequence;
}

std::vector<std::uint32_t> returning_walk(std::uint32_t lines, std::size_t accesses, Random& random) {
  std::vector<std::uint32_t> by_recency(lines);  // the one that came last at the end
  std::iota(by_recency.begin(), by_recency.end(), 0U);
  std::vector<std::uint32_t> walk(accesses);
  for (std::uint32_t& entry : walk) {
    const bool evenly = random.below(2) == 0;
    const double rank = evenly ? lines * random.unit() : std::pow(lines + 1.0, random.unit()) - 1;
    const auto place = by_recency.end() - 1 - std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(rank), lines - 1);
    entry = *place;
    std::rotate(place, place + 1, by_recency.end());
  }
  return walk;
}

AccessSequence non_uniform_stride(std::span<const StrideSegment> segments) {
  AccessSequence sequence;
  for (const StrideSegment& segment : segments) {
    for (std::size_t i = 0; i < segment.count; ++i) {
      sequence.push_back(segment.first + i * segment.stride_bytes);
    }
  }
  return sequence;
}

AccessSequence interleaved(std::span<const AccessSequence> sequences) {
  std::size_t longest = 0;
  for (const AccessSequence& sequence : sequences) {
    longest = std::max(longest, sequence.size());
  }
  AccessSequence mixed;
  for (std::size_t i = 0; i < longest; ++i) {
    for (const AccessSequence& sequence : sequences) {
      if (i < sequence.size()) {
        mixed.push_back(sequence[i]);
      }
    }
  }
  return mixed;
}

AccessSequence repeated(std::span<const std::uint64_t> sequence, std::size_t times) {
  AccessSequence result;
  result.reserve(sequence.size() * times);
  for (std::size_t i = 0; i < times; ++i) {
    result.insert(result.end(), sequence.begin(), sequence.end());
  }
  return result;
}

std::vector<std::uint64_t> address_numbers(AccessSequence offsets, Address address_of_buffer) {
  for (std::uint64_t& offset : offsets) {
    offset = number_of(address_of_buffer + offset);
  }
  return offsets;
}

}  // namespace gpuinfer::model
