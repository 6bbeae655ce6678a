// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/cleaned_cache.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/access_sequence.hpp"
#include "model/errors.hpp"
#include "model/line_decoder.hpp"
#include "model/lru_cache.hpp"
#include "model/policies/set_layout.hpp"
#include "model/set_finder.hpp"
#include "model/stores.hpp"

namespace gpuinfer::model {

namespace {

// In place of a line: the way is free.
constexpr std::uint64_t nobody = ~std::uint64_t{0};

// In place of a line: one that is never loaded again.
constexpr std::uint64_t stranger = nobody - 1;

// The lines that an access to a set has cleaned beside what it does itself.
struct Due {
  std::optional<std::uint64_t> written_back = {};
  std::optional<std::uint64_t> oldest_written_back = {};
  std::optional<std::uint64_t> completed = {};
  std::optional<std::uint64_t> oldest_completed = {};
};

struct State {
  std::vector<std::uint64_t> numbers;   // by slot: of the line in it
  std::vector<std::uint64_t> sectors;   // by slot: that are there
  std::vector<std::uint32_t> by_age;    // where the slots of a set begin: those with lines, the oldest first
  std::vector<std::uint32_t> lines_of;  // by set: how many there are
  WrittenLines written;                 // until there is something nothing is due
};

class CleanedCache final : public TagArray {
 public:
  explicit CleanedCache(const CacheDescription& cache)
      : decoder_(*cache.line_bytes, *cache.sector_bytes), fetched_with_(fetch_masks(cache)),
        store_rule_(store_rule(cache)), null_leaf_of_store_(null_leaf_of_store(cache)),
        cleaning_(*cache.store->cleaning), layout_(*cache.ways),
        finder_(*cache.index, decoder_.line_bytes(), layout_.slots()),
        state_{.numbers = std::vector<std::uint64_t>(layout_.slots()),
               .sectors = std::vector<std::uint64_t>(layout_.slots()),
               .by_age = std::vector<std::uint32_t>(layout_.slots()),
               .lines_of = std::vector<std::uint32_t>(layout_.sets()),
               .written = WrittenLines(cache.store->granule_bytes.value_or(0))} {
    empty_ways();
  }

  void put_into(StartState state) override {
    if (state == StartState::keep) {
      return;
    }
    empty_ways();
    for (std::uint32_t set = 0; state == StartState::flooded && set < layout_.sets(); ++set) {
      for (std::uint32_t way = 0; way < layout_.ways(set); ++way) {
        static_cast<void>(fill_with_stranger(set));
      }
    }
  }

  void play(std::span<const std::uint64_t> addresses, std::span<Outcome> outcomes) override {
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const Outcome outcome = access(Address{addresses[i]}, AccessKind::load).outcome;
      if (!outcomes.empty()) {
        outcomes[i] = outcome;
      }
    }
  }

  AccessEvent step(Address address, AccessKind kind) override {
    if (kind == AccessKind::store && null_leaf_of_store_) {
      throw_null(*null_leaf_of_store_);
    }
    return access(address, kind);
  }

  AccessEvent look_up(Address address) const override {
    const std::uint64_t number = decoder_.line_number(number_of(address));
    const std::uint32_t set = finder_.set_of_line(number);
    return found(set, slot_of(set, number), offset_in_line(address));
  }

  std::uint32_t next_way(std::uint32_t set) const override { return victim_in(set) - layout_.first_slot[set]; }

  void evict(std::uint32_t set, std::uint32_t way) override { remove(set, layout_.first_slot[set] + way); }

  std::uint32_t fill_with_stranger(std::uint32_t set) override {
    const std::uint32_t slot = make_room(set);
    place(set, slot, stranger);
    state_.sectors[slot] = 1;
    return slot - layout_.first_slot[set];
  }

  std::unique_ptr<Snapshot> snapshot() const override { return std::make_unique<SnapshotOf>(state_); }

  void restore(const Snapshot& snapshot) override { state_ = dynamic_cast<const SnapshotOf&>(snapshot).state; }

 private:
  struct SnapshotOf final : Snapshot {
    explicit SnapshotOf(State a_state) : state(std::move(a_state)) {}

    State state;
  };

  void empty_ways() {
    std::ranges::fill(state_.numbers, nobody);
    std::ranges::fill(state_.sectors, 0U);
    std::ranges::fill(state_.lines_of, 0U);
    state_.written.clear();
  }

  // The slots with lines, the oldest first.
  [[nodiscard]] std::span<const std::uint32_t> by_age(std::uint32_t set) const {
    return std::span(state_.by_age).subspan(layout_.first_slot[set], state_.lines_of[set]);
  }
  [[nodiscard]] std::span<std::uint32_t> by_age(std::uint32_t set) {
    return std::span(state_.by_age).subspan(layout_.first_slot[set], state_.lines_of[set]);
  }

  [[nodiscard]] std::optional<std::uint32_t> slot_of(std::uint32_t set, std::uint64_t number) const {
    const auto first = state_.numbers.begin() + layout_.first_slot[set];
    const auto end = first + layout_.ways(set);
    const auto found = std::find(first, end, number);
    return found == end ? std::nullopt : std::optional(static_cast<std::uint32_t>(found - state_.numbers.begin()));
  }

  // What an access finds in the slot of its line; none: it lies nowhere.
  [[nodiscard]] AccessEvent found(std::uint32_t set, std::optional<std::uint32_t> slot, std::uint64_t offset) const {
    return {.outcome = slot ? outcome_in(*slot, offset) : Outcome::line_miss,
            .set = set,
            .way = slot ? std::optional(*slot - layout_.first_slot[set]) : std::nullopt,
            .victim_address = std::nullopt};
  }

  AccessEvent access(Address address, AccessKind kind) {
    const bool is_store = kind == AccessKind::store;
    const std::uint64_t number = decoder_.line_number(number_of(address));
    const std::uint64_t offset = offset_in_line(address);
    std::uint32_t set = 0;
    finder_.find({&number, 1}, &set);
    auto slot = slot_of(set, number);
    AccessEvent event = found(set, slot, offset);
    if (is_store && slot && store_rule_->evicts) {
      remove(set, *slot);
      event.way.reset();
      return event;
    }
    const Due due = state_.written.empty() ? Due{} : due_in(set, slot);
    if (!slot && (!is_store || store_rule_->allocates)) {
      slot = make_room(set, &event);
      place(set, *slot, number);
    } else if (slot && (!is_store || store_rule_->touches)) {
      make_youngest(set, *slot);
    }
    if (slot) {
      is_store ? write(*slot, offset) : fetch(*slot, decoder_.sector_at(offset), event.outcome);
      event.way = *slot - layout_.first_slot[set];
    }
    carry_out(due, set);
    return event;
  }

  // `accessed`: the slot in which the line lies that is accessed.
  [[nodiscard]] Due due_in(std::uint32_t set, std::optional<std::uint32_t> accessed) const {
    const auto slots = by_age(set);
    Due due;
    std::uint32_t dirty = 0;
    std::uint32_t partial = 0;
    std::optional<std::uint32_t> oldest_dirty;
    std::optional<std::uint32_t> oldest_partial;
    for (const std::uint32_t slot : slots) {
      if (state_.written.is_partial(slot)) {
        ++partial;
        oldest_partial = oldest_partial.value_or(slot);
      } else if (state_.written.is_dirty(slot)) {
        ++dirty;
        oldest_dirty = oldest_dirty.value_or(slot);
      }
    }
    if (oldest_dirty && dirty >= cleaning_.dirty_lines) {
      due.written_back = state_.numbers[*oldest_dirty];
    }
    if (oldest_partial && partial >= cleaning_.partial_lines && oldest_partial != accessed) {
      due.completed = state_.numbers[*oldest_partial];
    }
    if (slots.size() == layout_.ways(set) && state_.written.is_dirty(slots.front()) && slots.front() != accessed) {
      const bool is_partial = state_.written.is_partial(slots.front());
      (is_partial ? due.oldest_completed : due.oldest_written_back) = state_.numbers[slots.front()];
    }
    return due;
  }

  // But lines that had to go for the access.
  void carry_out(const Due& due, std::uint32_t set) {
    for (const auto& number : {due.written_back, due.oldest_written_back}) {
      if (const auto slot = number ? slot_of(set, *number) : std::nullopt) {
        state_.written.mark_clean(*slot);
      }
    }
    for (const auto& number : {due.completed, due.oldest_completed}) {
      if (const auto slot = number ? slot_of(set, *number) : std::nullopt; slot && state_.written.is_partial(*slot)) {
        state_.written.complete(*slot);
        make_youngest(set, *slot);
      }
    }
  }

  void make_youngest(std::uint32_t set, std::uint32_t slot) {
    const auto slots = by_age(set);
    if (slots.back() != slot) {
      const auto place = std::find(slots.begin(), slots.end(), slot);
      std::rotate(place, place + 1, slots.end());
    }
  }

  void place(std::uint32_t set, std::uint32_t slot, std::uint64_t number) {
    state_.numbers[slot] = number;
    ++state_.lines_of[set];
    by_age(set).back() = slot;
  }

  void remove(std::uint32_t set, std::uint32_t slot) {
    make_youngest(set, slot);
    --state_.lines_of[set];
    state_.numbers[slot] = nobody;
    state_.sectors[slot] = 0;
    state_.written.forget(slot);
  }

  // Which line of a set with lines goes next: the oldest clean one, or the oldest.
  [[nodiscard]] std::uint32_t victim_in(std::uint32_t set) const {
    const auto slots = by_age(set);
    const auto clean =
        std::find_if(slots.begin(), slots.end(), [this](std::uint32_t slot) { return !state_.written.is_dirty(slot); });
    return clean == slots.end() ? slots.front() : *clean;
  }

  // The slot for a line that is to be placed. `event`: told what goes for it.
  std::uint32_t make_room(std::uint32_t set, AccessEvent* event = nullptr) {
    if (state_.lines_of[set] < layout_.ways(set)) {
      return *slot_of(set, nobody);
    }
    const std::uint32_t slot = victim_in(set);
    if (event != nullptr && state_.numbers[slot] != stranger) {
      event->victim_address = Address{state_.numbers[slot] * decoder_.line_bytes()};
      event->victim_is_dirty = state_.written.is_dirty(slot);
    }
    remove(set, slot);
    return slot;
  }

  // What a load brings to its line.
  void fetch(std::uint32_t slot, std::uint64_t sector, Outcome outcome) {
    if (is_miss(outcome)) {
      state_.sectors[slot] |= fetched_with_[sector];
      state_.written.fetch(slot, state_.sectors[slot], decoder_.sector_bytes());
    }
  }

  // What a store does to its line.
  void write(std::uint32_t slot, std::uint64_t offset) {
    const std::uint64_t sector = decoder_.sector_at(offset);
    if (store_rule_->is_back) {
      state_.written.mark_dirty(slot);
    }
    if (((state_.sectors[slot] >> sector) & 1U) != 0 || !store_rule_->allocates) {
      return;
    }
    if (store_rule_->fetches) {
      state_.sectors[slot] |= store_rule_->stored_with[sector];
      return;
    }
    state_.written.write(slot, offset);
  }

  [[nodiscard]] Outcome outcome_in(std::uint32_t slot, std::uint64_t offset) const {
    const bool is_there = ((state_.sectors[slot] >> decoder_.sector_at(offset)) & 1U) != 0;
    return is_there || state_.written.is_readable(slot, offset) ? Outcome::hit : Outcome::sector_miss;
  }

  [[nodiscard]] std::uint64_t offset_in_line(Address address) const {
    return number_of(address) % decoder_.line_bytes();
  }

  LineDecoder decoder_;
  std::vector<std::uint64_t> fetched_with_;  // by sector: the sectors that come when it is missed
  std::optional<StoreRule> store_rule_;      // none: there is the leaf that is null
  std::optional<std::string_view> null_leaf_of_store_;
  Cleaning cleaning_;
  SetLayout layout_;
  SetFinder finder_;
  State state_;
};

}  // namespace

std::unique_ptr<TagArray> cleaned_cache(const CacheDescription& cache) {
  check_plain_lru(cache, "store.cleaning");
  return std::make_unique<CleanedCache>(cache);
}

}  // namespace gpuinfer::model
