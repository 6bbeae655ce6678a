// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/find_slices.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "infer/asking/stream.hpp"
#include "infer/slices/block_lines.hpp"
#include "infer/slices/labelled_block.hpp"
#include "infer/slices/named_slices.hpp"
#include "infer/slices/pair_asker.hpp"
#include "infer/slices/slice_naming.hpp"

namespace gpuinfer::infer {

namespace {

// Slices are none of a structure; says why.
class NoSliceStructure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Where nothing is known but slices of one block: whether so many lines from everywhere lie in them too.
bool are_all_slices(PairAsker& asker, BlockLines& lines, const std::vector<std::uint64_t>& members, std::size_t count) {
  std::vector<std::uint64_t> left;
  for (std::size_t i = 0; i < count; ++i) {
    left.push_back(lines.any_line());
  }
  for (const std::uint64_t member : members) {
    std::vector<Pair> pairs;
    for (const std::uint64_t line : left) {
      pairs.push_back({member, line});
    }
    const std::vector<bool> together = asker.surely_together(pairs, 2);
    std::vector<std::uint64_t> others;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!together[i]) {
        others.push_back(left[i]);
      }
    }
    left = std::move(others);
  }
  return std::ranges::all_of(left, [&](std::uint64_t line) { return asker.slice_among(members, line).has_value(); });
}

// Sectors from everywhere that share a slice with the line.
std::vector<std::uint64_t> sectors_with(PairAsker& asker, BlockLines& lines, std::uint64_t line, std::size_t slices) {
  constexpr std::size_t sectors_wanted = 12000;
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < sectors_wanted * slices; ++i) {
    pairs.push_back({line, lines.any_line()});
  }
  const std::vector<bool> together = asker.surely_together(pairs, 3);
  std::vector<std::uint64_t> sectors;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (together[i]) {
      sectors.push_back(pairs[i][1]);
    }
  }
  return sectors;
}

// Blocks that tell what they add, up to so many from the first one on.
std::vector<SlicedBlock> confirmed_blocks(PairAsker& asker, BlockLines& lines, const NamedSlices& slices) {
  constexpr std::uint64_t most_blocks = 128;
  std::vector<SlicedBlock> blocks;
  for (std::uint64_t i = 0; i < std::min(most_blocks, lines.blocks()); ++i) {
    if (const auto block = confirmed_block_at(asker, lines, slices, lines.block(i))) {
      blocks.push_back(*block);
    }
  }
  return blocks;
}

// By slice.
std::vector<std::vector<std::uint64_t>> sectors_of(const std::vector<SlicedBlock>& blocks, const NamedSlices& slices,
                                                   std::uint64_t sector_bytes) {
  std::vector<std::vector<std::uint64_t>> sectors(slices.member_of_slice.size());
  for (const SlicedBlock& block : blocks) {
    for (std::uint64_t place = 0; place < BlockLines::block_bytes; place += sector_bytes) {
      sectors[slice_of(slices.structure, block.constants, place)].push_back(block.offset + place);
    }
  }
  return sectors;
}

std::vector<BlockConstants> constants_of(const std::vector<SlicedBlock>& blocks) {
  std::vector<BlockConstants> constants;
  for (const SlicedBlock& block : blocks) {
    constants.push_back(block.constants);
  }
  return constants;
}

// Slices are as many as the structure has numbers, if a line was seen in each and lines from everywhere lie in them.
// Throws NoSliceStructure; what was asked until then stands in `found`.
void find_by_structure(PairAsker& asker, BlockLines& lines, const LabelledBlock& block, std::uint64_t home_mask,
                       FoundSlices& found) {
  const FoundStructure first = find_structure(block.lines);
  if (!first.structure) {
    throw NoSliceStructure(first.reason);
  }
  const std::uint32_t count = first.structure->modulo << first.structure->row_masks.size();
  if (block.members.size() != count) {
    throw NoSliceStructure("lines of one block of 2 MB lie in " + std::to_string(block.members.size()) +
                           " slices, and their index has " + std::to_string(count));
  }
  constexpr std::size_t most_wrong = 2;  // of 20,000
  std::optional<NamedSlices> slices;
  std::vector<SlicedBlock> neighbours;
  // Few blocks may be such that a wrong choice explains them all.
  for (const auto& choose : {choose_senses, choose_by_more_blocks}) {
    auto chosen = choose(asker, lines, block, *first.structure, first.constants);
    auto blocks = chosen ? find_neighbours(asker, lines, *chosen) : std::vector<SlicedBlock>{};
    if (blocks.empty()) {
      continue;
    }
    slices = std::move(chosen);
    neighbours = std::move(blocks);
    found.blocks = neighbours.size();
    found.fresh = ask_fresh_pairs(asker, lines, *slices, neighbours, home_mask);
    if (found.fresh.wrong <= most_wrong) {
      break;
    }
  }
  if (neighbours.empty()) {
    throw NoSliceStructure(
        "in another block of 2 MB lines lie otherwise than parities that flip and numbers that shift "
        "allow");
  }
  found.blocks_unlike = static_cast<std::size_t>(std::ranges::count_if(
      neighbours, [&](const SlicedBlock& each) { return each.constants != neighbours.front().constants; }));
  if (found.fresh.wrong > most_wrong) {
    throw NoSliceStructure("of " + std::to_string(found.fresh.asked) + " fresh pairs " +
                           std::to_string(found.fresh.wrong) + " are otherwise than the index says");
  }
  found.count = count;
  std::vector<SlicedBlock> blocks = confirmed_blocks(asker, lines, *slices);
  std::vector<std::vector<std::uint64_t>> sectors = sectors_of(blocks, *slices, lines.sector_bytes());
  found.numbered = numbered(slices->structure, std::move(blocks));
  const std::vector<BlockConstants> constants = constants_of(neighbours);
  for (const std::uint32_t slice : in_order_of_names(slices->structure, constants)) {
    found.sectors.push_back(std::move(sectors[slice]));
  }
  found.structure = named_as_blocks_do(slices->structure, constants);
}

void count_without_structure(PairAsker& asker, BlockLines& lines, const LabelledBlock& block, FoundSlices& found) {
  constexpr std::size_t lines_of_slice = 16;
  found.lines_elsewhere = lines_of_slice * block.members.size();
  if (!are_all_slices(asker, lines, block.members, found.lines_elsewhere)) {
    found.why_no_count = "a line elsewhere lies in none of the " + std::to_string(block.members.size()) +
                         " slices that lines of one block of 2 MB lie in";
    return;
  }
  found.count = static_cast<std::uint32_t>(block.members.size());
  found.sectors.push_back(sectors_with(asker, lines, block.members.front(), block.members.size()));
}

FoundSlices nothing_found(FoundSlices found, const std::string& reason) {
  found.why_no_count = found.why_no_structure = reason;
  return found;
}

}  // namespace

FoundSlices find_slices(Asker& device, std::uint64_t sector_bytes, std::uint64_t home_mask) {
  constexpr std::size_t most_bits = 14;
  FoundSlices found{.block_bytes = BlockLines::block_bytes};
  BlockLines lines(device.buffer(), sector_bytes, stream(device.settings(), "slices"));
  if (lines.blocks() < 2) {
    return nothing_found(std::move(found), "the buffer holds less than two aligned blocks of 2 MB");
  }
  PairAsker asker(device, home_mask, lines.block(0));
  if (!asker.calibrate(lines)) {
    return nothing_found(std::move(found), "atomic additions to two lines take as long as to one");
  }
  found.apart_cycles = asker.contention().apart_cycles();
  found.together_cycles = asker.contention().together_cycles();
  const std::vector<unsigned> bits = find_slice_bits(asker, lines);
  if (bits.size() > most_bits) {
    return nothing_found(std::move(found), "more than 14 address bits tell slices apart inside a block of 2 MB");
  }
  const LabelledBlock block = label_block(asker, lines, bits);
  try {
    find_by_structure(asker, lines, block, home_mask, found);
  } catch (const NoSliceStructure& missing) {
    found.why_no_structure = missing.what();
    count_without_structure(asker, lines, block, found);
  }
  return found;
}

}  // namespace gpuinfer::infer
