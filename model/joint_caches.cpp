// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/joint_caches.hpp"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>

#include "model/errors.hpp"

namespace gpuinfer::model {

namespace {

class WithVictimLines final : public SteppedSimulator {
 public:
  WithVictimLines(std::unique_ptr<CacheSimulator> cache, std::uint64_t line_bytes, std::uint64_t most_lines)
      : cache_(std::move(cache)), line_bytes_(line_bytes), most_lines_(most_lines) {}

  void put_into(StartState state) override {
    cache_->put_into(state);
    if (state != StartState::keep) {
      kept_.clear();
    }
  }

  AccessEvent step(Address address, AccessKind kind) override {
    AccessEvent event = cache_->step(address, kind);
    if (event.outcome == Outcome::hit) {
      return event;
    }
    const bool is_kept = std::erase(kept_, aligned_down(address, line_bytes_)) > 0;
    if (event.victim_address) {
      kept_.push_front(*event.victim_address);
      kept_.resize(std::min<std::size_t>(kept_.size(), most_lines_));
    }
    if (is_kept) {
      event.outcome = Outcome::hit;
    }
    return event;
  }

  AccessEvent look_up(Address address) const override {
    AccessEvent event = cache_->look_up(address);
    if (std::ranges::find(kept_, aligned_down(address, line_bytes_)) != kept_.end()) {
      event.outcome = Outcome::hit;
    }
    return event;
  }

  std::unique_ptr<Snapshot> snapshot() const override {
    return std::make_unique<SnapshotOf>(cache_->snapshot(), kept_);
  }

  void restore(const Snapshot& snapshot) override {
    const auto& state = dynamic_cast<const SnapshotOf&>(snapshot);
    cache_->restore(*state.of_cache);
    kept_ = state.kept;
  }

 private:
  struct SnapshotOf final : Snapshot {
    SnapshotOf(std::unique_ptr<Snapshot> a_cache, std::deque<Address> lines)
        : of_cache(std::move(a_cache)), kept(std::move(lines)) {}

    std::unique_ptr<Snapshot> of_cache;
    std::deque<Address> kept;
  };

  std::unique_ptr<CacheSimulator> cache_;
  std::uint64_t line_bytes_;
  std::uint64_t most_lines_;
  std::deque<Address> kept_;  // first bytes of lines, the last victim first
};

class WithTwin final : public SteppedSimulator {
 public:
  WithTwin(std::unique_ptr<CacheSimulator> cache, std::unique_ptr<CacheSimulator> twin)
      : cache_(std::move(cache)), twin_(std::move(twin)) {}

  void put_into(StartState state) override {
    cache_->put_into(state);
    twin_->put_into(state);
  }

  AccessEvent step(Address address, AccessKind kind) override {
    AccessEvent event = cache_->step(address, kind);
    if (is_miss(event.outcome) && twin_->step(address, kind).outcome == Outcome::hit) {
      event.outcome = Outcome::hit;
    }
    return event;
  }

  AccessEvent look_up(Address address) const override {
    AccessEvent event = cache_->look_up(address);
    if (is_miss(event.outcome) && twin_->look_up(address).outcome == Outcome::hit) {
      event.outcome = Outcome::hit;
    }
    return event;
  }

  std::unique_ptr<Snapshot> snapshot() const override {
    return std::make_unique<SnapshotOf>(cache_->snapshot(), twin_->snapshot());
  }

  void restore(const Snapshot& snapshot) override {
    const auto& state = dynamic_cast<const SnapshotOf&>(snapshot);
    cache_->restore(*state.of_cache);
    twin_->restore(*state.of_twin);
  }

 private:
  struct SnapshotOf final : Snapshot {
    SnapshotOf(std::unique_ptr<Snapshot> a_cache, std::unique_ptr<Snapshot> a_twin)
        : of_cache(std::move(a_cache)), of_twin(std::move(a_twin)) {}

    std::unique_ptr<Snapshot> of_cache;
    std::unique_ptr<Snapshot> of_twin;
  };

  std::unique_ptr<CacheSimulator> cache_;
  std::unique_ptr<CacheSimulator> twin_;
};

// What nobody has defined for two caches together.
void require_loads_only(const CacheDescription& cache, const char* beside) {
  if (cache.store) {
    throw InputError("store: cannot be simulated together with " + std::string(beside) + "; remove one of them");
  }
}

}  // namespace

std::unique_ptr<CacheSimulator> with_victim_lines(std::unique_ptr<CacheSimulator> cache,
                                                  const CacheDescription& description) {
  require_loads_only(description, "victim_lines");
  if (description.sector_bytes != description.line_bytes) {
    throw InputError("victim_lines: can be simulated of lines without sectors only; remove it or sector_bytes");
  }
  if (description.fill.lines_ahead() != 0) {
    throw InputError("victim_lines: cannot be simulated together with prefetch_lines; remove one of them");
  }
  return std::make_unique<WithVictimLines>(std::move(cache), *description.line_bytes, *description.victim_lines);
}

std::unique_ptr<CacheSimulator> with_twin(std::unique_ptr<CacheSimulator> cache, const CacheDescription& description,
                                          std::uint64_t seed) {
  require_loads_only(description, "twin");
  CacheDescription twin = description;
  twin.ways = description.twin->ways;
  twin.index = description.twin->index;
  twin.replacement = description.twin->replacement;
  twin.victim_lines.reset();
  twin.twin.reset();
  return std::make_unique<WithTwin>(std::move(cache), CacheSimulator::make(twin, seed + 1));
}

}  // namespace gpuinfer::model
