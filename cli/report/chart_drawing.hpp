// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/report/drawing.hpp"
#include "cli/report/figure.hpp"

namespace gpuinfer::cli::report {

struct DrawnChart {
  Drawing drawing;
  // How a page finds the place of an x: "linear FROM TO LEFT RIGHT", likewise log2 and log10, or "categories COUNT LEFT
  // RIGHT".
  std::string x_places;
};

// Axes, series, bands, marks and a legend. Where all values of y are alike, its axis does not begin at zero, but for
// bars. So narrow that its letters can still be read where it is shrunk to the screen of a telephone.
[[nodiscard]] DrawnChart draw(const Chart& chart, double width = 440, double height = 270);

}  // namespace gpuinfer::cli::report
