// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infer/asking/asker.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

struct FoundDistances {
  std::optional<model::SliceDistances> distances = {};
  std::string reason = {};  // why there are none
  // Pairs of an SM and a slice that were timed again on other lines, and how many are otherwise.
  std::size_t fresh = 0;
  std::size_t wrong = 0;
};

// How long each SM takes for lines at home in each slice. Contended pairs take lines home, where the first load of an
// SM finds them, near or far. SMs are grouped by how their distances differ from slice to slice. `lines`: offsets of
// lines by slice, none of them twice; the distances are in that order. Needs a device that is asked for contended pairs
// and chooses_unit, and that knows its number of SMs. Throws AskingEnded, QuestionRefused, DeviceError.
[[nodiscard]] FoundDistances find_slice_distances(Asker& device, const std::vector<std::vector<std::uint64_t>>& lines);

}  // namespace gpuinfer::infer
