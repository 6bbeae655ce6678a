// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/output.hpp"

namespace gpuinfer::cli {

// Reports other than device descriptions.
using Document = nlohmann::ordered_json;

template <class Value>
[[nodiscard]] Document value_or_null(const std::optional<Value>& value) {
  return value ? Document(*value) : Document(nullptr);
}

// Lists and maps that hold only single values stand on one line in YAML.
[[nodiscard]] std::string to_text(const Document& document, Format format);

}  // namespace gpuinfer::cli
