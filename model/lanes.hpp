// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

// Small numbers that are compared many at once. What every x86-64 can do is enough; elsewhere loops say the same.
namespace gpuinfer::model {

// Sixteen signed bytes in one register.
using ByteLanes = std::int8_t __attribute__((vector_size(16)));

[[gnu::always_inline]] inline ByteLanes load_lanes(const std::int8_t* place) {
  ByteLanes bytes;
  std::memcpy(&bytes, place, sizeof bytes);
  return bytes;
}

[[gnu::always_inline]] inline void store_lanes(std::int8_t* place, ByteLanes bytes) {
  std::memcpy(place, &bytes, sizeof bytes);
}

// Sixteen times the same byte, for each of 0 to 63: to look it up is quicker than to spread a byte that was just
// loaded.
inline constexpr auto byte_everywhere = [] {
  std::array<std::array<std::int8_t, 16>, 64> all{};
  for (std::size_t value = 0; value < all.size(); ++value) {
    all[value].fill(static_cast<std::int8_t>(value));
  }
  return all;
}();

// Bit i: byte i is the same in both.
[[gnu::always_inline]] inline std::uint32_t equal_bytes(ByteLanes bytes, ByteLanes others) {
#ifdef __SSE2__
  const __m128i equal = _mm_cmpeq_epi8(reinterpret_cast<__m128i>(bytes), reinterpret_cast<__m128i>(others));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(equal));
#else
  std::uint32_t mask = 0;
  for (unsigned i = 0; i < 16; ++i) {
    mask |= (bytes[i] == others[i] ? 1U : 0U) << i;
  }
  return mask;
#endif
}

// Bit i: word i of so many equals `value`.
template <unsigned count>
[[nodiscard]] inline std::uint32_t equal_words_one_by_one(const std::uint32_t* words, std::uint32_t value) {
  std::uint32_t mask = 0;
  for (unsigned i = 0; i < count; ++i) {
    mask |= (words[i] == value ? 1U : 0U) << i;
  }
  return mask;
}

// The same of four.
[[gnu::always_inline]] inline std::uint32_t equal_words_of_4(const std::uint32_t* words, std::uint32_t value) {
#ifdef __SSE2__
  const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(words));
  const __m128i equal = _mm_cmpeq_epi32(four, _mm_set1_epi32(static_cast<int>(value)));
  return static_cast<std::uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(equal)));
#else
  return equal_words_one_by_one<4>(words, value);
#endif
}

// Four words in one register.
using WordLanes = std::uint32_t __attribute__((vector_size(16)));

// Replaces one word of four or sixteen, and stores them all: what compares them soon after need not wait until it is
// known which one it was.
template <std::uint32_t count>
[[gnu::always_inline]] inline void put_word_of(std::uint32_t* words, std::uint32_t place, std::uint32_t value) {
  for (std::uint32_t i = 0; i < count; i += 4) {
    WordLanes lanes;
    std::memcpy(&lanes, words + i, sizeof lanes);
    const WordLanes is_it = WordLanes{i, i + 1, i + 2, i + 3} == WordLanes{place, place, place, place};
    lanes = (lanes & ~is_it) | (WordLanes{value, value, value, value} & is_it);
    std::memcpy(words + i, &lanes, sizeof lanes);
  }
}

// All bits of one word of four.
inline constexpr auto one_word_of_4 = [] {
  std::array<std::array<std::uint32_t, 4>, 4> all{};
  for (std::size_t place = 0; place < all.size(); ++place) {
    all[place][place] = ~std::uint32_t{0};
  }
  return all;
}();

// put_word_of<4>(), with the place looked up.
[[gnu::always_inline]] inline void put_word_of_4(std::uint32_t* words, std::uint32_t place, std::uint32_t value) {
  WordLanes lanes;
  WordLanes is_it;
  std::memcpy(&lanes, words, sizeof lanes);
  std::memcpy(&is_it, one_word_of_4[place].data(), sizeof is_it);
  lanes = (lanes & ~is_it) | (WordLanes{value, value, value, value} & is_it);
  std::memcpy(words, &lanes, sizeof lanes);
}

// The same of sixteen.
[[gnu::always_inline]] inline std::uint32_t equal_words_of_16(const std::uint32_t* words, std::uint32_t value) {
#ifdef __SSE2__
  const __m128i wanted = _mm_set1_epi32(static_cast<int>(value));
  const auto equal = [&](int place) {
    return _mm_cmpeq_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words) + place), wanted);
  };
  const __m128i low = _mm_packs_epi32(equal(0), equal(1));
  const __m128i high = _mm_packs_epi32(equal(2), equal(3));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
#else
  return equal_words_one_by_one<16>(words, value);
#endif
}

}  // namespace gpuinfer::model
