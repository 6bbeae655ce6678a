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

// One set under a policy that tosses a coin for each new line, with the coins given: a small value, of which whoever
// sums over coins copies millions. tests/model/coin_set_test.cpp compares it with the policies of model/policies.
class CoinSet {
 public:
  using Line = std::uint16_t;

  // tosses_coin(policy).
  CoinSet(const Replacement& policy, std::size_t ways)
      : ways_(ways), predicts_(policy.policy == Brrip::name),
        by_frequency_(predicts_ && Rrip::promotion.of(policy) == "frequency"),
        distant_(predicts_ ? Rrip::distant_of(policy) : std::uint8_t{0}) {}

  // Whether it matters which line lies in which way.
  [[nodiscard]] bool depends_on_ways() const { return predicts_; }

  // Inlined, as `miss` is: an optional that is returned is written in parts and read as a whole, for which the
  // processor waits longer than all else takes.
  [[nodiscard, gnu::always_inline]] std::optional<std::size_t> find(Line line) const {
    const auto found = std::find(lines_.begin(), lines_.end(), line);
    return found == lines_.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - lines_.begin()));
  }
  [[nodiscard]] std::span<const Line> lines() const { return {lines_.data(), lines_.size()}; }

  void hit(std::size_t place) {
    if (!predicts_) {
      const auto found = lines_.begin() + static_cast<std::ptrdiff_t>(place);
      const Line line = *found;
      std::move_backward(lines_.begin(), found, found + 1);
      lines_.front() = line;
      return;
    }
    std::uint8_t& prediction = predictions_[place];
    prediction = static_cast<std::uint8_t>(by_frequency_ && prediction > 0 ? prediction - 1 : 0);
  }

  // The line that had to go, if one had to. `rare_place`: where the one goes in a set that inserts at its ends, counted
  // from the line accessed last; BIP puts it in front.
  [[gnu::always_inline]] std::optional<Line> miss(Line line, bool is_the_one, std::size_t rare_place = 0) {
    std::optional<Line> gone;
    if (!predicts_) {
      if (lines_.size() == ways_) {
        gone = lines_.back();
        lines_.pop_back();
      }
      const std::size_t place = is_the_one ? std::min(rare_place, lines_.size()) : lines_.size();
      static_cast<void>(lines_.insert(lines_.begin() + static_cast<std::ptrdiff_t>(place), line));
      return gone;
    }
    const auto prediction = static_cast<std::uint8_t>(distant_ - (is_the_one ? 1 : 0));
    if (lines_.size() < ways_) {
      lines_.push_back(line);
      predictions_.push_back(prediction);
      return gone;
    }
    const auto victim = std::max_element(predictions_.begin(), predictions_.end());
    const auto growth = static_cast<std::uint8_t>(distant_ - *victim);
    for (std::uint8_t& each : predictions_) {
      each = static_cast<std::uint8_t>(each + growth);
    }
    *victim = prediction;
    std::swap(lines_[static_cast<std::size_t>(victim - predictions_.begin())], line);
    return line;
  }

  // Lines under the names that `name_of` gives.
  [[nodiscard]] std::vector<std::uint32_t> key(const std::vector<std::uint32_t>& name_of) const {
    std::vector<std::uint32_t> key(predictions_.begin(), predictions_.end());
    for (const Line line : lines_) {
      key.push_back(name_of[line]);
    }
    return key;
  }

  // Of eight bytes at a time: filters spend most of their time here.
  [[nodiscard]] std::uint64_t hash() const {
    std::uint64_t hash = 0xcbf29ce484222325ULL + lines_.size();
    const auto add = [&](const auto& values) {
      const std::size_t bytes = values.size() * sizeof(values.front());
      for (std::size_t done = 0; done < bytes; done += sizeof hash) {
        std::uint64_t word = 0;
        std::memcpy(&word, std::as_bytes(std::span(values.data(), values.size())).data() + done,
                    std::min(sizeof word, bytes - done));
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
        hash ^= hash >> 32U;
      }
    };
    add(lines_);
    add(predictions_);
    return hash;
  }
  bool operator==(const CoinSet& other) const { return lines_ == other.lines_ && predictions_ == other.predictions_; }

 private:
  std::size_t ways_;
  bool predicts_;  // re-references, as BRRIP does; else it inserts at either end, as BIP does
  bool by_frequency_;
  std::uint8_t distant_;
  // Of as many ways as most caches have without a place of their own in memory: filters copy little else.
  template <class Value>
  using OfWays = boost::container::small_vector<Value, 16>;
  OfWays<Line> lines_;  // BIP: the next victim last; BRRIP: by way
  OfWays<std::uint8_t> predictions_;
};

}  // namespace gpuinfer::model
