// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/random.hpp"
#include "model/workload.hpp"

namespace gpuinfer::infer {

inline constexpr std::uint32_t shared_word_bytes = 4;

// The offset of a word of shared memory.
[[nodiscard]] inline std::uint32_t random_word(model::Random& random) {
  constexpr std::uint32_t words = model::SharedLoads::shared_bytes / shared_word_bytes;
  return static_cast<std::uint32_t>(random.below(words)) * shared_word_bytes;
}

// Shared memory as in model::SharedMemoryDescription.
struct Banks {
  std::uint32_t banks = 1;
  std::uint32_t width_bytes = shared_word_bytes;
  std::uint32_t row_bytes = shared_word_bytes;

  [[nodiscard]] std::uint32_t bank_of(std::uint32_t offset) const { return offset / width_bytes % banks; }
  [[nodiscard]] std::uint32_t row_of(std::uint32_t offset) const { return offset / row_bytes; }

  bool operator==(const Banks&) const = default;
};

// Two words in shared memory.
struct WordPair {
  std::array<std::uint32_t, 2> offsets{};

  [[nodiscard]] bool conflicts_in(const Banks& banks) const {
    return banks.bank_of(offsets[0]) == banks.bank_of(offsets[1]) &&
           banks.row_of(offsets[0]) != banks.row_of(offsets[1]);
  }
};

// All ways to lay out shared memory that no answer has ruled out yet: up to 256 banks, up to 64 bytes wide, that begin
// again after at most 8 KB; with rows of a part of a bank's width, of the same word in all banks, or of more, as far as
// 8 KB. No two of them have the same conflicts.
class BankHypotheses {
 public:
  // `answered` as for rule_out().
  struct Answered {
    WordPair pair;
    bool conflicts = false;
  };

  // Those that agree with all of `answers`.
  explicit BankHypotheses(const std::vector<Answered>& answers);

  void rule_out(const Answered& answer);

  [[nodiscard]] const std::vector<Banks>& left() const { return left_; }

  // A pair of which those that are left say different things, as evenly as chance finds it; none: it found no such
  // pair.
  [[nodiscard]] std::optional<WordPair> next_question(model::Random& random) const;

 private:
  std::vector<Banks> left_;
};

}  // namespace gpuinfer::infer
