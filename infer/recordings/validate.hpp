// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "infer/asking/level_classifier.hpp"
#include "infer/recordings/validate_chance.hpp"
#include "model/device_description.hpp"
#include "model/trace.hpp"

namespace gpuinfer::infer {

// How a description predicts a recording, access by access.
struct Agreement {
  std::size_t accesses = 0;  // recorded ones
  std::size_t agreeing = 0;
  std::size_t outliers = 0;      // latencies that are neither a hit nor a miss: not judged
  std::size_t undetermined = 0;  // the outcome depends on what came before the trace: not judged
  std::array<std::array<std::size_t, 2>, 2> confusion{};  // [predicted miss][measured miss]
  std::optional<std::size_t> first_disagreement;          // index into the recorded accesses
  // Of a random policy: no single access is judged.
  std::optional<ChanceAgreement> chance;

  // Share of the accesses that were judged.
  [[nodiscard]] double share() const;
};

// Simulates the sequence of `trace` on `cache` and compares. Levels are told apart by the latencies of the trace
// itself, with the description's latencies as a guide where it has them. Throws InputError when the description lacks a
// leaf that a simulation needs. Nothing is judged where the index is one of blocks. Where a pointer sweeps sets and
// addresses have bits above the exercised ones, the place at which it begins is not known, and the one that agrees best
// is taken.
[[nodiscard]] Agreement validate(const model::CacheDescription& cache, const model::Trace& trace,
                                 model::Address address_of_buffer, std::uint64_t seed);

// The same in two steps, for whoever compares many caches of these latencies with one trace: one reading for each
// recorded access; and what a cache makes of them.
[[nodiscard]] std::vector<Reading> read_levels(const model::Trace& trace, const model::LatencyCycles& latency_cycles);
[[nodiscard]] Agreement validate(const model::CacheDescription& cache, const model::Trace& trace,
                                 const std::vector<Reading>& readings, model::Address address_of_buffer,
                                 std::uint64_t seed);

// The levels of recordings of one cache, told apart in all of them together, with those of `guide` where it has them:
// medians of what was read as a hit and as a miss; null: hardly anything was.
[[nodiscard]] model::LatencyCycles recorded_levels(std::span<const model::Trace* const> traces,
                                                   const model::LatencyCycles& guide);

}  // namespace gpuinfer::infer
