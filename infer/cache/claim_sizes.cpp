// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/claim_sizes.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "infer/asking/stream.hpp"
#include "infer/cache/conclude.hpp"
#include "infer/cache/granularity.hpp"
#include "infer/cache/known_outcomes.hpp"
#include "infer/cache/latency_levels.hpp"
#include "infer/cache/lines_present.hpp"
#include "infer/cache/outer_index.hpp"
#include "infer/cache/outer_policy.hpp"
#include "infer/cache/outer_sets.hpp"
#include "infer/cache/rare_departures.hpp"
#include "infer/cache/whole_lines.hpp"
#include "model/description_yaml.hpp"

namespace gpuinfer::infer {

std::optional<LevelClassifier> claim_latency(Asker& asker, Spans spans, CacheClaims& claims,
                                             std::vector<Warning>& warnings) {
  asker.report("hit and miss latencies", 0.01);
  LatencyLevels levels;
  claims.latency_cycles = counted_as_trials(asker, [&] {
    levels = find_latency_levels(asker, spans);
    return Claim<model::LatencyCycles>{.value = levels.cycles, .reason = levels.reason};
  });
  if (levels.warning) {
    warnings.emplace_back(*levels.warning);
  }
  return std::move(levels.classifier);
}

FillGranularity claim_sector(Interrogator& asker, CacheClaims& claims, Doubts& doubts) {
  asker.report("fill granularity", 0.03);
  asker.inquire("a second load at growing distances from one that missed, and a cold walk",
                "loads inside one fill cannot say anything about room");
  FillGranularity fill;
  claims.sector_bytes = counted_as_trials(asker, [&] {
    fill = find_fill_granularity(asker);
    if (fill.runs_ahead) {
      doubts[Doubt::undescribed] =
          "some misses of an ascending walk bring what lies ahead as well, and by what rule is not known";
    }
    return Claim<Bytes>{.value = fill.sector_bytes, .reason = fill.reason};
  });
  asker.learned(claims.sector_bytes.value ? "a miss brings " + std::to_string(*claims.sector_bytes.value) + " bytes"
                                          : claims.sector_bytes.reason);
  if (claims.sector_bytes.value) {
    asker.set_fill_granularity(*claims.sector_bytes.value);
  }
  return fill;
}

namespace {

Claim<Bytes> onset_of(Interrogator& asker, Conflicts& conflicts, Bytes sector_bytes) {
  asker.inquire("contiguous arrays of growing size, loaded again and again", "halving finds the onset of misses");
  Onset onset = find_onset(asker, conflicts, sector_bytes, aligned_start(asker));
  // Among many ways, chance keeps strange lines for long.
  if (!onset.repeats && asker.starts_flooded()) {
    conflicts.warm_up_longer();
    onset = find_onset(asker, conflicts, sector_bytes, aligned_start(asker));
  }
  asker.learned(!onset.granules ? "the whole buffer fits"
                                : std::to_string(*onset.granules * sector_bytes) + " bytes fit" +
                                      (onset.repeats ? "" : ", but not every time"));
  if (!onset.granules) {
    return {.reason = "all " + std::to_string(onset.largest_tried * sector_bytes) +
                      " bytes of the buffer fit; a larger buffer is needed"};
  }
  if (!onset.repeats) {
    return {.reason = "the same contiguous array sometimes fits and sometimes does not"};
  }
  return {.value = *onset.granules * sector_bytes};
}

}  // namespace

void claim_onset(Interrogator& asker, Conflicts& conflicts, CacheClaims& claims) {
  claims.onset_bytes = counted_as_trials(asker, [&] { return onset_of(asker, conflicts, *claims.sector_bytes.value); });
}

void confirm_onset_elsewhere(Interrogator& asker, Conflicts& conflicts, const CacheClaims& claims, Doubts& doubts) {
  const Bytes sector_bytes = *claims.sector_bytes.value;
  constexpr Bytes sectors_on = 5;
  asker.inquire("the same from another place on", "an onset that holds at one place only says little");
  const Onset onset = find_onset(asker, conflicts, sector_bytes, aligned_start(asker) + sectors_on * sector_bytes);
  const bool is_confirmed =
      onset.repeats && onset.granules && *onset.granules * sector_bytes == *claims.onset_bytes.value;
  asker.learned(is_confirmed ? "as many bytes fit" : "another number of bytes fits");
  if (is_confirmed) {
    doubts.erase(Doubt::onset_unconfirmed);
  } else {
    doubts[Doubt::onset_unconfirmed] =
        "the onset depends on the base address: another array of so many bytes did not fit";
  }
}

void claim_capacity(CacheClaims& claims) {
  if (const auto& ways = claims.ways; ways.value) {
    const Bytes lines = std::reduce(ways.value->begin(), ways.value->end(), Bytes{0});
    claims.capacity_bytes = {.value = lines * *claims.line_bytes.value,
                             .questions = ways.questions,
                             .trials = ways.trials,
                             .tested = ways.tested};
  }
}

void claim_line_of_one_sector(Interrogator& asker, CacheClaims& claims) {
  const Bytes sector_bytes = *claims.sector_bytes.value;
  asker.report("line size once more", 0.92);
  asker.inquire("random loads of one sector of each pair of neighbours, and of both of half as many",
                "as often as their line is present they hit, whatever the policy");
  const std::size_t questions_before = asker.questions_asked();
  constexpr Bytes few_lines = 64;
  SectorRoom room;
  try {
    room = find_sector_room(asker, sector_bytes,
                            claims.onset_bytes.value.value_or(few_lines * sector_bytes) / sector_bytes);
  } catch (const QuestionRefused&) {
    asker.learned("not recorded");
    return;
  }
  bool is_line = room.is_alone;
  if (is_line) {
    model::Random random = stream(asker.settings(), "sectors that may be lines");
    // Somewhat more than fit, so that they go and come back.
    const Bytes sectors = (asker.buffer().bytes - aligned_start(asker)) / sector_bytes;
    Offsets lines;
    for (Bytes line = 0; line < room.present + room.present / 2 + 1; ++line) {
      lines.push_back(aligned_start(asker) + random.below(sectors) * sector_bytes);
    }
    std::ranges::sort(lines);
    lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
    is_line = check_whole_lines(asker, lines, sector_bytes, sector_bytes).holds;
  }
  asker.learned(is_line ? "each sector takes room of its own" : "they do not tell that each takes room of its own");
  if (is_line) {
    claims.line_bytes = {.value = sector_bytes,
                         .questions = asker.questions_asked() - questions_before,
                         .stands_alone = true,
                         .trials = room.loads};
  }
}

void doubt_long_line(Interrogator& asker, const CacheClaims& claims, Doubts& doubts) {
  const Bytes line_bytes = *claims.line_bytes.value;
  asker.report("line size once more", 0.92);
  asker.inquire("random loads of one part of each line, and of two, of more lines than fit",
                "whatever becomes of lines, their sectors come and go together");
  model::Random random = stream(asker.settings(), "lines that may be several");
  const Bytes first = bytes_to_next(asker.buffer().address, line_bytes);
  const Bytes lines_of_buffer = (asker.buffer().bytes - first) / line_bytes;
  const Bytes lines_that_fit = *claims.onset_bytes.value / line_bytes;
  std::set<Bytes> numbers;
  for (Bytes drawn = 0; drawn < lines_that_fit + lines_that_fit / 2 + 1; ++drawn) {
    numbers.insert(random.below(lines_of_buffer));
  }
  Offsets lines;
  std::ranges::transform(numbers, std::back_inserter(lines), [&](Bytes number) { return first + number * line_bytes; });
  WholenessCheck check;
  try {
    check = check_whole_lines(asker, lines, line_bytes, *claims.sector_bytes.value);
  } catch (const QuestionRefused&) {
    asker.learned("not recorded");
    return;
  }
  asker.learned(check.holds ? "they do" : "they do not");
  if (!check.holds) {
    doubts[Doubt::line_uncertain] = "of " + std::to_string(check.loads) + " loads of lines of " +
                                    std::to_string(line_bytes) + " bytes the rest of which was present or absent, " +
                                    std::to_string(check.torn) + " found the other part otherwise";
  }
}

void claim_room(Interrogator& asker, CacheClaims& claims) {
  const Bytes line_bytes = *claims.line_bytes.value;
  asker.report("capacity by random loads", 0.93);
  asker.inquire("random loads of six and of twelve times the lines that may fit, and what hits right after them",
                "where the cache is always full, as many are present on average as there is room for");
  const std::size_t questions_before = asker.questions_asked();
  constexpr Bytes few_lines = 64;
  LinesPresent present;
  try {
    present =
        count_lines_present(asker, line_bytes, claims.onset_bytes.value.value_or(few_lines * line_bytes) / line_bytes);
  } catch (const QuestionRefused&) {
    asker.learned("not recorded");
    return;
  }
  asker.learned(present.lines ? "there is room for " + std::to_string(*present.lines) + " lines" : present.reason);
  if (present.lines) {
    claims.capacity_bytes = {.value = *present.lines * line_bytes,
                             .questions = asker.questions_asked() - questions_before,
                             .stands_alone = true,
                             .trials = present.loads};
  }
}

namespace {

// Contiguous lines from aligned_start() on, before one meets a full set.
Bytes lines_that_fit(const Interrogator& asker, const model::IndexFunction& index,
                     const std::vector<std::uint32_t>& ways, Bytes line_bytes) {
  std::vector<std::uint32_t> room = ways;
  const Bytes lines_of_buffer = (asker.buffer().bytes - aligned_start(asker)) / line_bytes;
  for (Bytes line = 0; line < lines_of_buffer; ++line) {
    std::uint32_t& left = room[model::set_of(index, asker.address_of(aligned_start(asker) + line * line_bytes))];
    if (left == 0) {
      return line;
    }
    --left;
  }
  return lines_of_buffer;
}

// Sets and index say how many contiguous lines fit. Where these fitted in laps, but for a few more at most, which the
// nearer level answered for, they are the onset; an onset that was measured otherwise was disturbed.
void claim_onset_of_sets(const Interrogator& asker, const OuterSetsFit& sets, CacheClaims& claims) {
  const Bytes line_bytes = *claims.line_bytes.value;
  const Bytes lines = lines_that_fit(asker, *claims.index.value, *claims.ways.value, line_bytes);
  if (lines <= sets.fitting && sets.fitting - lines <= sets.hidden) {
    claims.onset_bytes = {.value = lines * line_bytes,
                          .questions = claims.ways.questions,
                          .stands_alone = true,
                          .trials = claims.ways.trials};
  }
}

void claim_outer_index(Interrogator& asker, const std::vector<Overfull>& sets, CacheClaims& claims) {
  const Bytes sector_bytes = *claims.sector_bytes.value;
  asker.inquire("lines of a window and from everywhere, while random halves of the sets overflow",
                "where they miss and where they hit tells to which set each goes");
  claims.index = counted(asker, [&]() -> Claim<model::IndexFunction> {
    const OuterIndexFit found = find_outer_index(asker, sector_bytes, sets);
    if (!found.fit) {
      asker.learned(found.reason);
      if (found.meets_other_sets) {
        const std::string reason = found.reason + " that was counted";
        claims.ways = {.alternatives = {*claims.ways.value}, .reason = reason, .questions = claims.ways.questions};
        claims.capacity_bytes = {.reason = reason};
      }
      return {.reason = found.reason};
    }
    asker.learned(std::to_string(found.lines) + " lines go where " + model::to_flow_yaml(found.fit->index) + " says");
    for (std::size_t set = 0; set < sets.size(); ++set) {
      (*claims.ways.value)[set] = ways_of(sets[found.fit->name_of_set[set]]);
    }
    claims.exercised_bits = found.fit->exercised_bits;
    return {.value = found.fit->index,
            .trials = found.lines,
            .bound = bound_of(odd_lines_below(static_cast<double>(found.lines),
                                              static_cast<double>(asker.buffer().bytes / sector_bytes)))};
  });
}

void claim_outer_replacement(Interrogator& asker, CacheClaims& claims) {
  asker.report("replacement policy", 0.7);
  claims.replacement = counted(asker, [&]() -> Claim<model::Replacement> {
    try {
      return claim_outer_policy(asker, claimed_cache(claims));
    } catch (const QuestionRefused& refused) {
      asker.learned("not recorded");
      return {.reason = refused.reason()};
    }
  });
}

}  // namespace

void claim_outer_sets(Interrogator& asker, CacheClaims& claims) {
  const Bytes sector_bytes = *claims.sector_bytes.value;
  asker.inquire("contiguous arrays of growing size in laps, and arrays in which every set overflows or just has room",
                "the line with which a set overflows shows all of its lines");
  OuterSetsFit fit;
  claims.ways = counted(asker, [&]() -> Claim<std::vector<std::uint32_t>> {
    fit = find_outer_sets(asker, sector_bytes);
    asker.learned(fit.sets.empty() ? fit.reason
                                   : std::to_string(fit.sets.size()) + " sets, and no others explain what misses");
    if (fit.sets.empty()) {
      return {.reason = fit.reason};
    }
    std::vector<std::uint32_t> ways;
    std::ranges::transform(fit.sets, std::back_inserter(ways), ways_of);
    return {.value = std::move(ways), .trials = fit.trials};
  });
  if (fit.sets.empty() && !fit.shows_sets) {
    claim_line_of_one_sector(asker, claims);
  }
  claims.sets_are_counted = claims.ways.value.has_value();
  if (claims.sets_are_counted) {
    claims.line_bytes = {.value = sector_bytes, .questions = claims.ways.questions, .trials = claims.ways.trials};
    claim_capacity(claims);
    try {
      claim_outer_index(asker, fit.sets, claims);
      if (claims.index.value) {
        claim_onset_of_sets(asker, fit, claims);
        claim_outer_replacement(asker, claims);
      }
    } catch (const QuestionRefused&) {
      asker.learned("not recorded");
    }
  }
}

void claim_line(Interrogator& asker, Conflicts& conflicts, CacheClaims& claims, Doubts& doubts) {
  asker.report("line size", 0.15);
  asker.inquire("one sector, chosen by chance, of each block of one more block than fits, from large blocks to small",
                "the sectors of a line take room together, so it does not matter which one is loaded");
  const Bytes sector_bytes = *claims.sector_bytes.value;
  LineSize line;
  claims.line_bytes = counted_as_trials(asker, [&] {
    line = find_line_bytes(asker, conflicts, sector_bytes, *claims.onset_bytes.value / sector_bytes);
    return Claim<Bytes>{.value = line.bytes};
  });
  if (line.is_certain) {
    doubts.erase(Doubt::line_uncertain);
  } else {
    doubts[Doubt::line_uncertain] = "longer lines were ruled out only by answers that differ, as those of chance do";
  }
  asker.learned("a line has " + std::to_string(line.bytes) + " bytes");
  asker.set_line(line.bytes);
}

}  // namespace gpuinfer::infer
