// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/lru_cache.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "model/errors.hpp"
#include "model/line_decoder.hpp"
#include "model/lru_sets.hpp"
#include "model/policies/lru.hpp"
#include "model/set_finder.hpp"
#include "model/stores.hpp"

namespace gpuinfer::model {

namespace {

// Accesses that are decoded together: few enough to stay in the host's first cache.
constexpr std::size_t most_at_once = 256;

// Where all sets do not fit into the host's caches, each is fetched so many steps before it is due.
constexpr std::size_t steps_ahead = 16;
constexpr std::size_t few_slots = 4096;

// The accesses of a block that may change something: the first of several in succession to one sector.
struct Steps {
  std::size_t count = 0;
  std::array<std::uint64_t, most_at_once> line{};  // its number
  std::array<std::uint32_t, most_at_once> id{};
  std::array<std::uint32_t, most_at_once + steps_ahead> set{};  // and some more, which are fetched to no use
  std::array<std::uint32_t, most_at_once> sector{};
  std::array<std::uint32_t, most_at_once> position{};  // in the block
};

static_assert(static_cast<int>(Outcome::sector_miss) == 1 && static_cast<int>(Outcome::line_miss) == 2);

template <class Sets>
class LruSimulator final : public CacheSimulator {
 public:
  explicit LruSimulator(const CacheDescription& cache)
      : line_bytes_(*cache.line_bytes), decoder_(*cache.line_bytes, *cache.sector_bytes),
        fetched_with_(fetch_masks(cache)), store_rule_(store_rule(cache)),
        null_leaf_of_store_(null_leaf_of_store(cache)), ways_(*cache.ways),
        finder_(*cache.index, line_bytes_, ways_.size() * Sets::most_ways), sets_(ways_),
        sectors_(decoder_.is_sectored() ? ways_.size() * Sets::most_ways : 0) {}

  void put_into(StartState state) override {
    if (state == StartState::keep) {
      return;
    }
    // LRU has forgotten the accesses before the fills of a set by the time that it has to choose.
    sets_.clear();
    forget_lines();
    if (state == StartState::flooded) {
      flood();
    }
  }

  void play(std::span<const std::uint64_t> addresses, std::span<Outcome> outcomes) override {
    std::array<Outcome, most_at_once> unasked{};
    for (std::size_t first = 0; first < addresses.size(); first += most_at_once) {
      const auto block = addresses.subspan(first, std::min(most_at_once, addresses.size() - first));
      Outcome* const out = outcomes.empty() ? unasked.data() : outcomes.data() + first;
      if (!is_repeating_ && finder_.finds_addresses() && decode_each(block)) {
        play_block<true>(out);
      } else {
        decode(block);
        is_repeating_ = has_many_repeats(block.size() - steps_.count, block.size());
        std::fill_n(out, block.size(), Outcome::hit);
        play_block<false>(out);
      }
    }
  }

  AccessEvent step(Address address, AccessKind kind) override {
    const bool is_store = kind == AccessKind::store;
    if (is_store && null_leaf_of_store_) {
      throw_null(*null_leaf_of_store_);
    }
    const std::uint64_t number = decoder_.line_number(number_of(address));
    const std::uint64_t sector = decoder_.sector_of(number_of(address));
    AccessEvent event = look_up(address);
    if (is_store && event.way && store_rule_->evicts) {
      sets_.release(event.set, *event.way);
      event.way.reset();
      return event;
    }
    const bool may_fill = !is_store || store_rule_->allocates;
    if (!event.way && !may_fill) {
      return event;
    }
    const std::uint64_t fetched = is_store ? store_rule_->stored_with[sector] : fetched_with_[sector];
    const bool was_here = event.way.has_value();
    if (!was_here) {
      event.way = way_in(sets_.oldest(event.set));
      const std::uint32_t victim = sets_.id_in(event.set, *event.way);
      if (victim < stranger) {
        event.victim_address = Address{ids_.number_of(victim) * line_bytes_};
      }
      sets_.put(event.set, *event.way, ids_.id_of(number));
      bring(event.set, *event.way, fetched, 0);
    } else if (may_fill && event.outcome == Outcome::sector_miss) {
      bring(event.set, *event.way, fetched, sectors_[slot_of(event.set, *event.way)]);
    }
    if (!was_here || !is_store || store_rule_->touches) {
      sets_.touch(event.set, *event.way);
    }
    return event;
  }

  AccessEvent look_up(Address address) const override {
    const std::uint64_t number = decoder_.line_number(number_of(address));
    AccessEvent event{.outcome = Outcome::line_miss,
                      .set = finder_.set_of_line(number),
                      .way = std::nullopt,
                      .victim_address = std::nullopt};
    const auto id = ids_.known_id_of(number);
    const std::uint64_t here = id ? sets_.ways_of(event.set, *id) : 0;
    if (here != 0) {
      event.way = way_in(here);
      const bool has_sector =
          !decoder_.is_sectored() ||
          ((sectors_[slot_of(event.set, *event.way)] >> decoder_.sector_of(number_of(address))) & 1U) != 0;
      event.outcome = has_sector ? Outcome::hit : Outcome::sector_miss;
    }
    return event;
  }

  std::unique_ptr<Snapshot> snapshot() const override {
    return std::make_unique<SnapshotOf>(sets_, sectors_, ids_in_use_);
  }

  void restore(const Snapshot& snapshot) override {
    const auto& state = dynamic_cast<const SnapshotOf&>(snapshot);
    sets_ = state.sets;
    sectors_ = state.sectors;
  }

 private:
  // Shared with every snapshot, whose lines are ids.
  struct IdsInUse {};

  struct SnapshotOf final : Snapshot {
    SnapshotOf(Sets some_sets, std::vector<std::uint64_t> some_sectors, std::shared_ptr<const IdsInUse> some_ids)
        : sets(std::move(some_sets)), sectors(std::move(some_sectors)), ids(std::move(some_ids)) {}

    Sets sets;
    std::vector<std::uint64_t> sectors;
    std::shared_ptr<const IdsInUse> ids;
  };

  // So many that it is worth the work to leave them out.
  [[nodiscard]] static bool has_many_repeats(std::size_t repeats, std::size_t accesses) {
    return repeats > accesses / 4;
  }

  // Into steps_, each access as a step of its own. False: rather not, as many are to the same sector as the one before,
  // or a line lies far away.
  [[gnu::noinline]] bool decode_each(std::span<const std::uint64_t> block) {
    const unsigned line_shift = *decoder_.line_shift();
    const unsigned sector_shift = *decoder_.sector_shift();
    const std::uint64_t window = ids_.window_for(block[0] >> line_shift);
    const std::size_t count = block.size();
    const std::uint64_t* const address = block.data();
    std::uint64_t distances = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t distance = (address[i] >> line_shift) - window;
      distances |= distance;
      steps_.id[i] = static_cast<std::uint32_t>(distance);
    }
    std::size_t repeats = 0;
    for (std::size_t i = 1; i < count; ++i) {
      repeats += static_cast<std::uint32_t>((address[i] ^ address[i - 1]) >> sector_shift) == 0 ? 1 : 0;
    }
    if (distances >= LineIds::window_lines || has_many_repeats(repeats, count)) {
      return false;
    }
    if (decoder_.is_sectored()) {
      const std::uint64_t last_sector = fetched_with_.size() - 1;
      for (std::size_t i = 0; i < count; ++i) {
        steps_.sector[i] = static_cast<std::uint32_t>((address[i] >> sector_shift) & last_sector);
      }
    }
    finder_.find_of_addresses(block, steps_.set.data());
    steps_.count = count;
    return true;
  }

  // Into steps_. What follows an access to the same sector can only hit, and is no step.
  void decode(std::span<const std::uint64_t> block) {
    const auto line_shift = decoder_.line_shift();
    const auto sector_shift = decoder_.sector_shift();
    if (line_shift && sector_shift) {
      decode_by(
          block, [line_shift = *line_shift](std::uint64_t address) { return address >> line_shift; },
          [sector_shift = *sector_shift](std::uint64_t offset) { return offset >> sector_shift; });
    } else {
      decode_by(
          block, [this](std::uint64_t address) { return decoder_.line_number(address); },
          [this](std::uint64_t offset) { return decoder_.sector_at(offset); });
    }
    finder_.find(std::span(steps_.line).first(steps_.count), steps_.set.data());
  }

  template <class LineNumber, class SectorAt>
  [[gnu::noinline]] void decode_by(std::span<const std::uint64_t> block, LineNumber line_number, SectorAt sector_at) {
    const std::uint64_t line_bytes = line_bytes_;
    const std::uint64_t sector_bytes = decoder_.sector_bytes();
    const bool is_sectored = decoder_.is_sectored();
    const std::uint64_t window = ids_.window_for(line_number(block[0]));
    std::uint64_t begin = 0;  // of the sector that was accessed last
    std::uint64_t bytes = 0;  // of it
    std::size_t count = 0;
    for (std::size_t i = 0; i < block.size(); ++i) {
      const std::uint64_t address = block[i];
      if (address - begin < bytes) {
        continue;
      }
      const std::uint64_t line = line_number(address);
      begin = line * line_bytes;
      bytes = sector_bytes;
      if (is_sectored) {
        const std::uint64_t sector = sector_at(address - begin);
        begin += sector * sector_bytes;
        steps_.sector[count] = static_cast<std::uint32_t>(sector);
      }
      const std::uint64_t id = line - window;
      steps_.line[count] = line;
      steps_.id[count] = id < LineIds::window_lines ? static_cast<std::uint32_t>(id) : ids_.id_of_far(line);
      steps_.position[count] = static_cast<std::uint32_t>(i);
      ++count;
    }
    steps_.count = count;
  }

  // `is_each`: every access is a step.
  template <bool is_each>
  void play_block(Outcome* outcomes) {
    if (decoder_.is_sectored()) {
      is_mixed_ ? play_sectors<is_each, true>(outcomes) : play_sectors<is_each, false>(outcomes);
    } else if (is_mixed_) {
      play_lines<is_each, true>(outcomes);
    } else {
      play_lines<is_each, false>(outcomes);
    }
  }

  // These are where all accesses pass. Where hits and misses are mixed nobody can foretell which comes next, and a
  // branch on it would cost more than to do for both what either needs.
  template <bool is_each, bool is_mixed>
  [[gnu::noinline]] void play_lines(Outcome* outcomes) {
    // By value, so that nothing of it is read again after each store.
    Sets sets = std::move(sets_);
    const bool is_large = ways_.size() * Sets::most_ways > few_slots;
    const std::size_t count = steps_.count;
    std::size_t misses = 0;
    for (std::size_t step = 0; step < count; ++step) {
      if (is_large) {
        sets.prefetch(steps_.set[step + steps_ahead]);
      }
      const std::uint32_t set = steps_.set[step];
      const std::uint32_t id = steps_.id[step];
      Outcome& outcome = outcomes[is_each ? step : steps_.position[step]];
      if (is_mixed) {
        const bool is_miss = sets.access(set, id).is_miss;
        misses += is_miss;
        outcome = static_cast<Outcome>(2 * is_miss);
      } else if (const std::uint64_t here = sets.ways_of(set, id); here != 0) {
        sets.touch(set, way_in(here));
        outcome = Outcome::hit;
      } else {
        const std::uint32_t way = way_in(sets.oldest(set));
        sets.touch(set, way);
        sets.put(set, way, id);
        ++misses;
        outcome = Outcome::line_miss;
      }
    }
    sets_ = std::move(sets);
    is_mixed_ = misses != 0 && misses != count;
  }

  template <bool is_each, bool is_mixed>
  [[gnu::noinline]] void play_sectors(Outcome* outcomes) {
    Sets sets = std::move(sets_);
    std::uint64_t* const sectors = sectors_.data();
    const std::uint64_t* const fetched_with = fetched_with_.data();
    const bool is_large = ways_.size() * Sets::most_ways > few_slots;
    const std::size_t count = steps_.count;
    std::uint32_t last_id = nobody;
    std::size_t slot = 0;                 // of the last line
    std::uint64_t there = sectors[slot];  // sectors of it
    std::size_t hits = 0;
    for (std::size_t step = 0; step < count; ++step) {
      if (is_large) {
        sets.prefetch(steps_.set[step + steps_ahead]);
      }
      const std::uint32_t set = steps_.set[step];
      const std::uint32_t id = steps_.id[step];
      std::uint64_t is_line_miss = 0;
      if (id != last_id) {
        sectors[slot] = there;
        const LruAccess access = sets.access(set, id);
        is_line_miss = access.is_miss;
        slot = slot_of(set, access.way);
        there = sectors[slot] & (is_line_miss - 1);
        last_id = id;
      }
      const std::uint64_t sector = steps_.sector[step];
      const std::uint64_t is_there = (there >> sector) & 1U;
      if (is_mixed) {
        there |= fetched_with[sector] & (is_there - 1);
      } else if (is_there == 0) {
        there |= fetched_with[sector];
      }
      hits += is_there;
      outcomes[is_each ? step : steps_.position[step]] = static_cast<Outcome>(1 - is_there + is_line_miss);
    }
    sectors[slot] = there;
    sets_ = std::move(sets);
    is_mixed_ = hits != 0 && hits != count;
  }

  [[nodiscard]] static std::uint32_t way_in(std::uint64_t ways) {
    return static_cast<std::uint32_t>(__builtin_ctzll(ways));
  }
  [[nodiscard]] static std::size_t slot_of(std::uint32_t set, std::uint32_t way) {
    return std::size_t{set} * Sets::most_ways + way;
  }

  // Brings sectors to those that are there.
  void bring(std::uint32_t set, std::uint32_t way, std::uint64_t sectors, std::uint64_t there) {
    if (decoder_.is_sectored()) {
      sectors_[slot_of(set, way)] = there | sectors;
    }
  }

  // What far lines were once known for takes more memory than to find it out again takes time.
  void forget_lines() {
    constexpr std::size_t few_lines = 1U << 15U;
    if (ids_.far_lines() > few_lines && ids_in_use_.use_count() == 1) {
      ids_ = {};
    }
  }

  // Where everything goes in turn, one stranger for each way is as good as many.
  void flood() {
    for (std::uint32_t set = 0; set < ways_.size(); ++set) {
      for (std::uint32_t way = 0; way < ways_[set]; ++way) {
        sets_.put(set, way, stranger);
        sets_.touch(set, way);
      }
    }
  }

  std::uint64_t line_bytes_;
  LineDecoder decoder_;
  std::vector<std::uint64_t> fetched_with_;  // by sector: the sectors that come when it is missed
  std::optional<StoreRule> store_rule_;      // none: there is the leaf that is null
  std::optional<std::string_view> null_leaf_of_store_;
  std::vector<std::uint32_t> ways_;  // by set
  SetFinder finder_;
  LineIds ids_;
  Sets sets_;
  std::vector<std::uint64_t> sectors_;  // by set, then by way: which sectors of the line are there
  Steps steps_;
  bool is_mixed_ = false;      // hits and misses in the last block
  bool is_repeating_ = false;  // many accesses to one sector in succession in the last block
  std::shared_ptr<const IdsInUse> ids_in_use_ = std::make_shared<IdsInUse>();
};

}  // namespace

void check_plain_lru(const CacheDescription& cache, std::string_view leaf) {
  const auto refuse = [leaf](const char* what) {
    throw InputError(std::string(leaf) + ": cannot be simulated together with " + what + "; remove one of them");
  };
  if (cache.replacement->policy != Lru::name) {
    refuse("a replacement policy other than lru");
  }
  if (cache.fill.lines_ahead() != 0) {
    refuse("fill.prefetch_lines");
  }
  if (cache.sweep) {
    refuse("sweep");
  }
}

std::vector<std::uint64_t> fetch_masks(const CacheDescription& cache) {
  const std::uint64_t sectors = *cache.line_bytes / *cache.sector_bytes;
  const std::uint64_t at_once = cache.fill.fetch_bytes.value_or(*cache.sector_bytes) / *cache.sector_bytes;
  std::vector<std::uint64_t> masks(sectors);
  for (std::uint64_t sector = 0; sector < sectors; ++sector) {
    for (std::uint64_t other = sector / at_once * at_once; other < (sector / at_once + 1) * at_once; ++other) {
      masks[sector] |= std::uint64_t{1} << other;
    }
  }
  return masks;
}

std::unique_ptr<CacheSimulator> lru_cache(const CacheDescription& cache) {
  const auto stores = store_rule(cache);
  if (cache.fill.lines_ahead() != 0 || cache.ways->empty() || (stores && stores->leaves_traces())) {
    return nullptr;
  }
  const auto [fewest, most] = std::minmax_element(cache.ways->begin(), cache.ways->end());
  if (*fewest == 0 || *most > 64) {
    return nullptr;
  }
  switch ((*most + 15) / 16) {
    case 1:
      return *most <= LruSetsOfFour::most_ways
                 ? std::unique_ptr<CacheSimulator>(std::make_unique<LruSimulator<LruSetsOfFour>>(cache))
                 : std::make_unique<LruSimulator<LruSetsOfSixteens<1>>>(cache);
    case 2:
      return std::make_unique<LruSimulator<LruSetsOfSixteens<2>>>(cache);
    case 3:
      return std::make_unique<LruSimulator<LruSetsOfSixteens<3>>>(cache);
    default:
      return std::make_unique<LruSimulator<LruSetsOfSixteens<4>>>(cache);
  }
}

}  // namespace gpuinfer::model
