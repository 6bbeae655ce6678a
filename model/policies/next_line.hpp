// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/errors.hpp"
#include "model/policies/table.hpp"

namespace gpuinfer::model {

// Policies under which something else may evict lines, too (model/policies/policy.hpp).
template <class Policy>
constexpr bool names_next_line = requires(Policy policy, std::uint32_t number) {
  { policy.next(number) } -> std::same_as<std::uint32_t>;
  policy.remove(number, number);
};

// Throws InputError for a policy that is none of them.
[[noreturn]] inline void throw_next_line_unknown(std::string_view policy) {
  std::string known;
  for_each_policy([&]<class Policy>() {
    if (names_next_line<Policy>) {
      known += (known.empty() ? "" : " or ") + std::string(Policy::name);
    }
  });
  throw LeafError("replacement",
                  "" + std::string(policy) +
                      " does not say which line goes next from a set that is not full, which sweep asks for; use " +
                      known + " or remove sweep");
}

}  // namespace gpuinfer::model
