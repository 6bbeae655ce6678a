// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/hashed_sets.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "infer/asking/gf2.hpp"
#include "infer/cache/departures.hpp"
#include "infer/cache/index_search.hpp"

namespace gpuinfer::infer {

namespace {

constexpr const char* no_hash =
    "the lines that drive each other out do not differ as those of a set that is a hash of the address";

enum class Overflow : std::uint8_t { of_hardly_any, of_sets, of_store };

// What overflows where so many random lines are loaded, and the differences of lines of one set, if sets do.
struct OverflowOfLines {
  Overflow overflow = Overflow::of_hardly_any;
  SetDifferences differences = {};
};

std::vector<std::size_t> some_positions(std::size_t positions, std::size_t most, model::Random& random) {
  std::vector<std::size_t> all(positions);
  std::iota(all.begin(), all.end(), std::size_t{0});
  random.shuffle(all);
  all.resize(std::min(positions, most));
  return all;
}

OverflowOfLines overflow_of(Interrogator& device, RandomLines& lines, std::size_t count, std::uint64_t address_mask) {
  constexpr std::size_t asked_lines = 192;
  constexpr std::size_t most_runs = 100;
  // With fewer than a pair each, all the runs would hardly be enough.
  constexpr std::size_t scouts = 6;
  SetDifferences differences;
  std::size_t pairs = 0;
  for (std::size_t run = 1; run <= most_runs; ++run) {
    const AccessSequence loads = lines.draw(count);
    const std::vector<std::size_t> asked = some_positions(loads.size(), asked_lines, lines.random());
    const std::vector<Eviction> evictions = evictions_of(asked, find_departures(device, loads, asked));
    if (evictors_of(evictions).of_several > 0) {
      return {.overflow = Overflow::of_store};
    }
    for (const Eviction& eviction : evictions) {
      differences.add((lines.address_of(loads[eviction.line]) ^ lines.address_of(loads[eviction.load])) & address_mask);
    }
    pairs += evictions.size();
    if (differences.are_all()) {
      return {.overflow = Overflow::of_sets, .differences = std::move(differences)};
    }
    if (run >= scouts && pairs < run) {
      return {.overflow = Overflow::of_hardly_any};
    }
  }
  throw NoSweptStore(no_hash);
}

// Of as many lines as make sets overflow and do not fill the store.
SetDifferences find_differences(Interrogator& device, RandomLines& lines, std::uint64_t onset_lines,
                                std::uint64_t address_mask) {
  constexpr double begin = 0.9;
  constexpr double fewer = 0.8;
  constexpr double more = 1.3;
  constexpr double most = 40;  // contiguous lines may overflow a set long before
  bool was_too_many = false;
  for (double share = begin; share < most;) {
    const auto count = static_cast<std::size_t>(share * static_cast<double>(onset_lines));
    OverflowOfLines of_lines = overflow_of(device, lines, count, address_mask);
    switch (of_lines.overflow) {
      case Overflow::of_sets:
        return std::move(of_lines.differences);
      case Overflow::of_store:
        was_too_many = true;
        share *= fewer;
        break;
      case Overflow::of_hardly_any:
        if (was_too_many) {
          throw NoSweptStore("while the store is not full, too few lines go to tell their sets");
        }
        share *= more;
        break;
    }
  }
  throw NoSweptStore("too few lines go to tell their sets");
}

}  // namespace

AccessSequence draw_within_sets(RandomLines& lines, const HashedSets& sets, std::vector<std::uint32_t> room,
                                std::size_t count) {
  return lines.draw(count, [&](std::uint64_t offset) {
    std::uint32_t& left = room[sets.names.set_of(lines.address_of(offset))];
    return left > 0 && left-- > 0;
  });
}

HashedSets find_hashed_sets(Interrogator& device, RandomLines& lines, const StoreSize& largest) {
  // The order of the sets is looked for among all functions of a name, 2^13 for each bit of the order.
  constexpr unsigned most_name_bits = 13;
  const Under large(device, largest.circumstances());
  HashedSets sets{.bits = bits_of_buffer(device, lines.line_bytes()), .names = {}};
  device.inquire("at " + largest.name() + ", with which load single lines go",
                 "while the store is not full, a line is driven out by one of its own set");
  const SetDifferences differences = find_differences(device, lines, largest.onset_lines, mask_of(sets.bits));
  sets.names.row_masks = differences.span().orthogonal_complement(sets.bits);
  if (sets.name_bits() == 0 || sets.name_bits() > most_name_bits) {
    throw NoSweptStore(no_hash);
  }
  device.learned("2^" + std::to_string(sets.name_bits()) + " sets");
  return sets;
}

}  // namespace gpuinfer::infer
