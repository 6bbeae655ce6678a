// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "model/cache_simulator.hpp"

namespace gpuinfer::model {

// The sets of a cache, from which something outside them may take lines out of turn.
class TagArray : public CacheSimulator {
 public:
  // The way whose line the policy would evict next from a set that has lines, but need not be full. Throws InputError
  // for a policy that does not say.
  [[nodiscard]] virtual std::uint32_t next_way(std::uint32_t set) const = 0;

  // Takes the line in this way.
  virtual void evict(std::uint32_t set, std::uint32_t way) = 0;

  // Places a line that is never loaded again, and says in which way.
  virtual std::uint32_t fill_with_stranger(std::uint32_t set) = 0;
};

// `description` has `sweep` (model/device_description.hpp). Throws InputError for what cannot stand beside it.
[[nodiscard]] std::unique_ptr<CacheSimulator> with_sweep(std::unique_ptr<TagArray> tags,
                                                         const CacheDescription& description);

}  // namespace gpuinfer::model
