// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/claim_slice_sets.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "infer/asking/ending.hpp"
#include "infer/asking/stream.hpp"
#include "infer/slices/block_lines.hpp"
#include "infer/slices/fresh_evictions.hpp"
#include "infer/slices/slice_sets.hpp"
#include "model/policies/lru.hpp"

namespace gpuinfer::infer {

namespace {

using Sectors = std::vector<std::uint64_t>;

// Lines that no set was found for, or that are missing where they are counted: one in so many at most.
constexpr std::size_t rare = 100;

// How many lines that took no part in finding an index lie in other sets than it says, of those that it speaks of.
struct FreshLines {
  std::size_t asked = 0;
  std::size_t wrong = 0;
};
FreshLines held_against(const SetIndex& index, const SliceSets& sets) {
  FreshLines fresh;
  for (std::size_t set = 0; set < sets.sets.size(); ++set) {
    std::optional<std::uint32_t> said;
    for (const std::uint64_t line : sets.sets[set]) {
      said = said ? said : index.set_of(line);
    }
    for (const std::uint64_t line : sets.fresh_of_sets[set]) {
      const auto is = index.set_of(line);
      fresh.asked += is ? 1U : 0U;
      fresh.wrong += is && is != said ? 1U : 0U;
    }
  }
  return fresh;
}

class SliceSetClaims {
 public:
  SliceSetClaims(Interrogator& device, const FoundSlices& slices, CacheClaims& claims)
      : device_(&device), numbered_(&slices.numbered), sectors_(&slices.sectors), claims_(&claims),
        sector_bytes_(*claims.sector_bytes.value), hit_cycles_(device.classifier().hit_median_cycles()),
        miss_cycles_(device.classifier().miss_median_cycles()) {
    if (claims.partitions && claims.partitions->value && *claims.partitions->value) {
      partitions_ = **claims.partitions->value;
    }
  }

  [[nodiscard]] std::optional<SortedSlice> claim() {
    auto& slice_ways = claims_->slice_ways.emplace();
    const std::size_t questions_before = device_->questions_asked();
    const SliceView view = view_of(sectors_->front());
    FoundSliceSets found =
        find_slice_sets(*device_, view, without_strangers(some_of(sectors_->front()), view), sector_bytes_);
    slice_ways.questions = device_->questions_asked() - questions_before;
    if (!found.sets) {
      slice_ways.reason = std::move(found.reason);
      device_->learned(slice_ways.reason);
      return std::nullopt;
    }
    const SliceSets& sets = *found.sets;
    slice_ways.value.emplace(sets.sets.size(), sets.ways);
    slice_ways.trials = sets.fresh_in_one_set;
    slice_ways.details.fresh_lines = sets.fresh_lines;
    slice_ways.details.fresh_lines_in_one_set = sets.fresh_in_one_set;
    std::string learned = std::to_string(sets.sets.size()) + " sets of " + std::to_string(sets.ways) + " lines of " +
                          std::to_string(sets.line_bytes) + " bytes in a slice";
    if (!claims_->line_bytes.value) {
      claims_->line_bytes = {.value = sets.line_bytes,
                             .questions = slice_ways.questions,
                             .stands_alone = true,
                             .trials = sets.fresh_lines};
    }
    const bool is_lru = claim_policy(view, sets);
    if (is_lru) {
      learned += ", LRU in each; " + claim_capacity(sets);
    }
    device_->learned(learned);
    if (!is_lru) {
      return std::nullopt;
    }
    claim_index(sets);
    SliceLines lines = one_of_each_line(*device_, sectors_->front(), sets.line_bytes);
    return SortedSlice{.view = view, .sets = *std::move(found.sets), .lines = std::move(lines)};
  }

 private:
  // From the first ones on, as many as sets are looked for in.
  static Sectors some_of(const Sectors& sectors) {
    constexpr std::size_t most_sectors = 24000;
    return {sectors.begin(), sectors.begin() + static_cast<std::ptrdiff_t>(std::min(most_sectors, sectors.size()))};
  }

  // Of the unit of which the slice is near, which finds lines there that atomic additions have just taken home.
  SliceView view_of(const Sectors& sectors) {
    constexpr std::size_t lines_asked = 64;
    SliceView view{.unit = {}, .most_present_cycles = (hit_cycles_ + miss_cycles_) / 2};
    if (!partitions_ || partitions_->sms.size() < 2) {
      return view;
    }
    const Sectors some(sectors.begin(), sectors.begin() + static_cast<std::ptrdiff_t>(
                                                              std::min(lines_asked / 2 * 2, sectors.size() / 2 * 2)));
    model::Question home{.target = device_->target(), .state = model::StartState::keep, .warm = {}, .record = some};
    home.circumstances.contended_pairs = true;
    static_cast<void>(device_->latencies(std::span(&home, 1)));
    std::vector<float> cycles = loads_by(partitions_->sms[0].front(), {}, some);
    std::ranges::nth_element(cycles, cycles.begin() + static_cast<std::ptrdiff_t>(cycles.size() / 2));
    const bool is_near = cycles[cycles.size() / 2] < hit_cycles_ + partitions_->far_cycles / 2;
    view.unit = partitions_->sms[is_near ? 0 : 1].front();
    return view;
  }

  // Latencies of lines, each loaded once behind all of `warm`.
  std::vector<float> loads_by(std::optional<model::ComputeUnit> unit, Sectors warm, Sectors lines) {
    model::Question question{.target = device_->target(),
                             .state = model::StartState::keep,
                             .warm = std::move(warm),
                             .record = std::move(lines)};
    question.circumstances.unit = unit;
    return std::move(device_->latencies(std::span(&question, 1)).front());
  }

  // A line that is far although it was just loaded, from where its slice is near, is of another slice.
  Sectors without_strangers(const Sectors& sectors, const SliceView& view) {
    if (!partitions_) {
      return sectors;
    }
    constexpr std::size_t at_once = 1024;
    Sectors kept;
    for (std::size_t first = 0; first < sectors.size(); first += at_once) {
      const Sectors some(sectors.begin() + static_cast<std::ptrdiff_t>(first),
                         sectors.begin() + static_cast<std::ptrdiff_t>(std::min(sectors.size(), first + at_once)));
      const std::vector<float> cycles = loads_by(view.unit, some, some);
      for (std::size_t i = 0; i < some.size(); ++i) {
        if (cycles[i] < hit_cycles_ + partitions_->far_cycles / 2 || cycles[i] > view.most_present_cycles) {
          kept.push_back(some[i]);
        }
      }
    }
    return kept;
  }

  bool claim_policy(const SliceView& view, const SliceSets& sets) {
    const std::size_t questions_before = device_->questions_asked();
    prediction_ = predict_lru(*device_, view, sets.sets, sets.ways, stream(device_->settings(), "slice policy"));
    claims_->replacement.questions = device_->questions_asked() - questions_before;
    return state_policy();
  }

  // Whether LRU predicts nearly all.
  bool state_policy() {
    constexpr std::size_t one_wrong_in = 10000;
    const std::size_t questions = claims_->replacement.questions;
    if (prediction_.wrong * one_wrong_in > prediction_.accesses) {
      claims_->replacement = {.reason = "LRU predicts " + std::to_string(prediction_.accesses - prediction_.wrong) +
                                        " of " + std::to_string(prediction_.accesses) + " loads of sets of slices",
                              .questions = questions};
      return false;
    }
    claims_->replacement = {.value = model::plain<model::Lru>(),
                            .questions = questions,
                            .stands_alone = true,
                            .trials = prediction_.accesses};
    model::EvidenceDetails& details = claims_->replacement.details;
    details.fresh_sets = prediction_.sets;
    details.fresh_set_loads = prediction_.accesses;
    details.fresh_set_misses = prediction_.misses;
    details.fresh_set_loads_wrong = prediction_.wrong;
    details.fresh_set_loads_wrong_in_other_sets = prediction_.wrong_in_other_sets;
    return true;
  }

  // In slices of which the index alone says the sets.
  void predict_elsewhere(const SetIndex& index, const SliceSets& sets) {
    constexpr std::size_t slices_asked = 3;
    const std::size_t questions_before = device_->questions_asked();
    model::Random random = stream(device_->settings(), "policy in other slices");
    for (std::size_t i = 0; i < slices_asked && sectors_->size() > 1; ++i) {
      const Sectors& sectors = (*sectors_)[1 + random.below(sectors_->size() - 1)];
      std::vector<SliceLines> of_sets;
      for (auto& [set, lines] : by_set(index, sectors, sets.line_bytes)) {
        if (lines.size() > sets.ways) {
          of_sets.push_back(std::move(lines));
        }
      }
      if (!of_sets.empty()) {
        prediction_ += predict_lru(*device_, view_of(sectors), of_sets, sets.ways, random);
      }
    }
    claims_->replacement.questions += device_->questions_asked() - questions_before;
    state_policy();
  }

  // Each slice keeps as many lines as the one of which all sets are known, or says how many it keeps.
  std::string claim_capacity(const SliceSets& sets) {
    const std::size_t lines_of_slice = sets.sets.size() * sets.ways;
    const auto without = [&](const std::string& reason) {
      if (!claims_->ways.value) {
        claims_->ways.reason = claims_->capacity_bytes.reason = reason;
      }
      return reason;
    };
    if (!claims_->slices || claims_->slices->value != sectors_->size()) {
      return without("one slice was looked into, and which lines lie in the others is not known");
    }
    const std::size_t questions_before = device_->questions_asked();
    for (std::size_t slice = 0; slice < sectors_->size(); ++slice) {
      const SliceView view = view_of((*sectors_)[slice]);
      const Sectors lines =
          without_strangers(one_of_each_line(*device_, some_of((*sectors_)[slice]), sets.line_bytes), view);
      // What others load meanwhile drives lines out, at one time and not at all times.
      constexpr int attempts = 3;
      std::size_t present = 0;
      const auto is_off = [&] {
        const std::size_t off = std::max(present, lines_of_slice) - std::min(present, lines_of_slice);
        return off * rare > lines_of_slice;
      };
      for (int attempt = 0; attempt < attempts && is_off(); ++attempt) {
        present = count_present(*device_, view, lines);
      }
      if (is_off()) {
        return without("slice " + std::to_string(slice) + " keeps " + std::to_string(present) + " lines of " +
                       std::to_string(lines.size()) + ", and the sets of another one " +
                       std::to_string(lines_of_slice));
      }
    }
    const std::size_t asked = device_->questions_asked() - questions_before;
    claims_->ways = {.value = std::vector<std::uint32_t>(sectors_->size() * sets.sets.size(), sets.ways),
                     .questions = asked,
                     .trials = lines_of_slice};
    claims_->capacity_bytes = {
        .value = sectors_->size() * lines_of_slice * sets.line_bytes, .questions = asked, .trials = lines_of_slice};
    claims_->sets_are_counted = true;
    return std::to_string(sectors_->size()) + " slices keep " + std::to_string(lines_of_slice) + " lines each";
  }

  void claim_index(const SliceSets& sets) {
    device_->inquire("lines of many slices, and as many others as a set has ways",
                     "which of them are evicted follows from the set that an index says of each");
    const std::size_t questions_before = device_->questions_asked();
    auto& claim = claims_->index;
    try {
      claim.reason = find_index(sets);
    } catch (const QuestionRefused& refused) {
      claim.reason = refused.reason();
    }
    claim.questions = device_->questions_asked() - questions_before;
    device_->learned(claim.value ? to_text(*claim.value) : claim.reason);
  }

  // Why there is none.
  [[nodiscard]] std::string find_index(const SliceSets& sets) {
    constexpr std::size_t one_wrong_in = 1000;
    if (!*numbered_) {
      return "no number of a line shows in blocks of 2 MB of which slices are what is left when it is divided";
    }
    const FoundSetIndex found = find_set_index(**numbered_, sets.sets, sets.line_bytes);
    if (!found.sets) {
      return found.reason;
    }
    const auto is_refuted = [&](std::size_t wrong, std::size_t asked) {
      return asked == 0 || wrong * one_wrong_in > asked;
    };
    const FreshLines lines = held_against(*found.sets, sets);
    if (is_refuted(lines.wrong, lines.asked)) {
      return "of " + std::to_string(lines.asked) + " fresh lines " + std::to_string(lines.wrong) +
             " lie in other sets than the index says";
    }
    const FreshEvictions evictions = fresh_evictions(*found.sets, sets);
    if (is_refuted(evictions.wrong, evictions.asked)) {
      return "of " + std::to_string(evictions.asked) + " fresh sets of lines of all slices " +
             std::to_string(evictions.wrong) + " evict otherwise than the index says";
    }
    claims_->index.value =
        named_as_runs_do(found.sets->index, std::get<model::HashIndex>(claims_->slice_index->value->index));
    claims_->index.stands_alone = true;
    claims_->index.trials = evictions.asked;
    claims_->index.details.fresh_evictions = evictions.asked;
    claims_->index.details.fresh_evictions_wrong = evictions.wrong;
    claims_->exercised_bits = bits_between(sets.line_bytes, BlockLines::block_bytes * found.sets->blocks.size());
    predict_elsewhere(*found.sets, sets);
    return "";
  }

  // Address bits that differ between lines of an array of so many bytes.
  [[nodiscard]] static std::vector<unsigned> bits_between(std::uint64_t line_bytes, std::uint64_t bytes) {
    std::vector<unsigned> bits;
    for (auto bit = static_cast<unsigned>(std::countr_zero(line_bytes)); (std::uint64_t{2} << bit) <= bytes; ++bit) {
      bits.push_back(bit);
    }
    return bits;
  }

  [[nodiscard]] LinesBySet by_set(const SetIndex& index, const Sectors& sectors, std::uint64_t line_bytes) const {
    LinesBySet lines;
    for (const std::uint64_t line : one_of_each_line(*device_, sectors, line_bytes)) {
      if (const auto set = index.set_of(line)) {
        lines[*set].push_back(line);
      }
    }
    return lines;
  }

  // In slices other than the first, the sets of which are known.
  [[nodiscard]] FreshEvictions fresh_evictions(const SetIndex& index, const SliceSets& sets) {
    constexpr std::size_t slices_asked = 8;
    constexpr std::size_t evictions_of_slice = 625;
    model::Random random = stream(device_->settings(), "evictions in slices");
    FreshEvictions all;
    for (std::size_t i = 0; i < slices_asked && sectors_->size() > 1; ++i) {
      const Sectors& sectors = (*sectors_)[1 + random.below(sectors_->size() - 1)];
      const LinesBySet lines = by_set(index, sectors, sets.line_bytes);
      const FreshEvictions some =
          ask_fresh_evictions(*device_, view_of(sectors), lines, sets.ways, evictions_of_slice, random);
      all.asked += some.asked;
      all.wrong += some.wrong;
    }
    return all;
  }

  Interrogator* device_;
  const std::optional<NumberedBlocks>* numbered_;
  const std::vector<Sectors>* sectors_;
  CacheClaims* claims_;
  std::uint64_t sector_bytes_;
  double hit_cycles_;
  double miss_cycles_;
  std::optional<model::Partitions> partitions_;
  LruPrediction prediction_;
};

}  // namespace

std::optional<SortedSlice> claim_slice_sets(Interrogator& device, const FoundSlices& slices, CacheClaims& claims) {
  if (slices.sectors.empty() || !claims.sector_bytes.value) {
    return std::nullopt;
  }
  device.report("sets of a slice", 0.3);
  device.inquire("a line of a slice, others of the slice after it, and the line once more",
                 "the fewest others that drive it out are its set");
  try {
    return SliceSetClaims(device, slices, claims).claim();
  } catch (const QuestionRefused& refused) {
    claims.slice_ways->reason = refused.reason();
    device.learned(claims.slice_ways->reason);
    return std::nullopt;
  }
}

}  // namespace gpuinfer::infer
