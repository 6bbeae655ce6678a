// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "model/address.hpp"
#include "model/device_description.hpp"
#include "model/trace.hpp"

namespace gpuinfer::model {

// What an access may turn out to be; at least one of the two.
struct Possible {
  bool hit = false;
  bool miss = false;

  bool operator==(const Possible&) const = default;
};

// All states of a cache that agree with what was seen of it. It begins with what the start leaves open:
//   clean        nothing
//   invalidated  the state of the policy in every set: any that some history of accesses and invalidations leads to
//   keep         besides, the lines and sectors in the ways: any, and ways may be free
// Sets are apart: every state of one goes with every state of another.
class PossibleStates {
 public:
  // Follows a set exactly, for ever under `lru`, and else where its policy has at most `most_states` states and for as
  // long as there are at most so many of policy and contents together; more than 64 for many loads on end are too many
  // as well, for they do not get fewer. None where the policy draws at random or a miss brings more than its line.
  // Throws InputError as CacheSimulator::make() does.
  [[nodiscard]] static std::unique_ptr<PossibleStates> make(const CacheDescription& cache, StartState start,
                                                            std::size_t most_states);

  virtual ~PossibleStates() = default;
  PossibleStates(const PossibleStates&) = delete;
  PossibleStates& operator=(const PossibleStates&) = delete;
  PossibleStates(PossibleStates&&) = delete;
  PossibleStates& operator=(PossibleStates&&) = delete;

  // What a load from this address (not an offset) may be now. None: its set has, or had, too many states to follow.
  // Throws InputError where the address lies outside the range of a table index.
  [[nodiscard]] virtual std::optional<Possible> possible(Address address) = 0;

  // The load happens, with a miss or a hit, or with an outcome that nobody saw. An outcome that was not possible rules
  // nothing out: then the description is wrong, or the outcome was misread.
  virtual void load(Address address, std::optional<bool> missed) = 0;

 protected:
  PossibleStates() = default;
};

}  // namespace gpuinfer::model
