// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpuinfer::model {

// Accesses to lines of one set, of which only names are known, from an empty set on.
struct SetSequence {
  struct Access {
    std::uint32_t line = 0;   // a name only
    bool is_counted = false;  // whether `hits` is about it

    bool operator==(const Access&) const = default;
  };

  std::string name;  // where it stood
  std::vector<Access> accesses;
  std::size_t hits = 0;      // among those that are counted
  std::vector<bool> is_hit;  // of each that is counted; empty: only their sum is known

  bool operator==(const SetSequence&) const = default;
};

}  // namespace gpuinfer::model
