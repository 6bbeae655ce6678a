// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "model/trace.hpp"
#include "probe/host/pages.hpp"

// What a load takes on an average where one cannot be timed by itself: each word holds where the next one is, so that
// each load waits for the one before, and only the first and the last moment are read from the clock.
namespace gpuinfer::probe::host {

// Why a question is none that laps can answer (see model::BufferFacts::averages_laps); none: it is one.
[[nodiscard]] std::optional<std::string> why_no_lap(const model::Question& question, std::uint64_t buffer_bytes);

class Laps {
 public:
  // Memory of so many bytes, a multiple of Pages::huge_bytes, up to 4 GB. Throws DeviceUnavailable.
  Laps(std::size_t bytes, bool try_huge) : pages_(bytes, try_huge) {}

  // Cycles of the time stamp for one load of the recorded lap, on an average over a stretch of whole laps, after those
  // of the warm-up. Of several stretches the quickest one counts: interrupts and neighbours only add to it.
  [[nodiscard]] double cycles_of_load(const model::Question& question);

 private:
  [[nodiscard]] std::uint32_t load(std::uint32_t place, std::size_t times) const;

  Pages pages_;
};

}  // namespace gpuinfer::probe::host
