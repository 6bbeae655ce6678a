// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

namespace gpuinfer::infer {

// Vectors of whole numbers and all that their sums and differences reach, as rows of an upper triangle.
class Lattice {
 public:
  using Vector = std::vector<std::int64_t>;

  explicit Lattice(std::size_t size) : rows_(size) {}

  void add(Vector vector) {
    for (std::size_t column = 0; column < rows_.size(); ++column) {
      Vector& row = rows_[column];
      if (vector[column] != 0 && row.empty()) {
        row = std::move(vector);
        return;
      }
      // Euclid, until only the row has something in this column.
      while (vector[column] != 0) {
        subtract(row, vector, row[column] / vector[column]);
        std::swap(row, vector);
      }
      shorten(vector, column + 1);
    }
  }

  // Numbers of vectors that are as good as apart: the determinant. None where they are not finitely many.
  [[nodiscard]] std::optional<std::int64_t> determinant() const {
    std::int64_t product = 1;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].empty()) {
        return std::nullopt;
      }
      product *= std::abs(rows_[i][i]);
      if (product > most_numbers) {
        return std::nullopt;
      }
    }
    return product;
  }

  // Where the last unit vector reaches all numbers of vectors that are apart: which multiple of it each unit vector is.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> weights() const {
    const auto modulo = determinant();
    if (!modulo || std::abs(rows_.back().back()) != *modulo) {
      return std::nullopt;
    }
    std::vector<std::int64_t> weights(rows_.size(), 1);
    for (std::size_t i = rows_.size() - 1; i-- > 0;) {
      std::int64_t sum = 0;
      for (std::size_t j = i + 1; j < rows_.size(); ++j) {
        sum += rows_[i][j] % *modulo * weights[j];
      }
      weights[i] = (-sum * rows_[i][i] % *modulo + *modulo) % *modulo;  // the diagonal is 1 or -1 here
    }
    return std::vector<std::uint32_t>(weights.begin(), weights.end());
  }

 private:
  static constexpr std::int64_t most_numbers = 1 << 20;

  static void subtract(Vector& from, const Vector& vector, std::int64_t times) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      from[i] -= times * vector[i];
    }
  }
  // So that numbers stay small.
  void shorten(Vector& vector, std::size_t first) const {
    for (std::size_t i = first; i < rows_.size(); ++i) {
      if (!rows_[i].empty()) {
        subtract(vector, rows_[i], vector[i] / rows_[i][i]);
      }
    }
  }

  std::vector<Vector> rows_;  // the i-th begins with i zeros, or is not there yet
};

}  // namespace gpuinfer::infer
