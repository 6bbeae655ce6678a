// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gpuinfer::infer {

// Of the set bits: 1 where they are odd in number.
[[nodiscard]] constexpr std::uint32_t parity(std::uint64_t bits) {
  return static_cast<std::uint32_t>(std::popcount(bits)) & 1U;
}

// Bit i: the parity of what of these bits the i-th mask has.
[[nodiscard]] inline std::uint64_t masked_parities(std::uint64_t bits, const std::vector<std::uint64_t>& masks) {
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < masks.size(); ++i) {
    found |= std::uint64_t{parity(bits & masks[i])} << i;
  }
  return found;
}

// Of the vectors that `which` has bits of.
[[nodiscard]] inline std::uint64_t sum_of(const std::vector<std::uint64_t>& vectors, std::uint64_t which) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    sum ^= ((which >> i) & 1U) != 0 ? vectors[i] : 0;
  }
  return sum;
}

// The vector that has these bits.
[[nodiscard]] constexpr std::uint64_t mask_of(const std::vector<unsigned>& bits) {
  std::uint64_t mask = 0;
  for (const unsigned bit : bits) {
    mask |= std::uint64_t{1} << bit;
  }
  return mask;
}

// A space of vectors of 64 bits over GF(2), as rows in reduced echelon form over GF(2), each led by its lowest set bit.
class EchelonBasis {
 public:
  // False when the vector was in the span already.
  bool add(std::uint64_t vector) {
    vector = remainder(vector);
    if (vector == 0) {
      return false;
    }
    for (std::uint64_t& row : rows_) {
      if ((row & lowest_bit(vector)) != 0) {
        row ^= vector;
      }
    }
    rows_.push_back(vector);
    return true;
  }

  // What is left of the vector after the rows were taken out of it: zero if and only if it is in the span, and the same
  // for two vectors if and only if their difference is.
  [[nodiscard]] std::uint64_t remainder(std::uint64_t vector) const {
    for (const std::uint64_t row : rows_) {
      if ((vector & lowest_bit(row)) != 0) {
        vector ^= row;
      }
    }
    return vector;
  }

  [[nodiscard]] std::size_t rank() const { return rows_.size(); }
  [[nodiscard]] const std::vector<std::uint64_t>& rows() const { return rows_; }

  // Masks over `bits` whose parity is even on every vector of the span, reduced, ascending by lowest bit.
  [[nodiscard]] std::vector<std::uint64_t> orthogonal_complement(const std::vector<unsigned>& bits) const {
    EchelonBasis complement;
    std::uint64_t leading = 0;
    for (const std::uint64_t row : rows_) {
      leading |= lowest_bit(row);
    }
    for (const unsigned bit : bits) {
      const std::uint64_t free = std::uint64_t{1} << bit;
      if ((leading & free) != 0) {
        continue;
      }
      std::uint64_t mask = free;
      for (const std::uint64_t row : rows_) {
        if ((row & free) != 0) {
          mask |= lowest_bit(row);
        }
      }
      complement.add(mask);
    }
    std::vector<std::uint64_t> masks = complement.rows();
    std::sort(masks.begin(), masks.end(),
              [](std::uint64_t a, std::uint64_t b) { return std::countr_zero(a) < std::countr_zero(b); });
    return masks;
  }

 private:
  static std::uint64_t lowest_bit(std::uint64_t vector) { return vector & (~vector + 1); }

  std::vector<std::uint64_t> rows_;
};

// Masks of which the i-th has odd parity with the i-th vector of a basis of GF(2)^size, and even with all others.
[[nodiscard]] inline std::vector<std::uint64_t> dual_basis(std::vector<std::uint64_t> basis) {
  const std::size_t size = basis.size();
  // Of the inverse, columns are the masks.
  std::vector<std::uint64_t> inverse(size);
  for (std::size_t i = 0; i < size; ++i) {
    inverse[i] = std::uint64_t{1} << i;
  }
  for (std::size_t column = 0; column < size; ++column) {
    std::size_t pivot = column;
    while (((basis[pivot] >> column) & 1U) == 0) {
      ++pivot;
    }
    std::swap(basis[pivot], basis[column]);
    std::swap(inverse[pivot], inverse[column]);
    for (std::size_t row = 0; row < size; ++row) {
      if (row != column && ((basis[row] >> column) & 1U) != 0) {
        basis[row] ^= basis[column];
        inverse[row] ^= inverse[column];
      }
    }
  }
  std::vector<std::uint64_t> masks(size);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t bit = 0; bit < size; ++bit) {
      masks[i] |= ((inverse[bit] >> i) & 1U) << bit;
    }
  }
  return masks;
}

}  // namespace gpuinfer::infer
