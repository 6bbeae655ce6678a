// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/crc.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace gpuinfer::probe {

// The bytes of a journal with these payloads and right checksums, written from the format and not from the journal.
inline std::string journal_of(const std::vector<std::string>& payloads) {
  const auto little_endian = [](std::uint64_t number) {
    std::string bytes;
    for (unsigned shift = 0; shift < 32; shift += 8) {
      bytes += static_cast<char>(number >> shift & 0xffU);
    }
    return bytes;
  };
  std::string journal = "gpuinfer-journal/1\n";
  std::uint32_t checksum = 0;
  for (const std::string& payload : payloads) {
    const std::string covered = little_endian(payload.size()) + payload;
    const std::string chained = little_endian(checksum) + covered;
    boost::crc_32_type crc;
    crc.process_bytes(chained.data(), chained.size());
    checksum = crc.checksum();
    journal += covered + little_endian(checksum);
  }
  return journal;
}

}  // namespace gpuinfer::probe
