// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "infer/asking/interrogator.hpp"

// What a level behind a nearer one keeps, which answers in its place when a few lines are loaded; so many are.
namespace gpuinfer::infer {

using Lines = std::vector<std::uint64_t>;  // numbers of granules, counted from aligned_start()
using Missing = std::vector<bool>;         // by place in a list of lines

// Lines of one set, one more than it has ways.
using Overfull = Lines;
[[nodiscard]] inline std::uint32_t ways_of(const Overfull& lines) {
  return static_cast<std::uint32_t>(lines.size() - 1);
}

class OuterLaps {
 public:
  OuterLaps(Interrogator& device, std::uint64_t granule_bytes);

  // From aligned_start() on. Numbers beyond are those of the whole lines before it, in the order of their addresses.
  [[nodiscard]] std::uint64_t lines_of_buffer() const { return lines_of_buffer_; }
  [[nodiscard]] std::uint64_t all_lines() const { return lines_of_buffer_ + lines_before_; }
  [[nodiscard]] model::Address address_of(std::uint64_t line) const;

  // Whether so many lines are much more than the nearer level keeps.
  [[nodiscard]] bool go_far_beyond_nearer_level(std::size_t lines) const;

  // So many lines in a row drive one another out of the nearer level.
  [[nodiscard]] std::uint64_t lines_past_nearer_level() const;

  // Asks each question so many times from here on. A line counts as one that misses where it does so in one answer: a
  // set that overflows may keep some of its lines for a while, and one that does not never misses.
  void ask_times(unsigned times) { times_ = times; }

  // Lines that missed in some laps and hit in others, so far.
  [[nodiscard]] std::size_t torn() const { return torn_; }

  // Which of the lines miss lap after lap, but once at most, when all are loaded in turn again and again.
  Missing missing(const Lines& lines);
  // The same in the order of their numbers, as the pages of a contiguous array come.
  Missing missing_in_order(const Lines& lines);

 private:
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t line) const;

  Interrogator* device_;
  std::uint64_t granule_bytes_;
  std::uint64_t start_;
  std::uint64_t lines_of_buffer_;
  std::uint64_t lines_before_;
  unsigned times_ = 1;
  std::size_t torn_ = 0;
};

}  // namespace gpuinfer::infer
