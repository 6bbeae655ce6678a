// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/cache_simulator.hpp"
#include "model/texel_layout.hpp"
#include "model/trace.hpp"

namespace gpuinfer::cli {

struct SequenceForm {
  std::string_view form;  // "cyclic:BYTES,STRIDE[,LAPS]"
  std::string_view what;
};

// Everything that --sequence and --warm understand.
[[nodiscard]] std::span<const SequenceForm> sequence_forms();

// Loads and stores in order; both lists are as long.
struct Accesses {
  model::AccessSequence offsets;
  std::vector<model::AccessKind> kinds;
};

// Enough for any cache, and 8 GB of offsets.
constexpr std::uint64_t most_accesses = 1'000'000'000;

// Throws InputError, also for more than `most` accesses and for an archive, which is no single sequence.
[[nodiscard]] Accesses parse_accesses(const std::string& text, std::uint64_t seed, std::uint64_t most = most_accesses);

// The same where there is nothing but loads: throws InputError for a store, too.
[[nodiscard]] model::AccessSequence parse_sequence(const std::string& text, std::uint64_t seed);

// Everything that --sequence and --warm understand where they speak of a texture.
[[nodiscard]] std::span<const SequenceForm> texel_forms();

// Texels of a texture of this size in the order they are loaded. Throws InputError. What a file names is not checked to
// lie inside.
[[nodiscard]] std::vector<model::Texel> parse_texels(const std::string& text, std::uint64_t width,
                                                     std::uint64_t height);

// Whether --sequence names the questions of a recording, and which ones those are.
[[nodiscard]] bool names_archive(const std::string& text);
[[nodiscard]] std::vector<model::Question> questions_of_archive(const std::string& text);

}  // namespace gpuinfer::cli
