// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/set_finder.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace gpuinfer::model {

SetFinder::SetFinder(IndexFunction index, std::uint64_t line_bytes, std::size_t lines)
    : index_(std::move(index)), line_bytes_(line_bytes),
      most_known_(std::bit_ceil(std::clamp<std::size_t>(2 * lines, 64, std::size_t{1} << 20U))) {
  if (parities(index_) && !covered(index_).bytes) {
    add_bytes();
  }
}

void SetFinder::add_bytes() {
  const std::uint32_t constant = gpuinfer::model::set_of(index_, Address{0});
  std::array<std::uint32_t, 64> bit_contributes{};
  for (unsigned bit = 0; bit < 64; ++bit) {
    bit_contributes.at(bit) = gpuinfer::model::set_of(index_, Address{std::uint64_t{1} << bit}) ^ constant;
  }
  for (unsigned bit = 0; bit < 64; ++bit) {
    if (bit_contributes.at(bit) == 0) {
      continue;
    }
    Byte& byte = bytes_.emplace_back();
    byte.shift = bit;
    for (unsigned value = 1; value < byte.contributes.size(); ++value) {
      const auto lowest = static_cast<unsigned>(std::countr_zero(value));
      byte.contributes.at(value) =
          byte.contributes.at(value & (value - 1)) ^ (bit + lowest < 64 ? bit_contributes.at(bit + lowest) : 0);
    }
    bit += 7;
  }
  if (bytes_.empty()) {
    bytes_.emplace_back();
  }
  for (std::uint32_t& set : bytes_.front().contributes) {
    set ^= constant;
  }
}

void SetFinder::find(std::span<const std::uint64_t> line_numbers, std::uint32_t* sets) {
  if (bytes_.empty()) {
    known_.resize(most_known_);
    for (const std::uint64_t number : line_numbers) {
      Known& known = known_[number & (known_.size() - 1)];
      if (known.line_plus_1 != number + 1 || number + 1 == 0) {
        known = {.line_plus_1 = number + 1, .set = set_of_line(number)};
      }
      *sets++ = known.set;
    }
    return;
  }
  const auto contribution = [line_bytes = line_bytes_](const Byte& byte, std::uint64_t number) {
    return byte.contributes[((number * line_bytes) >> byte.shift) & 0xffU];
  };
  const std::size_t lines = line_numbers.size();
  const std::uint64_t* const number = line_numbers.data();
  for (std::size_t i = 0; i < lines; ++i) {
    sets[i] = contribution(bytes_[0], number[i]);
  }
  for (std::size_t b = 1; b < bytes_.size(); ++b) {
    for (std::size_t i = 0; i < lines; ++i) {
      sets[i] ^= contribution(bytes_[b], number[i]);
    }
  }
}

void SetFinder::find_of_addresses(std::span<const std::uint64_t> addresses, std::uint32_t* sets) const {
  const std::uint64_t in_line = line_bytes_ - 1;
  const std::size_t count = addresses.size();
  const std::uint64_t* const address = addresses.data();
  const Byte& first = bytes_[0];
  for (std::size_t i = 0; i < count; ++i) {
    sets[i] = first.contributes[((address[i] & ~in_line) >> first.shift) & 0xffU];
  }
  for (std::size_t b = 1; b < bytes_.size(); ++b) {
    const Byte& byte = bytes_[b];
    for (std::size_t i = 0; i < count; ++i) {
      sets[i] ^= byte.contributes[((address[i] & ~in_line) >> byte.shift) & 0xffU];
    }
  }
}

std::uint32_t SetFinder::set_of_line(std::uint64_t number) const {
  return covered_set_of(index_, Address{number * line_bytes_});
}

}  // namespace gpuinfer::model
