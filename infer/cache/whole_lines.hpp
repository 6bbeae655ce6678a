// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "infer/asking/conflict_class.hpp"
#include "infer/asking/interrogator.hpp"

// What lines are, told by random loads alone: of neither sets nor policy anything needs to be known.
namespace gpuinfer::infer {

// Random loads of more lines than fit, of one part of a line at times and of two at others: within a sector the second
// one hits, and sectors of a line that both were loaded are both present or both absent. What comes along with a line
// and takes room of its own shows there.
struct WholenessCheck {
  std::size_t loads = 0;
  std::size_t torn = 0;  // loads that read otherwise
  bool holds = true;     // misreads explain them
};
// `lines`: offsets at which so many bytes begin.
[[nodiscard]] WholenessCheck check_whole_lines(Interrogator& device, const Offsets& lines, std::uint64_t line_bytes,
                                               std::uint64_t sector_bytes);

// Whether a sector is a line. Random loads hit as often as their line is present, whatever the policy, so they tell how
// many of a pool are. Of one sector of each pair of neighbours as many are present as of both sectors of half as many
// pairs, unless the two have a line in common. `likely_lines`: so many are taken to fit at least.
struct SectorRoom {
  bool is_alone = false;      // true: each sector takes room of its own
  std::size_t loads = 0;      // that could have refuted that
  std::uint64_t present = 0;  // of the pool, about so many sectors
};
[[nodiscard]] SectorRoom find_sector_room(Interrogator& device, std::uint64_t sector_bytes, std::uint64_t likely_lines);

}  // namespace gpuinfer::infer
