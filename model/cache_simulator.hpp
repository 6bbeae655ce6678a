// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/address.hpp"
#include "model/device_description.hpp"
#include "model/trace.hpp"

namespace gpuinfer::model {

enum class Outcome : std::uint8_t {
  hit,
  sector_miss,  // the line is there, the sector is not
  line_miss,
};

[[nodiscard]] constexpr bool is_miss(Outcome outcome) { return outcome != Outcome::hit; }

// One access in full.
struct AccessEvent {
  Outcome outcome = Outcome::hit;
  std::uint32_t set = 0;
  std::optional<std::uint32_t> way;       // where the line lies afterwards; none: it was not placed
  std::optional<Address> victim_address;  // first byte of the line that had to go
  bool victim_is_dirty = false;           // stores have written to it, and the next level has not seen them

  bool operator==(const AccessEvent&) const = default;
};

// One cache, played access by access from a description. A line lies in the set that the index gives for its first
// byte. Finding a line costs the same whatever the number of ways and the length of the sequence; so do LRU, FIFO and
// all other policies but those that search for a victim by age (rrip, qlru).
class CacheSimulator {
 public:
  // Needs line_bytes, sector_bytes, ways, index and replacement: throws InputError that names the leaf which is null.
  // `seed` drives the chance in stochastic policies and in nothing else.
  [[nodiscard]] static std::unique_ptr<CacheSimulator> make(const CacheDescription& cache, std::uint64_t seed);

  virtual ~CacheSimulator() = default;

  virtual void put_into(StartState state) = 0;

  // Loads from the addresses of these numbers in order. `outcomes` is either empty or as long as `addresses`. Throws
  // InputError when an address lies outside the range of a table index.
  virtual void play(std::span<const std::uint64_t> addresses, std::span<Outcome> outcomes) = 0;

  // One access with everything there is to say about it, at a price; the same to the cache as play() of a load. A store
  // needs `store` of the description and what of it decides what becomes of a line: throws InputError that names the
  // leaf which is null.
  virtual AccessEvent step(Address address, AccessKind kind) = 0;

  // What a load would find: `way` is where the line lies, none where it does not; there is no victim.
  [[nodiscard]] virtual AccessEvent look_up(Address address) const = 0;

  // All that decides what comes next, the stream of chance included. A snapshot fits the simulator that it was taken
  // from and no other.
  class Snapshot {
   public:
    virtual ~Snapshot() = default;

   protected:
    Snapshot() = default;
    Snapshot(const Snapshot&) = default;
    Snapshot& operator=(const Snapshot&) = default;
  };
  [[nodiscard]] virtual std::unique_ptr<Snapshot> snapshot() const = 0;
  virtual void restore(const Snapshot& snapshot) = 0;

 protected:
  CacheSimulator() = default;
};

// A cache of one set whose lines have one byte, so that addresses are numbers of lines.
[[nodiscard]] CacheDescription one_set(const Replacement& policy, std::uint32_t ways);

// The outcomes of the recorded part of a question on a cache: put into its state, warmed, recorded.
[[nodiscard]] std::vector<Outcome> outcomes_of(CacheSimulator& cache, const Question& question,
                                               Address address_of_buffer);

// The same with everything there is to say about each access.
[[nodiscard]] std::vector<AccessEvent> events_of(CacheSimulator& cache, const Question& question,
                                                 Address address_of_buffer);

}  // namespace gpuinfer::model
