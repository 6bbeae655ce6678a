// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "infer/recordings/scorer.hpp"
#include "infer/recordings/set_simulation.hpp"
#include "model/index_function.hpp"

namespace gpuinfer::infer {

// Index functions as caches have been built with them, for lines of 2^line_bit bytes and addresses below 2^end_bit: a
// field of contiguous bits, two or three such fields XORed bit by bit, and modulo. They are numbered, and none is kept.
class IndexSpace {
 public:
  IndexSpace(unsigned line_bit, unsigned end_bit);

  [[nodiscard]] std::size_t size() const { return fields_.size() + granule_bits * moduli; }
  [[nodiscard]] model::IndexFunction function(std::size_t number) const;

  static constexpr unsigned most_set_bits = 14;
  static constexpr std::size_t granule_bits = 6;  // granules of 1, 2, ... 32 lines
  static constexpr std::size_t moduli = 8192;     // sets, from 2 on

 private:
  // Where fields begin, each `bits` wide; what lies beyond the last address bit is left out. Absent ones are 0.
  struct Fields {
    std::uint8_t bits = 0;
    std::uint8_t first = 0;
    std::uint8_t second = 0;
    std::uint8_t third = 0;
  };

  std::uint64_t line_bytes_;
  unsigned end_bit_;
  std::vector<Fields> fields_;
};

// Splits by those functions of an IndexSpace that predict best what the lines do which share a set with a few of them,
// the best first, at most `most`: each function with several numbers of ways and policies. For recordings with too many
// lines for ConflictScores. The memory that it needs does not grow with the number of functions.
struct IndexGuess {
  std::vector<LineSplit> splits;
  std::size_t hypotheses = 0;  // that were tried
};
[[nodiscard]] IndexGuess guess_splits_by_index(const SetSimulation& simulation, std::size_t most, const Scorer& scorer,
                                               const std::function<bool()>& stop);

}  // namespace gpuinfer::infer
