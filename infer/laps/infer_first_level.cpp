// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/laps/infer_first_level.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/asking/statistics.hpp"
#include "infer/asking/written_leaf.hpp"
#include "infer/cache/infer_cache.hpp"
#include "infer/cache/latency_levels.hpp"
#include "infer/laps/lap_meter.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;

constexpr std::uint64_t lines_of_page = page_bytes / line_bytes;

// How much those may differ that come from the next level.
constexpr double next_tolerance = 0.06;

// Numbers of lines or pages.
using Units = std::vector<std::uint64_t>;

Units at_distance(std::size_t count, std::uint64_t distance) {
  Units units(count);
  for (std::size_t i = 0; i < count; ++i) {
    units[i] = i * distance;
  }
  return units;
}

// What is counted.
struct Unit {
  const char* name;
  std::uint64_t bytes;
  std::size_t most;  // that are asked about
  // How much longer than a load of a few units a load may take on average where all are there. One unit too many
  // makes a set miss, of all or of a few.
  double tolerance;
};

// Two lines of each page, evenly over the places in a page, fit any first data cache with eight ways.
constexpr Unit page{.name = "pages", .bytes = page_bytes, .most = 256, .tolerance = 0.03};
constexpr Unit line{.name = "lines", .bytes = line_bytes, .most = 2048, .tolerance = 0.01};

// S sets of W ways, chosen by the lowest bits of the number of the unit.
struct Sets {
  std::uint64_t sets = 1;
  std::uint64_t ways = 0;

  [[nodiscard]] std::uint64_t units() const { return sets * ways; }
  // How many units at such a distance, a power of two, fit.
  [[nodiscard]] std::uint64_t fitting(std::uint64_t distance) const {
    return std::max<std::uint64_t>(1, sets / distance) * ways;
  }
};

class FirstLevelInference {
 public:
  FirstLevelInference(model::Answerer& device, const std::string& target, const Unit& unit, const Settings& settings)
      : device_(device, target, settings), meter_(device_), leaves_(device_, finding_, cache_leaf_names), unit_(unit) {}

  CacheFinding run() {
    static_cast<void>(leaves_.go_through([this] { find_all(); }));
    leaves_.close();
    return std::move(finding_);
  }

 private:
  struct Fit {
    std::uint64_t distance = 1;
    std::size_t units = 0;
  };

  void find_all() {
    device_.report("a load of what fits anywhere", 0.0);
    if (!find_hit()) {
      return;
    }
    const auto fits = find_fits();
    if (fits.empty()) {
      return;
    }
    const auto sets = sets_of(fits);
    device_.report(std::string(unit_.name) + " chosen at random", 0.7);
    if (!sets || !is_confirmed(*sets) || !is_whole(*sets)) {
      return;
    }
    settle(*sets);
    device_.report("latency of what does not fit", 0.9);
    find_miss(sets->units());
    leaves_.give_up_rest("averages over laps do not tell");
    device_.report("done", 1.0);
  }

  [[nodiscard]] bool counts_pages() const { return unit_.bytes == page_bytes; }

  // A load of a unit. Of pages neighbours are loaded at neighbouring places.
  [[nodiscard]] std::uint64_t place_in(std::uint64_t unit, std::size_t number) const {
    return unit * unit_.bytes + (counts_pages() ? number % lines_of_page * line_bytes : 0);
  }

  [[nodiscard]] AccessSequence lap_over(const Units& units) const {
    AccessSequence lap;
    for (std::size_t i = 0; i < units.size(); ++i) {
      lap.push_back(place_in(units[i], i));
    }
    return lap;
  }

  double cycles(const Units& units) { return meter_.cycles_in_random_order(lap_over(units)); }

  [[nodiscard]] bool is_quick(double cycles) const { return cycles <= (1 + unit_.tolerance) * hit_cycles_; }

  double least_cycles(const Units& units) {
    constexpr std::size_t trials = 50;
    double least = cycles(units);
    for (std::size_t trial = 1; trial < trials; ++trial) {
      least = std::min(least, cycles(units));
    }
    return least;
  }

  bool find_hit() {
    device_.inquire(std::string("laps over 2, 4 and 8 neighbouring ") + unit_.name, "these fit anywhere");
    constexpr std::size_t most_rounds = 50;
    std::array<double, 3> least{};
    least.fill(std::numeric_limits<double>::max());
    auto [low, high] = std::pair(least.begin(), least.begin());
    for (std::size_t round = 0; round < most_rounds; ++round) {
      for (std::size_t k = 0; k < least.size(); ++k) {
        least[k] = std::min(least[k], least_cycles(at_distance(std::size_t{2} << k, 1)));
      }
      std::tie(low, high) = std::minmax_element(least.begin(), least.end());
      hit_cycles_ = *low;
      if (is_quick(*high)) {
        break;
      }
    }
    const bool is_level = is_quick(*high);
    device_.learned(is_level ? "a load takes " + text_of(hit_cycles_) + " cycles" : "they differ");
    if (!is_level) {
      leaves_.give_up_rest("loads of 2, 4 and 8 " + std::string(unit_.name) + " take different times, " +
                           text_of(*low) + " to " + text_of(*high) + " cycles: the CPU is too busy");
    }
    return is_level;
  }

  static std::string text_of(double cycles) {
    std::string text = std::to_string(rounded(cycles));
    text.erase(text.find_last_not_of('0') + 1);
    return text;
  }

  bool fits(const AccessSequence& lap) {
    constexpr std::size_t trials = 40;
    for (std::size_t trial = 0; trial < trials; ++trial) {
      if (is_quick(meter_.cycles_in_random_order(lap))) {
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] std::size_t most_units(std::uint64_t distance) const {
    return std::min<std::size_t>(unit_.most, device_.buffer().bytes / unit_.bytes / distance);
  }

  // None: all that can be asked fits.
  std::optional<std::size_t> largest_fit(std::uint64_t distance) {
    std::size_t fitting = 1;
    std::size_t too_many = 2;
    while (too_many <= most_units(distance) && fits(lap_over(at_distance(too_many, distance)))) {
      fitting = too_many;
      too_many *= 2;
    }
    if (too_many > most_units(distance)) {
      too_many = most_units(distance);
      if (too_many <= fitting || fits(lap_over(at_distance(too_many, distance)))) {
        return std::nullopt;
      }
    }
    while (too_many - fitting > 1) {
      const std::size_t middle = (too_many + fitting) / 2;
      (fits(lap_over(at_distance(middle, distance))) ? fitting : too_many) = middle;
    }
    return fitting;
  }

  // From a number that fits on, until one more was tried so often and never fitted. None: the number itself did not
  // come up again.
  std::optional<std::size_t> climb(std::size_t fitting, std::uint64_t distance) {
    constexpr std::size_t rounds = 60;
    constexpr std::size_t rounds_again = 300;
    constexpr std::size_t wanted = 3;
    for (std::size_t round = 0; round < rounds && fitting < most_units(distance); ++round) {
      while (fitting < most_units(distance) && fits(lap_over(at_distance(fitting + 1, distance)))) {
        ++fitting;
        round = 0;
      }
    }
    std::size_t again = 0;
    for (std::size_t round = 0; round < rounds_again && again < wanted; ++round) {
      again += fits(lap_over(at_distance(fitting, distance))) ? 1U : 0U;
    }
    return again == wanted ? std::optional(fitting) : std::nullopt;
  }

  // For distances of 1, 2, 4, ... units, as far as the buffer reaches. Empty where that is not known.
  std::vector<Fit> find_fits() {
    constexpr std::uint64_t longest_distance = 128;
    std::vector<Fit> found;
    for (std::uint64_t distance = 1; distance <= longest_distance; distance *= 2) {
      if (!found.empty() && found.back().units >= most_units(distance)) {
        break;
      }
      const std::string distant = std::string(unit_.name) + ", " + std::to_string(distance) + " apart";
      device_.report(distant, 0.05 + 0.08 * std::log2(distance));
      device_.inquire("laps over growing numbers of " + distant,
                      "halving, then one more at a time, finds how many fit; noise only adds, so the largest counts");
      const auto search = largest_fit(distance);
      const auto most = search ? climb(*search, distance) : std::nullopt;
      if (!search || most == most_units(distance)) {
        device_.learned("all that can be asked fit");
        leaves_.give_up_rest("all of " + std::to_string(most_units(distance)) + " " + distant + ", fit");
        return {};
      }
      if (!most) {
        device_.learned("different numbers each time");
        leaves_.give_up_rest("how many " + distant + ", fit did not come up again: the CPU is too busy");
        return {};
      }
      device_.learned(std::to_string(*most) + " fit");
      found.push_back({.distance = distance, .units = *most});
    }
    return found;
  }

  // At the longest distances all units go to one set.
  static std::optional<Sets> explanation_of(const std::vector<Fit>& fits) {
    const std::uint64_t ways = fits.back().units;
    const Sets sets{.sets = fits.front().units / ways, .ways = ways};
    const bool holds =
        sets.units() == fits.front().units && std::has_single_bit(sets.sets) && sets.sets < fits.back().distance &&
        std::all_of(fits.begin(), fits.end(), [&](const Fit& fit) { return sets.fitting(fit.distance) == fit.units; });
    return holds ? std::optional(sets) : std::nullopt;
  }

  // What no sets explain may be a number that is too small, so each is tried once more from there on.
  std::optional<Sets> sets_of(std::vector<Fit> fits) {
    constexpr int attempts = 4;
    std::optional<Sets> sets = explanation_of(fits);
    for (int attempt = 0; attempt < attempts && !sets; ++attempt) {
      for (Fit& fit : fits) {
        fit.units = climb(fit.units, fit.distance).value_or(fit.units);
      }
      sets = explanation_of(fits);
    }
    if (!sets) {
      std::string numbers;
      for (const Fit& fit : fits) {
        numbers += (numbers.empty() ? "" : ", ") + std::to_string(fit.units);
      }
      leave_open("of " + std::string(unit_.name) + " 1, 2, 4, ... apart " + numbers +
                     " fit, which no sets by the lowest bits explain",
                 fits.front().units);
    }
    return sets;
  }

  // Units from everywhere that fill all sets must fit so often that one more would have been seen to fit, too.
  bool is_confirmed(const Sets& sets) {
    constexpr std::size_t draws = 60;
    constexpr std::size_t fewest = 12;
    device_.inquire(std::string(unit_.name) + " from everywhere that just fill all sets, and one more",
                    "what lies in a row, or at one distance, may share what strangers do not");
    std::size_t full_that_fitted = 0;
    std::size_t surplus_that_fitted = 0;
    for (std::size_t draw = 0; draw < draws; ++draw) {
      const Units units = drawn(sets);
      AccessSequence lap = lap_over(units);
      surplus_that_fitted += fits(lap) ? 1U : 0U;
      lap.pop_back();
      full_that_fitted += fits(lap) ? 1U : 0U;
    }
    const std::string seen = std::to_string(full_that_fitted) + " of " + std::to_string(draws) +
                             " fillings fit, and with one more of them " + std::to_string(surplus_that_fitted);
    device_.learned(seen);
    const bool is_sure = full_that_fitted >= fewest && surplus_that_fitted == 0;
    if (!is_sure) {
      leave_open("of " + std::string(unit_.name) + " from everywhere " + seen, sets.units());
    }
    return is_sure;
  }

  // No unit is really several smaller ones: of two lines of a page the second one needs no room of its own; a line that
  // is one too many in its set is so wherever it is touched.
  bool is_whole(const Sets& sets) {
    device_.inquire(std::string("other places in the same ") + unit_.name, "they may be made of smaller ones");
    const Units units = drawn(sets);
    bool is_whole = true;
    if (counts_pages()) {
      AccessSequence lap;
      for (std::size_t i = 0; i + 1 < units.size(); ++i) {
        lap.push_back(place_in(units[i], i));
        lap.push_back(place_in(units[i], i + lines_of_page / 2));
      }
      is_whole = fits(lap);
    } else {
      AccessSequence lap = lap_over(at_distance(sets.ways + 1, sets.sets));
      const std::uint64_t surplus = lap.back();
      for (std::uint64_t shift = 4; shift < unit_.bytes; shift *= 2) {
        lap.back() = surplus + shift;
        is_whole = is_whole && !fits(lap);
      }
    }
    device_.learned(is_whole ? "they are not" : "they may be");
    if (!is_whole) {
      leave_open("different places in the same " + std::string(unit_.name) + " do not behave alike", sets.units());
    }
    return is_whole;
  }

  // As many units of each set as it has ways, and one more.
  Units drawn(const Sets& sets) {
    Units all = at_distance(device_.buffer().bytes / unit_.bytes, 1);
    meter_.random().shuffle(all);
    Units units;
    std::optional<std::uint64_t> surplus;
    std::vector<std::uint64_t> taken(sets.sets);
    for (const std::uint64_t unit : all) {
      std::uint64_t& of_set = taken[unit % sets.sets];
      if (of_set < sets.ways) {
        units.push_back(unit);
        ++of_set;
      } else if (!surplus) {
        surplus = unit;
      }
    }
    units.push_back(*surplus);
    return units;
  }

  void settle(const Sets& sets) {
    model::CacheDescription& cache = finding_.cache;
    cache.line_bytes = unit_.bytes;
    cache.capacity_bytes = sets.units() * unit_.bytes;
    cache.onset_bytes = cache.capacity_bytes;
    cache.ways.emplace(sets.sets, static_cast<std::uint32_t>(sets.ways));
    cache.index = index_of(sets);
    cache.exercised_bits.emplace();
    for (auto bit = static_cast<unsigned>(std::countr_zero(unit_.bytes)); device_.buffer().bytes >> bit > 1; ++bit) {
      cache.exercised_bits->push_back(bit);
    }
    constexpr std::array settled{"capacity_bytes", "onset_bytes", "line_bytes", "ways", "index"};
    leaves_.resolve(settled, leaves_.questions());
  }

  [[nodiscard]] model::IndexFunction index_of(const Sets& sets) const {
    if (sets.sets == 1) {
      return model::ModuloIndex{.granule_bytes = unit_.bytes, .sets_count = 1};
    }
    model::BitsIndex index;
    for (int bit = std::countr_zero(unit_.bytes); bit < std::countr_zero(unit_.bytes * sets.sets); ++bit) {
      index.bits.push_back(static_cast<unsigned>(bit));
    }
    return index;
  }

  void leave_open(const std::string& reason, std::size_t units) {
    leaves_.give_up_rest(reason);
    leaves_["capacity_bytes"].alternatives = {
        written_leaf("capacity_bytes", &model::CacheDescription::capacity_bytes, units * unit_.bytes)};
    leaves_.leave_open("capacity_bytes", EvidenceStatus::ambiguous, reason);
  }

  // From twice to four times as many units as fit, all of which come from the next level.
  void find_miss(std::uint64_t fitting) {
    constexpr std::size_t wanted = 3;
    device_.inquire(std::string("laps over more ") + unit_.name + " than fit",
                    "what is not there comes from the next level");
    std::vector<double> least;
    for (std::uint64_t units = 2 * fitting; units <= 4 * fitting && units <= most_units(1);
         units += std::max<std::uint64_t>(1, fitting / 4)) {
      least.push_back(least_cycles(at_distance(units, 1)));
    }
    LatencyLevels levels{.cycles = model::LatencyCycles{.hit = rounded(hit_cycles_), .miss = {}},
                         .reason = "what does not fit does not always take the same time"};
    if (least.size() >= wanted) {
      const auto [low, high] = std::minmax_element(least.begin(), least.end());
      if (*high <= (1 + next_tolerance) * *low) {
        levels.cycles->miss = rounded(median(least));
      }
    }
    device_.learned(levels.cycles->miss ? "a load takes " + text_of(*levels.cycles->miss) + " cycles" : levels.reason);
    finding_.cache.latency_cycles = *levels.cycles;
    settle_latency(leaves_, levels);
  }

  Asker device_;
  LapMeter meter_;
  CacheFinding finding_;
  Leaves leaves_;
  Unit unit_;
  double hit_cycles_ = 0;
};

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

// What single loads tell besides; the policy only with the sets for which it was proven.
void add(const CacheFinding& singles, CacheFinding& laps) {
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

}  // namespace

CacheFinding infer_first_tlb(model::Answerer& device, const std::string& target, const Settings& settings) {
  return FirstLevelInference(device, target, page, settings).run();
}

CacheFinding infer_first_cache(model::Answerer& device, const std::string& target, const Settings& settings,
                               double most_seconds) {
  // The first half of what is reported, and the second.
  Settings in_laps = settings;
  in_laps.on_progress = [&](Progress progress) {
    progress.done /= 2;
    settings.on_progress(progress);
  };
  CacheFinding finding = FirstLevelInference(device, target, line, in_laps).run();
  if (finding.ended_early) {
    return finding;
  }
  using std::chrono::steady_clock;
  Settings limited = settings;
  const auto end = steady_clock::now() +
                   std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(most_seconds));
  limited.deadline = std::min(settings.deadline.value_or(end), end);
  if (limited.budget_accesses) {
    limited.budget_accesses = *limited.budget_accesses - std::min(*limited.budget_accesses, finding.accesses);
  }
  limited.on_progress = [&](Progress progress) {
    progress.done = (1 + progress.done) / 2;
    progress.questions += finding.questions;
    progress.accesses += finding.accesses;
    settings.on_progress(progress);
  };
  const CacheFinding singles = infer_cache(device, target, limited);
  add(singles, finding);
  const bool is_over = settings.stop_requested() || is_past(settings.deadline);
  finding.ended_early = singles.ended_early && (settings.budget_accesses || is_over);
  return finding;
}

}  // namespace gpuinfer::infer
