// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/laps/conclude_first_level.hpp"

#include <bit>

#include "infer/asking/statistics.hpp"
#include "infer/asking/written_leaf.hpp"
#include "infer/laps/lap_meter.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;

// How much those may differ that come from the next level.
constexpr double next_tolerance = 0.06;

model::IndexFunction index_of(const LowBitSets& sets, std::uint64_t unit_bytes) {
  if (sets.sets == 1) {
    return model::ModuloIndex{.granule_bytes = unit_bytes, .sets_count = 1};
  }
  model::BitsIndex index;
  for (int bit = std::countr_zero(unit_bytes); bit < std::countr_zero(unit_bytes * sets.sets); ++bit) {
    index.bits.push_back(static_cast<unsigned>(bit));
  }
  return index;
}

model::CacheDescription cache_of(const LowBitSets& sets, const FirstLevelSeen& seen) {
  model::CacheDescription cache;
  cache.line_bytes = seen.unit_bytes;
  cache.capacity_bytes = sets.units() * seen.unit_bytes;
  cache.onset_bytes = cache.capacity_bytes;
  cache.ways.emplace(sets.sets, static_cast<std::uint32_t>(sets.ways));
  cache.index = index_of(sets, seen.unit_bytes);
  cache.exercised_bits.emplace();
  for (auto bit = static_cast<unsigned>(std::countr_zero(seen.unit_bytes)); seen.buffer_bytes >> bit > 1; ++bit) {
    cache.exercised_bits->push_back(bit);
  }
  return cache;
}

std::string without_end(const FirstLevelSeen& seen) {
  const std::string distant = seen.units + ", " + std::to_string(seen.no_end->distance) + " apart, fit";
  return seen.no_end->all_units ? "all of " + std::to_string(*seen.no_end->all_units) + " " + distant
                                : "how many " + distant + " did not come up again: the CPU is too busy";
}

std::string unexplained(const FirstLevelSeen& seen) {
  std::string numbers;
  for (const UnitFit& fit : *seen.fits) {
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(fit.units);
  }
  return "of " + seen.units + " 1, 2, 4, ... apart " + numbers + " fit, which no sets by the lowest bits explain";
}

// Units from everywhere that fill all sets must fit so often that one more would have been seen to fit, too.
bool confirm(const FirstLevelSeen::Fillings& fillings) {
  constexpr std::size_t fewest = 12;
  return fillings.full_that_fitted >= fewest && fillings.surplus_that_fitted == 0;
}

// The values that both tell and that differ become alternatives of each other.
template <class Value>
void reconcile(const char* leaf, CacheFinding& laps, const CacheFinding& singles,
               std::optional<Value> model::CacheDescription::*member) {
  std::optional<Value>& by_laps = laps.cache.*member;
  const std::optional<Value>& by_singles = singles.cache.*member;
  if (by_laps && by_singles && *by_laps != *by_singles) {
    model::LeafEvidence& evidence = laps.evidence.leaves[leaf] = {};
    evidence.status = EvidenceStatus::ambiguous;
    evidence.alternatives = {written_leaf(leaf, member, by_laps), written_leaf(leaf, member, by_singles)};
    evidence.reason = "laps and single loads contradict each other";
    by_laps.reset();
  }
}

}  // namespace

std::optional<LowBitSets> sets_of_fits(std::span<const UnitFit> fits) {
  const std::uint64_t ways = fits.back().units;
  const LowBitSets sets{.sets = fits.front().units / ways, .ways = ways};
  const bool holds = sets.units() == fits.front().units && std::has_single_bit(sets.sets) &&
                     sets.sets < fits.back().distance && std::all_of(fits.begin(), fits.end(), [&](const UnitFit& fit) {
                       return sets.fitting(fit.distance) == fit.units;
                     });
  return holds ? std::optional(sets) : std::nullopt;
}

std::string FirstLevelSeen::Fillings::text() const {
  return std::to_string(full_that_fitted) + " of " + std::to_string(draws) +
         " fillings fit, and with one more of them " + std::to_string(surplus_that_fitted);
}

std::optional<FirstLevelVerdict> conclude_first_level(const FirstLevelSeen& seen) {
  const auto open = [&](std::string reason, std::optional<std::uint64_t> units = {}) {
    return FirstLevelVerdict{.reason = std::move(reason),
                             .capacity_bytes = units ? std::optional(*units * seen.unit_bytes) : std::nullopt};
  };
  if (seen.hits && !seen.hits->are_alike) {
    return open("loads of 2, 4 and 8 " + seen.units + " take different times, " + cycles_text(seen.hits->least_cycles) +
                " to " + cycles_text(seen.hits->most_cycles) + " cycles: the CPU is too busy");
  }
  if (seen.no_end) {
    return open(without_end(seen));
  }
  if (!seen.fits) {
    return std::nullopt;
  }
  const auto sets = sets_of_fits(*seen.fits);
  if (!sets) {
    return open(unexplained(seen), seen.fits->front().units);
  }
  if (seen.fillings && !confirm(*seen.fillings)) {
    return open("of " + seen.units + " from everywhere " + seen.fillings->text(), sets->units());
  }
  if (!seen.fillings || !seen.is_whole) {
    return std::nullopt;
  }
  if (!*seen.is_whole) {
    return open("different places in the same " + seen.units + " do not behave alike", sets->units());
  }
  return FirstLevelVerdict{.cache = cache_of(*sets, seen)};
}

LatencyLevels conclude_latency(double hit_cycles, const std::vector<double>& beyond_cycles) {
  constexpr std::size_t wanted = 3;
  LatencyLevels levels{.cycles = model::LatencyCycles{.hit = rounded(hit_cycles), .miss = {}},
                       .reason = "what does not fit does not always take the same time"};
  if (beyond_cycles.size() >= wanted) {
    const auto [low, high] = std::minmax_element(beyond_cycles.begin(), beyond_cycles.end());
    if (*high <= (1 + next_tolerance) * *low) {
      levels.cycles->miss = rounded(median(beyond_cycles));
    }
  }
  return levels;
}

void add_single_loads(const CacheFinding& singles, CacheFinding& laps) {
  const bool laps_know = laps.cache.ways.has_value();
  const bool is_same_cache =
      laps_know && laps.cache.ways == singles.cache.ways && laps.cache.line_bytes == singles.cache.line_bytes;
  if (laps_know) {
    reconcile("capacity_bytes", laps, singles, &model::CacheDescription::capacity_bytes);
    reconcile("onset_bytes", laps, singles, &model::CacheDescription::onset_bytes);
    reconcile("line_bytes", laps, singles, &model::CacheDescription::line_bytes);
    reconcile("ways", laps, singles, &model::CacheDescription::ways);
    const auto take = [&](const char* leaf) { laps.evidence.leaves[leaf] = singles.evidence.leaves.at(leaf); };
    laps.cache.sector_bytes = singles.cache.sector_bytes;
    take("sector_bytes");
    if (is_same_cache || !singles.cache.replacement) {
      laps.cache.replacement = singles.cache.replacement;
      take("replacement");
    }
    laps.evidence.prediction = is_same_cache ? singles.evidence.prediction : std::nullopt;
  } else {
    laps.cache = singles.cache;
    for (const auto& [leaf, evidence] : singles.evidence.leaves) {
      model::LeafEvidence& of_laps = laps.evidence.leaves[leaf];
      if (evidence.status == EvidenceStatus::resolved || of_laps.status == EvidenceStatus::unknown) {
        of_laps = evidence;
      }
    }
    // Single loads do not see that something slows down all of them.
    if (singles.cache.latency_cycles.hit) {
      laps.cache.latency_cycles = {};
      laps.evidence.leaves["latency_cycles"] = {};
      laps.evidence.leaves["latency_cycles"].reason =
          "single loads were told from each other, but laps did not say "
          "whether anything slowed them down";
    }
    laps.evidence.prediction = singles.evidence.prediction;
    laps.warnings = singles.warnings;
  }
  laps.evidence.inquiries.insert(laps.evidence.inquiries.end(), singles.evidence.inquiries.begin(),
                                 singles.evidence.inquiries.end());
  laps.questions += singles.questions;
  laps.accesses += singles.accesses;
}

}  // namespace gpuinfer::infer
