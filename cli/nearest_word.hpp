// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gpuinfer::cli {

// " (did you mean `WORD`?)" with the word that takes the fewest letters put in, left out, changed or swapped with the
// next one to come from `word` (optimal string alignment), where that is no more than a third of its letters, at least
// one; else nothing.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> words);

}  // namespace gpuinfer::cli
