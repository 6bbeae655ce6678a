// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "infer/asking/interrogator.hpp"

// Loads of which it is known whether they hit before any level is known, and what they tell of the levels.
namespace gpuinfer::infer {

// Loads of lines that were just loaded, so many of them, in several places, because the banks of a cache may differ.
[[nodiscard]] std::vector<model::Question> known_hits(const Asker& device, std::size_t loads);

// Makes the rate of misreads better known by so many of them.
void look_at_hits(Interrogator& device, std::size_t loads);

// Makes the rates of misreads of hits and of misses so well known that one in hundreds cannot have escaped. Throws
// QuestionRefused, as recordings do.
void look_at_misreads(Interrogator& device);

// How finely the spans grow that drive lines out: coarsely, the first that does may drive them out of a next level of
// twice the size as well.
enum class Spans : std::uint8_t { coarse, fine };

// Fits a classifier to loads that are known to hit (repeated at once) and to miss (first touches far apart), after
// choose_start(). Where its levels_are_apart() is false, there is nothing to read.
[[nodiscard]] LevelClassifier calibrate(Asker& asker, Spans spans = Spans::coarse);

// Lines that some fine span drives out take a time that belongs to neither level.
[[nodiscard]] bool meets_another_level(Interrogator& device);

}  // namespace gpuinfer::infer
