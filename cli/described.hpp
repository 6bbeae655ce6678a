// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "model/errors.hpp"

namespace gpuinfer::cli {

// The entry of a description that `option` names. Throws InputError that lists what is there instead.
template <class Entry>
const Entry& described(const std::map<std::string, Entry>& entries, const std::string& name, std::string_view option,
                       const std::string& file) {
  const auto found = entries.find(name);
  if (found == entries.end()) {
    std::string names;
    for (const auto& [each, entry] : entries) {
      names += (names.empty() ? "" : ", ") + each;
    }
    throw InputError(std::string(option) + ": " + name + " is not there; " + file + " describes " +
                     (names.empty() ? "none" : names));
  }
  return found->second;
}

}  // namespace gpuinfer::cli
