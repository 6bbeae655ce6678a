// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "cli/output.hpp"
#include "cli/survey/merge.hpp"
#include "cli/survey/parts.hpp"
#include "cli/survey/request.hpp"

namespace gpuinfer::cli::survey {

// What goes into a fleet description besides the results.
struct Surveyed {
  std::map<std::string, std::string> facts;     // program, targets and other options
  std::span<const Task> tasks;                  // in the order in which they are listed
  std::map<std::size_t, std::string> failures;  // by task
  std::vector<std::string> lost_ranks;          // a sentence each
};

struct FleetCounts {
  std::size_t asked = 0;
  std::size_t answered = 0;
  std::size_t common = 0;
  std::size_t deviating = 0;
  std::size_t less_certain = 0;
  std::size_t failed = 0;
  bool all_resolved = true;  // of those that answered
};

// Writes a fleet description, schema `gpuinfer-fleet/1`; the same results give the same bytes. Reads one part after the
// other, so that the memory it takes does not grow with them. `merge`: settled.
FleetCounts write_fleet(std::ostream& out, Format format, const Surveyed& surveyed, const Parts& parts,
                        const Merge& merge);

}  // namespace gpuinfer::cli::survey
