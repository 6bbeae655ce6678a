// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace gpuinfer::model {

// Rows of words, all of one width, each kept once and numbered from 0 in the order in which they were first added.
class DistinctRows {
 public:
  // width > 0.
  explicit DistinctRows(std::size_t width) : width_(width), places_(16) {}

  // The number of this row, which is size() - 1 where it is a new one.
  std::uint32_t add(std::span<const std::uint32_t> row) {
    const std::uint32_t hash = hash_of(row);
    std::size_t place = hash & (places_.size() - 1);
    for (; places_[place].next_number != 0; place = (place + 1) & (places_.size() - 1)) {
      const std::uint32_t number = places_[place].next_number - 1;
      if (places_[place].hash == hash && std::equal(row.begin(), row.end(), (*this)[number].begin())) {
        return number;
      }
    }
    const auto number = static_cast<std::uint32_t>(size_++);
    places_[place] = {.hash = hash, .next_number = number + 1};
    words_.insert(words_.end(), row.begin(), row.end());
    if (size_ * 2 > places_.size()) {
      grow();
    }
    return number;
  }

  [[nodiscard]] std::span<const std::uint32_t> operator[](std::uint32_t number) const {
    return {words_.data() + number * width_, width_};
  }

  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Place {
    std::uint32_t hash = 0;
    std::uint32_t next_number = 0;  // the row's number + 1; 0: an empty place
  };

  [[nodiscard]] static std::uint32_t hash_of(std::span<const std::uint32_t> row) {
    std::uint64_t hash = row.size();
    for (const std::uint32_t word : row) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 32U;
    }
    return static_cast<std::uint32_t>(hash);
  }

  void grow() {
    std::vector<Place> old(places_.size() * 2);
    old.swap(places_);
    for (const Place& each : old) {
      if (each.next_number != 0) {
        std::size_t place = each.hash & (places_.size() - 1);
        while (places_[place].next_number != 0) {
          place = (place + 1) & (places_.size() - 1);
        }
        places_[place] = each;
      }
    }
  }

  std::size_t width_;
  std::size_t size_ = 0;
  std::vector<Place> places_;
  std::vector<std::uint32_t> words_;  // row after row
};

}  // namespace gpuinfer::model
