// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/line_runs.hpp"

#include <bit>
#include <limits>

namespace gpuinfer::model {

LineDecoder::Divider::Divider(std::uint64_t divisor)
    : divisor_(divisor), shift_(static_cast<unsigned>(std::countr_zero(divisor))),
      is_shift_(std::has_single_bit(divisor)) {}

namespace {

// One loop for each combination that saves a test in it: this is where all addresses pass.
template <class LineOf, class SectorOf>
LineRun* decode_with(std::span<const std::uint64_t> addresses, LineTable& table, LineRun* run, std::uint64_t line_bytes,
                     LineOf&& line_of, SectorOf&& note_sector) {
  std::uint64_t first_address = 0;
  std::uint64_t known_bytes = 0;  // of the line at first_address
  std::uint64_t page = std::numeric_limits<std::uint64_t>::max();
  std::uint32_t first_id = 0;
  for (std::size_t access = 0; access < addresses.size(); ++access) {
    const std::uint64_t address = addresses[access];
    if (address - first_address >= known_bytes) {
      const std::uint64_t number = line_of(address);
      if (number >> LineTable::page_shift != page) [[unlikely]] {
        page = number >> LineTable::page_shift;
        first_id = table.first_id_of_page(page);
      }
      *run++ = {.line = first_id + static_cast<std::uint32_t>(number % LineTable::page_lines),
                .first_access = static_cast<std::uint32_t>(access)};
      known_bytes = line_bytes;
      first_address = number * line_bytes;
    }
    note_sector(access, address - first_address);
  }
  *run = {.line = 0, .first_access = static_cast<std::uint32_t>(addresses.size())};
  return run;
}

}  // namespace

std::span<const LineRun> LineDecoder::decode(std::span<const std::uint64_t> addresses, LineTable& table,
                                             std::span<LineRun> room, std::span<std::uint8_t> sectors) const {
  LineRun* end = nullptr;
  const auto no_sector = [](std::size_t, std::uint64_t) {};
  const auto divided = [line = line_](std::uint64_t address) { return line.quotient(address); };
  if (is_sectored_) {
    end = decode_with(addresses, table, room.data(), line_.divisor(), divided,
                      [sectors, sector = sector_](std::size_t access, std::uint64_t offset) {
                        sectors[access] = static_cast<std::uint8_t>(sector.quotient(offset));
                      });
  } else if (line_.is_shift()) {
    end = decode_with(
        addresses, table, room.data(), line_.divisor(),
        [shift = line_.shift()](std::uint64_t address) { return address >> shift; }, no_sector);
  } else {
    end = decode_with(addresses, table, room.data(), line_.divisor(), divided, no_sector);
  }
  return room.first(static_cast<std::size_t>(end - room.data()));
}

}  // namespace gpuinfer::model
