// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <utility>

#include "infer/asking/starts.hpp"
#include "infer/cache/no_swept_store.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

// Draws whole lines from all over the buffer, by their offsets.
class RandomLines {
 public:
  RandomLines(const model::BufferFacts& buffer, std::uint64_t line_bytes, model::Random random)
      : address_(buffer.address), line_bytes_(line_bytes), random_(std::move(random)),
        first_(bytes_to_next(buffer.address, line_bytes)), lines_((buffer.bytes - first_) / line_bytes) {}

  [[nodiscard]] std::uint64_t line_bytes() const { return line_bytes_; }
  [[nodiscard]] model::Address address_of(std::uint64_t offset) const { return address_ + offset; }

  // What else is random about these lines, such as their order.
  [[nodiscard]] model::Random& random() { return random_; }

  // Different lines, those among the drawn for which accept(offset) holds. Throws NoSweptStore where these are too
  // rare.
  template <class Accept>
  [[nodiscard]] AccessSequence draw(std::size_t count, Accept accept) {
    const std::size_t most_draws = 1000 + 200 * count;
    std::unordered_set<std::uint64_t> drawn;
    AccessSequence offsets;
    for (std::size_t draws = 0; offsets.size() < count; ++draws) {
      if (draws == most_draws) {
        throw NoSweptStore("the buffer has too few lines of these sets");
      }
      const std::uint64_t offset = first_ + random_.below(lines_) * line_bytes_;
      if (!drawn.contains(offset) && accept(offset)) {
        drawn.insert(offset);
        offsets.push_back(offset);
      }
    }
    return offsets;
  }
  [[nodiscard]] AccessSequence draw(std::size_t count) {
    return draw(count, [](std::uint64_t /*offset*/) { return true; });
  }

 private:
  model::Address address_;
  std::uint64_t line_bytes_;
  model::Random random_;
  std::uint64_t first_;
  std::uint64_t lines_;
};

}  // namespace gpuinfer::infer
