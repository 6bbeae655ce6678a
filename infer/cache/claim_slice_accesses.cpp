// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/claim_slice_accesses.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/stream.hpp"
#include "infer/asking/written_leaf.hpp"
#include "infer/cache/hints.hpp"
#include "infer/cache/stores.hpp"
#include "infer/slices/slice_as_cache.hpp"

namespace gpuinfer::infer {

namespace {

// The last one is loaded while something is waited for.
constexpr std::size_t most_sets_of_stores = 17;

SliceLine begin_of(const Interrogator& device, SliceLine sector, std::uint64_t line_bytes) {
  return sector - number_of(device.address_of(sector)) % line_bytes;
}

// Of so many sets by chance, all lines that are known; of none that hardly any are known of.
std::vector<SliceLines> lines_of_any_sets(const Interrogator& device, const SliceSets& sets) {
  std::vector<std::size_t> order(sets.sets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  model::Random random = stream(device.settings(), "sets for stores");
  random.shuffle(order);
  order.resize(std::min(order.size(), most_sets_of_stores));
  std::vector<SliceLines> chosen;
  for (const std::size_t set : order) {
    SliceLines& lines = chosen.emplace_back();
    for (const SliceLines* known : {&sets.sets[set], &sets.fresh_of_sets[set]}) {
      std::ranges::transform(*known, std::back_inserter(lines),
                             [&](SliceLine sector) { return begin_of(device, sector, sets.line_bytes); });
    }
  }
  std::erase_if(chosen, [&](const SliceLines& lines) { return lines.size() <= sets.ways; });
  return chosen;
}

// Those that nobody has sorted into sets yet.
SliceLines unsorted_lines(const Interrogator& device, const SliceSets& sets, const SliceLines& lines) {
  std::set<SliceLine> sorted;
  for (const auto* of_sets : {&sets.sets, &sets.fresh_of_sets}) {
    for (const SliceLines& of_set : *of_sets) {
      for (const SliceLine sector : of_set) {
        sorted.insert(begin_of(device, sector, sets.line_bytes));
      }
    }
  }
  SliceLines unsorted;
  for (const SliceLine sector : lines) {
    const SliceLine line = begin_of(device, sector, sets.line_bytes);
    if (!sorted.contains(line)) {
      unsorted.push_back(line);
    }
  }
  return unsorted;
}

// Without lines that were misread to be of the set: those that others of it do not evict. Some of the others may be no
// lines of it either.
SliceLines confirmed_lines(SlicePlayer& player, const SliceLines& lines, std::uint32_t ways, model::Random& random) {
  constexpr std::size_t times = 5;
  constexpr std::ptrdiff_t least_evicted = 2;
  for (const SliceLine line : lines) {
    SliceLines others = lines;
    std::erase(others, line);
    for (std::size_t time = 0; time < times; ++time) {
      random.shuffle(others);
      player.load_all_of(
          {.line = line, .others = {others.begin(), others.begin() + static_cast<std::ptrdiff_t>(ways)}});
      player.is_gone(line);
      player.end_sequence();
    }
  }
  const std::vector<bool> gone = player.answers();
  SliceLines confirmed;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto first = gone.begin() + static_cast<std::ptrdiff_t>(i * times);
    if (std::count(first, first + static_cast<std::ptrdiff_t>(times), true) >= least_evicted) {
      confirmed.push_back(lines[i]);
    }
  }
  return confirmed;
}

// As many lines of each set as the one with the fewest has, beside those that fill it. Empty where these are too few.
std::vector<SliceSet> sets_of_cache(const std::vector<SliceLines>& of_sets, std::uint32_t ways) {
  const std::size_t fewest = std::ranges::min(of_sets, {}, &SliceLines::size).size();
  const std::size_t least = 5 * std::size_t{ways} / 2;  // one and a half time as many as fit, and what fills it
  if (fewest < least) {
    return {};
  }
  std::vector<SliceSet> cut;
  for (const SliceLines& lines : of_sets) {
    const auto others = lines.begin() + static_cast<std::ptrdiff_t>(fewest - ways);
    cut.push_back({.lines = {lines.begin(), others}, .others = {others, others + static_cast<std::ptrdiff_t>(ways)}});
  }
  return cut;
}

CacheClaims claims_of(const SliceAsCache& slice, const SliceSets& sets, std::size_t count, const CacheClaims& claims) {
  CacheClaims of_slice;
  of_slice.line_bytes.value = sets.line_bytes;
  of_slice.sector_bytes.value = claims.sector_bytes.value;
  of_slice.ways.value = std::vector<std::uint32_t>(count, sets.ways);
  of_slice.index.value = slice.index();
  of_slice.replacement.value = claims.replacement.value;
  of_slice.latency_cycles.value = claims.latency_cycles.value;
  of_slice.predicted_trials = claims.replacement.trials;
  return of_slice;
}

// Why nothing could be asked; none: it was.
std::optional<std::string> claim_accesses(Interrogator& device, const SortedSlice& known, CacheClaims& claims) {
  const SliceSets& sets = known.sets;
  constexpr const char* few_are_known =
      "what stores and hints do shows in sets of many lines, and of sets of a slice few are known";
  std::vector<SliceLines> of_sets = lines_of_any_sets(device, sets);
  if (of_sets.size() < 2) {
    return few_are_known;
  }
  const std::vector<SliceLines> more =
      members_among(device, known.view, of_sets, sets.ways, unsorted_lines(device, sets, known.lines));
  SlicePlayer player(device, known.view);
  model::Random random = stream(device.settings(), "lines of sets for stores");
  for (std::size_t set = 0; set < of_sets.size(); ++set) {
    of_sets[set].insert(of_sets[set].end(), more[set].begin(), more[set].end());
    of_sets[set] = confirmed_lines(player, of_sets[set], sets.ways, random);
  }
  const SliceLines waiting_set = std::move(of_sets.back());
  of_sets.pop_back();
  std::vector<SliceSet> cut = sets_of_cache(of_sets, sets.ways);
  if (cut.empty() || waiting_set.empty()) {
    return few_are_known;
  }
  const std::size_t count = cut.size();
  SliceAsCache slice(device, known.view, std::move(cut), sets.line_bytes, waiting_set.front());
  Settings settings = device.settings();
  settings.on_progress = [](const Progress&) {};
  Interrogator asker(Asker(slice, device.target(), settings), device.classifier());
  asker.choose_start();
  CacheClaims of_slice = claims_of(slice, sets, count, claims);
  claim_stores(asker, of_slice);
  claim_hints(asker, SetsAtStart::full, of_slice);
  if (of_slice.store) {
    claims.store = std::move(of_slice.store);
    claims.of_store = std::move(of_slice.of_store);
    claims.latency_cycles.value = of_slice.latency_cycles.value;
  }
  claims.hints = std::move(of_slice.hints);
  claims.set_asides = std::move(of_slice.set_asides);
  return std::nullopt;
}

template <class Value>
std::string learned_of(const char* leaf, std::optional<Value> model::CacheDescription::*member,
                       const std::optional<Claim<Value>>& claim) {
  return !claim ? "" : claim->value ? written_leaf(leaf, member, claim->value) : claim->reason;
}

// Where nothing was asked.
template <class Value>
void leave_open(std::optional<Claim<Value>>& claim, const std::string& reason) {
  claim.emplace();
  claim->reason = reason;
}

}  // namespace

void claim_slice_accesses(Interrogator& device, const SortedSlice& slice, CacheClaims& claims) {
  const bool takes_stores = device.is_among(device.facts().stored_targets);
  const bool takes_hints = device.is_among(device.facts().hinted_targets);
  if (!takes_stores && !takes_hints) {
    return;
  }
  device.inquire("sequences of loads and stores, and of loads with hints, of a few sets of a slice",
                 "which loads find what was stored, and what went for it, differs from rule to rule");
  std::optional<std::string> reason;
  try {
    reason = claim_accesses(device, slice, claims);
  } catch (const QuestionRefused& refused) {
    reason = refused.reason();
  }
  if (reason && takes_stores && !claims.store) {
    leave_open(claims.store, *reason);
  }
  if (reason && takes_hints && !claims.hints) {
    leave_open(claims.hints, *reason);
  }
  std::string learned = learned_of("store", &model::CacheDescription::store, claims.store);
  for (const std::string& more : {learned_of("hints", &model::CacheDescription::hints, claims.hints),
                                  learned_of("set_asides", &model::CacheDescription::set_asides, claims.set_asides)}) {
    learned += learned.empty() || more.empty() ? more : "; " + more;
  }
  device.learned(learned);
}

}  // namespace gpuinfer::infer
