// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/model_free.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_set>

#include "infer/asking/statistics.hpp"
#include "infer/asking/thresholds.hpp"
#include "model/access_sequence.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;

constexpr std::uint64_t largest_fill_bytes = 4096;
constexpr double unbelievable = 1e-4;
constexpr double believable_by_chance = 1e-3;

struct Returns {
  std::size_t loads = 0;
  std::size_t missed = 0;

  [[nodiscard]] double share() const {
    return loads == 0 ? 0 : static_cast<double>(missed) / static_cast<double>(loads);
  }
};

Returns all_loads(const ReadTraces& all) {
  Returns loads;
  for (const ReadTrace& read : all.traces) {
    loads.loads += read.readings.size();
    loads.missed += static_cast<std::size_t>(std::ranges::count(read.readings, Reading::miss));
  }
  return loads;
}

// Loads to a granule that was loaded a few accesses ago, last in its other half (or else in the same one).
Returns soon_after(const ReadTraces& all, std::uint64_t bytes, bool other_half) {
  constexpr std::size_t few = 6;
  Returns returns;
  for (const ReadTrace& read : all.traces) {
    const model::AccessSequence& record = read.trace->question.record;
    for (std::size_t i = 1; i < record.size(); ++i) {
      all.loop.step();
      const std::uint64_t half = (all.address_of_buffer + record[i]) / (bytes / 2);
      for (std::size_t back = 1; back <= std::min(i, few); ++back) {
        const std::uint64_t before = (all.address_of_buffer + record[i - back]) / (bytes / 2);
        if (before / 2 == half / 2) {
          const bool counts = (before != half) == other_half && read.readings[i] != Reading::unclear;
          returns.loads += counts ? 1U : 0U;
          returns.missed += counts && read.readings[i] == Reading::miss ? 1U : 0U;
          break;
        }
      }
    }
  }
  return returns;
}

// Of recordings of all loads since the cache was empty, but for the first one at most: the first loads of granules of
// so many bytes. Misses bring no others.
Returns first_loads(const ReadTraces& all, std::uint64_t bytes) {
  Returns firsts;
  for (const ReadTrace& read : all.traces) {
    const model::Question& question = read.trace->question;
    if (!read.trace->start_is_known || question.state != model::StartState::clean || question.warm.size() > 1) {
      continue;
    }
    std::unordered_set<std::uint64_t> loaded;
    const auto granule_of = [&](std::uint64_t offset) { return (all.address_of_buffer + offset) / bytes; };
    for (const std::uint64_t offset : question.warm) {
      all.loop.step();
      loaded.insert(granule_of(offset));
    }
    for (std::size_t i = 0; i < question.record.size(); ++i) {
      all.loop.step();
      if (loaded.insert(granule_of(question.record[i])).second && read.readings[i] != Reading::unclear) {
        ++firsts.loads;
        firsts.missed += read.readings[i] == Reading::miss ? 1U : 0U;
      }
    }
  }
  return firsts;
}

}  // namespace

bool state_levels(const TraceLevels& levels, const RecordedLeaves& leaves) {
  const auto hit = levels.hit_median_cycles();
  const auto miss = levels.miss_median_cycles();
  if (hit && miss) {
    leaves.cache().latency_cycles = {.hit = hit, .miss = miss};
    leaves.resolve("latency_cycles");
    return true;
  }
  leaves.open("latency_cycles", EvidenceStatus::unknown, "all latencies belong to one level");
  if (hit || miss) {
    leaves["latency_cycles"].details.median_of_all = hit ? hit : miss;
  }
  return false;
}

FillSize find_fill(const ReadTraces& all, const RecordedLeaves& leaves) {
  const double share_of_misses = all_loads(all).share();
  FillSize fill{.bytes = model::load_bytes};
  bool is_larger_refuted = false;
  bool is_confirmed = false;
  for (std::uint64_t bytes = 2 * model::load_bytes; bytes <= largest_fill_bytes; bytes *= 2) {
    const Returns other = soon_after(all, bytes, true);
    const double may_miss = std::max(most_misread, soon_after(all, bytes, false).share());
    if (binomial_upper_tail(other.missed, other.loads, may_miss) < unbelievable) {
      is_larger_refuted = true;
      break;
    }
    fill.bytes = bytes;
    // Were they apart, they would miss as others do, or at least half as often.
    is_confirmed = other.loads > 0 && share_of_misses / 2 > may_miss &&
                   1 - binomial_upper_tail(other.missed + 1, other.loads, share_of_misses / 2) < believable_by_chance;
  }
  const Returns firsts = first_loads(all, fill.bytes);
  const std::size_t first_hits = firsts.loads - firsts.missed;
  const bool do_firsts_hit = binomial_upper_tail(first_hits, firsts.loads, most_misread) < unbelievable;
  fill.is_known = is_confirmed && is_larger_refuted && !do_firsts_hit;
  const std::string bytes = std::to_string(fill.bytes);
  if (fill.is_known) {
    leaves.cache().sector_bytes = fill.bytes;
    leaves.resolve("sector_bytes");
  } else if (is_larger_refuted && do_firsts_hit) {
    leaves.open(
        "sector_bytes", EvidenceStatus::ambiguous,
        std::to_string(first_hits) + " of " + std::to_string(firsts.loads) +
            " loads hit what was not loaded before: more was loaded, or in another order, than the recording says",
        "a recording of all loads in their order", {bytes});
  } else {
    leaves.open("sector_bytes", EvidenceStatus::ambiguous,
                is_larger_refuted ? "fills bring at most " + bytes + " bytes; hardly any two loads lie closer than that"
                                  : "no load shows that fills do not bring " + bytes + " bytes or more",
                "a chase in steps of 4 bytes over an array a little larger than the cache", {bytes});
  }
  return fill;
}

namespace {

// Equal steps over all offsets from the first to the last; none: the steps differ, or there is one offset only.
std::optional<ArrayMisses> array_of(const std::unordered_set<std::uint64_t>& offsets) {
  std::vector<std::uint64_t> sorted(offsets.begin(), offsets.end());
  std::ranges::sort(sorted);
  if (sorted.size() < 2) {
    return std::nullopt;
  }
  const std::uint64_t stride_bytes = sorted[1] - sorted[0];
  if (sorted.back() - sorted.front() != stride_bytes * (sorted.size() - 1)) {
    return std::nullopt;
  }
  return ArrayMisses{.array_bytes = stride_bytes * sorted.size(), .stride_bytes = stride_bytes};
}

// Counts returns to what was loaded before in the recording; none: its loads are no array in equal steps.
std::optional<ArrayMisses> array_misses(const ReadTrace& read, const ReadTraces& all) {
  const auto& [target, state, warm, record, circumstances] = read.trace->question;
  // By fills where words alone make no equal steps: a second round may lie a little beside the first one.
  for (const std::uint64_t granule_bytes : {std::uint64_t{1}, all.fill.is_known ? all.fill.bytes : 1}) {
    const auto granule_of = [&](std::uint64_t offset) { return offset / granule_bytes * granule_bytes; };
    std::unordered_set<std::uint64_t> loaded;
    for (const std::uint64_t offset : warm) {
      all.loop.step();
      loaded.insert(granule_of(offset));
    }
    std::size_t judged = 0;
    std::size_t misses = 0;
    for (std::size_t i = 0; i < record.size(); ++i) {
      all.loop.step();
      if (!loaded.insert(granule_of(record[i])).second && read.readings[i] != Reading::unclear) {
        ++judged;
        misses += read.readings[i] == Reading::miss ? 1U : 0U;
      }
    }
    if (auto array = array_of(loaded)) {
      array->judged = judged;
      array->misses = misses;
      return array;
    }
  }
  return std::nullopt;
}

// A warm chase of which each load of a round was recorded.
bool is_whole_chase(const ReadTrace& read) {
  const auto& [target, state, warm, record, circumstances] = read.trace->question;
  return read.is_warm && read.is_cyclic &&
         std::set<std::uint64_t>(warm.begin(), warm.end()) == std::set<std::uint64_t>(record.begin(), record.end());
}

std::string sizes_text(const Footprints& footprints) {
  return "arrays of " + std::to_string(*footprints.largest_without_miss) + " bytes fit, and of " +
         std::to_string(*footprints.smallest_with_miss) + " bytes do not";
}

}  // namespace

Footprints footprints_of(std::span<const ArrayMisses> arrays) {
  Footprints footprints;
  std::set<std::uint64_t> sizes;
  for (const ArrayMisses& array : arrays) {
    sizes.insert(array.array_bytes);
    footprints.longest_stride_bytes = std::max(footprints.longest_stride_bytes, array.stride_bytes);
    if (array.judged > 0 && array.misses == 0) {
      footprints.largest_without_miss = std::max(footprints.largest_without_miss.value_or(0), array.array_bytes);
    } else if (array.misses > few_misreads(array.judged) || (array.judged > 0 && array.misses == array.judged)) {
      footprints.smallest_with_miss =
          std::min(footprints.smallest_with_miss.value_or(array.array_bytes), array.array_bytes);
    }
  }
  footprints.sizes = sizes.size();
  return footprints;
}

void state_sizes(const Footprints& footprints, const RecordedLeaves& leaves) {
  auto& details = leaves["capacity_bytes"].details;
  details.largest_array_without_miss_bytes = footprints.largest_without_miss;
  details.smallest_array_with_misses_bytes = footprints.smallest_with_miss;
}

void state_onset_between(const Footprints& footprints, const RecordedLeaves& leaves) {
  constexpr const char* decided_by = "chases in steps of 4 bytes over arrays of every size between";
  if (footprints.are_ordered()) {
    leaves.open("onset_bytes", EvidenceStatus::ambiguous,
                sizes_text(footprints) +
                    (footprints.longest_stride_bytes > 0
                         ? ", in steps of up to " + std::to_string(footprints.longest_stride_bytes) + " bytes"
                         : ", as far as the loads show that were recorded"),
                decided_by);
    return;
  }
  leaves.open("onset_bytes", EvidenceStatus::unknown,
              !footprints.largest_without_miss ? "no recorded array fits"
              : !footprints.smallest_with_miss
                  ? "every recorded array fits"
                  : "an array fits that is larger than one that does not, or is chased in longer steps");
}

void state_footprints(const ReadTraces& all, const RecordedLeaves& leaves) {
  std::vector<ArrayMisses> arrays;
  std::vector<ArrayMisses> chases;
  std::vector<ArrayMisses> whole_chases;
  for (const ReadTrace& read : all.traces) {
    if (const auto array = array_misses(read, all)) {
      arrays.push_back(*array);
      if (read.is_warm && read.is_cyclic) {
        chases.push_back(*array);
      }
      if (is_whole_chase(read)) {
        whole_chases.push_back(*array);
      }
    }
  }
  state_sizes(footprints_of(arrays), leaves);
  const Footprints footprints = footprints_of(chases);
  if (footprints.sizes < 2) {
    return;
  }
  const Footprints whole = footprints_of(whole_chases);
  if (all.fill.is_known && footprints.are_ordered() && whole.largest_without_miss == footprints.largest_without_miss &&
      whole.smallest_with_miss == footprints.smallest_with_miss && footprints.longest_stride_bytes <= all.fill.bytes &&
      *footprints.smallest_with_miss - *footprints.largest_without_miss <= all.fill.bytes) {
    leaves.cache().onset_bytes = footprints.largest_without_miss;
    leaves.resolve("onset_bytes");
    return;
  }
  state_onset_between(footprints, leaves);
}

namespace {

struct Counts {
  std::size_t hits = 0;
  std::size_t misses = 0;
};

// By the number of the fill; accesses that go on in a fill are not counted.
std::map<std::uint64_t, Counts> counts_of_fills(const ReadTrace& read, const ReadTraces& all) {
  std::map<std::uint64_t, Counts> counts;
  const model::AccessSequence& record = read.trace->question.record;
  std::optional<std::uint64_t> before;
  for (std::size_t i = 0; i < record.size(); ++i) {
    all.loop.step();
    const std::uint64_t fill = (all.address_of_buffer + record[i]) / all.fill.bytes;
    if (fill != before) {
      Counts& of_fill = counts[fill];
      (read.readings[i] == Reading::miss ? of_fill.misses : of_fill.hits) +=
          read.readings[i] == Reading::unclear ? 0U : 1U;
    }
    before = fill;
  }
  return counts;
}

// Neighbours that always miss, with others on both sides: the fewest; 0: there are none.
std::size_t shortest_missing_run(const std::map<std::uint64_t, Counts>& counts) {
  std::size_t shortest = 0;
  std::size_t run = 0;
  for (const auto& [fill, of_fill] : counts) {
    run = of_fill.misses > 0 && of_fill.hits == 0 ? run + 1 : 0;
    const auto next = counts.find(fill + 1);
    if (run > 0 && next != counts.end() && next->second.misses == 0 && counts.contains(fill - run)) {
      shortest = shortest == 0 ? run : std::min(shortest, run);
    }
  }
  return shortest;
}

// The first and the last byte of each run of neighbours; the first runs where there are many.
model::ByteRanges ranges_of(const std::vector<std::uint64_t>& fills, std::uint64_t fill_bytes) {
  constexpr std::size_t most_ranges = 32;
  model::ByteRanges ranges;
  for (std::size_t begin = 0; begin < fills.size() && ranges.size() < most_ranges;) {
    std::size_t end = begin + 1;
    while (end < fills.size() && fills[end] == fills[end - 1] + 1) {
      ++end;
    }
    ranges.push_back({fills[begin] * fill_bytes, (fills[end - 1] + 1) * fill_bytes - 1});
    begin = end;
  }
  return ranges;
}

}  // namespace

FillFates fates_of(const ReadTraces& all) {
  FillFates fates;
  std::map<std::uint64_t, bool> ever_missed;
  for (const ReadTrace& read : all.traces) {
    if (!read.is_warm) {
      continue;
    }
    const std::map<std::uint64_t, Counts> counts = counts_of_fills(read, all);
    std::vector<std::uint64_t> missing;
    for (const auto& [fill, of_fill] : counts) {
      fates.mixed += of_fill.hits > 0 && of_fill.misses > 0 ? 1U : 0U;
      ever_missed[fill] = ever_missed[fill] || of_fill.misses > 0;
      if (of_fill.misses > 0) {
        missing.push_back(fill);
      }
    }
    const std::size_t run = shortest_missing_run(counts);
    fates.shortest_run =
        fates.shortest_run == 0 || run == 0 ? std::max(fates.shortest_run, run) : std::min(fates.shortest_run, run);
    if (!missing.empty() && (fates.missing.empty() || missing.size() < fates.missing.size())) {
      fates.missing = std::move(missing);
    }
  }
  fates.never_missed =
      static_cast<std::size_t>(std::ranges::count_if(ever_missed, [](const auto& fill) { return !fill.second; }));
  return fates;
}

void state_fates(const FillFates& fates, const ReadTraces& all, const RecordedLeaves& leaves) {
  if (std::ranges::none_of(all.traces, &ReadTrace::is_warm)) {
    return;
  }
  auto& details = leaves["index"].details;
  details.consecutive_fills_in_a_set = fates.shortest_run;
  details.fills_that_overflow_one_set = fates.missing.size();
  details.fills_that_never_miss = fates.never_missed;
  details.bytes_that_miss_together = ranges_of(fates.missing, all.fill.bytes);
  if (auto& deterministic = leaves["replacement"].details.deterministic; !deterministic) {
    deterministic = fates.mixed == 0 ? std::optional(true) : std::nullopt;
  }
}

}  // namespace gpuinfer::infer
