// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/answerer.hpp"
#include "model/errors.hpp"
#include "tests/infer/drawn_numbers.hpp"
#include "tests/infer/virtual_cache.hpp"

// Devices that share neither code nor assumptions with the simulator of model/.
namespace gpuinfer::infer::foreign {

class Cache {
 public:
  virtual ~Cache() = default;

  // Which level a load of this address is answered from: 0 is a hit, 1 the next level, and so on.
  virtual unsigned load(std::uint64_t address) = 0;
};

using MakeCache = std::function<std::unique_ptr<Cache>()>;  // as after power-on

struct Level {
  double cycles = 0;
  double deviation_cycles = 2;
};

// A hit and a miss of one cache.
inline const std::vector<Level> two_levels{{.cycles = 100}, {.cycles = 220}};

class Device final : public model::Answerer {
 public:
  Device(MakeCache make, std::vector<Level> levels, std::uint64_t buffer_bytes = 1U << 20U)
      : make_(std::move(make)), levels_(std::move(levels)), cache_(make_()) {
    facts_.name = "foreign";
    facts_.source = "test";
    facts_.targets = {"L1tex"};
    facts_.buffer.bytes = buffer_bytes;
  }

  void fail_after(std::size_t questions) { questions_left_ = questions; }
  void refuse_clean_starts() { refuses_clean_ = true; }
  // Every question comes after loads of this many bytes that lie behind the buffer; there is no other start.
  void only_flood(std::uint64_t bytes) { flood_bytes_ = bytes; }
  void move_buffer_to(std::uint64_t address) { facts_.buffer.address = model::Address{address}; }

  const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (questions_left_-- == 0) {
        throw DeviceError("the device fell off the bus; reset it");
      }
      answers.push_back(answer(question));
    }
    return answers;
  }

 private:
  model::Answer answer(const model::Question& question) {
    if (!offers(question.state)) {
      return {.latency_cycles = {}, .refusal = "there is no way to get there; ask for another start"};
    }
    if (question.state == model::StartState::clean) {
      cache_ = make_();
    }
    for (std::uint64_t offset = 0; offset < flood_bytes_; offset += sizeof(std::uint32_t)) {
      cache_->load(number_of(facts_.buffer.address + (facts_.buffer.bytes + offset)));
    }
    for (const std::uint64_t offset : question.warm) {
      cache_->load(number_of(facts_.buffer.address + offset));
    }
    model::Answer answer;
    for (const std::uint64_t offset : question.record) {
      const Level& level = levels_.at(cache_->load(number_of(facts_.buffer.address + offset)));
      const double cycles = level.cycles + level.deviation_cycles * DrawnNormal()(random_);
      answer.latency_cycles.push_back(static_cast<float>(std::max(0.0, std::round(cycles))));
    }
    return answer;
  }

  [[nodiscard]] bool offers(model::StartState state) const {
    if (flood_bytes_ != 0) {
      return state == model::StartState::flooded;
    }
    return state == model::StartState::keep || (state == model::StartState::clean && !refuses_clean_);
  }

  MakeCache make_;
  std::vector<Level> levels_;
  model::DeviceFacts facts_;
  std::unique_ptr<Cache> cache_;
  std::mt19937_64 random_{20140918};
  bool refuses_clean_ = false;
  std::uint64_t flood_bytes_ = 0;
  std::size_t questions_left_ = std::numeric_limits<std::size_t>::max();
};

// One set; true when the line was there.
class Set {
 public:
  virtual ~Set() = default;
  virtual bool load(std::uint64_t line) = 0;
};

using MakeSet = std::function<std::unique_ptr<Set>(std::size_t set)>;

// Lines in an order, of which a full set gives up the first or the last.
struct OrderRules {
  bool hits_move_to_front = true;
  bool fills_enter_at_front = true;
  bool first_fills_enter_at_front = true;  // into a set with room
  bool last_is_victim = true;
};
inline constexpr OrderRules lru{};
inline constexpr OrderRules fifo{.hits_move_to_front = false};
inline constexpr OrderRules lip{.fills_enter_at_front = false, .first_fills_enter_at_front = false};  // Qureshi 2007
inline constexpr OrderRules lip_when_full{.fills_enter_at_front = false};                             // nobody's
inline constexpr OrderRules most_recent_goes{.last_is_victim = false};

class OrderedSet final : public Set {
 public:
  OrderedSet(std::size_t ways, OrderRules rules) : ways_(ways), rules_(rules) {}

  bool load(std::uint64_t line) override {
    const auto found = std::find(order_.begin(), order_.end(), line);
    if (found != order_.end()) {
      if (rules_.hits_move_to_front) {
        std::rotate(order_.begin(), found, found + 1);
      }
      return true;
    }
    const bool full = order_.size() == ways_;
    if (full) {
      order_.erase(rules_.last_is_victim ? order_.end() - 1 : order_.begin());
    }
    const bool at_front = full ? rules_.fills_enter_at_front : rules_.first_fills_enter_at_front;
    order_.insert(at_front ? order_.begin() : order_.end(), line);
    return false;
  }

  void set_rules(OrderRules rules) { rules_ = rules; }

 private:
  std::size_t ways_;
  OrderRules rules_;
  std::vector<std::uint64_t> order_;
};

// Lines in ways that stay where they are; `touch` and `victim` are the policy.
class WaySet : public Set {
 public:
  explicit WaySet(std::size_t ways) : line_in_(ways, none) {}

  bool load(std::uint64_t line) override {
    const auto found = std::find(line_in_.begin(), line_in_.end(), line);
    if (found != line_in_.end()) {
      touch(static_cast<std::size_t>(found - line_in_.begin()));
      return true;
    }
    const auto free = std::find(line_in_.begin(), line_in_.end(), none);
    const std::size_t way = free != line_in_.end() && fills_free_ways_first()
                                ? static_cast<std::size_t>(free - line_in_.begin())
                                : victim();
    line_in_[way] = line;
    touch(way);
    return false;
  }

 protected:
  [[nodiscard]] std::size_t ways() const { return line_in_.size(); }
  [[nodiscard]] virtual bool fills_free_ways_first() const { return true; }
  virtual void touch(std::size_t way) = 0;
  virtual std::size_t victim() = 0;

 private:
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  std::vector<std::uint64_t> line_in_;
};

// Any way may be the victim.
class RandomSet final : public WaySet {
 public:
  RandomSet(std::size_t ways, std::mt19937_64& random) : WaySet(ways), random_(&random) {}

 private:
  void touch(std::size_t /*way*/) override {}
  std::size_t victim() override { return (*random_)() % ways(); }

  std::mt19937_64* random_;
};

// A binary tree of bits, each pointing to the half that was not touched last; a power of two of ways.
class TreePlruSet final : public WaySet {
 public:
  explicit TreePlruSet(std::size_t ways) : WaySet(ways), points_right_(ways) {}

 private:
  void touch(std::size_t way) override {
    std::size_t node = 1;
    for (std::size_t half = ways() / 2; half > 0; half /= 2) {
      const bool right = (way & half) != 0;
      points_right_[node] = !right;
      node = 2 * node + (right ? 1 : 0);
    }
  }

  std::size_t victim() override {
    std::size_t node = 1;
    while (node < ways()) {
      node = 2 * node + (points_right_[node] ? 1 : 0);
    }
    return node - ways();
  }

  std::vector<bool> points_right_;
};

// A bit for each way that was touched; all are cleared when the last one would be set. The first clear way goes.
class TouchedBitsSet final : public WaySet {
 public:
  explicit TouchedBitsSet(std::size_t ways) : WaySet(ways), touched_(ways) {}

 private:
  void touch(std::size_t way) override {
    touched_[way] = true;
    if (std::find(touched_.begin(), touched_.end(), false) == touched_.end()) {
      std::fill(touched_.begin(), touched_.end(), false);
      touched_[way] = true;
    }
  }

  std::size_t victim() override {
    return static_cast<std::size_t>(std::find(touched_.begin(), touched_.end(), false) - touched_.begin());
  }

  std::vector<bool> touched_;
};

// Any way goes, also while others are still free.
class CarelessRandomSet final : public WaySet {
 public:
  CarelessRandomSet(std::size_t ways, std::mt19937_64& random) : WaySet(ways), random_(&random) {}

 private:
  bool fills_free_ways_first() const override { return false; }
  void touch(std::size_t /*way*/) override {}
  std::size_t victim() override { return (*random_)() % ways(); }

  std::mt19937_64* random_;
};

// Sets in turn: the line number modulo their count.
class SetArray final : public Cache {
 public:
  SetArray(std::size_t sets, const MakeSet& make) {
    for (std::size_t set = 0; set < sets; ++set) {
      sets_.push_back(make(set));
    }
  }

  unsigned load(std::uint64_t address) override { return load_line(address / line_bytes) ? 0 : 1; }
  bool load_line(std::uint64_t line) { return load_in(line % sets_.size(), line); }
  bool load_in(std::size_t set, std::uint64_t line) { return sets_[set]->load(line); }

 private:
  std::vector<std::unique_ptr<Set>> sets_;
};

inline SetArray ordered_sets(std::size_t sets, std::size_t ways, OrderRules rules) {
  return {sets, [=](std::size_t) { return std::make_unique<OrderedSet>(ways, rules); }};
}

// Sets by the sum of the three lowest octal digits of the line number, modulo 7: that of a number and of the sum of its
// octal digits is the same, so that only lines beyond a fourth digit tell this from the line number modulo 7.
class DigitSums final : public Cache {
 public:
  explicit DigitSums(const MakeSet& make) : sets_(7, make) {}

  unsigned load(std::uint64_t address) override {
    const std::uint64_t line = address / line_bytes;
    const std::size_t set = ((line & 7U) + (line >> 3U & 7U) + (line >> 6U & 7U)) % 7;
    return sets_.load_in(set, line) ? 0 : 1;
  }

 private:
  SetArray sets_;
};

// What an LRU cache drops stays in a small fully associative buffer for a while and comes back as quickly (Jouppi
// 1990).
class VictimBuffered final : public Cache {
 public:
  VictimBuffered(std::size_t sets, std::size_t ways, std::size_t buffer_lines)
      : ways_(ways), buffer_lines_(buffer_lines), sets_(sets) {}

  unsigned load(std::uint64_t address) override {
    const std::uint64_t line = address / line_bytes;
    std::vector<std::uint64_t>& set = sets_[line % sets_.size()];
    const bool in_set = std::erase(set, line) > 0;
    const bool in_buffer = std::erase(buffer_, line) > 0;
    set.insert(set.begin(), line);
    if (set.size() > ways_) {
      buffer_.insert(buffer_.begin(), set.back());
      set.pop_back();
      buffer_.resize(std::min(buffer_.size(), buffer_lines_));
    }
    return in_set || in_buffer ? 0 : 1;
  }

 private:
  std::size_t ways_;
  std::size_t buffer_lines_;
  std::vector<std::vector<std::uint64_t>> sets_;
  std::vector<std::uint64_t> buffer_;
};

// A miss brings a second line along: the next one, or the other half of an aligned pair.
enum class Companion { next, other_half };

class Prefetching final : public Cache {
 public:
  Prefetching(std::size_t sets, std::size_t ways, Companion companion)
      : lines_(ordered_sets(sets, ways, lru)), companion_(companion) {}

  unsigned load(std::uint64_t address) override {
    const std::uint64_t line = address / line_bytes;
    if (lines_.load_line(line)) {
      return 0;
    }
    lines_.load_line(companion_ == Companion::next ? line + 1 : line ^ 1U);
    return 1;
  }

 private:
  SetArray lines_;
  Companion companion_;
};

// LRU sets of tags before a store that holds fewer lines than there are tags, LRU as well.
class SmallStore final : public Cache {
 public:
  SmallStore(std::size_t sets, std::size_t ways, std::size_t store_lines)
      : tags_(ordered_sets(sets, ways, lru)), store_(store_lines, lru) {}

  unsigned load(std::uint64_t address) override {
    const std::uint64_t line = address / line_bytes;
    const bool has_tag = tags_.load_line(line);
    const bool has_data = store_.load(line);
    return has_tag && has_data ? 0 : 1;
  }

 private:
  SetArray tags_;
  OrderedSet store_;
};

// LRU until the device has served so many loads, then FIFO, and back. The count outlives a clean start.
class Drifting final : public Cache {
 public:
  Drifting(std::size_t sets, std::size_t ways, std::size_t period, std::size_t& loads)
      : period_(period), loads_(&loads) {
    for (std::size_t set = 0; set < sets; ++set) {
      sets_.emplace_back(ways, lru);
    }
  }

  unsigned load(std::uint64_t address) override {
    const std::uint64_t line = address / line_bytes;
    OrderedSet& set = sets_[line % sets_.size()];
    set.set_rules((*loads_)++ / period_ % 2 == 0 ? lru : fifo);
    return set.load(line) ? 0 : 1;
  }

 private:
  std::size_t period_;
  std::size_t* loads_;
  std::vector<OrderedSet> sets_;
};

// Each way is found by a hash of its own, so there are no sets (Seznec 1993).
class Skewed final : public Cache {
 public:
  Skewed(std::size_t rows, std::size_t ways) : rows_(rows), entries_(rows * ways), ways_(ways) {}

  unsigned load(std::uint64_t address) override {
    const std::uint64_t line = address / line_bytes;
    Entry* victim = nullptr;
    ++now_;
    for (std::size_t way = 0; way < ways_; ++way) {
      const std::uint64_t hash = (line * (2 * way + 0x9e3779b97f4a7c15ULL) ^ line >> (way + 1)) >> 17U;
      Entry& entry = entries_[way * rows_ + hash % rows_];
      if (entry.used > 0 && entry.line == line) {
        entry.used = now_;
        return 0;
      }
      if (victim == nullptr || entry.used < victim->used) {
        victim = &entry;
      }
    }
    *victim = {.line = line, .used = now_};
    return 1;
  }

 private:
  struct Entry {
    std::uint64_t line = 0;
    std::uint64_t used = 0;
  };
  std::size_t rows_;
  std::vector<Entry> entries_;
  std::size_t ways_;
  std::uint64_t now_ = 0;
};

// A line comes in only when it is missed twice among the last misses, as a filter against streams does.
class SecondTouch final : public Cache {
 public:
  SecondTouch(std::size_t sets, std::size_t ways, std::size_t remembered)
      : lines_(sets, std::vector<std::uint64_t>{}), ways_(ways), seen_(remembered, fifo) {}

  unsigned load(std::uint64_t address) override {
    const std::uint64_t line = address / line_bytes;
    std::vector<std::uint64_t>& set = lines_[line % lines_.size()];
    const bool hit = std::erase(set, line) > 0;
    if (hit || seen_.load(line)) {
      set.insert(set.begin(), line);
      set.resize(std::min(set.size(), ways_));
    }
    return hit ? 0 : 1;
  }

 private:
  std::vector<std::vector<std::uint64_t>> lines_;
  std::size_t ways_;
  OrderedSet seen_;
};

// A larger cache behind, which a clean start empties as well: the first touches of a line are the slowest.
class TwoLevels final : public Cache {
 public:
  TwoLevels(SetArray first, SetArray second) : first_(std::move(first)), second_(std::move(second)) {}

  unsigned load(std::uint64_t address) override {
    if (first_.load(address) == 0) {
      return 0;
    }
    return second_.load(address) == 0 ? 1 : 2;
  }

 private:
  SetArray first_;
  SetArray second_;
};

// Sets are found by another rule after every clean start.
class Reshuffled final : public Cache {
 public:
  Reshuffled(std::size_t sets, std::size_t ways, std::uint64_t key)
      : lines_(ordered_sets(sets, ways, lru)), key_(std::mt19937_64(key)()) {}

  unsigned load(std::uint64_t address) override {
    const std::uint64_t line = address / line_bytes;
    return lines_.load_line(line * (2 * key_ + 1) ^ (line * key_ >> 7U)) ? 0 : 1;
  }

 private:
  SetArray lines_;
  std::uint64_t key_;
};

}  // namespace gpuinfer::infer::foreign
