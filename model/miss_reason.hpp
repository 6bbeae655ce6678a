// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_set>

#include "model/address.hpp"
#include "model/cache_simulator.hpp"

namespace gpuinfer::model {

// Why an access missed (Hill & Smith, IEEE Trans. Computers 38(12), 1989, section II; for sectors as for lines).
enum class MissReason : std::uint8_t {
  cold,      // the line is accessed for the first time
  capacity,  // it would have missed in one set of as many lines under LRU, too
  conflict,  // there it would have hit: the sets or the policy drove it out
  sector,    // the line is there, the sector is not
};

[[nodiscard]] std::string_view to_string(MissReason reason);

// Follows a cache from the clean state on, access by access, loads and stores that fill alike.
class MissReasons {
 public:
  // Needs what CacheSimulator::make() needs; throws InputError as it does.
  explicit MissReasons(const CacheDescription& cache);

  // To be told of every access in order, whatever its outcome; the reason counts when it missed.
  MissReason next(Address address, Outcome outcome);

 private:
  std::uint64_t line_bytes_;
  std::unordered_set<std::uint64_t> seen_;  // line numbers
  std::unique_ptr<CacheSimulator> one_set_;
};

}  // namespace gpuinfer::model
