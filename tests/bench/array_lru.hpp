// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

// The yardstick of the benchmarks: LRU as it is written down first, and as fast simulators of CPU caches have it. Each
// set is one array of lines, the most recent one in front; an access looks for its line from the front on and moves it
// there. Line size and number of sets are powers of two, and the bits above the line are the set.
namespace gpuinfer::bench {

struct WholeLine {
  std::uint64_t number = ~std::uint64_t{0};
};

struct LineOfSectors {
  std::uint64_t number = ~std::uint64_t{0};
  std::uint64_t sectors = 0;  // those that are there
};

template <class Line>
class ArrayLru {
 public:
  ArrayLru(std::uint64_t line_bytes, std::size_t sets, std::size_t ways)
      : line_shift_(static_cast<unsigned>(std::countr_zero(line_bytes))), last_set_(sets - 1), ways_(ways),
        lines_(sets * ways) {}

  // Whether the line, and where it has sectors this one, was there.
  [[gnu::always_inline]] bool load(std::uint64_t address, std::uint64_t sector = 0) {
    const std::uint64_t number = address >> line_shift_;
    Line* const set = lines_.data() + (number & last_set_) * ways_;
    if (set[0].number == number) {
      return touch(set[0], sector);
    }
    for (std::size_t way = 1; way < ways_; ++way) {
      if (set[way].number == number) {
        const Line line = set[way];
        move_down(set, way);
        set[0] = line;
        return touch(set[0], sector);
      }
    }
    move_down(set, ways_ - 1);
    set[0] = Line{.number = number};
    touch(set[0], sector);
    return false;
  }

 private:
  static void move_down(Line* set, std::size_t way) {
    for (; way > 0; --way) {
      set[way] = set[way - 1];
    }
  }

  static bool touch(WholeLine& /*line*/, std::uint64_t /*sector*/) { return true; }
  static bool touch(LineOfSectors& line, std::uint64_t sector) {
    const bool is_there = ((line.sectors >> sector) & 1U) != 0;
    line.sectors |= std::uint64_t{1} << sector;
    return is_there;
  }

  unsigned line_shift_;
  std::uint64_t last_set_;
  std::size_t ways_;
  std::vector<Line> lines_;
};

}  // namespace gpuinfer::bench
