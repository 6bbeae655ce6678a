// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/laps/infer_first_level.hpp"

#include <algorithm>
#include <array>
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
#include "infer/asking/written_leaf.hpp"
#include "infer/cache/infer_cache.hpp"
#include "infer/cache/latency_levels.hpp"
#include "infer/laps/conclude_first_level.hpp"
#include "infer/laps/lap_meter.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::uint64_t lines_of_page = page_bytes / line_bytes;

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

class FirstLevelInference {
 public:
  FirstLevelInference(model::Answerer& device, const std::string& target, const Unit& unit, const Settings& settings)
      : device_(device, target, settings), meter_(device_), leaves_(device_, finding_, cache_leaf_names),
        unit_(unit), seen_{.units = unit.name, .unit_bytes = unit.bytes, .buffer_bytes = device_.buffer().bytes} {}

  CacheFinding run() {
    static_cast<void>(leaves_.go_through([this] { find_all(); }));
    leaves_.close();
    return std::move(finding_);
  }

 private:
  void find_all() {
    device_.report("a load of what fits anywhere", 0.0);
    find_hits();
    if (settles()) {
      return;
    }
    find_fits();
    if (seen_.fits) {
      device_.report(std::string(unit_.name) + " chosen at random", 0.7);
    }
    if (settles()) {
      return;
    }
    const LowBitSets sets = *sets_of_fits(*seen_.fits);
    count_fillings(sets);
    if (settles()) {
      return;
    }
    look_at_other_places(sets);
    if (!settles() || !finding_.cache.ways) {
      return;
    }
    device_.report("latency of what does not fit", 0.9);
    find_misses(sets.units());
    leaves_.give_up_rest("averages over laps do not tell");
    device_.report("done", 1.0);
  }

  // Where what was seen is all that laps can tell of sets, says so of the leaves. False: it is not.
  bool settles() {
    const auto verdict = conclude_first_level(seen_);
    if (!verdict) {
      return false;
    }
    if (verdict->cache) {
      constexpr std::array settled{"capacity_bytes", "onset_bytes", "line_bytes", "ways", "index"};
      finding_.cache = *verdict->cache;
      leaves_.resolve(settled, leaves_.questions());
      return true;
    }
    leaves_.give_up_rest(verdict->reason);
    if (verdict->capacity_bytes) {
      leaves_.settle("capacity_bytes",
                     {.status = model::EvidenceStatus::ambiguous,
                      .reason = verdict->reason,
                      .alternatives = {written_leaf("capacity_bytes", &model::CacheDescription::capacity_bytes,
                                                    verdict->capacity_bytes)}});
    }
    return true;
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

  void find_hits() {
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
    seen_.hits = {.least_cycles = *low, .most_cycles = *high, .are_alike = is_quick(*high)};
    device_.learned(seen_.hits->are_alike ? "a load takes " + cycles_text(hit_cycles_) + " cycles" : "they differ");
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

  // For distances of 1, 2, 4, ... units, as far as the buffer reaches.
  void find_fits() {
    constexpr std::uint64_t longest_distance = 128;
    std::vector<UnitFit> found;
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
        seen_.no_end = {.distance = distance, .all_units = most_units(distance)};
        return;
      }
      if (!most) {
        device_.learned("different numbers each time");
        seen_.no_end = {.distance = distance};
        return;
      }
      device_.learned(std::to_string(*most) + " fit");
      found.push_back({.distance = distance, .units = *most});
    }
    climb_again(found);
    seen_.fits = std::move(found);
  }

  // What no sets explain may be a number that is too small, so each is tried once more from there on.
  void climb_again(std::vector<UnitFit>& fits) {
    constexpr int attempts = 4;
    for (int attempt = 0; attempt < attempts && !sets_of_fits(fits); ++attempt) {
      for (UnitFit& fit : fits) {
        fit.units = climb(fit.units, fit.distance).value_or(fit.units);
      }
    }
  }

  // Of units from everywhere.
  void count_fillings(const LowBitSets& sets) {
    constexpr std::size_t draws = 60;
    device_.inquire(std::string(unit_.name) + " from everywhere that just fill all sets, and one more",
                    "what lies in a row, or at one distance, may share what strangers do not");
    FirstLevelSeen::Fillings fillings{.draws = draws};
    for (std::size_t draw = 0; draw < draws; ++draw) {
      const Units units = drawn(sets);
      AccessSequence lap = lap_over(units);
      fillings.surplus_that_fitted += fits(lap) ? 1U : 0U;
      lap.pop_back();
      fillings.full_that_fitted += fits(lap) ? 1U : 0U;
    }
    device_.learned(fillings.text());
    seen_.fillings = fillings;
  }

  // No unit is really several smaller ones: of two lines of a page the second one needs no room of its own; a line that
  // is one too many in its set is so wherever it is touched.
  void look_at_other_places(const LowBitSets& sets) {
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
    seen_.is_whole = is_whole;
  }

  // As many units of each set as it has ways, and one more.
  Units drawn(const LowBitSets& sets) {
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

  // From twice to four times as many units as fit, all of which come from the next level.
  void find_misses(std::uint64_t fitting) {
    device_.inquire(std::string("laps over more ") + unit_.name + " than fit",
                    "what is not there comes from the next level");
    std::vector<double> least;
    for (std::uint64_t units = 2 * fitting; units <= 4 * fitting && units <= most_units(1);
         units += std::max<std::uint64_t>(1, fitting / 4)) {
      least.push_back(least_cycles(at_distance(units, 1)));
    }
    const LatencyLevels levels = conclude_latency(hit_cycles_, least);
    device_.learned(levels.cycles->miss ? "a load takes " + cycles_text(*levels.cycles->miss) + " cycles"
                                        : levels.reason);
    finding_.cache.latency_cycles = *levels.cycles;
    settle_latency(leaves_, levels);
  }

  Asker device_;
  LapMeter meter_;
  CacheFinding finding_;
  Leaves leaves_;
  Unit unit_;
  FirstLevelSeen seen_;
  double hit_cycles_ = 0;
};

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
  add_single_loads(singles, finding);
  const bool is_over = settings.stop_requested() || is_past(settings.deadline);
  finding.ended_early = singles.ended_early && (settings.budget_accesses || is_over);
  return finding;
}

}  // namespace gpuinfer::infer
