// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/workload.hpp"

namespace gpuinfer::model {

// Cycles of a load by a warp of which one bank has to serve `degree` rows, as timed.
struct DegreeLatency {
  std::uint32_t degree = 1;
  double cycles = 0;

  bool operator==(const DegreeLatency&) const = default;
};

// The cycles of a degree: from by_degree, with straight lines between the degrees that it lists, broadcast standing for
// degree 1 and two_way for degree 2 where it does not; behind the last of these per_way more for each further row, or
// as the last line of by_degree goes on.
struct SharedMemoryLatency {
  std::optional<double> broadcast;  // all lanes load the same word
  std::optional<double> two_way;
  std::optional<double> per_way;         // each further row; none: it differs, see by_degree
  std::vector<DegreeLatency> by_degree;  // ascending; where one number per row does not do

  bool operator==(const SharedMemoryLatency&) const = default;
};

// Shared memory in banks, each of which serves one row at a time (Mei & Chu 2014, section 4.1, figures 4 and 6).
struct SharedMemoryDescription {
  std::optional<std::uint32_t> banks;
  std::optional<std::uint32_t> bank_width_bytes;  // consecutive bytes in one bank
  // Lanes that fall into one bank do not conflict when they fall into one aligned block of so many bytes. Where that
  // is banks * bank_width_bytes, they have the same word.
  std::optional<std::uint32_t> row_bytes;
  SharedMemoryLatency latency_cycles;

  bool operator==(const SharedMemoryDescription&) const = default;
};

// How many rows the bank with the most of them has to serve one after another; 1 where no lanes conflict. Every 4-byte
// word of an element counts. Elements of 8 and 16 bytes are served in turns of so many neighbouring lanes as a row of
// all banks holds elements, at least 128 bytes of them: half-warps and quarter-warps with 32 banks of 4 bytes (CUDA C
// Programming Guide 4.2, appendix F.4.3), all lanes at once with 8 bytes in Kepler (CUDA C Programming Guide 10.0,
// appendix H.3.3). The degree is then the sum over the turns. Throws InputError that names the leaf that is null.
[[nodiscard]] std::uint32_t conflict_degree(const SharedMemoryDescription& shared_memory, const SharedLoads& loads);

// Of one load whose conflicts have this degree, without noise. Throws InputError that names the leaf that is null.
[[nodiscard]] double cycles_of(const SharedMemoryLatency& latency, std::uint32_t degree);

// Of one load of the warp, without noise. Throws InputError that names the leaf that is null and needed.
[[nodiscard]] double cycles_of(const SharedMemoryDescription& shared_memory, const SharedLoads& loads);

}  // namespace gpuinfer::model
