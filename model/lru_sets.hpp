// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "model/lanes.hpp"
#include "model/line_ids.hpp"

// Sets of a cache under LRU, laid out for the registers of the host: which line lies in which way, and in which order
// they were accessed. A free way counts as older than any line, and the lower of two free ones as the older, so that
// filling a set is nothing special. Both layouts have the same members:
//
//   Sets(ways);                    one entry for each set, at most `most_ways`
//   void clear();                  all ways are free
//   void begin(accesses);          before so many calls of touch()
//   ways_of(set, id)               bit i: the line lies in way i
//   oldest(set)                    bit i: way i goes next; one bit
//   id_in(set, way)                the line, or what stands in place of one
//   void put(set, way, id);        the same, to be there from now on
//   void touch(set, way);          the way is now the youngest
//   void put_and_touch(...)        both, in stores that do not depend on the way where sets are soon accessed again
//   void release(set, way);        the way is now free
//   void prefetch(set);            an access to the set is due
namespace gpuinfer::model {

// In place of a line: the way is free, or holds one that is never loaded again.
inline constexpr std::uint32_t nobody = ~std::uint32_t{0};
inline constexpr std::uint32_t stranger = nobody - 1;
static_assert(LineIds::end < stranger);

// Up to four ways. The ids of a set are one register; beside them stands when each way was accessed last, the way
// itself in the two lowest bits, so that the least of the four numbers names the oldest way.
class LruSetsOfFour {
 public:
  static constexpr std::uint32_t most_ways = 4;

  explicit LruSetsOfFour(std::vector<std::uint32_t> ways) : ways_(std::move(ways)), sets_(ways_.size()) { clear(); }

  void clear() {
    now_ = most_ways;
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      for (std::uint32_t way = 0; way < most_ways; ++way) {
        sets_[set].ids[way] = nobody;
        sets_[set].times[way] = way < ways_[set] ? way : never_goes;
      }
    }
  }

  // Before the clock runs out all times become as small as their order allows.
  void begin(std::size_t accesses) {
    if (now_ < never_goes / most_ways * most_ways - most_ways * (accesses + 1)) [[likely]] {
      return;
    }
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      const auto times = sets_[set].times;
      for (std::uint32_t way = 0; way < ways_[set]; ++way) {
        const auto older = static_cast<std::uint32_t>(
            std::count_if(times.begin(), times.end(), [&](std::uint32_t time) { return time < times[way]; }));
        sets_[set].times[way] = times[way] < most_ways ? way : (older + 1) * most_ways + way;
      }
    }
    now_ = (most_ways + 1) * most_ways;
  }

  [[nodiscard]] [[gnu::always_inline]] std::uint64_t ways_of(std::uint32_t set, std::uint32_t id) const {
    return equal_words_of_4(sets_[set].ids.data(), id);
  }
  [[nodiscard]] [[gnu::always_inline]] std::uint64_t oldest(std::uint32_t set) const {
    const auto& times = sets_[set].times;
    const std::uint32_t least = std::min(std::min(times[0], times[1]), std::min(times[2], times[3]));
    return std::uint64_t{1} << (least % most_ways);
  }
  [[nodiscard]] std::uint32_t id_in(std::uint32_t set, std::uint32_t way) const { return sets_[set].ids[way]; }

  [[gnu::always_inline]] void put(std::uint32_t set, std::uint32_t way, std::uint32_t id) { sets_[set].ids[way] = id; }
  [[gnu::always_inline]] void touch(std::uint32_t set, std::uint32_t way) {
    now_ += most_ways;
    sets_[set].times[way] = now_ | way;
  }
  [[gnu::always_inline]] void put_and_touch(std::uint32_t set, std::uint32_t way, std::uint32_t id) {
    now_ += most_ways;
    put_word_of<4>(sets_[set].ids.data(), way, id);
    put_word_of<4>(sets_[set].times.data(), way, now_ | way);
  }
  void release(std::uint32_t set, std::uint32_t way) {
    sets_[set].ids[way] = nobody;
    sets_[set].times[way] = way;
  }

  [[gnu::always_inline]] void prefetch(std::uint32_t set) const { __builtin_prefetch(&sets_[set], 1); }

 private:
  static constexpr std::uint32_t never_goes = ~std::uint32_t{0};  // the time of a way that the set does not have

  struct alignas(32) Set {
    std::array<std::uint32_t, most_ways> ids;
    std::array<std::uint32_t, most_ways> times;
  };

  std::vector<std::uint32_t> ways_;  // by set
  std::vector<Set> sets_;
  std::uint32_t now_ = 0;
};

// Up to 16, 32, 48 or 64 ways: as many registers of sixteen. Each way has its place in the order as one byte, 0 the
// youngest; to move one, all that stand on its way are counted up at once. The ids of a set of 48 ways are three lines
// of the host's cache, their places less than one.
template <std::uint32_t registers>
class LruSetsOfSixteens {
 public:
  static constexpr std::uint32_t most_ways = 16 * registers;

  explicit LruSetsOfSixteens(std::vector<std::uint32_t> ways)
      : ways_(std::move(ways)), ids_(ways_.size() * most_ways), places_(ways_.size() * most_ways) {
    for (const std::uint32_t count : ways_) {
      last_place_.push_back(static_cast<std::uint8_t>(count - 1));
    }
    clear();
  }

  void clear() {
    std::fill(ids_.begin(), ids_.end(), nobody);
    for (std::uint32_t set = 0; set < ways_.size(); ++set) {
      for (std::uint32_t way = 0; way < most_ways; ++way) {
        places_of(set)[way] = way < ways_[set] ? static_cast<std::int8_t>(ways_[set] - 1 - way) : no_way;
      }
    }
  }

  static void begin(std::size_t /*accesses*/) {}

  [[nodiscard]] [[gnu::always_inline]] std::uint64_t ways_of(std::uint32_t set, std::uint32_t id) const {
    std::uint64_t mask = 0;
    for (std::uint32_t i = 0; i < registers; ++i) {
      mask |= std::uint64_t{equal_words_of_16(&ids_[std::size_t{set} * most_ways + i * 16], id)} << (i * 16);
    }
    return mask;
  }
  [[nodiscard]] [[gnu::always_inline]] std::uint64_t oldest(std::uint32_t set) const {
    const ByteLanes last = load_lanes(byte_everywhere[last_place_[set]].data());
    std::uint64_t mask = 0;
    for (std::uint32_t i = 0; i < registers; ++i) {
      mask |= std::uint64_t{equal_bytes(load_lanes(places_of(set) + i * 16), last)} << (i * 16);
    }
    return mask;
  }
  [[nodiscard]] std::uint32_t id_in(std::uint32_t set, std::uint32_t way) const {
    return ids_[std::size_t{set} * most_ways + way];
  }

  [[gnu::always_inline]] void put(std::uint32_t set, std::uint32_t way, std::uint32_t id) {
    ids_[std::size_t{set} * most_ways + way] = id;
  }
  [[gnu::always_inline]] void touch(std::uint32_t set, std::uint32_t way) {
    std::int8_t* const places = places_of(set);
    const ByteLanes from = load_lanes(byte_everywhere[static_cast<std::uint8_t>(places[way])].data());
    for (std::uint32_t i = 0; i < registers; ++i) {
      const ByteLanes place = load_lanes(places + i * 16);
      store_lanes(places + i * 16, (place - (place < from)) & (place != from));
    }
  }
  [[gnu::always_inline]] void put_and_touch(std::uint32_t set, std::uint32_t way, std::uint32_t id) {
    touch(set, way);
    if (registers == 1) {
      put_word_of<16>(&ids_[std::size_t{set} * most_ways], way, id);
    } else {
      put(set, way, id);
    }
  }
  void release(std::uint32_t set, std::uint32_t way) {
    put(set, way, nobody);
    // Behind all lines, and before the free ways below it.
    std::int8_t* const places = places_of(set);
    const std::int8_t from = places[way];
    std::int8_t to = static_cast<std::int8_t>(last_place_[set]);
    for (std::uint32_t lower = 0; lower < way; ++lower) {
      to = static_cast<std::int8_t>(to - (id_in(set, lower) == nobody ? 1 : 0));
    }
    for (std::uint32_t other = 0; other < ways_[set]; ++other) {
      places[other] = static_cast<std::int8_t>(places[other] - (places[other] > from && places[other] <= to ? 1 : 0));
    }
    places[way] = to;
  }

  [[gnu::always_inline]] void prefetch(std::uint32_t set) const {
    for (std::uint32_t i = 0; i < registers; ++i) {
      __builtin_prefetch(&ids_[std::size_t{set} * most_ways + i * 16], 1);
    }
    __builtin_prefetch(places_of(set), 1);
    __builtin_prefetch(places_of(set) + most_ways - 1, 1);
  }

 private:
  static constexpr std::int8_t no_way = 127;  // behind every place, so that it never moves

  [[nodiscard]] std::int8_t* places_of(std::uint32_t set) { return places_.data() + std::size_t{set} * most_ways; }
  [[nodiscard]] const std::int8_t* places_of(std::uint32_t set) const {
    return places_.data() + std::size_t{set} * most_ways;
  }

  std::vector<std::uint32_t> ways_;  // by set
  std::vector<std::uint8_t> last_place_;
  std::vector<std::uint32_t> ids_;   // by set, then by way
  std::vector<std::int8_t> places_;  // the same
};

}  // namespace gpuinfer::model
