// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/policies/bip.hpp"
#include "model/policies/brrip.hpp"
#include "model/replacement.hpp"

namespace gpuinfer::model {

// What a policy that tosses a coin for each new line does with one set, with the coins given. Whoever sums over coins
// copies millions of sets: so one is plain numbers that lie where the caller likes, `numbers()` of them, of which the
// first `size` are the lines that are present.
class CoinRule {
 public:
  using Line = std::uint16_t;

  // tosses_coin(policy).
  CoinRule(const Replacement& policy, std::size_t ways)
      : ways_(ways), predicts_(policy.policy == Brrip::name),
        by_frequency_(predicts_ && Rrip::promotion.of(policy) == "frequency"),
        distant_(predicts_ ? Rrip::distant_of(policy) : std::uint8_t{0}) {}

  [[nodiscard]] std::size_t ways() const { return ways_; }
  // Whether it matters which line lies in which way.
  [[nodiscard]] bool depends_on_ways() const { return predicts_; }
  // In whole words of eight bytes. All are zero in an empty set.
  [[nodiscard]] std::size_t numbers() const { return ((predicts_ ? 2 : 1) * ways_ + in_word - 1) / in_word * in_word; }

  // Inlined, as `miss` is: an optional that is returned is written in parts and read as a whole, for which the
  // processor waits longer than all else takes.
  [[nodiscard, gnu::always_inline]] static std::optional<std::size_t> find(const Line* set, std::size_t size,
                                                                           Line line) {
    const Line* const found = std::find(set, set + size, line);
    return found == set + size ? std::nullopt : std::optional(static_cast<std::size_t>(found - set));
  }

  [[gnu::always_inline]] void hit(Line* set, std::size_t place) const {
    if (predicts_) {
      Line& prediction = set[ways_ + place];
      prediction = static_cast<Line>(by_frequency_ && prediction > 0 ? prediction - 1 : 0);
    } else {
      insert(set, set[place], 0, place);
    }
  }

  // The line that had to go, if one had to. `rare_place`: where the one goes in a set that inserts at its ends, counted
  // from the line accessed last; BIP puts it in front.
  [[gnu::always_inline]] std::optional<Line> miss(Line* set, std::size_t size, Line line, bool is_the_one,
                                                  std::size_t rare_place = 0) const {
    const bool full = size == ways_;
    if (!predicts_) {
      const std::size_t last = full ? size - 1 : size;
      const auto gone = full ? std::optional(set[last]) : std::nullopt;
      insert(set, line, is_the_one ? std::min(rare_place, last) : last, last);
      return gone;
    }
    const auto prediction = static_cast<Line>(distant_ - (is_the_one ? 1 : 0));
    Line* const predictions = set + ways_;
    if (!full) {
      set[size] = line;
      predictions[size] = prediction;
      return std::nullopt;
    }
    Line* const victim = std::max_element(predictions, predictions + ways_);
    const auto growth = static_cast<Line>(distant_ - *victim);
    for (std::size_t way = 0; way < ways_; ++way) {
      predictions[way] = static_cast<Line>(predictions[way] + growth);
    }
    *victim = prediction;
    std::swap(set[victim - predictions], line);
    return line;
  }

  // Of eight bytes at a time: filters spend most of their time here.
  [[nodiscard]] std::uint64_t hash(const Line* set) const {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    for (std::size_t done = 0; done < numbers(); done += in_word) {
      std::uint64_t word = 0;
      std::memcpy(&word, set + done, sizeof word);
      hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 32U;
    }
    return hash;
  }

 private:
  static constexpr std::size_t in_word = sizeof(std::uint64_t) / sizeof(Line);

  // BIP: the next victim last; BRRIP: by way.
  [[gnu::always_inline]] static void insert(Line* set, Line line, std::size_t place, std::size_t last) {
    for (; last > place; --last) {
      set[last] = set[last - 1];
    }
    set[place] = line;
  }

  std::size_t ways_;
  bool predicts_;  // re-references, as BRRIP does; else it inserts at either end, as BIP does
  bool by_frequency_;
  std::uint8_t distant_;
};

// A set with its rule. tests/model/coin_set_test.cpp compares it with the policies of model/policies.
class CoinSet {
 public:
  using Line = CoinRule::Line;

  CoinSet(const Replacement& policy, std::size_t ways) : rule_(policy, ways), numbers_(rule_.numbers()) {}

  [[nodiscard]] bool depends_on_ways() const { return rule_.depends_on_ways(); }
  [[nodiscard]] std::optional<std::size_t> find(Line line) const { return rule_.find(numbers_.data(), size_, line); }
  [[nodiscard]] std::span<const Line> lines() const { return {numbers_.data(), size_}; }

  void hit(std::size_t place) { rule_.hit(numbers_.data(), place); }

  std::optional<Line> miss(Line line, bool is_the_one) {
    const auto gone = rule_.miss(numbers_.data(), size_, line, is_the_one);
    size_ += gone ? 0U : 1U;
    return gone;
  }

  // Lines under the names that `name_of` gives.
  [[nodiscard]] std::vector<std::uint32_t> key(const std::vector<std::uint32_t>& name_of) const {
    std::vector<std::uint32_t> key(numbers_.begin() + static_cast<std::ptrdiff_t>(rule_.ways()), numbers_.end());
    for (const Line line : lines()) {
      key.push_back(name_of[line]);
    }
    return key;
  }

  [[nodiscard]] std::uint64_t hash() const { return rule_.hash(numbers_.data()); }
  bool operator==(const CoinSet& other) const { return size_ == other.size_ && numbers_ == other.numbers_; }

 private:
  CoinRule rule_;
  std::size_t size_ = 0;
  boost::container::small_vector<Line, 32> numbers_;  // of as many ways as most caches have
};

}  // namespace gpuinfer::model
