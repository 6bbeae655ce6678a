// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

namespace gpuinfer::model {

// Line numbers as small, lasting ids, given in constant time, so that what belongs to a line can lie in arrays. Lines
// that follow one another share a page of ids; pages are found through a hash table and are only ever added.
class LineTable {
 public:
  static constexpr unsigned page_shift = 6;
  static constexpr std::uint64_t page_lines = std::uint64_t{1} << page_shift;

  LineTable() : places_(256) { set_shift(); }

  [[nodiscard]] std::uint32_t id_of(std::uint64_t number) {
    return first_id_of_page(number >> page_shift) + static_cast<std::uint32_t>(number % page_lines);
  }

  // None: this line has no id yet.
  [[nodiscard]] std::optional<std::uint32_t> known_id_of(std::uint64_t number) const {
    const Place& place = places_[place_of(number >> page_shift)];
    if (place.key == 0) {
      return std::nullopt;
    }
    return place.first_id + static_cast<std::uint32_t>(number % page_lines);
  }

  // Of page `line number >> page_shift`.
  [[nodiscard]] std::uint32_t first_id_of_page(std::uint64_t page) {
    const Place& place = places_[place_of(page)];
    return place.key == 0 ? add(page) : place.first_id;
  }

  [[nodiscard]] std::uint64_t number_of(std::uint32_t id) const {
    return (pages_[id >> page_shift] << page_shift) | (id & (page_lines - 1));
  }

  // All ids lie below.
  [[nodiscard]] std::size_t ids() const { return pages_.size() * page_lines; }

 private:
  struct Place {
    std::uint64_t key = 0;  // page + 1; 0: nothing is here
    std::uint32_t first_id = 0;
  };

  [[nodiscard]] std::size_t hash(std::uint64_t page) const { return (page * 0x9e3779b97f4a7c15ULL) >> shift_; }

  // Where the page stands, or else where it would.
  [[nodiscard]] std::size_t place_of(std::uint64_t page) const {
    std::size_t place = hash(page);
    while (places_[place].key != page + 1 && places_[place].key != 0) {
      place = (place + 1) & (places_.size() - 1);
    }
    return place;
  }

  void set_shift() { shift_ = 64U - static_cast<unsigned>(std::countr_zero(places_.size())); }

  [[gnu::noinline]] std::uint32_t add(std::uint64_t page) {
    if ((pages_.size() + 1) * 2 > places_.size()) {
      std::vector<Place> old(places_.size() * 4);
      old.swap(places_);
      set_shift();
      for (const Place& each : old) {
        if (each.key != 0) {
          places_[place_of(each.key - 1)] = each;
        }
      }
    }
    const auto first_id = static_cast<std::uint32_t>(ids());
    pages_.push_back(page);
    places_[place_of(page)] = {.key = page + 1, .first_id = first_id};
    return first_id;
  }

  std::vector<Place> places_;
  std::vector<std::uint64_t> pages_;  // by id >> page_shift
  unsigned shift_ = 0;
};

}  // namespace gpuinfer::model
