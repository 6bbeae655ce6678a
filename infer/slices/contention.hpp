// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/asking/asker.hpp"
#include "model/random.hpp"

// Which lines of an outer cache lie in one slice. Atomic additions are carried out by the slice where a line has its
// home, one after the other, so those of many SMs to two lines take about twice as long where both are in one slice.
// Plain loads do not show it, as those of several SMs are joined on the way.
namespace gpuinfer::infer {

using Pair = std::array<std::uint64_t, 2>;  // offsets of two lines

class Contention {
 public:
  // Needs a device that is asked for contended pairs of the target. Throws AskingEnded, QuestionRefused, DeviceError.
  explicit Contention(Asker& device) : device_(&device) {}

  // Learns how long pairs take that are one line and how long most other pairs do, and where between the two fewest
  // pairs lie. False where these are not apart.
  // `lines`: offsets, at least 64 of different lines.
  [[nodiscard]] bool calibrate(std::span<const std::uint64_t> lines, std::uint64_t seed);

  [[nodiscard]] double apart_cycles() const { return apart_cycles_; }
  [[nodiscard]] double together_cycles() const { return together_cycles_; }

  // One verdict for each pair: whether its lines lie in one slice, as read once.
  [[nodiscard]] std::vector<bool> read(std::span<const Pair> pairs);
  // The same, where a pair is together only if it is read so `times` in a row.
  [[nodiscard]] std::vector<bool> surely_together(std::span<const Pair> pairs, unsigned times);
  // The same as most of three readings say.
  [[nodiscard]] std::vector<bool> voted(std::span<const Pair> pairs);
  // Of the pairs that are read as together `times` in a row, the one whose lines wait longest for one another.
  [[nodiscard]] std::optional<std::size_t> closest(std::span<const Pair> pairs, unsigned times);

 private:
  [[nodiscard]] std::vector<double> cycles_of(std::span<const Pair> pairs);
  void choose_limit(std::span<const std::uint64_t> lines, model::Random& random);

  Asker* device_;
  double apart_cycles_ = 0;
  double together_cycles_ = 0;
  double least_together_cycles_ = 0;
};

}  // namespace gpuinfer::infer
