// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "model/errors.hpp"
#include "model/joint_caches.hpp"
#include "model/tag_array.hpp"

namespace gpuinfer::model {

namespace {

class SweptCache final : public SteppedSimulator {
 public:
  SweptCache(std::unique_ptr<TagArray> tags, const CacheDescription& cache)
      : tags_(std::move(tags)), sweep_(*cache.sweep), ways_(*cache.ways),
        sets_of_bank_(static_cast<std::uint32_t>(ways_.size()) / sweep_.banks),
        lines_of_bank_(*cache.store_lines / sweep_.banks), state_(clean_state()) {}

  // Lines that are invalid keep their room until a new line takes it or the pointer comes by; of what their sets
  // remembered nothing stays.
  void put_into(StartState state) override {
    if (state == StartState::keep) {
      return;
    }
    tags_->put_into(StartState::clean);
    if (state == StartState::invalidated) {
      for (Set& set : state_.sets) {
        set.invalid += std::exchange(set.lines, 0);
      }
      return;
    }
    state_ = clean_state();
    if (state == StartState::flooded) {
      flood();
    }
  }

  AccessEvent step(Address address, AccessKind kind) override {
    const AccessEvent event = tags_->step(address, kind);
    const bool is_line_miss = event.outcome == Outcome::line_miss;
    if (event.way && is_line_miss) {
      after_fill(event.set, *event.way);
    } else if (event.way) {
      after_hit(event.set, *event.way, event.outcome);
    } else if (!is_line_miss) {
      take(event.set);
    }
    return event;
  }

  AccessEvent look_up(Address address) const override { return tags_->look_up(address); }

  std::unique_ptr<CacheSimulator::Snapshot> snapshot() const override {
    return std::make_unique<SnapshotOf>(tags_->snapshot(), state_);
  }

  void restore(const CacheSimulator::Snapshot& snapshot) override {
    const auto& kept = dynamic_cast<const SnapshotOf&>(snapshot);
    tags_->restore(*kept.of_tags);
    state_ = kept.state;
  }

 private:
  struct Set {
    std::uint32_t lines = 0;
    std::uint32_t invalid = 0;  // lines that do not hit any more and still have room
  };

  // Where the pointer of a bank stands, counted from its first set, and how many lines have room, invalid ones too.
  struct Bank {
    std::uint32_t pointer = 0;
    std::uint64_t lines = 0;
  };

  struct State {
    std::vector<Set> sets;
    std::vector<Bank> banks;
  };

  struct SnapshotOf final : CacheSimulator::Snapshot {
    SnapshotOf(std::unique_ptr<CacheSimulator::Snapshot> snapshot_of_tags, State a_state)
        : of_tags(std::move(snapshot_of_tags)), state(std::move(a_state)) {}

    std::unique_ptr<CacheSimulator::Snapshot> of_tags;
    State state;
  };

  // The line, or the sector of one, that the access waits for: it stays, but counts as if it had gone.
  struct Awaited {
    std::uint32_t set = 0;
    std::uint32_t way = 0;
    bool counts_as_first = false;
  };

  [[nodiscard]] State clean_state() const {
    return {.sets = std::vector<Set>(ways_.size()), .banks = std::vector<Bank>(sweep_.banks)};
  }

  [[nodiscard]] Bank& bank_of(std::uint32_t set) { return state_.banks[set / sets_of_bank_]; }

  void take(std::uint32_t set) {
    --state_.sets[set].lines;
    --bank_of(set).lines;
  }

  void after_hit(std::uint32_t set, std::uint32_t way, Outcome outcome) {
    if (bank_of(set).lines >= lines_of_bank_) {
      const Awaited sector{.set = set, .way = way, .counts_as_first = true};
      const bool is_kept = is_miss(outcome) || sweep_.keeps_hit_line;
      sweep(set, sweep_.lines_on_hit, is_kept ? std::optional(sector) : std::nullopt);
    }
  }

  void after_fill(std::uint32_t number, std::uint32_t way) {
    Set& set = state_.sets[number];
    Bank& bank = bank_of(number);
    const bool was_full = bank.lines >= lines_of_bank_;
    const bool replaces = set.lines == ways_[number];
    const bool takes_invalid = !replaces && set.invalid > 0;
    set.lines += replaces ? 0 : 1;
    set.invalid -= takes_invalid ? 1 : 0;
    bank.lines += replaces || takes_invalid ? 0 : 1;
    if (was_full) {
      sweep(number, replaces || takes_invalid ? sweep_.lines_on_replacement : sweep_.lines_on_fill,
            Awaited{.set = number, .way = way, .counts_as_first = takes_invalid});
    }
  }

  // `accessed`: a set of the bank.
  void sweep(std::uint32_t accessed, std::uint32_t lines, const std::optional<Awaited>& awaited) {
    Bank& bank = bank_of(accessed);
    const std::uint32_t first_set = accessed - accessed % sets_of_bank_;
    const auto is_empty = [&](std::uint32_t place) {
      const Set& set = state_.sets[first_set + place];
      return set.lines == 0 && set.invalid == 0;
    };
    std::uint32_t done = 0;
    for (std::uint32_t step = 0; step < 2 * sets_of_bank_ && done < lines; ++step) {
      const std::uint32_t place = std::exchange(bank.pointer, (bank.pointer + 1) % sets_of_bank_);
      if (is_empty(place)) {
        continue;
      }
      const std::uint32_t number = first_set + place;
      if (Set& set = state_.sets[number]; set.invalid > 0) {
        --set.invalid;
        --bank.lines;
        ++done;
        continue;
      }
      const std::uint32_t way = tags_->next_way(number);
      const bool is_awaited = awaited && awaited->set == number && awaited->way == way;
      if (!is_awaited) {
        tags_->evict(number, way);
        take(number);
      }
      if (!is_awaited || awaited->counts_as_first || done > 0) {
        ++done;
      }
    }
    std::uint32_t ahead = bank.pointer;
    while (ahead < sets_of_bank_ && is_empty(ahead)) {
      ++ahead;
    }
    bank.pointer = ahead == sets_of_bank_ ? 0 : bank.pointer;
  }

  void flood() {
    constexpr std::uint32_t times = 4;
    for (std::uint32_t set = 0; set < ways_.size(); ++set) {
      for (std::uint32_t i = 0; i < times * ways_[set]; ++i) {
        after_fill(set, tags_->fill_with_stranger(set));
      }
    }
  }

  std::unique_ptr<TagArray> tags_;
  Sweep sweep_;
  std::vector<std::uint32_t> ways_;  // by set
  std::uint32_t sets_of_bank_;
  std::uint64_t lines_of_bank_;  // that the store has room for
  State state_;
};

}  // namespace

std::unique_ptr<CacheSimulator> with_sweep(std::unique_ptr<TagArray> tags, const CacheDescription& description) {
  if (description.victim_lines || description.twin) {
    throw InputError("sweep: cannot be simulated together with victim_lines or a twin; remove one of them");
  }
  if (description.fill.lines_ahead() != 0) {
    throw InputError("sweep: cannot be simulated together with prefetch_lines; remove one of them");
  }
  return std::make_unique<SweptCache>(std::move(tags), description);
}

}  // namespace gpuinfer::model
