// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "model/index/kind.hpp"

namespace gpuinfer::model {

// Granule number -> set, for the granule that holds origin + i * granule_bytes. Without range_bytes the table repeats
// for ever in both directions; with it, nothing is known outside [origin, origin + range_bytes).
struct TableIndex {
  static constexpr std::string_view kind = "table";
  static constexpr bool scatters = true;

  std::uint64_t granule_bytes = 1;
  std::vector<std::uint32_t> sets_of;
  std::uint64_t origin = 0;
  std::optional<std::uint64_t> range_bytes;

  bool operator==(const TableIndex&) const = default;

  [[nodiscard]] static Leaves<TableIndex> leaves() {
    using codec::Bytes;
    using codec::Count;
    using codec::max_bytes;
    using codec::max_lines;
    const codec::List<Count> list{.item = {.most = max_lines - 1}, .most = max_lines};
    Leaf<TableIndex> entries = leaf("sets_of", &TableIndex::sets_of, list).needed();
    entries.schema = schema::list(list.item.facts().schema, 1, max_lines);
    entries.read = [](const Place& place, TableIndex& table) {
      table.sets_of = place.wholes<std::uint32_t>(0, max_lines - 1);
      if (table.sets_of.empty() || table.sets_of.size() > max_lines) {
        place.fail("must have from 1 to " + std::to_string(max_lines) + " entries; give the set of each granule");
      }
    };
    return {
        leaf("granule_bytes", &TableIndex::granule_bytes, Bytes{.least = 1, .most = codec::max_line_bytes}).needed(),
        entries, leaf("origin", &TableIndex::origin, Bytes{.most = max_bytes}).sparse(),
        leaf("range_bytes", &TableIndex::range_bytes, Bytes{.least = 1, .most = max_bytes}).sparse()};
  }

  [[nodiscard]] std::uint32_t sets() const {
    return sets_of.empty() ? 0 : *std::max_element(sets_of.begin(), sets_of.end()) + 1;
  }
  [[nodiscard]] CoveredRange covered() const { return {.begin = origin, .bytes = range_bytes}; }
  [[nodiscard]] bool covers(std::uint64_t address) const {
    return !range_bytes || (address >= origin && address - origin < *range_bytes);
  }
  [[nodiscard]] std::uint32_t set_of(std::uint64_t address) const {
    const std::uint64_t period_bytes = granule_bytes * sets_of.size();
    const std::uint64_t shifted = address + period_bytes - origin % period_bytes;
    return sets_of[(shifted / granule_bytes) % sets_of.size()];
  }

  [[nodiscard]] std::string text() const {
    return words::together({"table of ", to_text(sets_of.size()), " granules of ", words::bytes(granule_bytes),
                            range_bytes ? "" : ", repeating"});
  }
};

}  // namespace gpuinfer::model
