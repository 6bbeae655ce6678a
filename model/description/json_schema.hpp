// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "model/description/sections.hpp"

// What the rows of sections say of files, for those who do not read the source.
namespace gpuinfer::model {

// The JSON Schema (draft 2020-12) of files with these sections.
[[nodiscard]] std::string json_schema(const Sections<DeviceDescription>& all = sections());

// A table in Markdown for each of them: leaf, unit, meaning.
[[nodiscard]] std::string leaf_tables(const Sections<DeviceDescription>& all = sections());

}  // namespace gpuinfer::model
