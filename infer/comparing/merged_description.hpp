// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/device_description.hpp"

// One description of what several say of one device.
namespace gpuinfer::infer {

struct Piece {
  std::string file;  // stands in messages
  model::DeviceDescription description;
};

struct MergedDescription {
  model::DeviceDescription description;
  std::vector<std::string> unidentified;  // files that do not say which device of its kind it was
};

// Whether the two cannot be of the same device: another name, another number of SMs, another identity.
[[nodiscard]] bool are_of_other_devices(const model::DeviceDescription& first, const model::DeviceDescription& second);

// All that is known to any of the pieces, at least one, with its evidence. Of a section that several have, each leaf,
// and each part of one, is of the piece that knows it; where several do, of the one that has proven it, else of one
// that does not assume it, else of the one that knows more leaves of the section. What hangs on the carve-out, and what
// is said of sets by their numbers, is not put together from pieces that may mean others. Facts of the provenance that
// all sections share stand as they are; of the others, and of the source, that of each section stands as SECTION.FACT.
// Throws InputError, which names the files, where pieces are of other devices or two values contradict: where
// infer::differences() says so, and of what was timed, where they are further apart than two runs on one device.
[[nodiscard]] MergedDescription merge_pieces(std::span<const Piece> pieces);

}  // namespace gpuinfer::infer
