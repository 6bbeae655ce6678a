// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/formats/format.hpp"
#include "model/description/sections.hpp"

namespace gpuinfer::cli {

// A leaf of a profile with its evidence, as text; empty where there is none.
struct LeafRow {
  std::string section;  // the name of a cache and so on, or a key of the schema: L1tex, provenance, shared_memory
  std::string leaf;
  std::string value;  // JSON on one line; a text without quotes
  // resolved, ambiguous, unknown; assumed, where a published description says that no source gives the value
  std::string status;
  std::string confidence;
  bool is_known = false;  // proven; without evidence: there is a value, and not assumed
};

// Every leaf of the profile, and those that only the evidence names, in the order of the file.
[[nodiscard]] std::vector<LeafRow> leaf_rows(const model::DeviceDescription& profile,
                                             const model::Sections<model::DeviceDescription>& all = model::sections());

// Those that can be found out.
[[nodiscard]] std::vector<LeafRow> leaves_found_out(const model::DeviceDescription& profile);

// The same as tables.
[[nodiscard]] Exported export_csv(const model::DeviceDescription& profile,
                                  const model::Sections<model::DeviceDescription>& all = model::sections());
[[nodiscard]] Exported export_markdown(const model::DeviceDescription& profile,
                                       const model::Sections<model::DeviceDescription>& all = model::sections());

}  // namespace gpuinfer::cli
