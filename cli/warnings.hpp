// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infer/asking/finding.hpp"
#include "model/disturbance.hpp"

// What the program says on stderr beside errors and progress. Every warning stands here: what was observed, against
// what, and what to do about it; those of the inference are worded in infer/asking/warning.cpp, those of
// a device come with its disturbances.
namespace gpuinfer::cli {

void note(const std::string& sentence);
void warn(const std::string& sentence);

[[nodiscard]] std::string disturbed(const std::string& source, const model::Disturbance& disturbance);
[[nodiscard]] std::string took_device(const std::string& asked, const std::string& device);
[[nodiscard]] std::string plays_recording(const std::string& gpu, const std::string& file);
[[nodiscard]] std::string was_recording(const std::string& gpu);
[[nodiscard]] std::string seed_differs(std::uint64_t asked, std::uint64_t recorded);
[[nodiscard]] std::string answers_are_lost(const std::string& file, std::uint64_t answers);
[[nodiscard]] std::string buffers_lie_elsewhere(const std::vector<std::string>& targets);
[[nodiscard]] std::string can_be_resumed(const std::string& command);
[[nodiscard]] std::string nothing_is_kept();
[[nodiscard]] std::string no_identity(const std::vector<std::string>& files);
[[nodiscard]] std::string ended_early(const std::string& target, const infer::Finding& finding);
[[nodiscard]] std::string hypotheses_of_ranks(const std::vector<std::size_t>& of_ranks);
[[nodiscard]] std::string replay_learned_nothing(const std::string& file);

}  // namespace gpuinfer::cli
