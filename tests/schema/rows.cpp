// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0

// rows schema|leaves: what the rows of the program say of descriptions, as configs/schema and docs/profile.md have it.
#include <iostream>
#include <string_view>

#include "model/description/json_schema.hpp"

int main(int count, char** arguments) {
  const std::string_view what = count == 2 ? arguments[1] : "";
  if (what != "schema" && what != "leaves") {
    std::cerr << "rows: say schema or leaves\n";
    return 2;
  }
  std::cout << (what == "schema" ? gpuinfer::model::json_schema() : gpuinfer::model::leaf_tables());
  return 0;
}
