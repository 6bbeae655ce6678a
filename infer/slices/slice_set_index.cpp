// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/slice_set_index.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "infer/asking/gf2.hpp"
#include "infer/slices/block_lines.hpp"

namespace gpuinfer::infer {

namespace {

constexpr unsigned bits_of_block = std::countr_zero(BlockLines::block_bytes);

// What the number goes up by from one block to the next, modulo the slices.
std::uint32_t step_of_blocks(const SliceStructure& structure) {
  return static_cast<std::uint32_t>((std::uint64_t{1} << structure.weights.size()) % structure.modulo);
}

std::uint32_t negative(std::uint64_t number, std::uint32_t modulo) {
  return static_cast<std::uint32_t>((modulo - number % modulo) % modulo);
}

// The same slices, counted backwards.
BlockConstants counted_backwards(const SliceStructure& structure, BlockConstants constants) {
  const std::uint32_t all_digits = (std::uint32_t{1} << structure.weights.size()) - 1;
  constants.digit_flips ^= all_digits;
  constants.shift = negative(std::uint64_t{constants.shift} + all_digits, structure.modulo);
  return constants;
}

bool are_binary(const SliceStructure& structure) {
  std::uint64_t power = 1;
  return std::ranges::all_of(structure.weights, [&](std::uint32_t weight) {
    const bool is_so = weight == power % structure.modulo;
    power *= 2;
    return is_so;
  });
}

std::uint64_t with_parities(std::uint64_t number, const std::vector<std::uint64_t>& masks, std::uint64_t address) {
  return number << masks.size() | masked_parities(address, masks);
}

// Of a line at this place of its block.
std::uint64_t number_in(const SetIndex::Block& block, const std::vector<std::uint64_t>& digit_masks,
                        std::uint64_t place) {
  return with_parities(block.place, digit_masks, place) ^ block.digit_flips;
}

template <class Blocks>
auto block_with(const Blocks& blocks, std::uint64_t offset) -> decltype(&blocks.front()) {
  const auto after = std::ranges::upper_bound(blocks, offset, {}, [](const auto& block) { return block.offset; });
  if (after == blocks.begin() || offset - std::prev(after)->offset >= BlockLines::block_bytes) {
    return nullptr;
  }
  return &*std::prev(after);
}

// A line of a known set.
struct SortedLine {
  std::uint64_t place = 0;  // in its block
  std::uint64_t quotient = 0;
  std::uint32_t set = 0;
};

// The set as a function of an address inside of the slice: the quotient, with parities of the line's place below it.
struct QuotientSets {
  std::vector<std::uint64_t> beside_masks;
  model::HashIndex set;
};

// Digits that count the other way have the negative weight; the quotient above those that took part counts as it is,
// where the highest digit shows how much.
model::HashIndex hash_of(const SliceStructure& structure, std::uint32_t digit_flips, unsigned bits) {
  model::HashIndex hash{.row_masks = structure.row_masks, .constant = 0, .terms = {}};
  if (structure.modulo == 1) {
    return hash;
  }
  model::HashIndex::Term term{
      .modulo = structure.modulo, .shift = bits, .weights = structure.weights, .row_masks = structure.digit_masks};
  std::uint64_t next_weight = 1;
  for (std::size_t i = 0; i < term.weights.size(); ++i) {
    if (((digit_flips >> i) & 1U) != 0) {
      term.weights[i] = negative(term.weights[i], term.modulo);
    }
    if (term.row_masks[i] == std::uint64_t{1} << (bits - 1)) {
      next_weight = 2 * std::uint64_t{term.weights[i]} % term.modulo;
    }
  }
  if (std::gcd(next_weight, std::uint64_t{term.modulo}) == 1) {
    const std::uint64_t factor = inverse_of(next_weight, term.modulo);
    for (std::uint32_t& weight : term.weights) {
      weight = static_cast<std::uint32_t>(weight * factor % term.modulo);
    }
  }
  hash.terms.push_back(std::move(term));
  return hash;
}

// Looks for the sets of a slice as a function of the quotient, once it is supposed where blocks lie.
class QuotientSearch {
 public:
  QuotientSearch(std::vector<SortedLine> lines, std::size_t sets, unsigned digits, std::uint64_t line_bytes)
      : lines_(std::move(lines)), sets_(sets), digits_(digits),
        line_bits_(static_cast<unsigned>(std::countr_zero(line_bytes))) {}

  [[nodiscard]] std::optional<QuotientSets> find() const {
    const std::vector<std::uint64_t> beside = beside_masks();
    constexpr std::size_t most_bits = 16;
    const std::size_t bits = beside.size() + digits_;
    if (bits > most_bits) {
      return std::nullopt;
    }
    const auto labelled = labelled_lines(beside, static_cast<unsigned>(bits));
    if (!labelled) {
      return std::nullopt;
    }
    const FoundStructure found = find_structure(*labelled);
    if (!found.structure || std::uint64_t{found.structure->modulo} << found.structure->row_masks.size() != sets_) {
      return std::nullopt;
    }
    return QuotientSets{.beside_masks = beside,
                        .set = hash_of(*found.structure, found.constants.digit_flips, static_cast<unsigned>(bits))};
  }

 private:
  // The address inside of the block lowest.
  [[nodiscard]] std::uint64_t features(const SortedLine& line) const {
    return line.place >> line_bits_ | line.quotient << (bits_of_block - line_bits_);
  }

  // Of the parities that differ between no two lines of a set, but between lines: what they have of the address.
  [[nodiscard]] std::vector<std::uint64_t> beside_masks() const {
    EchelonBasis all;
    EchelonBasis inside_sets;
    std::vector<std::optional<std::uint64_t>> first_of_set(sets_);
    for (const SortedLine& line : lines_) {
      all.add(features(line) ^ features(lines_.front()));
      auto& first = first_of_set[line.set];
      first = first.value_or(features(line));
      inside_sets.add(features(line) ^ *first);
    }
    const unsigned address_bits = bits_of_block - line_bits_;
    std::vector<unsigned> every(address_bits + digits_);
    std::iota(every.begin(), every.end(), 0U);
    EchelonBasis seen;
    for (const std::uint64_t mask : all.orthogonal_complement(every)) {
      seen.add(mask);
    }
    EchelonBasis of_address;
    for (const std::uint64_t mask : inside_sets.orthogonal_complement(every)) {
      of_address.add(seen.remainder(mask) & ((std::uint64_t{1} << address_bits) - 1));
    }
    std::vector<std::uint64_t> masks = of_address.rows();
    for (std::uint64_t& mask : masks) {
      mask <<= line_bits_;
    }
    std::ranges::sort(masks, {}, [](std::uint64_t mask) { return std::countr_zero(mask); });
    return masks;
  }

  // By the address inside of the slice. None where two lines of one are in two sets.
  [[nodiscard]] std::optional<LabelledLines> labelled_lines(const std::vector<std::uint64_t>& beside,
                                                            unsigned bits) const {
    LabelledLines labelled{.bits = std::vector<unsigned>(bits),
                           .labels = std::vector<std::optional<std::uint32_t>>(std::size_t{1} << bits)};
    std::iota(labelled.bits.begin(), labelled.bits.end(), 0U);
    for (const SortedLine& line : lines_) {
      auto& label = labelled.labels[with_parities(line.quotient, beside, line.place)];
      if (label.value_or(line.set) != line.set) {
        return std::nullopt;
      }
      label = line.set;
    }
    return labelled;
  }

  std::vector<SortedLine> lines_;
  std::size_t sets_;
  unsigned digits_;  // of the quotient
  unsigned line_bits_;
};

// Where it does not, any place of the first block gives the same sets.
bool hangs_on_quotient(const model::QuotientIndex& index) {
  const std::uint64_t of_quotient = ~std::uint64_t{0} << index.beside_masks.size();
  return std::ranges::any_of(index.set.masks(), [&](std::uint64_t mask) { return (mask & of_quotient) != 0; });
}

// Blocks that follow on one another, if the number is `naming` more than the slice.
std::vector<std::vector<SetIndex::Block>> runs_of(const NumberedBlocks& numbered, std::uint32_t naming) {
  const std::uint32_t modulo = numbered.structure.modulo;
  const std::uint64_t inverse = inverse_of(step_of_blocks(numbered.structure), modulo);
  std::vector<std::vector<SetIndex::Block>> runs;
  for (const SlicedBlock& block : numbered.blocks) {
    const std::uint64_t place = (std::uint64_t{block.constants.shift} + naming) * inverse % modulo;
    if (runs.empty() || runs.back().back().offset + BlockLines::block_bytes != block.offset ||
        runs.back().back().place + 1 != place) {
      runs.emplace_back();
    }
    runs.back().push_back({.offset = block.offset, .digit_flips = block.constants.digit_flips, .place = place});
  }
  return runs;
}

std::vector<SortedLine> sorted_in(const std::vector<SetIndex::Block>& blocks, const SliceStructure& structure,
                                  const std::vector<std::vector<std::uint64_t>>& sets, std::uint64_t line_bytes) {
  std::vector<SortedLine> lines;
  for (std::uint32_t set = 0; set < sets.size(); ++set) {
    for (const std::uint64_t offset : sets[set]) {
      if (const SetIndex::Block* block = block_with(blocks, offset)) {
        const std::uint64_t place = (offset - block->offset) / line_bytes * line_bytes;
        const std::uint64_t number = number_in(*block, structure.digit_masks, place);
        lines.push_back({.place = place, .quotient = number / structure.modulo, .set = set});
      }
    }
  }
  return lines;
}

}  // namespace

std::optional<NumberedBlocks> numbered(SliceStructure structure, std::vector<SlicedBlock> blocks) {
  if (structure.modulo % 2 == 0 || structure.modulo == 1 || !are_binary(structure)) {
    return std::nullopt;
  }
  std::ranges::sort(blocks, {}, &SlicedBlock::offset);
  const std::uint32_t step = step_of_blocks(structure);
  std::size_t neighbours = 0;
  std::size_t up = 0;
  std::size_t down = 0;
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    if (blocks[i].offset - blocks[i - 1].offset == BlockLines::block_bytes) {
      const std::uint32_t further = blocks[i].constants.shift + structure.modulo - blocks[i - 1].constants.shift;
      ++neighbours;
      up += further % structure.modulo == step ? 1U : 0U;
      down += (further + step) % structure.modulo == 0 ? 1U : 0U;
    }
  }
  if (2 * std::max(up, down) <= neighbours) {
    return std::nullopt;
  }
  if (down > up) {
    for (SlicedBlock& block : blocks) {
      block.constants = counted_backwards(structure, block.constants);
    }
  }
  return NumberedBlocks{.structure = std::move(structure), .blocks = std::move(blocks)};
}

std::optional<std::uint32_t> SetIndex::set_of(std::uint64_t offset) const {
  const Block* block = block_with(blocks, offset);
  if (block == nullptr) {
    return std::nullopt;
  }
  const std::uint64_t place = offset - block->offset;
  const std::uint64_t quotient = number_in(*block, index.digit_masks, place) / index.divisor;
  return index.set.set_of(model::Address{with_parities(quotient, index.beside_masks, place)});
}

model::QuotientIndex named_as_runs_do(model::QuotientIndex index, const model::HashIndex& slices) {
  // There a block counts 1, and in the number as much as all its digits and one more.
  const std::vector<std::uint32_t>& weights = slices.terms.front().weights;
  const std::uint64_t of_block = (std::uint64_t{1} << index.digit_masks.size()) % index.divisor;
  index.constant = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const bool is_flipped = weights[i] * of_block % index.divisor != (std::uint64_t{1} << i) % index.divisor;
    index.constant |= (is_flipped ? 1U : 0U) << i;
  }
  for (model::HashIndex::Term& term : index.set.terms) {
    std::uint64_t next_mask = std::uint64_t{1} << term.shift;
    std::uint64_t next_weight = 1 % term.modulo;
    std::vector<bool> counts_as_is(term.weights.size());
    std::uint64_t high_bits = 0;
    for (std::size_t i = 0; i < term.weights.size();) {
      const bool is_next = !counts_as_is[i] && term.row_masks[i] == next_mask / 2 &&
                           2 * std::uint64_t{term.weights[i]} % term.modulo == next_weight;
      if (is_next) {
        counts_as_is[i] = true;
        next_mask = term.row_masks[i];
        next_weight = term.weights[i];
        high_bits |= next_mask;
      }
      i = is_next ? 0 : i + 1;
    }
    for (std::size_t i = 0; i < term.weights.size(); ++i) {
      if (!counts_as_is[i] && (term.row_masks[i] & high_bits) != 0) {
        term.weights[i] = std::min(term.weights[i], negative(term.weights[i], term.modulo));
      }
    }
  }
  return index;
}

FoundSetIndex find_set_index(const NumberedBlocks& numbered, const std::vector<std::vector<std::uint64_t>>& sets,
                             std::uint64_t line_bytes) {
  const SliceStructure& structure = numbered.structure;
  std::vector<SetIndex> found;
  for (std::uint32_t naming = 0; naming < structure.modulo; ++naming) {
    // The run with the most lines that are sorted.
    std::vector<SetIndex::Block> blocks;
    std::vector<SortedLine> lines;
    for (std::vector<SetIndex::Block>& run : runs_of(numbered, naming)) {
      std::vector<SortedLine> of_run = sorted_in(run, structure, sets, line_bytes);
      if (of_run.size() > lines.size()) {
        lines = std::move(of_run);
        blocks = std::move(run);
      }
    }
    if (lines.empty()) {
      continue;
    }
    const auto digits = static_cast<unsigned>(structure.weights.size());
    if (auto of_quotient = QuotientSearch(std::move(lines), sets.size(), digits, line_bytes).find()) {
      found.push_back({.index = {.row_masks = structure.row_masks,
                                 .divisor = structure.modulo,
                                 .shift = bits_of_block,
                                 .digit_masks = structure.digit_masks,
                                 .beside_masks = std::move(of_quotient->beside_masks),
                                 .set = std::move(of_quotient->set)},
                       .blocks = std::move(blocks)});
    }
  }
  if (std::ranges::none_of(found, hangs_on_quotient, &SetIndex::index) && !found.empty()) {
    const auto longest = std::ranges::max_element(found, {}, [](const SetIndex& sets) { return sets.blocks.size(); });
    return {.sets = std::move(*longest), .reason = {}};
  }
  if (found.size() != 1) {
    return {.sets = {},
            .reason = found.empty()
                          ? "of " + std::to_string(structure.modulo) + " ways to number lines none tells their sets"
                          : std::to_string(found.size()) + " ways to number lines tell their sets"};
  }
  return {.sets = std::move(found.front()), .reason = {}};
}

}  // namespace gpuinfer::infer
