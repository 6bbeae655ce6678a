// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/find_sets.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "infer/asking/stream.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/cache/index_fit.hpp"
#include "infer/cache/index_search.hpp"
#include "infer/cache/one_set.hpp"
#include "infer/cache/rare_departures.hpp"
#include "model/description_yaml.hpp"

namespace gpuinfer::infer {

namespace {

using model::IndexFunction;

// With which the policy is found.
constexpr std::size_t most_single_sets = 64;

// Packings that an index function has to pass where no policy is there to predict. Where one is, the prediction is the
// harder test, and fewer will do; but a packing of few lines says little.
constexpr std::size_t all_packings = 64;
constexpr std::size_t fewest_packings = 3;
constexpr std::size_t packed_lines = 2048;
std::size_t first_packings(const std::vector<std::uint32_t>& ways) {
  const std::uint64_t lines = std::accumulate(ways.begin(), ways.end(), std::uint64_t{0});
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(packed_lines / lines, fewest_packings, all_packings));
}

std::string tested_by(const PackingCheck& check) {
  return check.packings == 0 ? ""
                             : "of " + std::to_string(check.packings) + " packings of so many lines " +
                                   std::to_string(check.packings - check.full_that_missed) +
                                   " fit, and with one line more " + std::to_string(check.surplus_that_fitted);
}

void take(const PackingCheck& packings, FoundSets& sets) {
  sets.packings = packings;
  // Each set of a packing could have refuted them.
  const std::size_t trials = packings.packings * (sets.ways.value ? sets.ways.value->size() : 1);
  sets.ways.trials = sets.index.trials = trials;
  sets.ways.tested = sets.index.tested = tested_by(packings);
}

// Bit field or XOR, modulo, sums of bit fields: those of each kind that one set leaves possible.
std::vector<IndexFunction> guesses_from(Interrogator& asker, Conflicts& conflicts, const ConflictClass& set,
                                        std::uint64_t line_bytes, std::size_t onset_lines) {
  asker.inquire("which lines with another address bit flipped go to that set",
                "if the index is a bit field or an XOR, this tells all of it at the least cost");
  std::vector<IndexFunction> guesses;
  if (auto linear = guess_linear(asker, conflicts, set, line_bytes, onset_lines)) {
    guesses.push_back(std::move(*linear));
  }
  asker.learned(guesses.empty() ? "the answers are not those of a bit field or an XOR"
                                : "the only one that can be right is " + model::to_flow_yaml(guesses.front()));
  for (const auto& guess : {guess_modulo, guess_sum}) {
    std::ranges::move(guess(asker, set, line_bytes, onset_lines), std::back_inserter(guesses));
  }
  return guesses;
}

// Of sets that turn out to be one: whether they are so for lines that share address bits, too.
bool stays_one_set(Interrogator& asker, Conflicts& conflicts, std::uint32_t ways, std::uint64_t line_bytes) {
  asker.inquire("as many lines as fit, which agree in bits of their addresses or in parities of bits",
                "random lines hardly ever overfill one of few large sets that share a store of fewer lines");
  const OneSetCheck check = check_one_set(asker, conflicts, ways, line_bytes);
  asker.learned(check.overflowed ? "refuted: some that agree do not fit"
                                 : "each of " + std::to_string(check.chases) + " times all of them fit");
  return !check.overflowed;
}

// By index functions that one set suggests, until one of them holds for all.
std::optional<FoundSets> sets_by_guess(Interrogator& asker, Conflicts& conflicts, const ConflictClass& first,
                                       std::uint64_t line_bytes, std::size_t onset_lines) {
  const std::vector<IndexFunction> guesses = guesses_from(asker, conflicts, first, line_bytes, onset_lines);
  for (std::size_t g = 0; g < guesses.size(); ++g) {
    const IndexFunction& index = guesses[g];
    asker.report("index function", 0.4, model::to_flow_yaml(index));
    asker.inquire("packings of lines that just fill, or overflow by one, the sets of " + model::to_flow_yaml(index),
                  "the simplest function that is left");
    const std::size_t left = guesses.size() - g;
    const auto ways = find_ways(asker, conflicts, index, line_bytes, first.ways);
    if (!ways) {
      asker.learned("these sets do not hold a line each, or the buffer has too few lines to fill them", left, left - 1);
      continue;
    }
    const PackingCheck check =
        check_packings(asker, conflicts, index, *ways, line_bytes, 0, first_packings(*ways), true);
    if (check.failed()) {
      asker.learned("refuted: sets that have room miss, or full ones do not", left, left - 1);
      continue;
    }
    asker.learned("every set behaves as predicted", left, 1);
    if (ways->size() == 1 && !stays_one_set(asker, conflicts, ways->front(), line_bytes)) {
      continue;
    }
    FoundSets sets{.ways = {.value = ways},
                   .index = {.value = index},
                   .exercised_bits = bits_of_buffer(asker, line_bytes),
                   .single_sets = single_sets(asker, index, *ways, line_bytes, most_single_sets)};
    take(check, sets);
    return sets;
  }
  return std::nullopt;
}

std::optional<IndexFit> fit_partition(const Interrogator& asker, const Partition& partition, std::uint64_t line_bytes) {
  std::vector<AssignedLine> window;
  std::vector<AssignedLine> elsewhere;
  for (std::uint32_t name = 0; name < partition.classes.size(); ++name) {
    for (const std::uint64_t line : partition.classes[name].lines) {
      const bool inside = line >= partition.window.front() && line <= partition.window.back();
      (inside ? window : elsewhere).push_back({.address = asker.address_of(line), .set = name});
    }
  }
  if (window.size() != partition.window.size()) {
    return std::nullopt;
  }
  std::ranges::sort(window, {}, &AssignedLine::address);
  const std::size_t window_lines = window.size();
  window.insert(window.end(), elsewhere.begin(), elsewhere.end());
  return fit_index(window, window_lines, line_bytes, static_cast<std::uint32_t>(partition.classes.size()));
}

std::vector<std::uint32_t> ways_of(const Partition& partition) {
  std::vector<std::uint32_t> ways;
  std::ranges::transform(partition.classes, std::back_inserter(ways), &ConflictClass::ways);
  return ways;
}

// The index that explains which line goes to which set, in a window as wide as it takes to see it repeat, and the ways
// of all sets that come out in it.
void claim_index(const Interrogator& asker, Partitioner& partitioner, Partition& partition, std::uint64_t line_bytes,
                 FoundSets& sets) {
  std::optional<IndexFit> fit = fit_partition(asker, partition, line_bytes);
  while (partition.complete && !(fit && fit->extrapolates) && partition.window.size() < widest_window_lines) {
    const std::size_t before = partition.window.size();
    partitioner.extend(partition, 2 * before);
    if (partition.window.size() == before) {
      break;
    }
    fit = fit_partition(asker, partition, line_bytes);
  }
  sets.ways.value = ways_of(partition);
  if (!partition.complete || !fit) {
    sets.index.reason = partition.complete ? "no function reproduces the partition" : partition.reason;
    return;
  }
  for (std::size_t set = 0; set < fit->name_of_set.size(); ++set) {
    (*sets.ways.value)[set] = partition.classes[fit->name_of_set[set]].ways;
  }
  sets.index.value = fit->index;
  sets.exercised_bits = fit->exercised_bits;
}

FoundSets sets_by_partition(Interrogator& asker, Conflicts& conflicts, Partitioner& partitioner, ConflictClass first,
                            std::uint64_t line_bytes) {
  asker.report("partition into sets", 0.3);
  asker.inquire("to which set each line of a window and lines from everywhere go",
                "no index function that was guessed from one set explains the others");
  FoundSets sets;
  Partition partition = partitioner.find(std::move(first));
  if (!partition.complete) {
    asker.learned(partition.reason);
    sets.ways.reason = sets.index.reason = partition.reason;
    return sets;
  }
  asker.learned(std::to_string(partition.classes.size()) + " sets");
  if (partition.classes.size() == 1 && !stays_one_set(asker, conflicts, partition.classes.front().ways, line_bytes)) {
    sets.ways.reason = sets.index.reason =
        "as many lines as any other lines fit together do not where they agree in bits of their addresses";
    return sets;
  }
  asker.report("index function", 0.6);
  claim_index(asker, partitioner, partition, line_bytes, sets);
  if (sets.index.value) {
    asker.report("packings that just fill the cache", 0.65);
    take(check_packings(asker, conflicts, *sets.index.value, *sets.ways.value, line_bytes, 0,
                        first_packings(*sets.ways.value), false),
         sets);
  }
  // A set that cannot be emptied takes more lines to bring in line than the partition needed.
  sets.single_sets = asker.starts_flooded() && sets.index.value && covers_buffer(*sets.index.value, asker.buffer())
                         ? single_sets(asker, *sets.index.value, *sets.ways.value, line_bytes, most_single_sets)
                         : std::move(partition.classes);
  return sets;
}

}  // namespace

FoundSets find_sets(Interrogator& asker, Conflicts& conflicts, Partitioner& partitioner, ConflictClass first,
                    std::uint64_t line_bytes, std::size_t onset_lines) {
  auto guessed = sets_by_guess(asker, conflicts, first, line_bytes, onset_lines);
  return guessed ? *std::move(guessed) : sets_by_partition(asker, conflicts, partitioner, std::move(first), line_bytes);
}

namespace {

// More than fit, of as many sets as a few hundred lines fill.
Offsets crowded_lines(const Interrogator& asker, const IndexFunction& index, const std::vector<std::uint32_t>& ways,
                      std::uint64_t line_bytes) {
  constexpr std::uint64_t most_lines = 512;
  model::Random random = stream(asker.settings(), "lines of crowded sets");
  std::vector<std::uint32_t> order(ways.size());
  std::iota(order.begin(), order.end(), 0U);
  random.shuffle(order);
  std::vector<std::uint32_t> wanted(ways.size());
  std::uint64_t lines_wanted = 0;
  for (const std::uint32_t set : order) {
    if (lines_wanted < most_lines) {
      lines_wanted += wanted[set] = ways[set] + 1 + ways[set] / 2;
    }
  }
  Offsets lines;
  for (const Offsets& of_set : LinesOfSets(asker, index, line_bytes).draw(wanted, random)) {
    lines.insert(lines.end(), of_set.begin(), of_set.end());
  }
  return lines;
}

// Packings of lines from everywhere may have left out the one that lies elsewhere, which this sequence loads.
bool are_where_index_says(Interrogator& asker, Conflicts& conflicts, std::uint64_t line_bytes, const Offsets& places,
                          FoundSets& sets) {
  if (places.empty()) {
    return true;
  }
  asker.inquire("packings of the lines of the sequence that was not predicted",
                "one of them may lie in another set than the index says");
  PackingCheck check;
  try {
    check = check_packings_of(asker, conflicts, *sets.index.value, *sets.ways.value, line_bytes, places);
  } catch (const QuestionRefused&) {
    asker.learned("not recorded");
    return true;
  }
  asker.learned(check.failed() ? "refuted: sets that have room miss, or full ones do not" : "all are where it says");
  if (check.failed()) {
    check += sets.packings;
    take(check, sets);
  }
  return !check.failed();
}

}  // namespace

void check_without_policy(Interrogator& asker, Conflicts& conflicts, std::uint64_t line_bytes,
                          std::uint64_t sector_bytes, const Offsets& contradicting, FoundSets& sets) {
  constexpr std::size_t fewest = 20;
  constexpr std::size_t most = 4000;
  // A line of another set makes one of the two overflow or have room, but where a surplus hides it.
  constexpr double as_visible = 0.5;
  const double visible_to_exclude = -std::log(1 - excluded_at);
  const double lines_to_pack = visible_to_exclude * static_cast<double>(asker.settings().fills_to_test) / as_visible;
  const std::uint64_t lines = std::reduce(sets.ways.value->begin(), sets.ways.value->end(), std::uint64_t{0});
  const auto wanted = static_cast<std::size_t>(std::ceil(lines_to_pack / static_cast<double>(lines)));
  const std::size_t first = sets.packings.packings;
  PackingCheck all = check_packings(asker, conflicts, *sets.index.value, *sets.ways.value, line_bytes, first,
                                    std::max(first, std::clamp(wanted, fewest, most)), true);
  all += sets.packings;
  take(all, sets);
  if (all.failed() || !are_where_index_says(asker, conflicts, line_bytes, contradicting, sets)) {
    return;
  }
  asker.inquire("few lines loaded over and over while others pass, one line more than a set has ways",
                "where a nearer cache, as fast, hides loads from this one, more lines stay than there are ways");
  try {
    sets.crowds = check_crowds(asker, sets.single_sets);
    sets.wholeness = check_whole_lines(asker, crowded_lines(asker, *sets.index.value, *sets.ways.value, line_bytes),
                                       line_bytes, sector_bytes);
  } catch (const QuestionRefused&) {
    asker.learned("not recorded");
    return;
  }
  if (!sets.wholeness.holds) {
    asker.learned("parts of a line come and go by themselves");
    sets.ways.tested = sets.index.tested += "; of " + std::to_string(sets.wholeness.loads) +
                                            " loads of lines the rest of which was present or absent, " +
                                            std::to_string(sets.wholeness.torn) + " found the other part otherwise";
    return;
  }
  if (sets.refuted()) {
    asker.learned("all of them may stay");
    sets.ways.tested = sets.index.tested += "; in " + std::to_string(sets.crowds.all_stayed) + " of " +
                                            std::to_string(sets.crowds.walks) +
                                            " walks over one line more than a set has ways all of them stayed";
    return;
  }
  asker.learned("never do all of them stay");
  const double packed = static_cast<double>(all.packings) * static_cast<double>(lines);
  sets.ways.bound = sets.index.bound = bound_of(visible_to_exclude / (as_visible * packed));
}

bool covers_buffer(const IndexFunction& index, const model::BufferFacts& buffer) {
  const auto* table = std::get_if<model::TableIndex>(&index);
  return table == nullptr || (table->covers(buffer.address) && table->covers(buffer.address + (buffer.bytes - 1)));
}

}  // namespace gpuinfer::infer
