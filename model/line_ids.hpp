// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/errors.hpp"
#include "model/line_table.hpp"

namespace gpuinfer::model {

// Line numbers of 64 bits as ids of 32, four of which are compared at once. Lines near the first one that was met, as
// nearly all are, have their distance from the window's beginning as id, and nothing is remembered of them; lines far
// away get theirs from a table. An id lasts, and lies below `end`.
class LineIds {
 public:
  static constexpr std::uint32_t window_lines = std::uint32_t{1} << 31U;
  static constexpr std::uint32_t most_far_lines = std::uint32_t{1} << 29U;
  static constexpr std::uint32_t end = window_lines + most_far_lines;

  // Where the window begins; the line is met now.
  [[nodiscard]] std::uint64_t window_for(std::uint64_t number) {
    if (!begin_) {
      begin_ = number < window_lines / 2 ? 0 : number - window_lines / 2;
    }
    return *begin_;
  }

  // Throws InputError when there are too many lines far away.
  [[nodiscard]] std::uint32_t id_of(std::uint64_t number) {
    const std::uint64_t distance = number - window_for(number);
    return distance < window_lines ? static_cast<std::uint32_t>(distance) : id_of_far(number);
  }

  // Of a line that is not in the window.
  [[nodiscard]] [[gnu::noinline]] std::uint32_t id_of_far(std::uint64_t number) {
    const std::uint32_t id = far_.id_of(number);
    if (far_.ids() > most_far_lines) {
      throw InputError("the accesses meet lines in more than " +
                       std::to_string(most_far_lines / LineTable::page_lines) + " stretches of " +
                       std::to_string(LineTable::page_lines) + ", more than is simulated; leave some out");
    }
    return window_lines + id;
  }

  // None: this line has no id yet.
  [[nodiscard]] std::optional<std::uint32_t> known_id_of(std::uint64_t number) const {
    if (!begin_) {
      return std::nullopt;
    }
    const std::uint64_t distance = number - *begin_;
    if (distance < window_lines) {
      return static_cast<std::uint32_t>(distance);
    }
    const auto far = far_.known_id_of(number);
    return far ? std::optional(window_lines + *far) : std::nullopt;
  }

  [[nodiscard]] std::uint64_t number_of(std::uint32_t id) const {
    return id < window_lines ? *begin_ + id : far_.number_of(id - window_lines);
  }

  // How many are remembered.
  [[nodiscard]] std::size_t far_lines() const { return far_.ids(); }

 private:
  std::optional<std::uint64_t> begin_;  // of the window; none: no line was met
  LineTable far_;
};

}  // namespace gpuinfer::model
