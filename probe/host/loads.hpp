// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// Sequences of loads as machine code of x86-64. The order is in the code, so nothing but the loads themselves goes
// through the data cache, and as each load is an instruction of its own there is no stride to learn for any.
namespace gpuinfer::probe::host {

// Offsets from the buffer that Loads::play() names.
struct Play {
  // Of each of these, what lies this many pages of 4 KB further on is loaded, for all pages below `emptying_pages`, and
  // flushed out of all caches: its set of the first cache is empty then.
  std::vector<std::uint32_t> emptied;
  std::uint32_t emptying_pages = 1;   // a power of two
  std::vector<std::uint32_t> warm;    // are loaded then, one after another
  std::vector<std::uint32_t> record;  // and these, with a time stamp after each
};

class Loads {
 public:
  // So many measurements of nothing come before the recorded accesses, and after them.
  static constexpr std::size_t empty_measurements = 18;

  // How much code it takes to get to the recorded accesses, and each of these.
  [[nodiscard]] static std::size_t code_bytes(const Play& play);
  static constexpr std::size_t timed_bytes = 26;

  // The words at `warm` and `record` must be zero: the address of a load is the sum of its own and of what the one
  // before brought. Throws DeviceUnavailable when there is no memory for code.
  explicit Loads(const Play& play);
  ~Loads();
  Loads(const Loads&) = delete;
  Loads& operator=(const Loads&) = delete;
  Loads(Loads&&) = delete;
  Loads& operator=(Loads&&) = delete;

  // Waits for `delay` turns of a short loop between the emptying and the loads, which touch no other data. `stamps` has
  // room for those of a PlayForm; it is written past the caches.
  void play(const std::uint8_t* buffer, std::uint32_t* stamps, std::uint64_t delay) const {
    run_(buffer, stamps, delay);
  }

 private:
  using Run = void (*)(const std::uint8_t* buffer, std::uint32_t* stamps, std::uint64_t delay);

  void* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  Run run_ = nullptr;
};

// The time stamp counter, as soon as it can be had.
[[nodiscard]] std::uint64_t time_stamp();

}  // namespace gpuinfer::probe::host
