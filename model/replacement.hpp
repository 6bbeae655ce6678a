// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gpuinfer::model {

using PolicyParameter =
    std::variant<std::int64_t, double, std::string, std::vector<double>, std::vector<std::vector<double>>>;

// Which way goes when a line must be placed in a full set. `policy` is a name from policy_names(); parameters stand
// beside it under the names that the policy's file gives.
struct Replacement {
  std::string policy;
  std::map<std::string, PolicyParameter> parameters;
  std::vector<std::string> equivalent;  // others that behave alike at this number of ways, as to_text() writes them

  bool operator==(const Replacement&) const = default;
};

// Names in the order of `list policies`.
[[nodiscard]] std::vector<std::string_view> policy_names();

// Throws InputError, without a place, when the name is not known, a parameter is missing, has the wrong type, is out of
// range, or does not fit sets of so many ways.
void check(const Replacement& replacement, const std::vector<std::uint32_t>& ways);

// The deterministic policies that a search tries for sets of so many ways, in the order of policy_names() and for each
// with the parameters that somebody has built or published.
[[nodiscard]] std::vector<Replacement> guessed_policies(const std::vector<std::uint32_t>& ways);

// Those of them without parameters.
[[nodiscard]] std::vector<Replacement> plain_policies(const std::vector<std::uint32_t>& ways);

// Short text for people and for `equivalent`: `lru`, `srrip bits=2 promotion=hit`.
[[nodiscard]] std::string to_text(const Replacement& replacement);

// True when the same accesses always give the same hits (no chance in the policy).
[[nodiscard]] bool is_deterministic(const Replacement& replacement);

}  // namespace gpuinfer::model
