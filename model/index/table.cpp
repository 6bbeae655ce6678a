// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/index/table.hpp"

#include "model/description/codec.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::model {

Leaves<TableIndex> TableIndex::leaves() {
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
  return {leaf("granule_bytes", &TableIndex::granule_bytes, Bytes{.least = 1, .most = codec::max_line_bytes}).needed(),
          entries, leaf("origin", &TableIndex::origin, Bytes{.most = max_bytes}).sparse(),
          leaf("range_bytes", &TableIndex::range_bytes, Bytes{.least = 1, .most = max_bytes}).sparse()};
}

std::string TableIndex::text() const {
  return words::together({"table of ", to_text(sets_of.size()), " granules of ", words::bytes(granule_bytes),
                          range_bytes ? "" : ", repeating"});
}

}  // namespace gpuinfer::model
