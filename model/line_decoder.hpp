// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

namespace gpuinfer::model {

// An address as line number and sector of that line.
class LineDecoder {
 public:
  LineDecoder(std::uint64_t line_bytes, std::uint64_t sector_bytes)
      : line_(line_bytes), sector_(sector_bytes), is_sectored_(sector_bytes < line_bytes) {}

  [[nodiscard]] std::uint64_t line_number(std::uint64_t address) const { return line_.quotient(address); }
  [[nodiscard]] std::uint64_t sector_of(std::uint64_t address) const {
    return sector_at(address - line_number(address) * line_bytes());
  }
  // `offset` from the beginning of a line.
  [[nodiscard]] std::uint64_t sector_at(std::uint64_t offset) const { return sector_.quotient(offset); }

  // Line number = address >> shift, where that is so.
  [[nodiscard]] std::optional<unsigned> line_shift() const { return line_.shift(); }
  // The same of a sector.
  [[nodiscard]] std::optional<unsigned> sector_shift() const { return sector_.shift(); }
  [[nodiscard]] std::uint64_t line_bytes() const { return line_.divisor(); }
  [[nodiscard]] std::uint64_t sector_bytes() const { return sector_.divisor(); }
  [[nodiscard]] bool is_sectored() const { return is_sectored_; }

 private:
  // Division by a number that is mostly a power of two.
  class Divider {
   public:
    explicit Divider(std::uint64_t divisor)
        : divisor_(divisor), shift_(static_cast<unsigned>(std::countr_zero(divisor))),
          is_shift_(std::has_single_bit(divisor)) {}

    [[nodiscard]] std::uint64_t divisor() const { return divisor_; }
    [[nodiscard]] std::optional<unsigned> shift() const { return is_shift_ ? std::optional(shift_) : std::nullopt; }
    [[nodiscard]] std::uint64_t quotient(std::uint64_t number) const {
      return is_shift_ ? number >> shift_ : number / divisor_;
    }

   private:
    std::uint64_t divisor_;
    unsigned shift_;
    bool is_shift_;
  };

  Divider line_;
  Divider sector_;
  bool is_sectored_;
};

}  // namespace gpuinfer::model
