// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/claim_slices.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/ending.hpp"
#include "infer/asking/gf2.hpp"
#include "infer/slices/claim_slice_sets.hpp"
#include "infer/slices/find_slices.hpp"
#include "infer/slices/slice_distances.hpp"

namespace gpuinfer::infer {

namespace {

// A slice is near to one half of the SMs, so what tells the halves apart has to follow from the slice.
bool tells_parts(const SliceStructure& structure, const CacheClaims& claims) {
  if (!claims.partitions || !claims.partitions->value || !*claims.partitions->value) {
    return true;
  }
  const auto masks = model::parities((*claims.partitions->value)->index);
  EchelonBasis rows;
  for (const std::uint64_t mask : parities_of_slices(structure)) {
    rows.add(mask);
  }
  return !masks || std::ranges::all_of(*masks, [&](std::uint64_t mask) { return rows.remainder(mask) == 0; });
}

// What tells two parts of the cache apart in a block.
std::uint64_t home_mask_of(const CacheClaims& claims) {
  if (!claims.partitions || !claims.partitions->value || !*claims.partitions->value) {
    return 0;
  }
  const auto masks = model::parities((*claims.partitions->value)->index);
  return masks && masks->size() == 1 ? masks->front() : 0;
}

std::vector<std::vector<std::uint64_t>> lines_of(const Asker& device,
                                                 const std::vector<std::vector<std::uint64_t>>& sectors,
                                                 std::uint64_t line_bytes) {
  std::vector<std::vector<std::uint64_t>> lines(sectors.size());
  for (std::size_t slice = 0; slice < sectors.size(); ++slice) {
    std::ranges::copy_if(sectors[slice], std::back_inserter(lines[slice]),
                         [&](std::uint64_t sector) { return number_of(device.address_of(sector)) % line_bytes == 0; });
  }
  return lines;
}

// Where lines of all slices are known, and SMs can be chosen.
void claim_distances(Interrogator& device, const std::vector<std::vector<std::uint64_t>>& sectors,
                     CacheClaims& claims) {
  if (!claims.slice_index->value || !claims.line_bytes.value || !device.facts().chooses_unit ||
      !device.facts().sm_count) {
    return;
  }
  device.report("distances of slices", 0.6);
  device.inquire("lines of each slice, taken home by atomic additions and loaded by every SM",
                 "how far each slice is from each SM");
  auto& claim = claims.slice_distances.emplace();
  const std::size_t questions_before = device.questions_asked();
  FoundDistances found;
  try {
    found = find_slice_distances(device, lines_of(device, sectors, *claims.line_bytes.value));
  } catch (const QuestionRefused& refused) {
    found.reason = refused.reason();
  }
  claim.questions = device.questions_asked() - questions_before;
  claim.trials = found.fresh;
  claim.stands_alone = true;
  if (found.fresh > 0) {
    claim.details.fresh_distances = found.fresh;
    claim.details.fresh_distances_wrong = found.wrong;
  }
  device.learned(found.distances
                     ? std::to_string(found.distances->sms.size()) + " groups of SMs, each at distances of its own"
                     : found.reason);
  claim.reason = std::move(found.reason);
  claim.value = std::move(found.distances);
}

}  // namespace

bool has_slices_to_tell(const Asker& device) { return device.is_among(device.facts().contended_targets); }

std::optional<SortedSlice> claim_slices(Interrogator& device, CacheClaims& claims) {
  if (!claims.sector_bytes.value || !has_slices_to_tell(device)) {
    return std::nullopt;
  }
  device.report("slices", 0.2);
  device.inquire("atomic additions of many SMs to two lines at once",
                 "they take twice as long where both lines lie in one slice");
  claims.slices.emplace();
  claims.slice_index.emplace();
  const std::size_t questions_before = device.questions_asked();
  FoundSlices found;
  try {
    found = find_slices(device, *claims.sector_bytes.value, home_mask_of(claims));
  } catch (const QuestionRefused& refused) {
    found.why_no_count = found.why_no_structure = refused.reason();
  }
  if (found.structure && !tells_parts(*found.structure, claims)) {
    found.structure.reset();
    found.numbered.reset();
    found.count.reset();
    found.why_no_count = found.why_no_structure = "lines of one slice have their homes in different parts";
  }
  claims.slices->value = found.count;
  claims.slices->reason = std::move(found.why_no_count);
  claims.slice_index->reason = std::move(found.why_no_structure);
  claims.slices->questions = claims.slice_index->questions = device.questions_asked() - questions_before;
  claims.slices->trials = found.structure ? found.fresh.asked : found.lines_elsewhere;
  claims.slice_index->trials = found.fresh.asked;
  if (found.structure) {
    claims.slice_index->value.emplace(model::SliceIndex{.index = index_of(*found.structure, found.block_bytes),
                                                        .block_bytes = found.block_bytes,
                                                        .apart_cycles = found.apart_cycles,
                                                        .together_cycles = found.together_cycles});
  }
  if (found.fresh.asked > 0) {
    model::EvidenceDetails& details = claims.slice_index->details;
    details.fresh_pairs = found.fresh.asked;
    details.fresh_pairs_together = found.fresh.together;
    details.fresh_pairs_wrong = found.fresh.wrong;
    details.blocks_asked = found.blocks;
    details.blocks_unlike = found.blocks_unlike;
  }
  device.learned(claims.slices->value ? std::to_string(*claims.slices->value) + " slices" +
                                            (found.structure ? "" : ": " + claims.slice_index->reason)
                                      : claims.slices->reason);
  std::optional<SortedSlice> slice = claim_slice_sets(device, found, claims);
  claim_distances(device, found.sectors, claims);
  return slice;
}

}  // namespace gpuinfer::infer
