// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/answerer.hpp"

namespace gpuinfer::infer {

using model::AccessSequence;

// Sequences each of which is loaded from an invalidated start.
using Primer = std::vector<AccessSequence>;

enum class Reach : std::uint8_t { wide, narrow, narrow_elsewhere };

// Questions about one target, from a start in which no line that they touch is present: clean where the device can give
// that, else invalidated, else after a flood, which leaves LRU and FIFO as good as empty and others in a state of their
// own. Where the device has no flood to offer, other parts of the buffer are loaded.
class Starts {
 public:
  // `facts` outlive it.
  Starts(const model::DeviceFacts& facts, std::string target)
      : facts_(&facts), target_(std::move(target)), buffer_(facts.buffer_of(target_)) {}

  [[nodiscard]] const model::DeviceFacts& facts() const { return *facts_; }
  [[nodiscard]] const std::string& target() const { return target_; }
  [[nodiscard]] const model::BufferFacts& buffer() const { return buffer_; }
  [[nodiscard]] model::Address address_of(std::uint64_t offset) const { return buffer().address + offset; }

  [[nodiscard]] model::Question question(AccessSequence warm, AccessSequence record) const;

  // The question without a flood by loads of its own.
  [[nodiscard]] model::Question question_unflooded(AccessSequence warm, AccessSequence record) const {
    return {.target = target_,
            .state = start_,
            .warm = std::move(warm),
            .record = std::move(record),
            .circumstances = circumstances_};
  }

  // Loaded before each question from an invalidated start, so that what the policies remember is the same each time.
  // Returns what it was before.
  Primer prime_with(Primer primer) { return std::exchange(primer_, std::move(primer)); }

  // What questions are asked under. Returns what it was before.
  model::Circumstances ask_under(model::Circumstances circumstances) {
    return std::exchange(circumstances_, std::move(circumstances));
  }

  [[nodiscard]] bool starts_flooded() const { return model::may_hold_others(start_); }
  // The flood is loads of this program, as the device has none to offer.
  [[nodiscard]] bool floods_by_loads() const { return start_ == model::StartState::keep; }

  // How far the lines reach that are walked over behind a nearer level to hit in this one: in random order over a wide
  // window, or in turn over a narrow one, where this level holds hardly more than the nearer one. Where lines go by a
  // hash, even a narrow window may overfill a set, and another place need not. Returns what it was.
  Reach reach_beyond_nearer(Reach reach) { return std::exchange(reach_, reach); }
  [[nodiscard]] Reach reach_beyond_nearer() const { return reach_; }

  // Loads that are known to hit go over so many lines in turn: one, loaded again and again, where no more are known to
  // fit together.
  void hit_in_turn(std::size_t lines) { lines_hit_in_turn_ = lines; }
  [[nodiscard]] std::size_t lines_hit_in_turn() const { return lines_hit_in_turn_; }

  // From here on only the first so many bytes of the buffer are asked about.
  void stay_within(std::uint64_t bytes) { buffer_.bytes = std::min(buffer_.bytes, bytes); }

  // How often in a row the flood by loads of this program loads each place. Once evicts lines from a cache that keeps
  // what came last. Where a new line is the next to go until it is hit (LIP), the flood passes through one place of
  // each set, and only lines that are hit at once evict what was hit before.
  void flood_in_repeats(unsigned repeats) { flood_repeats_ = repeats; }

  // The fewer bytes are known to belong together, the more a flood has to load and to stay away from.
  void set_fill_granularity(std::uint64_t sector_bytes) {
    flood_stride_bytes_ = sector_bytes;
    flood_block_bytes_ = std::max(flood_block_bytes_, sector_bytes);
  }
  // From here on warm-ups bring lines in line themselves, so the flood loads each place once again.
  void set_line(std::uint64_t line_bytes) {
    flood_stride_bytes_ = flood_block_bytes_ = line_bytes;
    flood_repeats_ = 1;
  }

 protected:
  void start_with(model::StartState start) { start_ = start; }
  [[nodiscard]] std::size_t questions_to_prime() const;
  // Each question behind so many others whose loads prime it.
  [[nodiscard]] std::vector<model::Question> primed(std::span<const model::Question> questions) const;

 private:
  [[nodiscard]] AccessSequence flood_around(const AccessSequence& warm, const AccessSequence& record) const;

  const model::DeviceFacts* facts_;
  std::string target_;
  model::BufferFacts buffer_;
  model::StartState start_ = model::StartState::clean;
  Primer primer_;
  model::Circumstances circumstances_;
  Reach reach_ = Reach::wide;
  std::size_t lines_hit_in_turn_ = 1;
  std::uint64_t flood_stride_bytes_ = 32;
  std::uint64_t flood_block_bytes_ = 4096;
  unsigned flood_repeats_ = 1;
};

// Primes questions as long as it lives.
class Priming {
 public:
  Priming(Starts& starts, Primer primer) : starts_(&starts), before_(starts.prime_with(std::move(primer))) {}
  ~Priming() { starts_->prime_with(std::move(before_)); }
  Priming(const Priming&) = delete;
  Priming& operator=(const Priming&) = delete;
  Priming(Priming&&) = delete;
  Priming& operator=(Priming&&) = delete;

 private:
  Starts* starts_;
  Primer before_;
};

// Has questions asked under these circumstances as long as it lives.
class Under {
 public:
  Under(Starts& starts, model::Circumstances circumstances)
      : starts_(&starts), before_(starts.ask_under(std::move(circumstances))) {}
  ~Under() { starts_->ask_under(std::move(before_)); }
  Under(const Under&) = delete;
  Under& operator=(const Under&) = delete;
  Under(Under&&) = delete;
  Under& operator=(Under&&) = delete;

 private:
  Starts* starts_;
  model::Circumstances before_;
};

}  // namespace gpuinfer::infer
