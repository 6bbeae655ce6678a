// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>

#include "model/replacement.hpp"

namespace gpuinfer::model {

inline Replacement policy(const std::string& name, std::map<std::string, PolicyParameter> parameters = {}) {
  return {.policy = name, .parameters = std::move(parameters), .equivalent = {}};
}

}  // namespace gpuinfer::model
