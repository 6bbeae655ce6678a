// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/report/drawing.hpp"

namespace gpuinfer::cli::report {

// A table of numbers as a picture. As many cells have each shade, as far as there are enough.
struct ShadedCells {
  std::string corner;                        // what the columns are
  std::string unit;                          // of the numbers
  std::vector<std::string> rows;             // what each row is
  std::vector<std::string> columns;          // what each column is
  std::vector<std::vector<double>> numbers;  // of each row those of all columns
  std::size_t label_step = 1;                // every so many columns say what they are
  double cell_width = 7;
};

[[nodiscard]] Drawing draw(const ShadedCells& cells);

}  // namespace gpuinfer::cli::report
