// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/comparing/cache_sameness.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "infer/asking/gf2.hpp"
#include "infer/cache/index_fit.hpp"
#include "model/errors.hpp"
#include "model/policy_classes.hpp"
#include "model/policy_traits.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

using model::CacheDescription;
using model::LeafEvidence;
using model::Replacement;

bool same_row_space(const std::vector<std::uint64_t>& first, const std::vector<std::uint64_t>& second,
                    std::uint64_t bits) {
  const auto basis_of = [bits](const std::vector<std::uint64_t>& masks) {
    EchelonBasis basis;
    for (const std::uint64_t mask : masks) {
      basis.add(mask & bits);
    }
    return basis;
  };
  const EchelonBasis a = basis_of(first);
  const EchelonBasis b = basis_of(second);
  return a.rank() == b.rank() &&
         std::ranges::all_of(b.rows(), [&](std::uint64_t row) { return a.remainder(row) == 0; });
}

std::uint64_t exercised_mask(const CacheDescription& cache) {
  return cache.exercised_bits ? mask_of(*cache.exercised_bits) : ~std::uint64_t{0};
}

// Of which both descriptions say something: contiguous lines, and such that differ in any of the bits that took part.
std::vector<std::uint64_t> common_addresses(const CacheDescription& first, const CacheDescription& second,
                                            std::uint64_t bits) {
  constexpr std::size_t contiguous = std::size_t{1} << 16U;
  constexpr std::size_t random_ones = std::size_t{1} << 16U;
  constexpr std::uint64_t widest_bits = (std::uint64_t{1} << 57U) - 1;  // of virtual addresses
  constexpr std::uint64_t unknown_line_bytes = 32;
  const std::uint64_t line_bytes = std::min(first.line_bytes.value_or(second.line_bytes.value_or(unknown_line_bytes)),
                                            second.line_bytes.value_or(~std::uint64_t{0}));
  std::vector<std::uint64_t> addresses;
  const auto add_if_covered = [&](model::Address address) {
    if (covers(*first.index, address) && covers(*second.index, address)) {
      addresses.push_back(number_of(address));
    }
  };
  model::Random random(1);
  for (const CacheDescription* cache : {&first, &second}) {
    const model::CoveredRange range = covered(*cache->index);
    for (std::size_t i = 0; i < contiguous; ++i) {
      add_if_covered(model::Address{range.begin + i * line_bytes});
    }
    for (std::size_t i = 0; i < random_ones; ++i) {
      add_if_covered(
          model::Address{range.bytes ? range.begin + random.below(*range.bytes) : random() & bits & widest_bits});
    }
  }
  return addresses;
}

std::string sets_text(const std::vector<std::uint32_t>& ways) {
  return std::to_string(ways.size()) + " sets with " +
         std::to_string(std::accumulate(ways.begin(), ways.end(), std::uint64_t{0})) + " ways in all";
}

// The probabilities of the ways to be replaced, as intervals: as measured where that was, else as they are stated.
std::optional<std::vector<Interval>> victim_probabilities(const CacheDescription& cache, const LeafEvidence* evidence) {
  const Replacement& replacement = *cache.replacement;
  std::vector<Interval> intervals;
  if (evidence != nullptr && !evidence->details.victim_probability_intervals.empty()) {
    for (const auto& [least, most] : evidence->details.victim_probability_intervals) {
      intervals.push_back({.least = least, .most = most});
    }
    return intervals;
  }
  if (!draws_every_victim(replacement)) {
    return std::nullopt;
  }
  const bool are_equal =
      cache.ways && std::ranges::adjacent_find(*cache.ways, std::not_equal_to<>()) == cache.ways->end();
  for (const double share : long_run_shares(replacement, are_equal ? cache.ways->front() : 0)) {
    intervals.push_back({.least = share, .most = share});
  }
  return intervals.empty() ? std::nullopt : std::optional(intervals);
}

Judgement judge_chances(const CacheDescription& first, const LeafEvidence* first_evidence,
                        const CacheDescription& second, const LeafEvidence* second_evidence) {
  const auto a = victim_probabilities(first, first_evidence);
  const auto b = victim_probabilities(second, second_evidence);
  const bool are_alike = first.replacement->policy == second.replacement->policy ||
                         (draws_every_victim(*first.replacement) && draws_every_victim(*second.replacement));
  if (!are_alike || !a || !b || a->size() != b->size()) {
    return different();
  }
  // Proportions written with few digits.
  constexpr double rounding = 1e-6;
  const bool overlap = std::equal(a->begin(), a->end(), b->begin(), [](const Interval& x, const Interval& y) {
    return Interval{.least = x.least - rounding, .most = x.most + rounding}.overlaps(y);
  });
  return overlap ? same("the probabilities are as far as they are known")
                 : different("the probabilities of the ways differ");
}

// Of a set that begins empty: a line for each number.
std::string sequence_text(const std::vector<std::uint32_t>& lines) {
  constexpr std::size_t most_lines = 24;
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), most_lines); ++i) {
    text += i == 0 ? "" : " ";
    text += std::to_string(lines[i]);
  }
  return text + (lines.size() > most_lines ? " ..." : "");
}

// Whether a pointer that goes from set to set takes the sets of both in one order, wherever it begins in a bank:
// address bits that nobody knows add a number to those of the sets.
bool are_swept_alike(const CacheDescription& first, const CacheDescription& second,
                     const std::vector<std::uint64_t>& addresses) {
  const std::uint32_t banks = first.sweep->banks;
  const std::uint32_t sets = model::sets(*first.index);
  if (second.sweep->banks != banks || model::sets(*second.index) != sets || sets % banks != 0) {
    return false;
  }
  const std::uint32_t sets_of_bank = sets / banks;
  struct Other {
    std::uint32_t bank = 0;
    std::uint32_t further = 0;
    std::uint32_t flipped = 0;
    bool is_further = true;
    bool is_flipped = true;
  };
  std::map<std::uint32_t, Other> others;  // by bank
  return std::ranges::all_of(addresses, [&](std::uint64_t number) {
    const std::uint32_t a = set_of(*first.index, model::Address{number});
    const std::uint32_t b = set_of(*second.index, model::Address{number});
    const std::uint32_t place = a % sets_of_bank;
    const std::uint32_t other_place = b % sets_of_bank;
    const std::uint32_t further = (other_place + sets_of_bank - place) % sets_of_bank;
    const std::uint32_t flipped = place ^ other_place;
    const Other begun{.bank = b / sets_of_bank, .further = further, .flipped = flipped};
    Other& other = others.try_emplace(a / sets_of_bank, begun).first->second;
    other.is_further = other.is_further && other.further == further;
    other.is_flipped = other.is_flipped && other.flipped == flipped;
    return other.bank == begun.bank && (other.is_further || other.is_flipped);
  });
}

// Whether both split the addresses alike.
Judgement judge_splits(const CacheDescription& first, const CacheDescription& second) {
  const std::uint64_t bits = exercised_mask(first) & exercised_mask(second);
  const bool took_other_parts = first.exercised_bits != second.exercised_bits;
  const auto a = parities(*first.index);
  const auto b = parities(*second.index);
  if (a && b) {
    return same_row_space(*a, *b, bits) ? same(took_other_parts ? "on the address bits that both say something of" : "")
                                        : different("the addresses are split differently");
  }
  const std::vector<std::uint64_t> addresses = common_addresses(first, second, bits);
  if (addresses.empty()) {
    return {.verdict = Verdict::less_certain, .note = "no address is covered by both"};
  }
  return same_partition(*first.index, *second.index, addresses)
             ? same("on " + std::to_string(addresses.size()) + " addresses")
             : different("the addresses are split differently");
}

}  // namespace

Judgement judge_indices(const CacheDescription& first, const CacheDescription& second) {
  Judgement judgement = judge_splits(first, second);
  if (judgement.verdict == Verdict::same && first.sweep && second.sweep &&
      !are_swept_alike(first, second,
                       common_addresses(first, second, exercised_mask(first) & exercised_mask(second)))) {
    return different("the addresses are split alike, but the pointer takes the sets in another order");
  }
  return judgement;
}

Judgement judge_ways(const CacheDescription& first, const CacheDescription& second) {
  std::vector<std::uint32_t> a = *first.ways;
  std::vector<std::uint32_t> b = *second.ways;
  std::ranges::sort(a);
  std::ranges::sort(b);
  if (a != b) {
    return different(sets_text(a) + ", and " + sets_text(b));
  }
  if (a.front() == a.back()) {
    return same();
  }
  if (!first.index || !second.index || judge_indices(first, second).verdict != Verdict::same) {
    return same("but for which set has how many");
  }
  const std::uint64_t bits = exercised_mask(first) & exercised_mask(second);
  const bool alike = std::ranges::all_of(common_addresses(first, second, bits), [&](std::uint64_t number) {
    const model::Address address{number};
    return first.ways->at(set_of(*first.index, address)) == second.ways->at(set_of(*second.index, address));
  });
  return alike ? same() : different("other sets have them");
}

Judgement judge_policies(const CacheDescription& first, const LeafEvidence* first_evidence,
                         const CacheDescription& second, const LeafEvidence* second_evidence) {
  const Replacement& a = *first.replacement;
  const Replacement& b = *second.replacement;
  if (to_text(a) == to_text(b)) {
    return same();
  }
  const auto leaves_no_choice = [](const CacheDescription& cache) {
    return cache.ways && std::ranges::all_of(*cache.ways, [](std::uint32_t ways) { return ways == 1; });
  };
  if (leaves_no_choice(first) && leaves_no_choice(second)) {
    return same("sets of one way leave no choice");
  }
  if (!is_deterministic(a) || !is_deterministic(b)) {
    return is_deterministic(a) == is_deterministic(b) ? judge_chances(first, first_evidence, second, second_evidence)
                                                      : different("only one of them is random");
  }
  std::set<std::uint32_t> ways_of_sets;
  for (const auto* ways : {&first.ways, &second.ways}) {
    if (*ways) {
      ways_of_sets.insert((*ways)->begin(), (*ways)->end());
    }
  }
  if (ways_of_sets.empty()) {
    const bool named = std::ranges::find(a.equivalent, to_text(b)) != a.equivalent.end() ||
                       std::ranges::find(b.equivalent, to_text(a)) != b.equivalent.end();
    return named ? same("they behave alike") : different();
  }
  std::string note = "they behave alike";
  for (const std::uint32_t ways : ways_of_sets) {
    constexpr std::uint32_t ways_for_all_states = 8;
    const model::ComparisonLimits limits{.pairs_of_states = std::size_t{1}
                                                            << (ways <= ways_for_all_states ? 18U : 12U)};
    try {
      const model::Comparison comparison = model::compare(a, b, ways, limits);
      if (comparison.difference) {
        return different("the last of " + sequence_text(*comparison.difference) + " tells them apart in a set of " +
                         std::to_string(ways) + " ways");
      }
      if (comparison.depth_accesses) {
        note += ", in " + std::to_string(*comparison.depth_accesses) + " accesses at least";
      }
    } catch (const InputError&) {
      return different("one of them does not go with " + std::to_string(ways) + " ways");
    }
  }
  return same(note);
}

std::optional<CacheDescription> sizes_at_carveout(const CacheDescription& cache, std::uint32_t carveout_kb) {
  const auto found = std::ranges::find(cache.carveouts, carveout_kb, &model::Carveout::carveout_kb);
  if (found == cache.carveouts.end()) {
    return std::nullopt;
  }
  CacheDescription there = cache;
  there.carveout_kb = carveout_kb;
  there.onset_bytes = found->onset_bytes;
  there.resident_bytes = found->resident_bytes;
  there.store_lines = found->store_lines;
  there.capacity_bytes =
      found->store_lines && cache.line_bytes ? std::optional(*found->store_lines * *cache.line_bytes) : std::nullopt;
  return there;
}

}  // namespace gpuinfer::infer
