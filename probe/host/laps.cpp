// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/host/laps.hpp"

#include <x86intrin.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace gpuinfer::probe::host {

namespace {

constexpr std::uint64_t word_bytes = 4;

// A stretch is long against a tick of the clock, and what it takes to read it.
constexpr std::size_t fewest_loads_of_stretch = 4096;
// Over all stretches, as far as that is more than one.
constexpr std::size_t loads_of_stretches = 32768;
constexpr std::size_t most_stretches = 8;

std::uint64_t moment() {
  _mm_lfence();
  const std::uint64_t cycles = __rdtsc();
  _mm_lfence();
  return cycles;
}

}  // namespace

std::optional<std::string> why_no_lap(const model::Question& question, std::uint64_t buffer_bytes) {
  const model::AccessSequence& lap = question.record;
  if (question.state != model::StartState::keep) {
    return "host times laps in what the laps before left; ask for `keep`";
  }
  if (lap.empty()) {
    return "host times laps, and this question records no load; record a lap";
  }
  std::vector<bool> is_touched(buffer_bytes / word_bytes);
  for (const std::uint64_t offset : lap) {
    if (offset % word_bytes != 0 || offset >= buffer_bytes) {
      return "offset " + std::to_string(offset) + " is no 4-byte load inside the buffer of " +
             std::to_string(buffer_bytes) + " bytes; ask for multiples of 4 below its end";
    }
    if (is_touched[offset / word_bytes]) {
      return "host times laps of " + question.target + ", and offset " + std::to_string(offset) +
             " is recorded twice; record each place once";
    }
    is_touched[offset / word_bytes] = true;
  }
  for (std::size_t i = 0; i < question.warm.size(); ++i) {
    if (question.warm[i] != lap[i % lap.size()]) {
      return "host times laps of " + question.target +
             ", and the warm-up takes another way; warm up with the recorded lap";
    }
  }
  return std::nullopt;
}

double Laps::cycles_of_load(const model::Question& question) {
  const model::AccessSequence& lap = question.record;
  for (std::size_t i = 0; i < lap.size(); ++i) {
    const auto next = static_cast<std::uint32_t>(lap[(i + 1) % lap.size()]);
    *reinterpret_cast<std::uint32_t*>(pages_.data() + lap[i]) = next;
  }
  auto place = load(static_cast<std::uint32_t>(lap.front()), question.warm.size());
  const std::size_t loads = (fewest_loads_of_stretch + lap.size() - 1) / lap.size() * lap.size();
  const std::size_t stretches = std::clamp<std::size_t>(loads_of_stretches / loads, 1, most_stretches);
  auto quickest = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t stretch = 0; stretch < stretches; ++stretch) {
    const std::uint64_t begin = moment();
    place = load(place, loads);
    quickest = std::min(quickest, moment() - begin);
  }
  return static_cast<double>(quickest) / static_cast<double>(loads);
}

std::uint32_t Laps::load(std::uint32_t place, std::size_t times) const {
  const std::uint8_t* const begin = pages_.data();
  for (std::size_t i = 0; i < times; ++i) {
    place = *reinterpret_cast<const volatile std::uint32_t*>(begin + place);
  }
  return place;
}

}  // namespace gpuinfer::probe::host
