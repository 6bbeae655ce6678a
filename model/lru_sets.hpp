// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
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
//   ways_of(set, id)               bit i: the line lies in way i
//   oldest(set)                    bit i: way i goes next; one bit
//   id_in(set, way)                the line, or what stands in place of one
//   void put(set, way, id);        the same, to be there from now on
//   void touch(set, way);          the way is now the youngest
//   access(set, id)                puts the line into the oldest way, unless it is there, and touches that way
//   void release(set, way);        the way is now free
//   void prefetch(set);            an access to the set is due
namespace gpuinfer::model {

// In place of a line: the way is free, or holds one that is never loaded again.
inline constexpr std::uint32_t nobody = ~std::uint32_t{0};
inline constexpr std::uint32_t stranger = nobody - 1;
static_assert(LineIds::end < stranger);

struct LruAccess {
  std::uint32_t way = 0;
  bool is_miss = false;
};

// The orders of up to four ways, each a number below `count`, oldest way first: to look up what an access does to one
// is quicker than to do it.
class OrdersOfFour {
 public:
  static constexpr std::uint32_t most_ways = 4;
  static constexpr std::size_t count = 1 + 2 + 6 + 24;  // of one to four ways

  struct Order {
    std::uint32_t ways = 0;
    std::array<std::uint8_t, most_ways> from_oldest{};

    bool operator==(const Order&) const = default;
  };

  // After an access to the only way in the mask, or to the oldest way where it is empty: that way and the order.
  struct Next {
    std::uint8_t order = 0;
    std::uint8_t way = 0;
  };

  constexpr OrdersOfFour() {
    std::size_t number = 0;
    for (std::uint32_t ways = 1; ways <= most_ways; ++ways) {
      Order order = lowest_first(ways);
      do {
        orders_[number++] = order;
      } while (std::next_permutation(order.from_oldest.begin(), order.from_oldest.begin() + ways));
    }
    for (number = 0; number < count; ++number) {
      for (std::uint32_t place = 0; place < orders_[number].ways; ++place) {
        const std::uint8_t way = orders_[number].from_oldest[place];
        Order order = orders_[number];
        const auto begin = order.from_oldest.begin();
        std::rotate(begin + place, begin + place + 1, begin + order.ways);
        const Next next{.order = number_of(order), .way = way};
        next_[number * masks + (1U << way)] = next;
        if (place == 0) {
          next_[number * masks] = next;
        }
      }
    }
  }

  static constexpr Order lowest_first(std::uint32_t ways) { return {.ways = ways, .from_oldest = {0, 1, 2, 3}}; }

  [[nodiscard]] constexpr std::uint8_t number_of(const Order& order) const {
    return static_cast<std::uint8_t>(std::find(orders_.begin(), orders_.end(), order) - orders_.begin());
  }
  [[nodiscard]] const Order& operator[](std::size_t number) const { return orders_[number]; }
  [[nodiscard]] [[gnu::always_inline]] Next next(std::size_t number, std::size_t mask) const {
    return next_[number * masks + mask];
  }

 private:
  static constexpr std::size_t masks = std::size_t{1} << most_ways;

  std::array<Order, count> orders_{};
  std::array<Next, count * masks> next_{};
};

inline constexpr OrdersOfFour orders_of_four;

// Up to four ways. The ids of a set are one register, and the order of its ways is one byte.
class LruSetsOfFour {
 public:
  static constexpr std::uint32_t most_ways = OrdersOfFour::most_ways;

  explicit LruSetsOfFour(std::vector<std::uint32_t> ways)
      : ways_(std::move(ways)), sets_(ways_.size()), order_(ways_.size()) {
    clear();
  }

  void clear() {
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      sets_[set].ids.fill(nobody);
      order_[set] = orders_of_four.number_of(OrdersOfFour::lowest_first(ways_[set]));
    }
  }

  [[nodiscard]] [[gnu::always_inline]] std::uint64_t ways_of(std::uint32_t set, std::uint32_t id) const {
    return equal_words_of_4(sets_[set].ids.data(), id);
  }
  [[nodiscard]] std::uint64_t oldest(std::uint32_t set) const {
    return std::uint64_t{1} << orders_of_four.next(order_[set], 0).way;
  }
  [[nodiscard]] std::uint32_t id_in(std::uint32_t set, std::uint32_t way) const { return sets_[set].ids[way]; }

  void put(std::uint32_t set, std::uint32_t way, std::uint32_t id) { sets_[set].ids[way] = id; }
  void touch(std::uint32_t set, std::uint32_t way) {
    order_[set] = orders_of_four.next(order_[set], std::size_t{1} << way).order;
  }
  [[nodiscard]] [[gnu::always_inline]] LruAccess access(std::uint32_t set, std::uint32_t id) {
    const std::uint64_t here = ways_of(set, id);
    const OrdersOfFour::Next next = orders_of_four.next(order_[set], here);
    order_[set] = next.order;
    put_word_of_4(sets_[set].ids.data(), next.way, id);
    return {.way = next.way, .is_miss = here == 0};
  }
  void release(std::uint32_t set, std::uint32_t way) {
    put(set, way, nobody);
    // Behind all lines, and before the free ways below it.
    OrdersOfFour::Order order = orders_of_four[order_[set]];
    const auto begin = order.from_oldest.begin();
    const auto rank = [&](std::uint8_t each) { return id_in(set, each) == nobody ? each : most_ways; };
    std::stable_sort(begin, begin + order.ways,
                     [&](std::uint8_t one, std::uint8_t other) { return rank(one) < rank(other); });
    order_[set] = orders_of_four.number_of(order);
  }

  [[gnu::always_inline]] void prefetch(std::uint32_t set) const {
    __builtin_prefetch(&sets_[set], 1);
    __builtin_prefetch(&order_[set], 1);
  }

 private:
  struct alignas(16) Set {
    std::array<std::uint32_t, most_ways> ids;
  };

  std::vector<std::uint32_t> ways_;  // by set
  std::vector<Set> sets_;
  std::vector<std::uint8_t> order_;  // by set, a number of orders_of_four
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
  [[nodiscard]] [[gnu::always_inline]] LruAccess access(std::uint32_t set, std::uint32_t id) {
    const std::uint64_t here = ways_of(set, id);
    const bool is_miss = here == 0;
    const auto way = static_cast<std::uint32_t>(std::countr_zero(here | (oldest(set) & (0 - std::uint64_t{is_miss}))));
    touch(set, way);
    if (registers == 1) {
      // In stores that do not depend on the way: sets so small are soon accessed again.
      put_word_of<16>(&ids_[std::size_t{set} * most_ways], way, id);
    } else {
      put(set, way, id);
    }
    return {.way = way, .is_miss = is_miss};
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
