// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "model/trace.hpp"

// Recordings in other people's forms. All throw InputError with file and line. Texts do not say which load path was
// timed: the target of their questions is empty.
namespace gpuinfer::probe {

// Mei & Chu: sections of a header `=====... 12.03 KB array, loop 4096*1 times====`, `NEXT latency` rows with NEXT in
// 4-byte words, and perhaps a footer of ====; one trace for each. The access of a row is the predecessor of NEXT in a
// chase of one stride. The warm-up is the same chase run once before from element 0, where the first row is where such
// a run ends; a section headed `cold` that begins at element 0 has none; else start_is_known is false.
[[nodiscard]] std::vector<model::Trace> read_mei(const std::filesystem::path& file);

// CSV `offset,latency`, an optional header line, # comments; the start state is not known.
[[nodiscard]] model::Trace read_csv(const std::filesystem::path& file);

// Any of the above, or every trace of an archive; by content, not by name.
[[nodiscard]] std::vector<model::Trace> read_traces(const std::filesystem::path& file);

}  // namespace gpuinfer::probe
