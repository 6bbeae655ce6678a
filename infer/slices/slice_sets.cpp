// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/slice_sets.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "model/cache_simulator.hpp"
#include "model/policies/lru.hpp"
#include "model/random_streams.hpp"

namespace gpuinfer::infer {

namespace {

using Line = std::uint64_t;  // an offset of it
using Lines = std::vector<Line>;

constexpr std::uint32_t most_ways = 64;
constexpr std::uint64_t most_line_bytes = 4096;
constexpr std::size_t accesses_of_question = 32768;

// A line, and the fewest others that drive it out.
struct EvictionSet {
  Line line = 0;
  Lines others = {};
};

// Plays sequences one after the other, each of which begins by bringing what it needs, and tells of some loads whether
// the line was there.
class Player {
 public:
  Player(Asker& device, const SliceView& view) : device_(&device), view_(view) {}

  void load(Line line) {
    if (warm_.empty() && record_.empty()) {
      // While others begin and end: their code and what they are told comes through the same cache.
      record_.assign(loads_of_settling, line);
    }
    record_.push_back(line);
    ++unasked_loads_;
  }
  void load(const Lines& lines) {
    for (const Line line : lines) {
      load(line);
    }
  }
  void load_all_of(const EvictionSet& set) {
    load(set.line);
    load(set.others);
  }
  void load_all_but_last_of(const EvictionSet& set) {
    load(set.line);
    for (std::size_t i = 0; i + 1 < set.others.size(); ++i) {
      load(set.others[i]);
    }
  }
  // Loads the line, too; whether it was gone is the next answer.
  void is_gone(Line line) {
    if (warm_.empty()) {
      // What nobody asks about is not recorded.
      warm_ = std::exchange(record_, {});
    }
    record_.push_back(line);
    asked_.push_back({.question = questions_.size(), .access = record_.size() - 1});
  }
  // A sequence is complete; it is not divided. A long one is a question by itself, so that what it brings before it
  // asks is not recorded.
  void end_sequence() {
    const bool is_long = std::exchange(unasked_loads_, 0) > loads_of_settling;
    if (is_long || warm_.size() + record_.size() >= accesses_of_question) {
      end_question();
    }
  }

  // Of each call of is_gone() since the last answers.
  std::vector<bool> answers() {
    end_question();
    std::vector<bool> gone;
    const std::vector<std::vector<float>> latencies = device_->latencies(questions_);
    gone.reserve(asked_.size());
    for (const Place& place : asked_) {
      gone.push_back(latencies[place.question][place.access] > view_.most_present_cycles);
    }
    questions_.clear();
    asked_.clear();
    return gone;
  }

 private:
  static constexpr std::size_t loads_of_settling = 256;

  struct Place {
    std::size_t question;
    std::size_t access;
  };

  void end_question() {
    unasked_loads_ = 0;
    if (record_.empty()) {
      return;
    }
    model::Question question{.target = device_->target(),
                             .state = model::StartState::keep,
                             .warm = std::exchange(warm_, {}),
                             .record = std::exchange(record_, {})};
    question.circumstances.unit = view_.unit;
    questions_.push_back(std::move(question));
  }

  Asker* device_;
  SliceView view_;
  AccessSequence warm_;
  AccessSequence record_;
  std::size_t unasked_loads_ = 0;  // of the sequence that is being asked
  std::vector<model::Question> questions_;
  std::vector<Place> asked_;
};

class SetSearch {
 public:
  SetSearch(Asker& device, const SliceView& view, std::uint64_t sector_bytes)
      : player_(device, view), device_(&device), sector_bytes_(sector_bytes),
        random_(model::RandomStreams(device.settings().seed).random("slice sets")) {}

  FoundSliceSets find(Lines sectors) {
    random_.shuffle(sectors);
    if (!find_ways(sectors) || !find_line()) {
      return {.sets = {}, .reason = std::move(reason_)};
    }
    Lines lines;
    std::set<Line> seen;
    for (const Line sector : sectors) {
      if (seen.insert(device_->address_of(sector) / found_.line_bytes).second) {
        lines.push_back(sector);
      }
    }
    // Some are kept to be placed at the end.
    const std::size_t fresh_count = std::min<std::size_t>(lines.size() / 4, most_fresh);
    Lines fresh(lines.end() - static_cast<std::ptrdiff_t>(fresh_count), lines.end());
    lines.resize(lines.size() - fresh_count);
    if (!partition(std::move(lines)) || !place_fresh(fresh)) {
      return {.sets = {}, .reason = std::move(reason_)};
    }
    return {.sets = std::move(found_), .reason = {}};
  }

 private:
  static constexpr std::size_t at_once = 32;
  static constexpr std::size_t most_fresh = 2500;
  // Lines that are in no set are fewer than half of what a set has, or there is one more.
  static constexpr std::size_t parts_of_set = 2;

  struct Search {
    EvictionSet set;
    std::size_t least = 0;   // a beginning of fewer lines leaves the line where it is
    std::size_t enough = 0;  // one of so many drives it out
    bool is_done = false;
  };

  void load_sets_of(const std::vector<Search>& searches) {
    for (const Search& search : searches) {
      if (!search.is_done) {
        player_.load_all_of(search.set);
      }
    }
  }

  // For each search that goes on, whether the first lines of `order`, as many as it says, evict its line behind
  // the others that it knows already. Where that takes few loads, each of several times: what others do may do so, too.
  std::vector<bool> are_evicted(const std::vector<Search>& searches, const Lines& order,
                                const std::vector<std::size_t>& beginnings) {
    constexpr std::size_t few_loads = 1024;
    std::vector<std::size_t> by_beginning;
    for (std::size_t i = 0; i < searches.size(); ++i) {
      if (!searches[i].is_done) {
        by_beginning.push_back(i);
      }
    }
    std::ranges::stable_sort(by_beginning, {}, [&](std::size_t i) { return beginnings[i]; });
    const unsigned times = order.size() > few_loads ? 1 : 3;
    for (unsigned time = 0; time < times; ++time) {
      load_sets_of(searches);
      std::size_t loaded = 0;
      for (const std::size_t i : by_beginning) {
        for (; loaded < beginnings[i]; ++loaded) {
          player_.load(order[loaded]);
        }
        player_.is_gone(searches[i].set.line);
      }
    }
    const std::vector<bool> in_order = player_.answers();
    std::vector<bool> gone(searches.size());
    for (std::size_t i = 0; i < by_beginning.size(); ++i) {
      gone[by_beginning[i]] = true;
      for (std::size_t answer = i; answer < in_order.size(); answer += by_beginning.size()) {
        gone[by_beginning[i]] = gone[by_beginning[i]] && in_order[answer];
      }
    }
    return gone;
  }

  // Of these lines, those that all others together evict, each with the fewest that do.
  std::vector<EvictionSet> eviction_sets_of(const Lines& lines, const Lines& order) {
    std::vector<Search> searches;
    for (const Line line : lines) {
      searches.push_back({.set = {.line = line}, .least = 0, .enough = order.size()});
    }
    const std::vector<std::size_t> all(searches.size(), order.size());
    const std::vector<bool> gone = are_evicted(searches, order, all);
    for (std::size_t i = 0; i < searches.size(); ++i) {
      searches[i].is_done = !gone[i];
    }
    std::erase_if(searches, [](const Search& search) { return search.is_done; });
    for (std::uint32_t found = 0; found <= most_ways && std::ranges::any_of(searches, std::not_fn(&Search::is_done));
         ++found) {
      add_one_each(searches, order);
    }
    std::erase_if(searches, [](const Search& search) { return !search.is_done || search.set.others.empty(); });
    return confirmed(searches);
  }

  // To each search that goes on the line that ends its shortest beginning; done is the one that needs none.
  void add_one_each(std::vector<Search>& searches, const Lines& order) {
    std::vector<std::size_t> none(searches.size(), 0);
    const std::vector<bool> are_complete = are_evicted(searches, order, none);
    for (std::size_t i = 0; i < searches.size(); ++i) {
      searches[i].is_done = searches[i].is_done || are_complete[i];
      searches[i].least = 0;
    }
    const auto goes_on = [](const Search& search) { return !search.is_done && search.enough - search.least > 1; };
    while (std::ranges::any_of(searches, goes_on)) {
      std::vector<std::size_t> middles;
      for (const Search& search : searches) {
        middles.push_back(goes_on(search) ? (search.least + search.enough) / 2 : search.enough);
      }
      const std::vector<bool> gone = are_evicted(searches, order, middles);
      for (std::size_t i = 0; i < searches.size(); ++i) {
        if (goes_on(searches[i])) {
          (gone[i] ? searches[i].enough : searches[i].least) = middles[i];
        }
      }
    }
    for (Search& search : searches) {
      if (search.is_done) {
        continue;
      }
      const Line line = order[search.enough - 1];
      if (std::ranges::find(search.set.others, line) == search.set.others.end()) {
        search.set.others.push_back(line);
      } else {
        search.enough = order.size();  // a misread had made it too short
      }
    }
  }

  // All of a set drive its line out, and all but one do not, each time.
  std::vector<EvictionSet> confirmed(const std::vector<Search>& searches) {
    constexpr unsigned times = 3;
    for (const Search& search : searches) {
      for (unsigned time = 0; time < times; ++time) {
        player_.load_all_of(search.set);
        player_.is_gone(search.set.line);
        player_.load_all_but_last_of(search.set);
        player_.is_gone(search.set.line);
        player_.end_sequence();
      }
    }
    const std::vector<bool> gone = player_.answers();
    std::vector<EvictionSet> sets;
    for (std::size_t i = 0; i < searches.size(); ++i) {
      bool is_so = true;
      for (unsigned time = 0; time < times; ++time) {
        is_so = is_so && gone[2 * (i * times + time)] && !gone[2 * (i * times + time) + 1];
      }
      if (is_so) {
        sets.push_back(searches[i].set);
      }
    }
    return sets;
  }

  // Of fewer lines at once where those of many are in each other's way, as they lie in the same sets.
  bool find_ways(const Lines& sectors) {
    std::map<std::size_t, std::size_t> sizes;
    std::size_t asked = 0;
    for (const std::size_t count : {at_once, std::size_t{8}, std::size_t{1}}) {
      sizes.clear();
      asked = 0;
      first_sets_.clear();
      constexpr std::size_t lines_asked = 8;
      while (asked < std::max(count, lines_asked) && asked + count < sectors.size()) {
        const auto first = sectors.begin() + static_cast<std::ptrdiff_t>(asked);
        const Lines some(first, first + static_cast<std::ptrdiff_t>(count));
        for (EvictionSet& set : eviction_sets_of(some, without_neighbours_of(some, sectors))) {
          ++sizes[set.others.size()];
          first_sets_.push_back(std::move(set));
        }
        asked += count;
      }
      const auto most = std::ranges::max_element(sizes, {}, [](const auto& size) { return size.second; });
      if (most != sizes.end() && 2 * most->second >= asked) {
        found_.ways = static_cast<std::uint32_t>(most->first);
        std::erase_if(first_sets_, [&](const EvictionSet& set) { return set.others.size() != found_.ways; });
        return true;
      }
    }
    reason_ = "of " + std::to_string(asked) + " lines of a slice " + std::to_string(first_sets_.size()) +
              " are driven out by a few others";
    for (const auto& [others, lines_driven] : sizes) {
      reason_ += ", " + std::to_string(lines_driven) + " by " + std::to_string(others);
    }
    return false;
  }

  // A load of the same line would be as good as one of the sector itself.
  [[nodiscard]] Lines without_neighbours_of(const Lines& some, const Lines& sectors) const {
    std::set<std::uint64_t> near;
    for (const Line line : some) {
      near.insert(device_->address_of(line) / most_line_bytes);
    }
    Lines others;
    std::ranges::copy_if(sectors, std::back_inserter(others),
                         [&](Line sector) { return !near.contains(device_->address_of(sector) / most_line_bytes); });
    return others;
  }

  // A neighbour takes the place of a line among those that drive one out where it is in the same line; another line of
  // the set would do so too, but drives out one more.
  bool find_line() {
    found_.line_bytes = sector_bytes_;
    for (std::uint64_t step = sector_bytes_; step < most_line_bytes; step *= 2) {
      std::size_t asked = 0;
      for (const EvictionSet& set : first_sets_) {
        const Line neighbour = neighbour_of(set.others.back(), step);
        if (neighbour >= device_->buffer().bytes) {
          continue;
        }
        player_.load_all_but_last_of(set);
        player_.load(neighbour);
        player_.is_gone(set.line);
        player_.load(set.line);
        player_.load(Lines(set.others.begin() + 1, set.others.end()));
        player_.load(neighbour);
        player_.is_gone(set.line);
        player_.end_sequence();
        ++asked;
      }
      const std::vector<bool> gone = player_.answers();
      std::size_t in_line = 0;
      for (std::size_t i = 0; i < asked; ++i) {
        in_line += gone[2 * i] && !gone[2 * i + 1] ? 1U : 0U;
      }
      if (10 * in_line < asked) {
        return true;
      }
      if (10 * in_line < 9 * asked) {
        reason_ = "some neighbours " + std::to_string(step) + " bytes apart share a line, and some do not";
        return false;
      }
      found_.line_bytes = 2 * step;
    }
    return true;
  }

  [[nodiscard]] Line neighbour_of(Line line, std::uint64_t step) const {
    return (device_->address_of(line) ^ step) - device_->buffer().address;
  }

  bool partition(Lines unplaced) {
    std::size_t tried_in_vain = 0;
    while (tried_in_vain < std::min(unplaced.size(), 2 * at_once)) {
      const auto count = static_cast<std::ptrdiff_t>(lines_asked_of(unplaced.size()));
      const Lines some(unplaced.end() - count, unplaced.end());
      unplaced.erase(unplaced.end() - count, unplaced.end());
      std::vector<EvictionSet> sets = eviction_sets_of(some, unplaced);
      std::erase_if(sets, [&](const EvictionSet& set) { return set.others.size() != found_.ways; });
      sets = apart(std::move(sets));
      unplaced.insert(unplaced.begin(), some.begin(), some.end());
      tried_in_vain = sets.empty() ? tried_in_vain + some.size() : 0;
      take(sets, unplaced);
      device_->report("sets of a slice", 0.985);
    }
    lines_left_ = std::move(unplaced);
    place_left();
    found_.lines_left = lines_left_.size();
    if (found_.lines_left * found_.sets.size() * parts_of_set > found_.lines_placed) {
      reason_ = "of " + std::to_string(found_.lines_left + found_.lines_placed) + " lines of a slice " +
                std::to_string(found_.lines_left) + " lie in none of " + std::to_string(found_.sets.size()) + " sets";
      return false;
    }
    return true;
  }

  // So many at once that few lie in the same set, which their sets have to be told apart for.
  [[nodiscard]] std::size_t lines_asked_of(std::size_t unplaced) const {
    constexpr std::size_t sets_for_each = 10;
    const std::size_t most_sets = unplaced / (found_.ways + 1);
    return std::clamp<std::size_t>(most_sets / sets_for_each, 1, at_once);
  }

  // Without those whose line lies in the set of an earlier one.
  std::vector<EvictionSet> apart(std::vector<EvictionSet> sets) {
    std::vector<EvictionSet> kept;
    for (EvictionSet& set : sets) {
      for (const EvictionSet& other : kept) {
        player_.load_all_but_last_of(other);
        player_.load(set.line);
        player_.is_gone(other.line);
      }
      if (std::ranges::none_of(player_.answers(), std::identity{})) {
        kept.push_back(std::move(set));
      }
    }
    return kept;
  }

  // Takes the lines of these sets from `unplaced`.
  void take(const std::vector<EvictionSet>& sets, Lines& unplaced) {
    if (sets.empty()) {
      return;
    }
    std::map<Line, std::size_t> set_of;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      set_of[sets[i].line] = i;
      for (const Line line : sets[i].others) {
        set_of[line] = i;
      }
    }
    Lines others;
    for (const Line line : unplaced) {
      if (!set_of.contains(line)) {
        others.push_back(line);
      }
    }
    for (const auto& [line, set] : members_of(sets, others)) {
      set_of[line] = set;
    }
    const std::size_t first = found_.sets.size();
    found_.sets.resize(first + sets.size());
    known_.insert(known_.end(), sets.begin(), sets.end());
    for (const auto& [line, set] : set_of) {
      found_.sets[first + set].push_back(line);
    }
    found_.lines_placed += set_of.size();
    std::erase_if(unplaced, [&](Line line) { return set_of.contains(line); });
  }

  // Which of the lines lie in which of the sets: a few lines are loaded behind all sets, each full, and where one of
  // these lost its oldest line, each of the few is asked by itself.
  std::vector<std::pair<Line, std::size_t>> members_of(std::span<const EvictionSet> sets, const Lines& lines) {
    constexpr std::size_t together = 8;
    for (std::size_t first = 0; first < lines.size(); first += together) {
      for (const EvictionSet& set : sets) {
        player_.load_all_but_last_of(set);
      }
      for (std::size_t i = first; i < std::min(lines.size(), first + together); ++i) {
        player_.load(lines[i]);
      }
      for (const EvictionSet& set : sets) {
        player_.is_gone(set.line);
      }
      player_.end_sequence();
    }
    const std::vector<bool> lost = player_.answers();
    std::vector<std::pair<Line, std::size_t>> candidates;
    for (std::size_t i = 0; i < lost.size(); ++i) {
      if (!lost[i]) {
        continue;
      }
      const std::size_t first = i / sets.size() * together;
      for (std::size_t line = first; line < std::min(lines.size(), first + together); ++line) {
        candidates.emplace_back(lines[line], i % sets.size());
      }
    }
    for (int time = 0; time < 3; ++time) {
      for (const auto& [line, set] : candidates) {
        player_.load_all_but_last_of(sets[set]);
        player_.load(line);
        player_.is_gone(sets[set].line);
        player_.end_sequence();
      }
      const std::vector<bool> gone = player_.answers();
      std::size_t kept = 0;
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        if (gone[i]) {
          candidates[kept++] = candidates[i];
        }
      }
      candidates.resize(kept);
    }
    return candidates;
  }

  // Lines that a misread hid from their sets, in those.
  void place_left() {
    std::map<Line, std::size_t> set_of;
    for (const auto& [line, set] : in_known(lines_left_)) {
      if (set_of.emplace(line, set).second) {
        found_.sets[set].push_back(line);
        ++found_.lines_placed;
      }
    }
    std::erase_if(lines_left_, [&](Line line) { return set_of.contains(line); });
  }

  std::vector<std::pair<Line, std::size_t>> in_known(const Lines& lines) {
    std::vector<std::pair<Line, std::size_t>> all;
    for (std::size_t first = 0; first < known_.size(); first += at_once) {
      const auto some = std::span(known_).subspan(first, std::min(at_once, known_.size() - first));
      for (const auto& [line, set] : members_of(some, lines)) {
        all.emplace_back(line, first + set);
      }
    }
    return all;
  }

  bool place_fresh(const Lines& fresh) {
    std::map<Line, std::size_t> times;
    for (const auto& [line, set] : in_known(fresh)) {
      ++times[line];
    }
    found_.fresh_lines = fresh.size();
    found_.fresh_in_one_set =
        static_cast<std::size_t>(std::ranges::count_if(times, [](const auto& line) { return line.second == 1; }));
    const std::size_t elsewhere = found_.fresh_lines - found_.fresh_in_one_set;
    if (elsewhere * found_.sets.size() * parts_of_set > found_.fresh_lines) {
      reason_ = "of " + std::to_string(fresh.size()) + " fresh lines of a slice " + std::to_string(elsewhere) +
                " lie in none or in several of " + std::to_string(found_.sets.size()) + " sets";
      return false;
    }
    return true;
  }

  Player player_;
  Asker* device_;
  std::uint64_t sector_bytes_;
  model::Random random_;
  std::vector<EvictionSet> first_sets_;
  std::vector<EvictionSet> known_;  // as found_.sets
  Lines lines_left_;
  SliceSets found_;
  std::string reason_;
};

}  // namespace

FoundSliceSets find_slice_sets(Asker& device, const SliceView& view, std::vector<std::uint64_t> sectors,
                               std::uint64_t sector_bytes) {
  return SetSearch(device, view, sector_bytes).find(std::move(sectors));
}

LruPrediction predict_lru(Asker& device, const SliceView& view, const SliceSets& sets) {
  constexpr std::size_t sequences = 64;
  constexpr std::size_t loads = 4096;
  constexpr std::size_t sets_at_once = 4;
  model::Random random = model::RandomStreams(device.settings().seed).random("slice policy");
  LruPrediction prediction;
  Player player(device, view);
  std::vector<bool> predicted;
  for (std::size_t sequence = 0; sequence < sequences; ++sequence) {
    struct Played {
      std::vector<std::uint64_t> lines;
      std::unique_ptr<model::CacheSimulator> simulator;
    };
    std::vector<Played> played;
    for (std::size_t i = 0; i < sets_at_once; ++i) {
      const std::vector<std::uint64_t>& lines = sets.sets[random.below(sets.sets.size())];
      const std::size_t count = std::min<std::size_t>(lines.size(), sets.ways + 1 + random.below(sets.ways));
      played.push_back(
          {.lines = {lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(count)},
           .simulator = model::CacheSimulator::make(model::one_set(model::plain<model::Lru>(), sets.ways), 0)});
      // The same set twice would be one set of twice as many lines.
      if (std::ranges::any_of(played.begin(), played.end() - 1,
                              [&](const Played& other) { return other.lines.front() == lines.front(); })) {
        played.pop_back();
      }
    }
    const auto access = [&](Played& set, std::size_t line) {
      const auto event = set.simulator->step(model::Address{line}, model::AccessKind::load);
      return model::is_miss(event.outcome);
    };
    for (Played& set : played) {
      for (std::size_t line = 0; line < set.lines.size(); ++line) {
        player.load(set.lines[line]);
        static_cast<void>(access(set, line));
      }
    }
    for (std::size_t i = 0; i < loads; ++i) {
      Played& set = played[random.below(played.size())];
      const std::size_t line = random.below(set.lines.size());
      player.is_gone(set.lines[line]);
      predicted.push_back(access(set, line));
    }
    player.end_sequence();
  }
  const std::vector<bool> gone = player.answers();
  for (std::size_t i = 0; i < gone.size(); ++i) {
    prediction.misses += gone[i] ? 1U : 0U;
    prediction.as_predicted += gone[i] == predicted[i] ? 1U : 0U;
  }
  prediction.accesses = gone.size();
  return prediction;
}

std::size_t count_present(Asker& device, const SliceView& view, const std::vector<std::uint64_t>& lines) {
  Player player(device, view);
  player.load(lines);
  for (std::size_t i = lines.size(); i-- > 0;) {
    player.is_gone(lines[i]);
  }
  return static_cast<std::size_t>(std::ranges::count(player.answers(), false));
}

}  // namespace gpuinfer::infer
