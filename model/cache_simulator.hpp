// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/device_description.hpp"
#include "model/trace.hpp"

namespace gpuinfer::model {

enum class Outcome : std::uint8_t {
  hit,
  sector_miss,  // the line is there, the sector is not
  line_miss,
};

[[nodiscard]] constexpr bool is_miss(Outcome outcome) { return outcome != Outcome::hit; }

// One cache, played access by access from a description. Cost per access does not depend on the number of ways.
class CacheSimulator {
 public:
  // Needs line_bytes, sector_bytes, ways, index and replacement: throws InputError that names the leaf which is null.
  // `seed` drives the chance in stochastic policies and in nothing else.
  [[nodiscard]] static std::unique_ptr<CacheSimulator> make(const CacheDescription& cache, std::uint64_t seed);

  virtual ~CacheSimulator() = default;

  virtual void put_into(StartState state) = 0;

  // Plays the addresses (not offsets) in order. `outcomes` is either empty or as long as `addresses`. Throws InputError
  // when an address lies outside the range of a table index.
  virtual void play(std::span<const std::uint64_t> addresses, std::span<Outcome> outcomes) = 0;

 protected:
  CacheSimulator() = default;
};

// The outcomes of the recorded part of a question on a cache: put into its state, warmed, recorded.
[[nodiscard]] std::vector<Outcome> outcomes_of(CacheSimulator& cache, const Question& question,
                                               std::uint64_t address_of_buffer);

}  // namespace gpuinfer::model
