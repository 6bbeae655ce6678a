// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "cli/formats/leaf_rows.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::cli {

namespace {

// What a spreadsheet would run.
bool begins_formula(const std::string& text) {
  return !text.empty() && std::string_view("=+-@").find(text.front()) != std::string_view::npos &&
         !model::number_from<double>(text);
}

// RFC 4180. An apostrophe before it makes a text of what would be a formula.
std::string csv_cell(const std::string& value) {
  const std::string text = (begins_formula(value) ? "'" : "") + on_one_line(value);
  if (text.find_first_of(",\"\r\n") == std::string::npos) {
    return text;
  }
  std::string quoted = "\"";
  for (const char letter : text) {
    quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  }
  return quoted + '"';
}

}  // namespace

// Values in JSON, so that lists and maps stay one cell; texts without their quotes. A cell is empty where nothing is
// known, or no evidence is there.
Exported export_csv(const model::DeviceDescription& profile, const model::Sections<model::DeviceDescription>& all) {
  Exported exported{.text = "section,leaf,value,status,confidence\n", .losses = {}};
  for (const LeafRow& row : leaf_rows(profile, all)) {
    exported.text += csv_cell(row.section) + ',' + csv_cell(row.leaf) + ',' + csv_cell(row.value) + ',' +
                     csv_cell(row.status) + ',' + csv_cell(row.confidence) + '\n';
  }
  return exported;
}

}  // namespace gpuinfer::cli
