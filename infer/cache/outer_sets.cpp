// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/outer_sets.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "infer/asking/stream.hpp"
#include "infer/cache/outer_laps.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

// For the search of sets that are not equal.
constexpr std::size_t most_scanned_accesses = 16'000'000;

// Sets that depart from their policy at times keep lines that others would have driven out.
constexpr std::size_t least_torn = 4;
constexpr unsigned times_where_torn = 4;

// Of so many lines in laps, those for which the nearer level may answer.
std::uint64_t hidden_of(std::uint64_t lines) { return 4 + lines / 32; }

Lines first_lines(std::uint64_t count) {
  Lines lines(count);
  std::iota(lines.begin(), lines.end(), std::uint64_t{0});
  return lines;
}

class OuterSetSearch {
 public:
  OuterSetSearch(Interrogator& device, std::uint64_t granule_bytes)
      : device_(device), laps_(device, granule_bytes), most_lines_(laps_.lines_of_buffer()),
        random_(stream(device.settings(), "sets of an outer level")) {}

  OuterSetsFit run() {
    OuterSetsFit fit = find();
    if (fit.sets.empty() && !fit.shows_sets && laps_.torn() >= least_torn) {
      laps_.ask_times(times_where_torn);
      missing_.clear();
      fit = find();
    }
    return fit;
  }

 private:
  OuterSetsFit find() {
    std::uint64_t too_few = 0;
    std::optional<std::uint64_t> fitting;
    for (;;) {
      const std::optional<std::uint64_t> all_missing = fewest_that_all_miss(too_few);
      if (!all_missing) {
        return {.sets = {}, .reason = "at no length of a contiguous array do all lines miss lap after lap"};
      }
      if (!fitting) {
        fitting = most_that_all_hit(*all_missing);
      }
      further_line_.reset();
      for (std::vector<Overfull>& sets : equal_sets(*fitting, *all_missing)) {
        if (hold(sets, *fitting)) {
          return claim_of(std::move(sets), *fitting);
        }
      }
      std::vector<Overfull> sets = scanned_sets(*fitting, *all_missing);
      if (sets.empty()) {
        return {.sets = {},
                .reason = "the lines that a growing contiguous array makes miss are not those of single sets"};
      }
      if (hold(sets, *fitting)) {
        return claim_of(std::move(sets), *fitting);
      }
      // A longer array meets sets that this one has no lines for.
      if (!further_line_ || *further_line_ < *all_missing) {
        return {.sets = {},
                .reason = "sets that a growing contiguous array shows do not overflow one by one",
                .shows_sets = true};
      }
      too_few = *further_line_ + 1;
    }
  }

  [[nodiscard]] OuterSetsFit claim_of(std::vector<Overfull> sets, std::uint64_t fitting) const {
    return {.sets = std::move(sets), .trials = trials_, .fitting = fitting, .hidden = hidden_of(fitting), .reason = {}};
  }

  // Of so many contiguous lines.
  const Missing& missing_of_first(std::uint64_t lines) {
    auto known = missing_.find(lines);
    if (known == missing_.end()) {
      known = missing_.emplace(lines, laps_.missing(first_lines(lines))).first;
    }
    return known->second;
  }

  std::uint64_t count_missing(std::uint64_t lines) {
    const Missing& missed = missing_of_first(lines);
    return static_cast<std::uint64_t>(std::count(missed.begin(), missed.end(), true));
  }

  bool all_miss(std::uint64_t lines) { return count_missing(lines) + hidden_of(lines) >= lines; }

  // `too_few`: lines of which some hit.
  std::optional<std::uint64_t> fewest_that_all_miss(std::uint64_t too_few) {
    constexpr std::uint64_t first_tried = 64;
    std::uint64_t enough = std::min(std::max(first_tried, 2 * too_few), most_lines_);
    while (!all_miss(enough)) {
      if (enough == most_lines_) {
        return std::nullopt;
      }
      too_few = enough;
      enough = std::min(2 * enough, most_lines_);
    }
    while (enough - too_few > 1) {
      const std::uint64_t middle = std::midpoint(too_few, enough);
      (all_miss(middle) ? enough : too_few) = middle;
    }
    return enough;
  }

  std::uint64_t most_that_all_hit(std::uint64_t too_many) {
    std::uint64_t fitting = 0;
    while (too_many - fitting > 1) {
      const std::uint64_t middle = std::midpoint(fitting, too_many);
      (count_missing(middle) == 0 ? fitting : too_many) = middle;
    }
    return fitting;
  }

  // Those that two lengths leave possible. A line too many may find room elsewhere: one set that overflows by one line
  // need not show.
  [[nodiscard]] std::vector<std::vector<Overfull>> equal_sets(std::uint64_t fitting, std::uint64_t all_missing) const {
    std::vector<std::vector<Overfull>> found;
    for (std::uint64_t ways = 1; ways <= fitting; ++ways) {
      for (const std::uint64_t held : {fitting, fitting - 1}) {
        const std::uint64_t sets = held / ways;
        const std::uint64_t overflowing = sets * (ways + 1);
        if (held > 0 && held % ways == 0 && overflowing <= most_lines_ && overflowing >= all_missing &&
            overflowing - all_missing <= hidden_of(all_missing)) {
          std::vector<Overfull>& equal = found.emplace_back(sets);
          for (std::uint64_t line = 0; line < overflowing; ++line) {
            equal[line % sets].push_back(line);
          }
        }
      }
    }
    return found;
  }

  // One set for each line with which a contiguous array makes further lines miss. None: lines were in two of them, or
  // it would take too long.
  std::vector<Overfull> scanned_sets(std::uint64_t fitting, std::uint64_t all_missing) {
    struct Span {
      std::uint64_t from;
      std::uint64_t to;
    };
    const std::size_t asked_before = device_.accesses_asked();
    std::vector<Overfull> sets;
    std::size_t fewest_ways = 1;
    std::vector<bool> is_assigned(most_lines_);
    std::vector<Span> open{{.from = fitting, .to = std::min(most_lines_, all_missing + hidden_of(all_missing))}};
    while (!open.empty()) {
      const auto [from, to] = open.back();
      open.pop_back();
      const Missing before = missing_of_first(from);
      const Missing& after = missing_of_first(to);
      Lines newly;
      for (std::uint64_t line = 0; line < to; ++line) {
        if (after[line] && (line >= from || !before[line])) {
          newly.push_back(line);
        }
      }
      // Lines that only join sets which overflow already make no others miss; nor would a set all of whose lines are
      // new, so there may not be enough of them for one.
      if (newly.empty() || (newly.front() >= from && to - from <= fewest_ways)) {
        continue;
      }
      if (to - from > 1) {
        if (device_.accesses_asked() - asked_before > most_scanned_accesses) {
          return {};
        }
        const std::uint64_t middle = std::midpoint(from, to);
        open.push_back({.from = middle, .to = to});
        open.push_back({.from = from, .to = middle});
        continue;
      }
      if (std::ranges::any_of(newly, [&](std::uint64_t line) { return is_assigned[line]; })) {
        return {};
      }
      std::ranges::for_each(newly, [&](std::uint64_t line) { is_assigned[line] = true; });
      fewest_ways = sets.empty() ? newly.size() - 1 : std::min(fewest_ways, newly.size() - 1);
      sets.push_back(std::move(newly));
    }
    return taken_apart(sets);
  }

  // Sets that began to miss together, as a line too many finds room elsewhere while no other set overflows. With one
  // line less in one of them, where all others overflow, the lines of its set hit.
  std::vector<Overfull> taken_apart(const std::vector<Overfull>& sets) {
    if (sets.empty()) {
      return {};
    }
    const std::size_t fewest = std::ranges::min(sets, {}, &Overfull::size).size();
    Lines all;
    for (const Overfull& set : sets) {
      all.insert(all.end(), set.begin(), set.end());
    }
    std::ranges::sort(all);
    std::vector<Overfull> apart;
    for (Overfull together : sets) {
      while (together.size() >= 2 * fewest) {
        Lines lines = all;
        lines.erase(std::ranges::lower_bound(lines, together.front()));
        const Missing missed = laps_.missing(lines);
        Overfull one{together.front()};
        for (std::size_t place = 0; place < lines.size(); ++place) {
          if (!missed[place] && std::ranges::binary_search(together, lines[place])) {
            one.push_back(lines[place]);
          }
        }
        if (one.size() < fewest || one.size() == together.size()) {
          break;
        }
        Overfull rest;
        std::ranges::set_difference(together, one, std::back_inserter(rest));
        apart.push_back(std::move(one));
        together = std::move(rest);
      }
      apart.push_back(std::move(together));
    }
    return apart;
  }

  // Of some sets more lines fitted than they would have ways. The nearer level answers for a few, whichever sets these
  // are; where it is a set that is smaller than most, something else may take room in it that has room in others.
  [[nodiscard]] static bool may_be_hidden(const std::vector<Overfull>& sets, std::uint64_t fitting) {
    std::map<std::size_t, std::size_t> sets_of_size;
    for (const Overfull& set : sets) {
      ++sets_of_size[set.size()];
    }
    const std::size_t most_common =
        std::ranges::max_element(sets_of_size, {}, [](const auto& entry) { return entry.second; })->first;
    std::uint64_t hidden = 0;
    for (const Overfull& set : sets) {
      if (std::ranges::max(set) < fitting) {
        ++hidden;
        if (set.size() < most_common) {
          return false;
        }
      }
    }
    return hidden <= hidden_of(fitting);
  }

  // Whether just the sets that got rid of a line hit. A line that the nearer level keeps for ever saves its whole set
  // at times, so a set is judged by most of its trials.
  bool hold(const std::vector<Overfull>& sets, std::uint64_t fitting) {
    if (!may_be_hidden(sets, fitting)) {
      return false;
    }
    // Two sets that are one in truth pass with one in 2^7, whichever of all pairs they are.
    const auto packings = static_cast<std::size_t>(7 + 2 * std::bit_width(sets.size()));
    struct Tally {
      std::size_t reduced = 0;
      std::size_t reduced_that_missed = 0;
      std::size_t overfull = 0;
      std::size_t overfull_that_hit = 0;
    };
    std::vector<Tally> tallies(sets.size());
    for (std::size_t packing = 0; packing < packings; ++packing) {
      Lines lines;
      std::vector<std::size_t> set_of;
      for (std::size_t set = 0; set < sets.size(); ++set) {
        const bool is_reduced = random_.below(2) == 0;
        const std::uint64_t left_out = is_reduced ? random_.below(sets[set].size()) : sets[set].size();
        for (std::size_t place = 0; place < sets[set].size(); ++place) {
          if (place != left_out) {
            lines.push_back(sets[set][place]);
            set_of.push_back(set);
          }
        }
        (is_reduced ? tallies[set].reduced : tallies[set].overfull) += 1;
      }
      std::vector<std::size_t> missed_of_set(sets.size());
      std::vector<std::size_t> lines_of_set(sets.size());
      const Missing missed = laps_.missing_in_order(lines);
      for (std::size_t place = 0; place < lines.size(); ++place) {
        ++lines_of_set[set_of[place]];
        missed_of_set[set_of[place]] += missed[place] ? 1U : 0U;
      }
      bool is_refuted = false;
      for (std::size_t set = 0; set < sets.size(); ++set) {
        Tally& tally = tallies[set];
        const bool is_reduced = lines_of_set[set] < sets[set].size();
        tally.reduced_that_missed += is_reduced && missed_of_set[set] > 0 ? 1U : 0U;
        tally.overfull_that_hit += !is_reduced && 2 * missed_of_set[set] < lines_of_set[set] ? 1U : 0U;
        is_refuted = is_refuted || tally.reduced_that_missed > 1 ||
                     (tally.overfull_that_hit > 1 && 2 * tally.overfull_that_hit > tally.overfull);
      }
      if (is_refuted) {
        return false;
      }
      trials_ += sets.size();
    }
    return overflow_alone(sets) && no_further_set(sets);
  }

  // A half of the sets without the others, where that is much more than the nearer level keeps: what else is loaded
  // must not matter, as it does where a key changes with the misses of all.
  bool overflow_alone(const std::vector<Overfull>& sets) {
    constexpr std::size_t rounds = 4;
    std::vector<std::size_t> order(sets.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::size_t rounds_with_hits = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
      random_.shuffle(order);
      Lines lines;
      for (std::size_t place = 0; place < (sets.size() + 1) / 2; ++place) {
        lines.insert(lines.end(), sets[order[place]].begin(), sets[order[place]].end());
      }
      if (!laps_.go_far_beyond_nearer_level(lines.size())) {
        continue;
      }
      const Missing missed = laps_.missing_in_order(lines);
      rounds_with_hits += 2 * std::ranges::count(missed, true) < std::ssize(missed) ? 1U : 0U;
      ++trials_;
    }
    return rounds_with_hits <= 1;
  }

  // Lines from anywhere beside sets that all overflow: one of a further set, which has room, would hit. As many in a
  // row as get past the nearer level, which may have parts that only lines of a place share.
  bool no_further_set(const std::vector<Overfull>& sets) {
    constexpr std::size_t rounds = 8;
    Lines overfull;
    std::vector<bool> is_taken(most_lines_);
    for (const Overfull& set : sets) {
      for (const std::uint64_t line : set) {
        overfull.push_back(line);
        is_taken[line] = true;
      }
    }
    const std::uint64_t in_a_row = std::min(laps_.lines_past_nearer_level(), most_lines_);
    std::size_t rounds_with_hits = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
      Lines lines = overfull;
      const std::uint64_t first = random_.below(most_lines_ - in_a_row + 1);
      for (std::uint64_t line = first; line < first + in_a_row; ++line) {
        if (!is_taken[line]) {
          lines.push_back(line);
        }
      }
      const Missing missed = laps_.missing_in_order(lines);
      const auto strangers = missed.begin() + static_cast<std::ptrdiff_t>(overfull.size());
      const auto hit = std::find(strangers, missed.end(), false);
      if (hit != missed.end()) {
        ++rounds_with_hits;
        further_line_ = lines[static_cast<std::size_t>(hit - missed.begin())];
      }
      trials_ += lines.size() - overfull.size();
    }
    return rounds_with_hits <= 1;
  }

  Interrogator& device_;
  OuterLaps laps_;
  std::uint64_t most_lines_;
  model::Random random_;
  std::map<std::uint64_t, Missing> missing_;   // of contiguous lines, by how many
  std::optional<std::uint64_t> further_line_;  // of a set that is not among those that were found
  std::size_t trials_ = 0;
};

}  // namespace

OuterSetsFit find_outer_sets(Interrogator& device, std::uint64_t granule_bytes) {
  return OuterSetSearch(device, granule_bytes).run();
}

}  // namespace gpuinfer::infer
