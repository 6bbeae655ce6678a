// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/slices/slice_player.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

// Lines of one slice by the set in which they are said to lie.
using LinesBySet = std::map<std::uint32_t, SliceLines>;

struct FreshEvictions {
  std::size_t asked = 0;
  std::size_t wrong = 0;  // each of three times
};

// Whether others evict a line as these sets say, under LRU: as many of its set as that has ways do, every other time,
// and do not where one of them is of another set. None where no set has lines enough.
[[nodiscard]] FreshEvictions ask_fresh_evictions(Asker& device, const SliceView& view, const LinesBySet& lines,
                                                 std::uint32_t ways, std::size_t count, model::Random& random);

}  // namespace gpuinfer::infer
