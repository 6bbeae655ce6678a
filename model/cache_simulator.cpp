// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/cache_simulator.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <memory>
#include <string>
#include <utility>

#include "model/cleaned_cache.hpp"
#include "model/errors.hpp"
#include "model/joint_caches.hpp"
#include "model/line_decoder.hpp"
#include "model/line_table.hpp"
#include "model/lru_cache.hpp"
#include "model/policies/next_line.hpp"
#include "model/policies/table.hpp"
#include "model/stores.hpp"
#include "model/tag_array.hpp"

namespace gpuinfer::model {

namespace {

// In place of a set: the line has not been met before, so that its set is not known yet.
constexpr std::uint32_t not_met = ~std::uint32_t{0};

// In place of a line: the way is free.
constexpr std::uint32_t nobody = ~std::uint32_t{0};

// In place of a line: one that is never loaded again.
constexpr std::uint32_t stranger = nobody - 1;

// Four gigabytes for what is known of them, and few enough for their ids to be none of the numbers above.
constexpr std::size_t most_lines_met = std::size_t{1} << 29U;

// Kept together, so that an access looks in one place.
struct KnownLine {
  std::uint32_t set = not_met;
  std::uint32_t slot = 0;  // where the line lies, if it does: that is for the occupant of the slot to say
};

template <class Policy>
class SimulatorOf final : public TagArray {
 public:
  SimulatorOf(const CacheDescription& cache, std::uint64_t seed)
      : line_bytes_(*cache.line_bytes), decoder_(*cache.line_bytes, *cache.sector_bytes),
        fetched_with_(fetch_masks(cache)), fill_(cache.fill), store_rule_(store_rule(cache)),
        null_leaf_of_store_(null_leaf_of_store(cache)), index_(*cache.index), layout_(*cache.ways), random_(seed),
        policy_(layout_, *cache.replacement, random_), occupant_(layout_.slots(), nobody), sectors_(layout_.slots(), 1),
        written_(cache.store ? cache.store->granule_bytes.value_or(0) : 0), free_(layout_.sets()) {
    empty_ways();
  }

  SimulatorOf(const SimulatorOf&) = delete;
  SimulatorOf& operator=(const SimulatorOf&) = delete;

  void put_into(StartState state) override {
    if (state == StartState::keep) {
      return;
    }
    steps_ = {};
    written_.clear();
    empty_ways();
    forget_lines();
    if (state != StartState::invalidated) {
      policy_.reset();
    }
    if (state == StartState::flooded) {
      flood();
    }
  }

  void play(std::span<const std::uint64_t> addresses, std::span<Outcome> outcomes) override {
    constexpr std::size_t at_once = 1024;
    std::array<Outcome, at_once> unasked{};
    const std::size_t most = outcomes.empty() ? at_once : addresses.size();
    for (std::size_t first = 0; first < addresses.size(); first += most) {
      const auto part = addresses.subspan(first, std::min(most, addresses.size() - first));
      Outcome* const out = outcomes.empty() ? unasked.data() : outcomes.data();
      if (fill_.lines_ahead() != 0 || !written_.empty()) {
        play_one_by_one(part, out);
      } else if (decoder_.is_sectored()) {
        play_loads<true>(part, out, [this](std::uint64_t address) { return decoder_.line_number(address); });
      } else if (const auto shift = decoder_.line_shift()) {
        play_loads<false>(part, out, [shift = *shift](std::uint64_t address) { return address >> shift; });
      } else {
        play_loads<false>(part, out, [this](std::uint64_t address) { return decoder_.line_number(address); });
      }
    }
  }

  AccessEvent step(Address address, AccessKind kind) override {
    const bool is_store = kind == AccessKind::store;
    if (is_store && null_leaf_of_store_) {
      throw_null(*null_leaf_of_store_);
    }
    const std::uint64_t offset = offset_in_line(number_of(address));
    const std::uint64_t sector = decoder_.sector_at(offset);
    const std::uint32_t id = find(decoder_.line_number(number_of(address)));
    const std::uint32_t set = lines_[id].set;
    const std::uint32_t slot = lines_[id].slot;
    const bool is_here = occupant_[slot] == id;
    AccessEvent event{.outcome = is_here ? outcome_in(slot, sector, offset) : Outcome::line_miss,
                      .set = set,
                      .way = std::nullopt,
                      .victim_address = std::nullopt};
    if (is_store && is_here && store_rule_->evicts) {
      evict_slot(set, slot);
      return event;
    }
    const bool may_fill = !is_store || store_rule_->allocates;
    if (is_here) {
      if (!is_store || store_rule_->touches) {
        policy_.hit(set, slot);
      }
      is_store ? write(slot, sector, offset) : fetch(slot, sector, event.outcome);
      event.way = slot - layout_.first_slot[set];
    } else if (may_fill) {
      const std::uint32_t room = make_room(free_[set], set);
      if (occupant_[room] < stranger) {
        event.victim_address = Address{table_.number_of(occupant_[room]) * line_bytes_};
        event.victim_is_dirty = written_.is_dirty(room);
      }
      place(id, room, is_store ? 0 : fetched_with_[sector]);
      if (is_store) {
        write(room, sector, offset);
      }
      event.way = room - layout_.first_slot[set];
    }
    if (may_fill) {
      prefetch_after(id, offset, event.outcome);
    }
    return event;
  }

  AccessEvent look_up(Address address) const override {
    const std::uint64_t number = decoder_.line_number(number_of(address));
    const auto id = table_.known_id_of(number);
    const KnownLine line = id && *id < lines_.size() ? lines_[*id] : KnownLine{};
    AccessEvent event{.outcome = Outcome::line_miss,
                      .set = line.set != not_met ? line.set : covered_set_of(index_, Address{number * line_bytes_}),
                      .way = std::nullopt,
                      .victim_address = std::nullopt};
    if (id && occupant_[line.slot] == *id) {
      const std::uint64_t offset = offset_in_line(number_of(address));
      event.outcome = outcome_in(line.slot, decoder_.sector_at(offset), offset);
      event.way = line.slot - layout_.first_slot[event.set];
    }
    return event;
  }

  std::uint32_t next_way(std::uint32_t set) const override {
    if constexpr (names_next_line<Policy>) {
      return policy_.next(set) - layout_.first_slot[set];
    } else {
      throw_next_line_unknown(Policy::name);
    }
  }

  void evict(std::uint32_t set, std::uint32_t way) override { evict_slot(set, layout_.first_slot[set] + way); }

  std::uint32_t fill_with_stranger(std::uint32_t set) override {
    const std::uint32_t slot = make_room(free_[set], set);
    policy_.fill(set, slot);
    occupant_[slot] = stranger;
    forget_written(slot);
    return slot - layout_.first_slot[set];
  }

  std::unique_ptr<CacheSimulator::Snapshot> snapshot() const override {
    return std::make_unique<SnapshotOf>(policy_, random_, occupant_, sectors_, written_, free_, steps_, ids_in_use_);
  }

  void restore(const CacheSimulator::Snapshot& snapshot) override {
    const auto& state = dynamic_cast<const SnapshotOf&>(snapshot);
    policy_ = state.policy;
    random_ = state.random;
    occupant_ = state.occupant;
    sectors_ = state.sectors;
    written_ = state.written;
    free_ = state.free;
    steps_ = state.steps;
    for (std::uint32_t slot = 0; slot < layout_.slots(); ++slot) {
      if (occupant_[slot] < stranger) {
        lines_[occupant_[slot]].slot = slot;
      }
    }
  }

 private:
  // The free ways of a set. The lowest is found fast as long as sets fill from the bottom, as they do but for stores
  // that evict.
  struct FreeWays {
    std::uint32_t count = 0;
    std::uint32_t lowest = 0;  // no free slot lies below
  };

  // Which line was accessed last, and how many lines further than the one before.
  struct Steps {
    std::optional<std::uint64_t> line;
    std::int64_t step = 0;
  };

  // Shared with every snapshot, whose lines are ids.
  struct IdsInUse {};

  struct SnapshotOf final : CacheSimulator::Snapshot {
    SnapshotOf(Policy a_policy, Random a_random, std::vector<std::uint32_t> an_occupant,
               std::vector<std::uint64_t> a_sectors, WrittenLines some_written, std::vector<FreeWays> a_free,
               Steps some_steps, std::shared_ptr<const IdsInUse> some_ids)
        : policy(std::move(a_policy)), random(a_random), occupant(std::move(an_occupant)),
          sectors(std::move(a_sectors)), written(std::move(some_written)), free(std::move(a_free)), steps(some_steps),
          ids(std::move(some_ids)) {}

    Policy policy;
    Random random;
    std::vector<std::uint32_t> occupant;
    std::vector<std::uint64_t> sectors;
    WrittenLines written;
    std::vector<FreeWays> free;
    Steps steps;
    std::shared_ptr<const IdsInUse> ids;
  };

  // One loop for each combination that saves a test in it: this is where all accesses pass.
  template <bool is_sectored, class LineNumber>
  void play_loads(std::span<const std::uint64_t> addresses, Outcome* outcomes, LineNumber&& line_number) {
    const std::uint64_t line_bytes = line_bytes_;
    std::uint64_t first_address = 0;  // of the line that was accessed last
    std::uint64_t known_bytes = 0;    // of it
    std::uint64_t page = ~std::uint64_t{0};
    std::uint32_t first_id = 0;
    std::uint32_t set = 0;
    std::uint32_t slot = 0;
    KnownLine* lines = lines_.data();
    std::uint32_t* const occupant = occupant_.data();
    FreeWays* const free = free_.data();
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const std::uint64_t address = addresses[i];
      if (address - first_address < known_bytes) {
        if constexpr (!Policy::repeats_are_idle) {
          policy_.hit(set, slot);
        }
        outcomes[i] = is_sectored ? touch(slot, decoder_.sector_at(address - first_address)) : Outcome::hit;
        continue;
      }
      const std::uint64_t number = line_number(address);
      if (number >> LineTable::page_shift != page) [[unlikely]] {
        page = number >> LineTable::page_shift;
        first_id = open_page(page);
        lines = lines_.data();
      }
      first_address = number * line_bytes;
      known_bytes = line_bytes;
      const std::uint64_t sector = is_sectored ? decoder_.sector_at(address - first_address) : 0;
      const std::uint32_t id = first_id + static_cast<std::uint32_t>(number % LineTable::page_lines);
      KnownLine& line = lines[id];
      slot = line.slot;
      set = line.set;
      if (occupant[slot] == id) [[likely]] {
        policy_.hit(set, slot);
        outcomes[i] = is_sectored ? touch(slot, sector) : Outcome::hit;
      } else {
        if (set == not_met) [[unlikely]] {
          set = meet(id);
        }
        slot = make_room(free[set], set);
        policy_.fill(set, slot);
        occupant[slot] = id;
        line.slot = slot;
        if (is_sectored) {
          sectors_[slot] = fetched_with_[sector];
        }
        outcomes[i] = Outcome::line_miss;
      }
    }
  }

  [[gnu::noinline]] std::uint32_t open_page(std::uint64_t page) {
    const std::uint32_t first_id = table_.first_id_of_page(page);
    make_room_for_lines();
    return first_id;
  }

  // Where a line can be evicted by what its own miss brought along, or holds what stores have left.
  void play_one_by_one(std::span<const std::uint64_t> addresses, Outcome* outcomes) {
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const std::uint32_t id = find(decoder_.line_number(addresses[i]));
      const std::uint64_t offset = offset_in_line(addresses[i]);
      outcomes[i] = load(id, offset);
      prefetch_after(id, offset, outcomes[i]);
    }
  }

  Outcome load(std::uint32_t id, std::uint64_t offset) {
    const std::uint32_t set = lines_[id].set == not_met ? meet(id) : lines_[id].set;
    const std::uint32_t slot = lines_[id].slot;
    const std::uint64_t sector = decoder_.sector_at(offset);
    if (occupant_[slot] == id) {
      policy_.hit(set, slot);
      const Outcome outcome = outcome_in(slot, sector, offset);
      fetch(slot, sector, outcome);
      return outcome;
    }
    place(id, make_room(free_[set], set), fetched_with_[sector]);
    return Outcome::line_miss;
  }

  void prefetch_after(std::uint32_t id, std::uint64_t offset, Outcome outcome) {
    const std::uint64_t number = table_.number_of(id);
    const std::int64_t step = step_of_prefetch(number, outcome);
    for (unsigned ahead = 1; step != 0 && ahead <= fill_.lines_ahead(); ++ahead) {
      const std::int64_t further = static_cast<std::int64_t>(number) + ahead * step;
      if (further < 0) {
        return;
      }
      load(find(static_cast<std::uint64_t>(further)), offset);
    }
  }

  // By how many lines a prefetch goes on from an access to this line; 0: there is none.
  std::int64_t step_of_prefetch(std::uint64_t number, Outcome outcome) {
    switch (fill_.prefetch_on) {
      case PrefetchOn::miss:
        return outcome == Outcome::line_miss ? 1 : 0;
      case PrefetchOn::access:
        return 1;
      case PrefetchOn::stride:
        break;
    }
    const std::int64_t step = steps_.line ? static_cast<std::int64_t>(number - *steps_.line) : 0;
    const bool is_repeated = step == steps_.step;
    steps_ = {.line = number, .step = step};
    return is_repeated ? step : 0;
  }

  [[nodiscard]] std::uint64_t offset_in_line(std::uint64_t address) const {
    return address - decoder_.line_number(address) * line_bytes_;
  }

  [[nodiscard]] Outcome outcome_in(std::uint32_t slot, std::uint64_t sector, std::uint64_t offset) const {
    const bool is_readable = ((sectors_[slot] >> sector) & 1U) != 0 || written_.is_readable(slot, offset);
    return is_readable ? Outcome::hit : Outcome::sector_miss;
  }

  // Where nothing was written.
  Outcome touch(std::uint32_t slot, std::uint64_t sector) {
    const Outcome outcome = ((sectors_[slot] >> sector) & 1U) != 0 ? Outcome::hit : Outcome::sector_miss;
    fetch(slot, sector, outcome);
    return outcome;
  }

  // What a load brings to its line.
  void fetch(std::uint32_t slot, std::uint64_t sector, Outcome outcome) {
    if (is_miss(outcome)) {
      sectors_[slot] |= fetched_with_[sector];
    }
  }

  // What a store does to its line.
  void write(std::uint32_t slot, std::uint64_t sector, std::uint64_t offset) {
    if (store_rule_->is_back) {
      written_.mark_dirty(slot);
    }
    if (store_rule_->allocates && ((sectors_[slot] >> sector) & 1U) == 0) {
      if (store_rule_->fetches) {
        sectors_[slot] |= store_rule_->stored_with[sector];
      } else {
        written_.write(slot, offset);
      }
    }
  }

  // The slot for a line that is to be placed. A line that must go for it still lies there.
  [[gnu::always_inline]] std::uint32_t make_room(FreeWays& free, std::uint32_t set) {
    return free.count != 0 ? take_lowest(free) : policy_.victim(set);
  }

  void place(std::uint32_t id, std::uint32_t slot, std::uint64_t sectors) {
    policy_.fill(lines_[id].set, slot);
    occupant_[slot] = id;
    lines_[id].slot = slot;
    written_.forget(slot);
    sectors_[slot] = sectors;
  }

  // A line without sectors has the one that it is, unless a store brought the line.
  void forget_written(std::uint32_t slot) {
    written_.forget(slot);
    sectors_[slot] = 1;
  }

  void evict_slot(std::uint32_t set, std::uint32_t slot) {
    if constexpr (names_next_line<Policy>) {
      policy_.remove(set, slot);
    }
    occupant_[slot] = nobody;
    forget_written(slot);
    ++free_[set].count;
    free_[set].lowest = std::min(free_[set].lowest, slot);
  }

  [[gnu::noinline]] std::uint32_t take_lowest(FreeWays& free) {
    while (occupant_[free.lowest] != nobody) {
      ++free.lowest;
    }
    --free.count;
    return free.lowest++;
  }

  // Id of a line whose set is known.
  std::uint32_t find(std::uint64_t number) {
    const std::uint32_t id = table_.id_of(number);
    make_room_for_lines();
    if (lines_[id].set == not_met) {
      meet(id);
    }
    return id;
  }

  void make_room_for_lines() {
    if (table_.ids() > most_lines_met) {
      throw InputError("the accesses meet lines in more than " +
                       std::to_string(most_lines_met / LineTable::page_lines) + " stretches of " +
                       std::to_string(LineTable::page_lines) + ", more than is simulated; leave some out");
    }
    lines_.resize(table_.ids());
  }

  [[gnu::noinline]] std::uint32_t meet(std::uint32_t id) {
    return lines_[id].set = covered_set_of(index_, Address{table_.number_of(id) * line_bytes_});
  }

  // What many lines were once known for takes more memory than to find it out again takes time.
  void forget_lines() {
    constexpr std::size_t few_lines = 1U << 15U;
    constexpr std::size_t times_of_slots = 4;
    if (lines_.size() > std::max(few_lines, times_of_slots * layout_.slots()) && ids_in_use_.use_count() == 1) {
      table_ = {};
      lines_ = {};
    }
  }

  void empty_ways() {
    occupant_.assign(occupant_.size(), nobody);
    if (store_rule_ && store_rule_->leaves_traces()) {
      sectors_.assign(sectors_.size(), 1);
    }
    for (std::uint32_t set = 0; set < layout_.sets(); ++set) {
      free_[set] = {.count = layout_.ways(set), .lowest = layout_.first_slot[set]};
    }
  }

  void flood() {
    constexpr std::uint32_t times = 4;
    for (std::uint32_t set = 0; set < layout_.sets(); ++set) {
      for (std::uint32_t i = 0; i < times * layout_.ways(set); ++i) {
        fill_with_stranger(set);
      }
    }
  }

  std::uint64_t line_bytes_;
  LineDecoder decoder_;
  std::vector<std::uint64_t> fetched_with_;  // by sector: the sectors that come when it is missed
  Fill fill_;
  std::optional<StoreRule> store_rule_;  // none: there is the leaf that is null
  std::optional<std::string_view> null_leaf_of_store_;
  IndexFunction index_;
  SetLayout layout_;
  Random random_;
  Policy policy_;
  LineTable table_;
  std::vector<KnownLine> lines_;         // by id
  std::vector<std::uint32_t> occupant_;  // by slot: id of the line in it
  std::vector<std::uint64_t> sectors_;   // by slot: which sectors of the line are there; the one, when there is one
  WrittenLines written_;
  std::vector<FreeWays> free_;  // by set
  Steps steps_;
  std::shared_ptr<const IdsInUse> ids_in_use_ = std::make_shared<IdsInUse>();
};

void require(bool known, const char* leaf) {
  if (!known) {
    throw_null(leaf);
  }
}

}  // namespace

std::unique_ptr<CacheSimulator> CacheSimulator::make(const CacheDescription& cache, std::uint64_t seed) {
  require(cache.line_bytes.has_value(), "line_bytes");
  require(cache.sector_bytes.has_value(), "sector_bytes");
  require(cache.ways.has_value(), "ways");
  require(cache.index.has_value(), "index");
  require(cache.replacement.has_value(), "replacement");
  if (cache.store_lines && !cache.sweep) {
    throw InputError(
        "sweep: is null, and a store with room for fewer lines than there are tags needs it; give it or remove "
        "store_lines");
  }
  check(*cache.replacement, *cache.ways);
  std::unique_ptr<CacheSimulator> simulator;
  if (cache.store && cache.store->cleaning) {
    simulator = cleaned_cache(cache);
  }
  for_each_policy([&]<class Policy>() {
    if (!simulator && Policy::name == cache.replacement->policy) {
      if (cache.sweep && !names_next_line<Policy>) {
        throw_next_line_unknown(Policy::name);
      }
      if constexpr (std::same_as<Policy, Lru>) {
        simulator = lru_cache(cache);
        if (simulator) {
          return;
        }
      }
      auto tags = std::make_unique<SimulatorOf<Policy>>(cache, seed);
      simulator = cache.sweep ? with_sweep(std::move(tags), cache) : std::move(tags);
    }
  });
  if (cache.victim_lines) {
    simulator = with_victim_lines(std::move(simulator), cache);
  }
  if (cache.twin) {
    simulator = with_twin(std::move(simulator), cache, seed);
  }
  return simulator;
}

CacheDescription one_set(const Replacement& policy, std::uint32_t ways) {
  CacheDescription set;
  set.line_bytes = 1;
  set.sector_bytes = 1;
  set.ways = {ways};
  set.index = BitsIndex{};
  set.replacement = policy;
  return set;
}

std::vector<Outcome> outcomes_of(CacheSimulator& cache, const Question& question, Address address_of_buffer) {
  std::vector<Outcome> outcomes(question.record.size());
  if (!question.circumstances.stores.empty()) {
    const std::vector<AccessEvent> events = events_of(cache, question, address_of_buffer);
    std::transform(events.begin(), events.end(), outcomes.begin(),
                   [](const AccessEvent& each) { return each.outcome; });
    return outcomes;
  }
  cache.put_into(question.state);
  cache.play(address_numbers(question.warm, address_of_buffer), {});
  cache.play(address_numbers(question.record, address_of_buffer), outcomes);
  return outcomes;
}

std::vector<AccessEvent> events_of(CacheSimulator& cache, const Question& question, Address address_of_buffer) {
  const std::vector<AccessKind> kinds = kinds_of(question);
  const std::size_t warm = question.warm.size();
  cache.put_into(question.state);
  for (std::size_t i = 0; i < warm; ++i) {
    static_cast<void>(cache.step(address_of_buffer + question.warm[i], kinds[i]));
  }
  std::vector<AccessEvent> events;
  events.reserve(question.record.size());
  for (std::size_t i = 0; i < question.record.size(); ++i) {
    events.push_back(cache.step(address_of_buffer + question.record[i], kinds[warm + i]));
  }
  return events;
}

}  // namespace gpuinfer::model
