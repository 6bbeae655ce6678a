// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "infer/asking/asker.hpp"

namespace gpuinfer::infer {

// The smallest power of two such that, of places so many bytes apart, one takes as long as a load that is repeated once
// the other was loaded, and longer where it was not: tags of a few bits do not tell their lines apart (Liu, MICRO
// 1994). None where places half a buffer apart are told apart. Needs a start that is empty, and no knowledge of levels,
// which such places would confuse. Throws QuestionRefused, as recordings do.
[[nodiscard]] std::optional<std::uint64_t> find_alias_distance(Asker& asker);

}  // namespace gpuinfer::infer
