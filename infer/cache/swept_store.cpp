// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/swept_store.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "infer/asking/gf2.hpp"
#include "infer/asking/stream.hpp"
#include "infer/cache/departures.hpp"
#include "infer/cache/index_search.hpp"
#include "infer/cache/partition.hpp"
#include "infer/cache/set_map.hpp"
#include "infer/cache/sweep_order.hpp"
#include "infer/circumstances/circumstances.hpp"
#include "infer/policy/replacement_fit.hpp"
#include "model/access_sequence.hpp"
#include "model/cache_simulator.hpp"
#include "model/description_yaml.hpp"
#include "model/policy_classes.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

// The asking grows with the square of the lines.
constexpr std::uint64_t most_lines_of_smallest = 1024;
constexpr std::uint64_t most_lines_of_largest = 8192;

constexpr const char* too_many_lines = "more lines fit than can be followed one by one";
constexpr const char* no_hash =
    "the lines that drive each other out do not differ as those of a set that is a hash of the address";

// What speaks against such a cache, or is missing.
class NotFound : public Error {
  using Error::Error;
};

// One of the sizes that the cache can have.
struct Size {
  std::optional<std::uint32_t> carveout_kb;  // none: that which the device has by itself
  std::uint64_t onset_lines = 0;             // of a contiguous array
  std::uint64_t present_lines = 0;           // of a sample of many

  [[nodiscard]] model::Circumstances circumstances() const {
    return {.warm_target = {}, .shared_memory_kb = carveout_kb, .unit = {}};
  }
  [[nodiscard]] std::string name() const {
    return carveout_kb ? "a carve-out of " + std::to_string(*carveout_kb) + " KB" : "the size that it has";
  }
};

class SweptStoreSearch {
 public:
  SweptStoreSearch(Interrogator& device, const model::CacheDescription& known)
      : device_(device), cache_(known), random_(stream(device.settings(), "swept store")),
        line_bytes_(*known.line_bytes), start_((line_bytes_ - device.buffer().address % line_bytes_) % line_bytes_),
        lines_of_buffer_((device.buffer().bytes - start_) / line_bytes_) {}

  SweptStoreFit run() {
    SweptStoreFit fit;
    try {
      report("sizes", 0.2);
      measure_sizes();
      report("lines that go at once", 0.28);
      see_several_go_at_once();
      report("sets", 0.32);
      find_index();
      fit.shows_store = true;
      report("ways and policy", 0.55);
      find_ways_of_sets();
      find_policy(fit);
      report("sweep", 0.6);
      find_sweep();
      report("numbers of lines", 0.85);
      find_quotas();
      find_stores();
      report("fresh sequences", 0.9);
      verify_all_sizes(fit);
      if (fit.verification.holds) {
        fit.cache = std::move(cache_);
      } else {
        fit.reason = fit.verification.reason;
      }
    } catch (const NotFound& missing) {
      fit.reason = missing.what();
      device_.learned(fit.reason);
    } catch (const Undecided& open) {
      fit.reason = open.what();
      device_.learned(fit.reason);
    }
    return fit;
  }

 private:
  void report(const char* what, double done) {
    device_.report(std::string("decoupled tag and data stores: ") + what, done);
  }

  void measure_sizes() {
    own_size_ = {.carveout_kb = {}, .onset_lines = *cache_.onset_bytes / line_bytes_};
    if (!device_.facts().shared_memories_kb.empty()) {
      device_.inquire("contiguous arrays with every carve-out",
                      "where the store is small it shows, where large, the sets");
      for (const std::uint32_t carveout_kb : device_.facts().shared_memories_kb) {
        sizes_.push_back(
            {.carveout_kb = carveout_kb, .onset_lines = lines_that_fit(device_, carveout_kb, line_bytes_)});
      }
      device_.learned(std::to_string(sizes_.size()) + " sizes");
    }
    choose_sizes(&Size::onset_lines);
    if (largest_.onset_lines > most_lines_of_largest) {
      throw NotFound(too_many_lines);
    }
    // Contiguous lines may overflow a set before the store is full, and then say little.
    if (!sizes_.empty() && largest_.onset_lines < 2 * smallest_.onset_lines) {
      device_.inquire("random loads with every carve-out", "as few contiguous lines fit in all of them");
      const std::size_t loads = 2 * largest_.onset_lines + 16;
      own_size_.present_lines = lines_present_at(own_size_, loads);
      for (Size& size : sizes_) {
        size.present_lines = lines_present_at(size, loads);
      }
      choose_sizes(&Size::present_lines);
      device_.learned("the largest is " + largest_.name() + ", the smallest " + smallest_.name());
    }
    if (smallest_.onset_lines > most_lines_of_smallest) {
      throw NotFound(too_many_lines);
    }
  }

  void choose_sizes(std::uint64_t Size::*measure) {
    smallest_ = largest_ = own_size_;
    for (const Size& size : sizes_) {
      smallest_ = std::ranges::min(smallest_, size, {}, measure);
      largest_ = std::ranges::max(largest_, size, {}, measure);
    }
  }

  // Of a sample of so many lines from everywhere.
  std::uint64_t lines_present_at(const Size& size, std::size_t lines) {
    constexpr std::size_t asked_lines = 64;
    const Under circumstances(device_, size.circumstances());
    const AccessSequence loads = draw_lines(lines);
    std::vector<model::Question> questions;
    for (std::size_t i = 0; i < asked_lines; ++i) {
      questions.push_back(device_.question(loads, {loads[i * loads.size() / asked_lines]}));
    }
    const auto readings = device_.ask_voted(questions, device_.votes_needed());
    return static_cast<std::uint64_t>(
        std::ranges::count_if(readings, [](const auto& one) { return one.front() == Reading::hit; }));
  }

  [[nodiscard]] std::uint64_t offset_of(std::uint64_t line) const { return start_ + line * line_bytes_; }
  [[nodiscard]] model::Address address_of(std::uint64_t offset) const { return device_.address_of(offset); }

  // Different lines from everywhere for which `accept` holds.
  template <class Accept>
  AccessSequence draw_lines(std::size_t count, Accept accept) {
    std::unordered_set<std::uint64_t> drawn;
    AccessSequence offsets;
    const std::size_t most_draws = 1000 + 200 * count;
    for (std::size_t draws = 0; offsets.size() < count; ++draws) {
      if (draws == most_draws) {
        throw NotFound("the buffer has too few lines of these sets");
      }
      const std::uint64_t line = random_.below(lines_of_buffer_);
      if (!drawn.contains(line) && accept(offset_of(line))) {
        drawn.insert(line);
        offsets.push_back(offset_of(line));
      }
    }
    return offsets;
  }
  AccessSequence draw_lines(std::size_t count) {
    return draw_lines(count, [](std::uint64_t) { return true; });
  }

  // Contiguous lines say how many fit to within a factor: their sets may overflow first.
  void see_several_go_at_once() {
    constexpr std::array steps{1.25, 2.0, 3.0, 4.5};
    device_.inquire("when each of some lines goes that are loaded once",
                    "in a cache of sets alone a load drives out one line");
    const Under small(device_, smallest_.circumstances());
    for (const double times : steps) {
      const AccessSequence loads =
          draw_lines(16 + static_cast<std::size_t>(times * static_cast<double>(smallest_.onset_lines)));
      std::map<std::size_t, std::size_t> gone_by;
      std::size_t gone = 0;
      for (const Departure& departure : find_departures(device_, loads)) {
        if (departure.is_clear && departure.load) {
          ++gone_by[*departure.load];
          ++gone;
        }
      }
      const auto drives_out_several = [](const auto& entry) { return entry.second > 1; };
      const auto several = std::count_if(gone_by.begin(), gone_by.end(), drives_out_several);
      if (several > 1) {
        device_.learned(std::to_string(several) + " of " + std::to_string(gone_by.size()) +
                        " loads that drove lines out drove out several");
        lines_when_full_ = loads.size() - gone;
        return;
      }
    }
    throw NotFound("no load evicts several lines");
  }

  void find_index() {
    constexpr std::size_t most_set_bits = 13;
    const Under large(device_, largest_.circumstances());
    bits_ = bits_of_buffer(device_, line_bytes_);
    device_.inquire("at " + largest_.name() + ", with which load single lines go",
                    "while the store is not full, a line is driven out by one of its own set");
    find_kernel();
    set_rows_ = kernel_.orthogonal_complement(bits_);
    if (set_rows_.empty() || set_rows_.size() > most_set_bits) {
      throw NotFound(no_hash);
    }
    names_ = model::XorIndex{.row_masks = set_rows_};
    by_name_ = names_;
    device_.learned("2^" + std::to_string(set_rows_.size()) + " sets");
  }

  // As many lines as make sets overflow and do not fill the store.
  void find_kernel() {
    constexpr double begin = 0.9;
    constexpr double fewer = 0.8;
    constexpr double more = 1.3;
    constexpr double most = 40;  // contiguous lines may overflow a set long before
    bool was_too_many = false;
    for (double share = begin; share < most;) {
      switch (find_kernel_among(static_cast<std::size_t>(share * static_cast<double>(largest_.onset_lines)))) {
        case Overflow::of_sets:
          return;
        case Overflow::of_store:
          was_too_many = true;
          share *= fewer;
          break;
        case Overflow::hardly_any:
          if (was_too_many) {
            throw NotFound("while the store is not full, too few lines go to tell their sets");
          }
          share *= more;
          break;
      }
    }
    throw NotFound("too few lines go to tell their sets");
  }

  enum class Overflow : std::uint8_t { hardly_any, of_sets, of_store };

  Overflow find_kernel_among(std::size_t lines) {
    constexpr std::size_t asked_lines = 192;
    constexpr std::size_t most_runs = 100;
    constexpr std::size_t scouts = 6;
    constexpr std::size_t enough_that_add_nothing = 24;
    std::uint64_t mask = 0;
    for (const unsigned bit : bits_) {
      mask |= std::uint64_t{1} << bit;
    }
    kernel_ = {};
    std::size_t added_nothing = 0;
    std::size_t pairs = 0;
    for (std::size_t run = 0; run < most_runs; ++run) {
      const AccessSequence loads = draw_lines(lines);
      std::vector<std::size_t> asked(loads.size());
      std::iota(asked.begin(), asked.end(), std::size_t{0});
      random_.shuffle(asked);
      const std::span few = std::span(asked).first(std::min<std::size_t>(asked.size(), asked_lines));
      const std::vector<Departure> departures = find_departures(device_, loads, few);
      std::unordered_set<std::size_t> evictors;
      for (std::size_t i = 0; i < few.size(); ++i) {
        if (!departures[i].is_clear || !departures[i].load) {
          continue;
        }
        if (!evictors.insert(*departures[i].load).second) {
          return Overflow::of_store;
        }
        ++pairs;
        const std::uint64_t difference = address_of(loads[few[i]]) ^ address_of(loads[*departures[i].load]);
        added_nothing = kernel_.add(difference & mask) ? 0 : added_nothing + 1;
      }
      if (added_nothing >= enough_that_add_nothing) {
        return Overflow::of_sets;
      }
      if (run + 1 >= scouts && pairs < run + 1) {
        return Overflow::hardly_any;
      }
    }
    throw NotFound(no_hash);
  }

  [[nodiscard]] std::uint32_t name_of(std::uint64_t offset) const { return names_.set_of(address_of(offset)); }

  void find_ways_of_sets() {
    constexpr std::uint32_t sets_asked = 8;
    constexpr std::uint32_t most_ways = 32;
    const Under large(device_, largest_.circumstances());
    device_.inquire("growing numbers of lines of single sets", "one line more than ways drives one out");
    std::vector<std::uint32_t> wanted(names_.sets());
    for (std::uint32_t i = 0; i < sets_asked; ++i) {
      wanted[random_.below(wanted.size())] = most_ways + 1;
    }
    std::set<std::uint32_t> found;
    for (const Offsets& lines : LinesOfSets(device_, by_name_, line_bytes_).draw(wanted, random_)) {
      if (!lines.empty()) {
        found.insert(ways_of(lines));
      }
    }
    if (found.size() != 1 || *found.begin() == 0) {
      throw NotFound("the sets do not have equally many ways");
    }
    ways_ = *found.begin();
    device_.learned(std::to_string(ways_) + " ways");
  }

  // Lines that all stay, counted up from one.
  std::uint32_t ways_of(const Offsets& lines) {
    std::vector<model::Question> questions;
    for (std::size_t count = 1; count <= lines.size(); ++count) {
      const AccessSequence first(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(count));
      questions.push_back(device_.question(first, first));
    }
    const auto readings = device_.ask_voted(questions, device_.votes_needed());
    const auto overflowing = std::find_if(readings.begin(), readings.end(), [](const std::vector<Reading>& of_count) {
      return std::any_of(of_count.begin(), of_count.end(), [](Reading reading) { return reading != Reading::hit; });
    });
    if (overflowing == readings.end()) {
      throw NotFound("a set holds more than " + std::to_string(lines.size() - 1) + " lines");
    }
    return static_cast<std::uint32_t>(overflowing - readings.begin());
  }

  void find_policy(SweptStoreFit& fit) {
    constexpr std::size_t most_single_sets = 16;
    const Under large(device_, largest_.circumstances());
    cache_.ways.emplace(names_.sets(), ways_);
    const std::vector<ConflictClass> sets = single_sets(device_, by_name_, *cache_.ways, line_bytes_, most_single_sets);
    ReplacementFit policy = fit_replacement(device_, sets);
    fit.policy_details = std::move(policy.details);
    if (policy.candidates.size() != 1) {
      throw NotFound("in single sets, " + policy.reason);
    }
    policies_ = sweepable(policy.candidates.front());
  }

  // The policy, and those that do the same in a set that is always full; of a sweep only some say which line it takes.
  [[nodiscard]] std::vector<model::Replacement> sweepable(const model::Replacement& found) const {
    std::vector<model::Replacement> policies{found};
    std::ranges::copy_if(model::guessed_policies(*cache_.ways), std::back_inserter(policies),
                         [&](const model::Replacement& guess) {
                           return std::ranges::count(found.equivalent, model::to_text(guess)) > 0;
                         });
    model::CacheDescription swept = cache_;
    swept.index = by_name_;
    swept.store_lines = cache_.ways->size();
    swept.sweep = model::Sweep{};
    std::string unable;
    std::erase_if(policies, [&](model::Replacement& policy) {
      policy.equivalent.clear();
      swept.replacement = policy;
      try {
        return model::CacheSimulator::make(swept, 0) == nullptr;
      } catch (const InputError& reason) {
        unable = reason.what();
        return true;
      }
    });
    if (policies.empty()) {
      throw NotFound(unable);
    }
    return policies;
  }

  void find_sweep() {
    constexpr std::size_t most_accesses = 12'000'000;
    constexpr std::size_t fewest_runs = 3;
    const Under small(device_, smallest_.circumstances());
    device_.inquire("when lines go from a full store, of which no set overflows",
                    "a pointer that sweeps sets in order takes those first that come first");
    std::vector<StoreRun> runs;
    std::string reason;
    std::optional<SweepOrder> order;
    const std::size_t accesses_before = device_.accesses_asked();
    const auto asked = [&] { return device_.accesses_asked() - accesses_before; };
    while (!order && asked() < most_accesses) {
      runs.push_back(run_of_store(runs.size()));
      // Long runs say much by themselves.
      if (runs.size() < fewest_runs && asked() < most_accesses / 4) {
        continue;
      }
      order = fit_sweep_order(runs, static_cast<unsigned>(set_rows_.size()), reason);
      if (!order && !reason.empty()) {
        throw NotFound(reason);
      }
    }
    if (!order) {
      throw NotFound("the order in which a pointer sweeps the sets could not be found");
    }
    order_ = *std::move(order);
    model::XorIndex index{.row_masks = {}, .constant = order_.position_constant};
    for (const auto* rows : {&order_.position_rows, &order_.bank_rows}) {
      for (const std::uint32_t row : *rows) {
        index.row_masks.push_back(address_mask_of(row));
      }
    }
    cache_.index = std::move(index);
    cache_.exercised_bits = bits_;
    banks_ = std::uint32_t{1} << order_.bank_rows.size();
    device_.learned(std::to_string(banks_) + " banks of " + std::to_string(order_.lines_of_bank) + " lines");
  }

  [[nodiscard]] std::uint64_t address_mask_of(std::uint32_t row) const {
    std::uint64_t mask = 0;
    for (std::size_t bit = 0; bit < set_rows_.size(); ++bit) {
      mask ^= (row >> bit & 1U) != 0 ? set_rows_[bit] : 0;
    }
    return mask;
  }

  // As few lines of each set as are enough. Those are asked about that are the first of their sets, as they go first,
  // and come before the pointer moves. Later runs go on for longer, in case the pointer did not come by all sets.
  StoreRun run_of_store(std::size_t runs_before) {
    const std::size_t quarters = std::min<std::size_t>(9 + runs_before / 4, 16);
    const std::size_t wanted = lines_when_full_ * quarters / 4 + 8;
    const auto lines_with = [&](std::uint32_t of_set) { return std::size_t{names_.sets()} * of_set * 9 / 10; };
    std::uint32_t most_of_set = 1;
    for (const std::uint32_t more : {ways_ - 1, ways_}) {
      most_of_set = lines_with(most_of_set) < wanted ? more : most_of_set;
    }
    const std::size_t count = std::min(wanted, lines_with(most_of_set));
    if (5 * count < 6 * lines_when_full_) {
      throw NotFound("even at the smallest size sets overflow before the store is full");
    }
    std::vector<std::uint32_t> of_set(names_.sets());
    const AccessSequence loads = draw_lines(count, [&](std::uint64_t offset) {
      std::uint32_t& lines = of_set[name_of(offset)];
      return lines < most_of_set && ++lines > 0;
    });
    std::vector<std::size_t> asked;
    std::vector<bool> is_met(names_.sets());
    for (std::size_t i = 0; i < std::min(count, lines_when_full_ * 5 / 4); ++i) {
      if (!is_met[name_of(loads[i])]) {
        asked.push_back(i);
        is_met[name_of(loads[i])] = true;
      }
    }
    const std::vector<Departure> departures = find_departures(device_, loads, asked);
    StoreRun run;
    for (const std::uint64_t load : loads) {
      run.loads.push_back({.set = name_of(load), .is_clear = false, .gone_by = {}});
    }
    for (std::size_t i = 0; i < asked.size(); ++i) {
      run.loads[asked[i]].is_clear = departures[i].is_clear;
      run.loads[asked[i]].gone_by = departures[i].load;
    }
    return run;
  }

  // A random sequence from a clean start as it was answered.
  struct RandomRun {
    model::Question question;
    std::vector<Reading> readings;
  };

  // Loads of random words of these lines, which come back soon and late, after each of them was loaded once.
  RandomRun ask_randomly(const AccessSequence& lines, std::size_t accesses) {
    AccessSequence record;
    for (const std::uint32_t line :
         model::returning_walk(static_cast<std::uint32_t>(lines.size()), accesses, random_)) {
      record.push_back(lines[line] + random_.below(line_bytes_ / model::load_bytes) * model::load_bytes);
    }
    RandomRun run{.question = device_.question(lines, std::move(record)), .readings = {}};
    run.readings = device_.ask_voted({&run.question, 1}, device_.votes_needed()).front();
    return run;
  }

  // Votes let hardly one misread pass in a million.
  [[nodiscard]] bool explains(const model::CacheDescription& cache, const RandomRun& run) const {
    const auto simulator = model::CacheSimulator::make(cache, 0);
    const std::vector<model::Outcome> outcomes = outcomes_of(*simulator, run.question, device_.buffer().address);
    constexpr std::size_t most_wrong = 2;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < outcomes.size() && wrong <= most_wrong; ++i) {
      wrong +=
          run.readings[i] != Reading::unclear && (run.readings[i] == Reading::miss) != is_miss(outcomes[i]) ? 1U : 0U;
    }
    return wrong <= most_wrong;
  }

  // Lines of a few sets, half as many again in each as it has ways, so that full sets meet a full store.
  AccessSequence crowded_lines(std::uint64_t store_lines) {
    const auto sets =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(names_.sets(), (8 * store_lines / 5 + ways_ - 1) / ways_));
    std::vector<std::uint32_t> order(names_.sets());
    std::iota(order.begin(), order.end(), 0U);
    random_.shuffle(order);
    std::vector<std::uint32_t> room(names_.sets());
    std::for_each_n(order.begin(), sets, [&](std::uint32_t set) { room[set] = ways_ + (ways_ + 1) / 2; });
    const std::size_t lines = std::accumulate(room.begin(), room.end(), std::size_t{0});
    return draw_lines(lines, [&](std::uint64_t offset) {
      std::uint32_t& left = room[name_of(offset)];
      return left > 0 && left-- > 0;
    });
  }

  // As many lines of each set, and no more than its ways: half as many again as fit, or all that have tags.
  AccessSequence even_lines(std::uint64_t fitting) {
    const std::uint64_t sets = names_.sets();
    const auto of_each = std::min<std::uint64_t>(ways_, (3 * fitting / 2 + sets - 1) / sets);
    std::vector<std::uint32_t> wanted(sets, static_cast<std::uint32_t>(of_each));
    AccessSequence lines;
    for (const Offsets& of_set : LinesOfSets(device_, by_name_, line_bytes_).draw(wanted, random_)) {
      lines.insert(lines.end(), of_set.begin(), of_set.end());
    }
    random_.shuffle(lines);
    return lines;
  }

  void find_quotas() {
    constexpr std::size_t most_runs = 8;
    constexpr std::size_t fewest_runs = 2;
    constexpr std::size_t accesses = 2000;
    constexpr std::size_t most_pairs = std::size_t{1} << 14U;
    const Under small(device_, smallest_.circumstances());
    device_.inquire("random loads while the store is full", "how many lines an access makes the pointer take");
    cache_.store_lines = std::uint64_t{banks_} * order_.lines_of_bank;
    const std::uint32_t most = std::max(8U, order_.most_at_once + 2);
    struct Hypothesis {
      model::Replacement policy;
      model::Sweep sweep;
    };
    std::vector<Hypothesis> left;
    for (const model::Replacement& policy : policies_) {
      for (const std::uint32_t on_fill : {order_.most_at_once, order_.most_at_once + 1}) {
        for (std::uint32_t on_replacement = 0; on_replacement <= most; ++on_replacement) {
          for (std::uint32_t on_hit = 0; on_hit <= most; ++on_hit) {
            left.push_back({.policy = policy,
                            .sweep = {.banks = banks_,
                                      .lines_on_hit = on_hit,
                                      .lines_on_replacement = on_replacement,
                                      .lines_on_fill = on_fill}});
          }
        }
      }
    }
    const std::size_t before = left.size();
    for (std::size_t run = 0; !left.empty() && (left.size() > 1 || run < fewest_runs) && run < most_runs; ++run) {
      const RandomRun answered = ask_randomly(
          run % 2 == 0 ? crowded_lines(*cache_.store_lines) : draw_lines(3 * *cache_.store_lines / 2), accesses);
      std::erase_if(left, [&](const Hypothesis& hypothesis) {
        model::CacheDescription swept = cache_;
        swept.replacement = hypothesis.policy;
        swept.sweep = hypothesis.sweep;
        return !explains(swept, answered);
      });
    }
    // What does the same whenever the pointer comes by is one and the same.
    while (left.size() > 1 && left[0].sweep == left[1].sweep &&
           model::are_alike_when_swept(left[0].policy, left[1].policy, ways_, {.pairs_of_states = most_pairs})) {
      left[0].policy.equivalent.push_back(model::to_text(left[1].policy));
      left.erase(left.begin() + 1);
    }
    device_.learned(left.empty() ? "no numbers explain them" : "so many are left", before, left.size());
    if (left.size() != 1) {
      throw NotFound(left.empty() ? "no numbers of lines that a pointer takes explain random loads"
                                  : "several numbers of lines that a pointer takes explain all random loads");
    }
    cache_.replacement = left.front().policy;
    cache_.sweep = left.front().sweep;
  }

  void find_stores() {
    device_.inquire("random loads at each size", "how many lines the store holds there");
    for (const Size& size : sizes_) {
      cache_.carveouts.push_back({.carveout_kb = *size.carveout_kb,
                                  .onset_bytes = size.onset_lines * line_bytes_,
                                  .resident_bytes = {},
                                  .ways = {},
                                  .store_lines = store_lines_at(size)});
    }
    cache_.store_lines = store_lines_at(own_size_);
    cache_.capacity_bytes = *cache_.store_lines * line_bytes_;
    device_.learned("lines of the store");
  }

  [[nodiscard]] std::uint64_t tags_of_bank() const { return std::uint64_t{names_.sets()} * ways_ / banks_; }

  [[nodiscard]] std::vector<std::uint64_t> stores_between(std::uint64_t least_of_bank,
                                                          std::uint64_t most_of_bank) const {
    std::vector<std::uint64_t> stores;
    for (std::uint64_t lines = least_of_bank; lines <= std::min(most_of_bank, tags_of_bank()); ++lines) {
      stores.push_back(lines * banks_);
    }
    return stores;
  }

  std::uint64_t store_lines_at(const Size& size) {
    constexpr std::uint64_t most_apart = 6;
    constexpr std::size_t most_runs = 6;
    const Under circumstances(device_, size.circumstances());
    const std::uint64_t near = size.onset_lines / banks_;
    const std::uint64_t tags = tags_of_bank();
    // Where contiguous lines overflow a set first, they say little of the store.
    std::vector<std::uint64_t> left = stores_between(near > most_apart ? near - most_apart : 1, near + most_apart);
    std::vector<RandomRun> runs;
    const auto narrow = [&](const RandomRun& run) {
      std::erase_if(left, [&](std::uint64_t lines) {
        model::CacheDescription supposed = cache_;
        supposed.store_lines = lines;
        return !explains(supposed, run);
      });
    };
    for (bool widened = false; left.size() > 1 && runs.size() < most_runs;) {
      const AccessSequence lines =
          runs.size() % 2 == 0 ? even_lines(size.onset_lines) : even_lines(tags_of_bank() * banks_);
      runs.push_back(ask_randomly(lines, 2 * lines.size() + 1000));
      narrow(runs.back());
      if (left.empty() && !std::exchange(widened, true)) {
        left = stores_between(1, tags);
        std::ranges::for_each(runs, narrow);
      }
    }
    if (left.size() != 1) {
      throw NotFound("at " + size.name() + (left.empty() ? " no number" : " more than one number") +
                     " of lines in the store explains random loads");
    }
    return left.front();
  }

  void verify_all_sizes(SweptStoreFit& fit) {
    device_.inquire("fresh random sequences over lines from everywhere, at every size",
                    "only what predicts answers that took no part in the fit is resolved");
    DepartureTally departures(device_, cache_);
    Verification& verification = fit.verification = verify(device_, cache_, &departures);
    for (const Size& size : sizes_) {
      if (!verification.holds) {
        break;
      }
      const Under circumstances(device_, size.circumstances());
      const model::CacheDescription cache_at_size = *model::at_carveout(cache_, *size.carveout_kb);
      departures.go_on_with(cache_at_size);
      const Verification at_size = verify(device_, cache_at_size, &departures);
      verification.evidence.accesses += at_size.evidence.accesses;
      verification.evidence.sequences += at_size.evidence.sequences;
      verification.evidence.outliers += at_size.evidence.outliers;
      verification.evidence.agreement = std::min(*verification.evidence.agreement, *at_size.evidence.agreement);
      verification.evidence.voted_agreement =
          std::min(*verification.evidence.voted_agreement, *at_size.evidence.voted_agreement);
      verification.evidence.p_value = std::min(*verification.evidence.p_value, *at_size.evidence.p_value);
      if (!at_size.holds) {
        verification.holds = false;
        verification.reason = "at " + size.name() + ", " + at_size.reason;
      }
    }
    departures.go_on_with(cache_);
    fit.bound_of_policy = bound_of(departures.departures_below());
    fit.bound_of_index = bound_of(departures.odd_lines_below());
    device_.learned(verification.holds ? "the description predicts them" : verification.reason);
  }

  Interrogator& device_;
  model::CacheDescription cache_;
  model::Random random_;
  std::uint64_t line_bytes_;
  std::uint64_t start_;
  std::uint64_t lines_of_buffer_;
  Size own_size_;
  std::vector<Size> sizes_;
  Size smallest_;
  Size largest_;
  std::size_t lines_when_full_ = 0;  // at the smallest size, about
  std::vector<unsigned> bits_;       // of addresses, as many as tell lines apart
  EchelonBasis kernel_;              // differences of lines of one set
  std::vector<std::uint64_t> set_rows_;
  model::XorIndex names_;         // of sets, before their order is known
  model::IndexFunction by_name_;  // the same
  std::uint32_t ways_ = 0;
  std::vector<model::Replacement> policies_;  // those that single sets may follow
  SweepOrder order_;
  std::uint32_t banks_ = 1;
};

}  // namespace

SweptStoreFit find_swept_store(Interrogator& device, const model::CacheDescription& known) {
  return SweptStoreSearch(device, known).run();
}

}  // namespace gpuinfer::infer
