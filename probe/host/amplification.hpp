// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

// How differences shorter than a tick of the clock are seen: where something begins somewhere between two ticks, the
// ticks that fall into it are as many on an average as it is long.
namespace gpuinfer::probe::host {

// The step in which a clock advances, in its own units: the median of the steps that were seen between readings in
// close succession. Of a clock with a fine step it is what one reading takes.
[[nodiscard]] double tick_of(const std::function<std::uint64_t()>& clock);

// How many plays it takes for the average of one access to be known to a ninth of `gap_cycles`. A length that is read
// from a clock with such ticks deviates by half a tick at most. gap_cycles > 0.
[[nodiscard]] std::size_t plays_needed(double tick_cycles, double gap_cycles);

// The time stamps of one play, of 32 bits: as many measurements of nothing as `empty` says, the accesses, and nothing
// again as often; one stamp before them, and one after each.
struct PlayForm {
  std::size_t empty = 0;
  std::size_t accesses = 0;

  [[nodiscard]] std::size_t stamps() const { return 2 * empty + accesses + 1; }
};

// Averages over groups of plays of the same accesses. Whoever shares the core (the other thread of it, which in a
// virtual machine may be anybody's) uses its caches as well, and slows down even what measures nothing: so the groups
// in which nothing took least are those that nobody disturbed.
class GroupedPlays {
 public:
  explicit GroupedPlays(PlayForm form) : form_(form) {}

  // A group: the stamps of one play after the other, at least one. Plays that took clearly longer than most of the
  // group are left out: an interrupt, the scheduler.
  void add(std::span<const std::uint32_t> stamps);

  [[nodiscard]] std::size_t groups() const { return groups_.size(); }
  // In how many groups nothing took at most so long.
  [[nodiscard]] std::size_t groups_within(double nothing_cycles) const;
  // What nothing took in the group that is the n-th when they are sorted by that, counted from 1; n <= groups().
  [[nodiscard]] double nothing_cycles(std::size_t n) const;
  // What each access took, less what nothing takes, over the n groups in which that was least; 1 <= n <= groups(). 0
  // where an access that takes next to nothing was seen to take less than that: no latency is negative.
  [[nodiscard]] std::vector<float> latencies(std::size_t n) const;

 private:
  struct Group {
    double nothing_cycles = 0;
    std::vector<double> cycles;  // of each access
  };

  [[nodiscard]] std::vector<const Group*> quietest(std::size_t n) const;

  PlayForm form_;
  std::vector<Group> groups_;
};

}  // namespace gpuinfer::probe::host
