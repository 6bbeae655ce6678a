// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
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

  // Since it was cleared nothing was written.
  [[nodiscard]] bool empty() const { return marks_.empty(); }
  void clear();
  void forget(std::uint32_t slot) {
    if (slot < marks_.size()) {
      marks_[slot] = {};
      words_.erase(slot);
    }
  }

  void mark_dirty(std::uint32_t slot) { mark_of(slot).is_dirty = true; }
  void mark_clean(std::uint32_t slot) { mark_of(slot).is_dirty = false; }
  [[nodiscard]] bool is_dirty(std::uint32_t slot) const { return slot < marks_.size() && marks_[slot].is_dirty; }

  // `offset`: of the store, and of the load, from the first byte of the line.
  void write(std::uint32_t slot, std::uint64_t offset);
  // The granule around it was written as a whole.
  [[nodiscard]] bool is_readable(std::uint32_t slot, std::uint64_t offset) const;

  // Some granule was written, and not as a whole.
  [[nodiscard]] bool is_partial(std::uint32_t slot) const { return slot < marks_.size() && marks_[slot].is_partial; }
  // Of the line these sectors, a bit each, are there now, and what was written in them with them.
  void fetch(std::uint32_t slot, std::uint64_t sectors, std::uint64_t sector_bytes);
  // What is missing of granules is there now, and the line is clean.
  void complete(std::uint32_t slot);

 private:
  static constexpr std::uint64_t word_bytes = 4;

  struct Mark {
    bool is_dirty = false;
    bool is_partial = false;
  };

  [[nodiscard]] Mark& mark_of(std::uint32_t slot) {
    if (slot >= marks_.size()) {
      marks_.resize(std::size_t{slot} + 1);
    }
    return marks_[slot];
  }
  [[nodiscard]] bool is_whole(const std::vector<bool>& words, std::uint64_t word) const;
  [[nodiscard]] bool has_partial_granule(const std::vector<bool>& words) const;

  std::uint64_t granule_words_;
  std::vector<Mark> marks_;                                     // by slot; the first ones, as far as any was written
  std::unordered_map<std::uint32_t, std::vector<bool>> words_;  // by slot; the first ones likewise
};

}  // namespace gpuinfer::model
