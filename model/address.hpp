// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpuinfer::model {

// Where a byte of memory lies. Offsets into a buffer, distances and sizes are plain numbers of bytes: only an address
// and an offset make another address, so that neither is taken for the other. Long lists of addresses, as simulators
// play them, hold their numbers.
enum class Address : std::uint64_t {};

[[nodiscard]] constexpr std::uint64_t number_of(Address address) { return static_cast<std::uint64_t>(address); }

[[nodiscard]] constexpr Address operator+(Address address, std::uint64_t bytes) {
  return Address{number_of(address) + bytes};
}

// The distance, `from` the lower one.
[[nodiscard]] constexpr std::uint64_t operator-(Address address, Address from) {
  return number_of(address) - number_of(from);
}

// The bits in which they differ.
[[nodiscard]] constexpr std::uint64_t operator^(Address one, Address other) {
  return number_of(one) ^ number_of(other);
}

// The address that differs in these bits.
[[nodiscard]] constexpr Address operator^(Address address, std::uint64_t bits) {
  return Address{number_of(address) ^ bits};
}

// Its bits.
[[nodiscard]] constexpr std::uint64_t operator&(Address address, std::uint64_t mask) {
  return number_of(address) & mask;
}
[[nodiscard]] constexpr std::uint64_t operator>>(Address address, unsigned bits) { return number_of(address) >> bits; }

// Of lines, sectors or pages of so many bytes: the number of the one it lies in, how far inside, and where that begins.
[[nodiscard]] constexpr std::uint64_t operator/(Address address, std::uint64_t bytes) {
  return number_of(address) / bytes;
}
[[nodiscard]] constexpr std::uint64_t operator%(Address address, std::uint64_t bytes) {
  return number_of(address) % bytes;
}
[[nodiscard]] constexpr Address aligned_down(Address address, std::uint64_t bytes) {
  return Address{number_of(address) - number_of(address) % bytes};
}

// From an address on to where the next of them begins; 0 where one begins there.
[[nodiscard]] constexpr std::uint64_t bytes_to_next(Address address, std::uint64_t bytes) {
  return (bytes - address % bytes) % bytes;
}

}  // namespace gpuinfer::model
