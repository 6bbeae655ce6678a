// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/cyclic_hypotheses.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_set>

#include "infer/asking/thresholds.hpp"
#include "infer/asking/written_leaf.hpp"
#include "infer/cache/index_fit.hpp"
#include "infer/recordings/validate.hpp"
#include "model/cache_simulator.hpp"

namespace gpuinfer::infer {

namespace {

using model::CacheDescription;
using model::EvidenceStatus;
using model::Trace;

constexpr std::uint64_t most_sectors_per_line = 8;
constexpr unsigned most_index_bits = 6;

// A cache as it may be.
struct Hypothesis {
  CacheDescription cache;
  std::set<std::uint32_t> overflowed_sets;
  bool is_bracketed = false;  // by what fits and what does not, of which no other number of ways lies in between
};

// Of a warm recording: how often each fill that was loaded missed, by the address of its first byte.
struct FillMisses {
  std::map<std::uint64_t, std::size_t> misses;
  std::size_t accesses = 0;
};

std::vector<FillMisses> misses_of_fills(const ReadTraces& all) {
  std::vector<FillMisses> fills;
  for (const ReadTrace& read : all.traces) {
    if (read.is_warm) {
      const model::AccessSequence& record = read.trace->question.record;
      FillMisses& of_recording = fills.emplace_back();
      of_recording.accesses = record.size();
      for (std::size_t i = 0; i < record.size(); ++i) {
        all.loop.step();
        of_recording.misses[number_of(aligned_down(all.address_of_buffer + record[i], all.fill.bytes))] +=
            read.readings[i] == Reading::miss ? 1U : 0U;
      }
    }
  }
  return fills;
}

// How many ways the recordings allow under an index.
struct WaysBracket {
  std::size_t at_least = 1;  // as many lines as a set held without a miss
  std::size_t fewer_than = ~std::size_t{0};
  std::set<std::uint32_t> overflowed;

  [[nodiscard]] bool allows_any() const { return at_least < fewer_than && fewer_than <= 65'536; }
};

WaysBracket bracket_of(const model::BitsIndex& index, std::uint64_t line_bytes, const std::vector<FillMisses>& fills) {
  struct OfSet {
    std::set<std::uint64_t> lines;
    std::size_t misses = 0;
  };
  WaysBracket bracket;
  for (const FillMisses& of_recording : fills) {
    std::map<std::uint32_t, OfSet> of_sets;
    for (const auto& [fill_address, misses] : of_recording.misses) {
      OfSet& of_set = of_sets[index.set_of(model::Address{fill_address})];
      of_set.lines.insert(fill_address / line_bytes);
      of_set.misses += misses;
    }
    for (const auto& [set, of_set] : of_sets) {
      if (of_set.misses > few_misreads(of_recording.accesses)) {
        bracket.fewer_than = std::min(bracket.fewer_than, of_set.lines.size());
        bracket.overflowed.insert(set);
      } else {
        bracket.at_least = std::max(bracket.at_least, of_set.lines.size());
      }
    }
  }
  return bracket;
}

void add_hypotheses(const model::BitsIndex& index, std::uint64_t line_bytes, const std::vector<FillMisses>& fills,
                    std::uint64_t fill_bytes, std::vector<Hypothesis>& hypotheses) {
  const WaysBracket bracket = bracket_of(index, line_bytes, fills);
  if (!bracket.allows_any()) {
    return;
  }
  for (const std::size_t ways : std::set<std::size_t>{bracket.at_least, bracket.fewer_than - 1}) {
    const std::vector<std::uint32_t> all_ways(index.sets(), static_cast<std::uint32_t>(ways));
    for (const model::Replacement& policy : model::plain_policies(all_ways)) {
      Hypothesis& hypothesis = hypotheses.emplace_back();
      hypothesis.overflowed_sets = bracket.overflowed;
      hypothesis.is_bracketed = bracket.at_least + 1 == bracket.fewer_than;
      CacheDescription& cache = hypothesis.cache;
      cache.line_bytes = line_bytes;
      cache.sector_bytes = fill_bytes;
      cache.ways = all_ways;
      cache.capacity_bytes = line_bytes * all_ways.front() * all_ways.size();
      cache.index = index;
      cache.replacement = policy;
    }
  }
}

std::vector<Hypothesis> all_hypotheses(const ReadTraces& all, const model::LatencyCycles& latency_cycles) {
  const std::vector<FillMisses> fills = misses_of_fills(all);
  std::vector<Hypothesis> hypotheses;
  for (std::uint64_t sectors = 1; sectors <= most_sectors_per_line; sectors *= 2) {
    const std::uint64_t line_bytes = sectors * all.fill.bytes;
    const auto line_bit = static_cast<unsigned>(std::countr_zero(line_bytes));
    for (unsigned bits = 0; bits <= most_index_bits; ++bits) {
      for (unsigned lowest = line_bit; lowest < line_bit + 12 && (bits > 0 || lowest == line_bit); ++lowest) {
        model::BitsIndex index;
        for (unsigned bit = 0; bit < bits; ++bit) {
          index.bits.push_back(lowest + bit);
        }
        add_hypotheses(index, line_bytes, fills, all.fill.bytes, hypotheses);
      }
    }
  }
  for (Hypothesis& hypothesis : hypotheses) {
    hypothesis.cache.latency_cycles = latency_cycles;
  }
  return hypotheses;
}

// A recording, or the first accesses of one, as it is compared with many hypotheses.
struct Compared {
  const Trace* trace = nullptr;
  std::vector<Reading> readings;
  std::size_t most_wrong = 0;  // of a beginning: what explains the whole recording gets no more wrong
};

// All recordings, and the beginnings of those that are long and whose outcomes depend on nothing that comes later.
struct AllCompared {
  std::vector<Compared> beginnings;
  std::vector<Compared> whole;
  std::deque<Trace> shortened;
};

AllCompared all_compared(const ReadTraces& read_traces, const model::LatencyCycles& latency_cycles) {
  constexpr std::ptrdiff_t first_accesses = 20'000;
  AllCompared all;
  for (const ReadTrace& read : read_traces.traces) {
    const Compared& whole = all.whole.emplace_back(
        Compared{.trace = read.trace, .readings = read_levels(*read.trace, latency_cycles), .most_wrong = 0});
    const auto accesses = static_cast<std::ptrdiff_t>(whole.readings.size());
    const model::Question& question = whole.trace->question;
    if (accesses < 4 * first_accesses || !whole.trace->start_is_known || model::may_hold_others(question.state)) {
      continue;
    }
    Trace& shortened = all.shortened.emplace_back();
    shortened.question = {.target = question.target,
                          .state = question.state,
                          .warm = question.warm,
                          .record = {question.record.begin(), question.record.begin() + first_accesses}};
    all.beginnings.push_back({.trace = &shortened,
                              .readings = {whole.readings.begin(), whole.readings.begin() + first_accesses},
                              .most_wrong = static_cast<std::size_t>(
                                  std::ceil((1 - least_voted_agreement) * static_cast<double>(accesses)))});
  }
  return all;
}

bool explains_all(const CacheDescription& cache, const AllCompared& compared, model::Address address_of_buffer,
                  std::uint64_t seed) {
  const auto agreement_with = [&](const Compared& one) {
    return validate(cache, *one.trace, one.readings, address_of_buffer, seed);
  };
  const auto is_out = [&](const Compared& beginning) {
    const Agreement agreement = agreement_with(beginning);
    return agreement.accesses - agreement.outliers - agreement.undetermined - agreement.agreeing > beginning.most_wrong;
  };
  return std::ranges::none_of(compared.beginnings, is_out) &&
         std::ranges::all_of(compared.whole, [&](const Compared& whole) {
           return agreement_with(whole).share() >= least_voted_agreement;
         });
}

std::vector<Hypothesis> survivors_of(std::vector<Hypothesis> hypotheses, const ReadTraces& all,
                                     const Settings& settings, const Scorer& scorer) {
  constexpr std::size_t at_once = 64;
  std::vector<Hypothesis> survivors;
  if (hypotheses.empty()) {
    return survivors;
  }
  const AllCompared compared = all_compared(all, hypotheses.front().cache.latency_cycles);
  for (std::size_t first = 0; first < hypotheses.size(); first += at_once) {
    check_time(settings);
    const std::vector<Scored> scored = scorer(std::min(at_once, hypotheses.size() - first), [&](std::size_t i) {
      const CacheDescription& cache = hypotheses[first + i].cache;
      return Scored{.wrong = explains_all(cache, compared, all.address_of_buffer, settings.seed) ? 0U : 1U,
                    .variant = 0};
    });
    for (std::size_t i = 0; i < scored.size(); ++i) {
      if (scored[i].wrong == 0) {
        survivors.push_back(std::move(hypotheses[first + i]));
      }
    }
  }
  return survivors;
}

// Whether a warm recording loads one half of an aligned block, and not the other.
bool loads_halves_of(std::uint64_t block_bytes, const ReadTraces& all) {
  return std::ranges::any_of(all.traces, [&](const ReadTrace& read) {
    std::unordered_set<std::uint64_t> blocks;
    std::unordered_set<std::uint64_t> halves;
    for (const std::uint64_t offset : read.trace->question.record) {
      all.loop.step();
      const model::Address address = all.address_of_buffer + offset;
      blocks.insert(address / block_bytes);
      halves.insert(address / (block_bytes / 2));
    }
    return read.is_warm && halves.size() < 2 * blocks.size();
  });
}

// Whether lines half and twice as long would have made a difference. Lines are no shorter than what a miss brings.
bool shows_lines_of(std::uint64_t line_bytes, const ReadTraces& all) {
  return (line_bytes <= all.fill.bytes || loads_halves_of(line_bytes, all)) && loads_halves_of(2 * line_bytes, all);
}

std::vector<std::uint64_t> recorded_lines(std::uint64_t line_bytes, const ReadTraces& all) {
  std::vector<std::uint64_t> lines;
  for (const ReadTrace& read : all.traces) {
    for (const std::uint64_t offset : read.trace->question.record) {
      lines.push_back(number_of(aligned_down(all.address_of_buffer + offset, line_bytes)));
    }
  }
  return lines;
}

// `unseen`: what keeps even a value that all survivors share from being proven; empty: nothing.
template <class Value>
void settle(const char* leaf, std::optional<Value> CacheDescription::*member, const std::string& unseen,
            const std::vector<Hypothesis>& survivors, const RecordedLeaves& leaves) {
  std::vector<std::string> values;
  for (const Hypothesis& survivor : survivors) {
    std::string value = written_leaf(leaf, member, survivor.cache.*member);
    if (std::ranges::find(values, value) == values.end()) {
      values.push_back(std::move(value));
    }
  }
  if (values.size() == 1 && unseen.empty()) {
    leaves.cache().*member = survivors.front().cache.*member;
    leaves.resolve(leaf);
    return;
  }
  leaves.open(leaf, EvidenceStatus::ambiguous,
              unseen.empty() ? "several hypotheses explain every recorded access" : unseen, {}, std::move(values));
}

void name_deciding_experiments(const std::vector<Hypothesis>& survivors, bool every_set_overflowed,
                               std::size_t fills_of_gap, std::uint64_t fill_bytes, const RecordedLeaves& leaves) {
  const auto [shortest, longest] = std::ranges::minmax_element(
      survivors, {}, [](const Hypothesis& hypothesis) { return *hypothesis.cache.line_bytes; });
  const auto lines_of = [](const CacheDescription& cache) {
    return std::to_string(*cache.capacity_bytes / *cache.line_bytes);
  };
  const std::string longest_line = std::to_string(*longest->cache.line_bytes);
  if (!leaves.cache().line_bytes) {
    leaves["line_bytes"].decided_by = "one load per " + longest_line + " bytes: " + lines_of(shortest->cache) +
                                      " such loads fit if lines have " + std::to_string(*shortest->cache.line_bytes) +
                                      " bytes, " + lines_of(longest->cache) + " if they have " + longest_line;
  }
  if (!every_set_overflowed) {
    const std::uint64_t all_overflow =
        *longest->cache.capacity_bytes + ((longest->cache.ways->size() - 1) * fills_of_gap + 1) * fill_bytes;
    for (const char* leaf : {"capacity_bytes", "ways", "index"}) {
      leaves[leaf].decided_by = "a cyclic chase over " + std::to_string(all_overflow) +
                                " bytes, at which every set must miss if there are no more lines and sets than these";
    }
  }
  if (!leaves.cache().replacement) {
    leaves["replacement"].decided_by =
        "fill a set, touch its first line again, load one more line, and look whether the first or the second is gone";
  }
}

// What the recordings did not show; empty: nothing is missing.
struct Unseen {
  bool every_set_overflowed = false;
  std::string of_lines;
  std::string of_sets;
};

Unseen unseen_by(const std::vector<Hypothesis>& survivors, const ReadTraces& all) {
  Unseen unseen;
  // Sets that never overflowed may hold more than their lines, or be one: nothing was seen of them.
  unseen.every_set_overflowed = std::ranges::all_of(survivors, [](const Hypothesis& survivor) {
    return survivor.overflowed_sets.size() == survivor.cache.ways->size();
  });
  const bool shows_lines = std::ranges::all_of(
      survivors, [&](const Hypothesis& survivor) { return shows_lines_of(*survivor.cache.line_bytes, all); });
  unseen.of_lines = shows_lines ? ""
                                : "no half of such a line, or no single one of two neighbours, is loaded by itself, so "
                                  "lines of another size are not ruled out";
  unseen.of_sets = !unseen.every_set_overflowed
                       ? "sets that never overflow in the recordings may hold more lines, and may be one set"
                   : !std::ranges::all_of(survivors, &Hypothesis::is_bracketed)
                       ? "the recordings leave room for numbers of ways between those that were tried"
                       : unseen.of_lines;
  return unseen;
}

void settle_all(const std::vector<Hypothesis>& survivors, const FillFates& fates, const ReadTraces& all,
                const RecordedLeaves& leaves) {
  const Unseen unseen = unseen_by(survivors, all);
  settle("line_bytes", &CacheDescription::line_bytes, unseen.of_lines, survivors, leaves);
  settle("capacity_bytes", &CacheDescription::capacity_bytes, unseen.of_sets, survivors, leaves);
  settle("ways", &CacheDescription::ways, unseen.of_sets, survivors, leaves);
  settle("index", &CacheDescription::index, unseen.of_sets, survivors, leaves);
  if (leaves.cache().index) {
    leaves.cache().exercised_bits = exercised_bits(recorded_lines(*survivors.front().cache.line_bytes, all));
  }
  if (survivors.size() == 1) {
    leaves["replacement"].details.deterministic = true;
  }
  settle("replacement", &CacheDescription::replacement, "", survivors, leaves);
  name_deciding_experiments(survivors, unseen.every_set_overflowed, fates.shortest_run, all.fill.bytes, leaves);
}

}  // namespace

bool explain_cyclic(const ReadTraces& all, const FillFates& fates, const Settings& settings, const Scorer& scorer,
                    const RecordedLeaves& leaves) {
  settings.on_progress({.finding = "hypotheses", .done = 0.3, .questions = 0, .accesses = 0});
  const auto survivors = survivors_of(all_hypotheses(all, leaves.cache().latency_cycles), all, settings, scorer);
  if (survivors.empty()) {
    leaves.open_description(EvidenceStatus::unknown,
                            fates.mixed > 0
                                ? "no deterministic policy with a bit-field index explains the recordings; lines miss "
                                  "in some laps and hit in others"
                                : "no bit-field index with equal sets explains the recordings",
                            "an inference on the device itself, which asks for what is missing");
    return false;
  }
  settle_all(survivors, fates, all, leaves);
  return true;
}

}  // namespace gpuinfer::infer
