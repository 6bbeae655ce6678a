// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/trace.hpp"

namespace gpuinfer::cli {

struct SequenceForm {
  std::string_view form;  // "cyclic:BYTES,STRIDE[,LAPS]"
  std::string_view what;
};

// Everything that --sequence and --warm understand.
[[nodiscard]] std::span<const SequenceForm> sequence_forms();

// Offsets in the order they are loaded. Throws InputError, also for an archive, which is no single sequence.
[[nodiscard]] model::AccessSequence parse_sequence(const std::string& text, std::uint64_t seed);

// Whether --sequence names the questions of a recording, and which ones those are.
[[nodiscard]] bool names_archive(const std::string& text);
[[nodiscard]] std::vector<model::Question> questions_of_archive(const std::string& text);

}  // namespace gpuinfer::cli
