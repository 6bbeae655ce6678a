// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "model/number_text.hpp"

// What a device says of itself and of a run, as text under free names. Where targets were asked apart, `TARGET.NAME` is
// what was said for one of them.
namespace gpuinfer::model {

inline constexpr std::string_view carveout_fact = "carveout_kb_asked";
inline constexpr std::string_view l2_fact = "l2_bytes";

// As a number; none: nothing is said, or no such number.
template <class Number>
[[nodiscard]] std::optional<Number> told(const std::map<std::string, std::string>& provenance, std::string_view name) {
  const auto found = provenance.find(std::string(name));
  return found == provenance.end() ? std::nullopt : number_from<Number>(found->second);
}

// The same for `target`, where anything is said for it alone, else for all.
template <class Number>
[[nodiscard]] std::optional<Number> told(const std::map<std::string, std::string>& provenance, std::string_view target,
                                         std::string_view name) {
  const std::string own = std::string(target) + "." + std::string(name);
  return told<Number>(provenance, provenance.contains(own) ? std::string_view(own) : name);
}

}  // namespace gpuinfer::model
