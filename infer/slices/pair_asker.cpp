// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/pair_asker.hpp"

#include "infer/asking/gf2.hpp"

namespace gpuinfer::infer {

bool PairAsker::calibrate(BlockLines& lines) {
  std::vector<std::uint64_t> of_one_part;
  for (std::uint64_t place = 0; place < BlockLines::block_bytes; place += lines.sector_bytes()) {
    if (may_share(first_block_, first_block_ + place)) {
      of_one_part.push_back(first_block_ + place);
    }
  }
  return contention_.calibrate(of_one_part, lines.random()());
}

bool PairAsker::may_share(std::uint64_t one, std::uint64_t other) const {
  return !is_in_first_block(one) || !is_in_first_block(other) ||
         parity(device_->address_of(one) & home_mask_) == parity(device_->address_of(other) & home_mask_);
}

std::vector<bool> PairAsker::surely_together(std::span<const Pair> pairs, unsigned times) {
  std::vector<Pair> asked;
  for (const Pair& pair : pairs) {
    if (may_share(pair[0], pair[1])) {
      asked.push_back(pair);
    }
  }
  const std::vector<bool> seen = contention_.surely_together(asked, times);
  std::vector<bool> together;
  auto next = seen.begin();
  for (const Pair& pair : pairs) {
    together.push_back(may_share(pair[0], pair[1]) && *next++);
  }
  return together;
}

std::optional<std::uint32_t> PairAsker::slice_among(std::span<const std::uint64_t> members, std::uint64_t line) {
  std::vector<std::uint32_t> of_pair;
  std::vector<Pair> pairs;
  for (std::uint32_t i = 0; i < members.size(); ++i) {
    if (may_share(members[i], line)) {
      of_pair.push_back(i);
      pairs.push_back({members[i], line});
    }
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (const auto closest = contention_.closest(pairs, sure)) {
      return of_pair[*closest];
    }
  }
  return std::nullopt;
}

}  // namespace gpuinfer::infer
