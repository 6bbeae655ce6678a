// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/device_description.hpp"

namespace gpuinfer::model {

// `store` of a description with all that decides what becomes of a line. Stores are written through where it does not
// say.
struct StoreRule {
  bool allocates = false;
  bool evicts = false;
  bool touches = false;
  bool is_back = false;
  bool fetches = false;
  std::vector<std::uint64_t> stored_with;  // by sector, of stores that fetch: the sectors that come with one

  // Leaves something in a line that loads have to heed later.
  [[nodiscard]] bool leaves_traces() const { return is_back || (allocates && !fetches); }
};

// The leaf that is null and without which stores cannot be played; none: they can.
[[nodiscard]] std::optional<std::string_view> null_leaf_of_store(const CacheDescription& cache);
// None: there is such a leaf. Needs what a simulation of loads needs.
[[nodiscard]] std::optional<StoreRule> store_rule(const CacheDescription& cache);

// Throws InputError.
[[noreturn]] void throw_null(std::string_view leaf);

// What stores have left in lines, by the slot in which each lies: whether it is dirty, and which of its words were
// written while they were not there.
class WrittenLines {
 public:
  // `granule_bytes`: of stores that do not fetch.
  explicit WrittenLines(std::uint64_t granule_bytes) : granule_words_(granule_bytes / word_bytes) {}

  [[nodiscard]] bool empty() const { return lines_.empty(); }
  void clear() { lines_.clear(); }
  void forget(std::uint32_t slot) {
    if (!lines_.empty()) {
      lines_.erase(slot);
    }
  }

  void mark_dirty(std::uint32_t slot) { lines_[slot].is_dirty = true; }
  [[nodiscard]] bool is_dirty(std::uint32_t slot) const;

  // `offset`: of the store, and of the load, from the first byte of the line.
  void write(std::uint32_t slot, std::uint64_t offset);
  // The granule around it was written as a whole.
  [[nodiscard]] bool is_readable(std::uint32_t slot, std::uint64_t offset) const;

 private:
  static constexpr std::uint64_t word_bytes = 4;

  struct Line {
    bool is_dirty = false;
    std::vector<bool> words;  // the first ones, as far as any was written
  };

  std::uint64_t granule_words_;
  std::unordered_map<std::uint32_t, Line> lines_;
};

}  // namespace gpuinfer::model
