// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "infer/asking/pages.hpp"
#include "model/answerer.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

// Draws lines from aligned blocks of a buffer, inside which virtual address bits are physical ones. A place is a
// line's distance from where its block begins.
class BlockLines {
 public:
  static constexpr std::uint64_t block_bytes = mapped_page_bytes;

  BlockLines(const model::BufferFacts& buffer, std::uint64_t sector_bytes, model::Random random)
      : sector_bytes_(sector_bytes), random_(random), first_(bytes_to_next(buffer.address, block_bytes)),
        blocks_(buffer.bytes > first_ ? (buffer.bytes - first_) / block_bytes : 0) {}

  [[nodiscard]] std::uint64_t sector_bytes() const { return sector_bytes_; }
  [[nodiscard]] std::uint64_t blocks() const { return blocks_; }
  // Offset of a block.
  [[nodiscard]] std::uint64_t block(std::uint64_t number) const { return first_ + number * block_bytes; }

  [[nodiscard]] std::uint64_t any_block() { return block(random_.below(blocks_)); }
  [[nodiscard]] std::uint64_t any_place() { return random_.below(block_bytes / sector_bytes_) * sector_bytes_; }
  [[nodiscard]] std::uint64_t any_line() {
    const std::uint64_t block = any_block();
    return block + any_place();
  }

  // What else is random about these lines, such as their order.
  [[nodiscard]] model::Random& random() { return random_; }

 private:
  std::uint64_t sector_bytes_;
  model::Random random_;
  std::uint64_t first_;
  std::uint64_t blocks_;
};

}  // namespace gpuinfer::infer
