// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "model/line_table.hpp"

namespace gpuinfer::model {

// Successive accesses to one line, from first_access to that of the next run.
struct LineRun {
  std::uint32_t line = 0;          // an id of the LineTable
  std::uint32_t first_access = 0;  // place in the sequence
};

// Addresses as what a cache sees of them, whatever its sets and its policy: so one decoding serves all hypotheses about
// them. A decoder goes with one LineTable, whose ids it gives.
class LineDecoder {
 public:
  LineDecoder(std::uint64_t line_bytes, std::uint64_t sector_bytes)
      : line_(line_bytes), sector_(sector_bytes), is_sectored_(sector_bytes < line_bytes) {}

  // The runs of `addresses`, fewer than 2^32, put into the beginning of `room`, with one more that only says where the
  // last one ends; and, when lines have several sectors, the sector of each access into `sectors`. `room` is longer
  // than `addresses` by one, `sectors` as long.
  std::span<const LineRun> decode(std::span<const std::uint64_t> addresses, LineTable& table, std::span<LineRun> room,
                                  std::span<std::uint8_t> sectors) const;

  [[nodiscard]] std::uint64_t line_number(std::uint64_t address) const { return line_.quotient(address); }
  [[nodiscard]] std::uint64_t sector_of(std::uint64_t address) const {
    return sector_.quotient(address - line_.quotient(address) * line_.divisor());
  }
  // `offset` from the beginning of a line.
  [[nodiscard]] std::uint64_t sector_at(std::uint64_t offset) const { return sector_.quotient(offset); }
  // Line number = address >> shift, where that is so.
  [[nodiscard]] std::optional<unsigned> line_shift() const {
    return line_.is_shift() ? std::optional(line_.shift()) : std::nullopt;
  }
  [[nodiscard]] std::uint64_t line_bytes() const { return line_.divisor(); }
  [[nodiscard]] bool is_sectored() const { return is_sectored_; }

 private:
  // Division by a number that is mostly a power of two.
  class Divider {
   public:
    explicit Divider(std::uint64_t divisor);

    [[nodiscard]] std::uint64_t divisor() const { return divisor_; }
    [[nodiscard]] bool is_shift() const { return is_shift_; }
    [[nodiscard]] unsigned shift() const { return shift_; }
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
