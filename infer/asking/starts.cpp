// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/starts.hpp"

#include <algorithm>
#include <bit>
#include <set>

namespace gpuinfer::infer {

model::Question Starts::question(AccessSequence warm, AccessSequence record) const {
  if (start_ == model::StartState::keep) {
    AccessSequence flood = flood_around(warm, record);
    flood.insert(flood.end(), warm.begin(), warm.end());
    warm = std::move(flood);
  }
  return question_unflooded(std::move(warm), std::move(record));
}

std::size_t Starts::questions_to_prime() const { return start_ == model::StartState::invalidated ? primer_.size() : 0; }

std::vector<model::Question> Starts::primed(std::span<const model::Question> questions) const {
  std::vector<model::Question> batch;
  for (const model::Question& question : questions) {
    for (const AccessSequence& loads : primer_) {
      batch.push_back(question_unflooded({loads.begin(), loads.end() - 1}, {loads.back()}));
    }
    batch.push_back(question);
  }
  return batch;
}

// Everything in reach but the blocks that the question touches, so that no line of it is brought back by its neighbour.
// Of a small buffer large blocks would leave nothing, or only lines of other sets.
AccessSequence Starts::flood_around(const AccessSequence& warm, const AccessSequence& record) const {
  constexpr std::uint64_t smallest_flood_bytes = 256U << 10U;
  constexpr std::uint64_t least_blocks = 16;
  const std::uint64_t block_bytes =
      std::clamp(std::bit_floor(buffer().bytes) / least_blocks, flood_stride_bytes_, flood_block_bytes_);
  std::set<std::uint64_t> touched;
  for (const AccessSequence* sequence : {&warm, &record}) {
    for (const std::uint64_t offset : *sequence) {
      touched.insert(offset / block_bytes);
    }
  }
  const std::uint64_t wanted_bytes =
      std::max({smallest_flood_bytes, 64 * flood_stride_bytes_, 8 * block_bytes * touched.size()});
  AccessSequence flood;
  std::uint64_t flooded_bytes = 0;
  for (std::uint64_t block = 0; (block + 1) * block_bytes <= buffer().bytes && flooded_bytes < wanted_bytes; ++block) {
    if (!touched.contains(block)) {
      for (std::uint64_t offset = 0; offset < block_bytes; offset += flood_stride_bytes_) {
        flood.insert(flood.end(), flood_repeats_, block * block_bytes + offset);
      }
      flooded_bytes += block_bytes;
    }
  }
  return flood;
}

}  // namespace gpuinfer::infer
