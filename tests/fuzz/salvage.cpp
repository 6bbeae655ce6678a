// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/keep/row.hpp"
#include "tests/fuzz/fuzz.hpp"

// Input: the bytes of an answer log.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuinfer;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  probe::salvage_rows(file.path(), [](const probe::Row& row) {
    fuzz::require(probe::checksum_of(row) == probe::checksum_of(probe::Row(row)), "a row is whole");
  });
  return 0;
}
