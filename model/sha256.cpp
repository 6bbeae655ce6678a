// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/sha256.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace gpuinfer::model {

namespace {

constexpr std::size_t block_bytes = 64;
constexpr std::size_t rounds = 64;

using Words = std::array<std::uint32_t, 8>;

constexpr std::array<std::uint32_t, rounds> round_constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void compress(Words& state, std::span<const std::byte> block) {
  std::array<std::uint32_t, rounds> w{};
  for (std::size_t t = 0; t < 16; ++t) {
    for (const std::byte each : block.subspan(4 * t, 4)) {
      w.at(t) = w.at(t) << 8U | std::to_integer<std::uint32_t>(each);
    }
  }
  for (std::size_t t = 16; t < rounds; ++t) {
    const std::uint32_t a = w.at(t - 15);
    const std::uint32_t b = w.at(t - 2);
    const std::uint32_t s0 = std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3U);
    const std::uint32_t s1 = std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10U);
    w.at(t) = w.at(t - 16) + s0 + w.at(t - 7) + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t t = 0; t < rounds; ++t) {
    const std::uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t choice = (e & f) ^ (~e & g);
    const std::uint32_t t1 = h + sum1 + choice + round_constants.at(t) + w.at(t);
    const std::uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + sum0 + majority;
  }
  const Words worked{a, b, c, d, e, f, g, h};
  std::ranges::transform(state, worked, state.begin(), [](std::uint32_t x, std::uint32_t y) { return x + y; });
}

}  // namespace

std::array<std::uint8_t, 32> sha256(std::span<const std::byte> message) {
  constexpr std::size_t length_bytes = 8;
  Words state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::span<const std::byte> rest = message;
  for (; rest.size() >= block_bytes; rest = rest.subspan(block_bytes)) {
    compress(state, rest.first(block_bytes));
  }
  std::vector<std::byte> last(rest.begin(), rest.end());
  last.push_back(std::byte{0x80});
  while (last.size() % block_bytes != block_bytes - length_bytes) {
    last.push_back(std::byte{0});
  }
  const std::uint64_t bits = std::uint64_t{message.size()} * 8;
  for (std::size_t i = length_bytes; i-- > 0;) {
    last.push_back(static_cast<std::byte>(bits >> (8 * i)));
  }
  for (rest = last; !rest.empty(); rest = rest.subspan(block_bytes)) {
    compress(state, rest.first(block_bytes));
  }
  std::array<std::uint8_t, 32> digest{};
  for (std::size_t i = 0; i < digest.size(); ++i) {
    digest.at(i) = static_cast<std::uint8_t>(state.at(i / 4) >> (24 - 8 * (i % 4)));
  }
  return digest;
}

}  // namespace gpuinfer::model
